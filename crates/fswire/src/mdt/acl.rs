//! Access control lists in the form of the attribute `system.posix_acl_access`.

use crate::codec::{Array, Wire, Writer};
use crate::describe::{Describe, Value};

wire_enum! {
    /// Who an entry is for.
    pub struct AclTag: u16 {
        /// The owner.
        USER_OBJ = 0x1, "user_obj";
        /// A user by number.
        USER = 0x2, "user";
        /// The owning group.
        GROUP_OBJ = 0x4, "group_obj";
        /// A group by number.
        GROUP = 0x8, "group";
        /// The most that users, groups and the owning group get.
        MASK = 0x10, "mask";
        /// Everybody else.
        OTHER = 0x20, "other";
    }
}

wire_struct! {
    /// One entry.
    pub struct AclEntry [8] {
        /// Who it is for.
        tag: AclTag;
        /// Read 4, write 2, execute 1.
        perm: u16 => octal;
        /// The number of the user or group; -1 for the other tags.
        id: u32 => or_none;
    }
}

/// An access control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acl<'a> {
    /// 2.
    pub version: u32,
    /// The entries.
    pub entries: Array<'a, AclEntry>,
}

impl<'a> Acl<'a> {
    /// The only version.
    pub const VERSION: u32 = 2;

    /// The list in a buffer; none in an empty buffer, one of another version, or one whose length
    /// is wrong.
    pub fn parse(bytes: &'a [u8]) -> Option<Acl<'a>> {
        let (version, rest) = bytes.split_first_chunk()?;
        let version = u32::from_le_bytes(*version);
        if version != Acl::VERSION {
            return None;
        }
        Some(Acl { version, entries: Array::parse(rest)? })
    }

    /// Appends the list.
    pub fn write(&self, to: &mut Writer<'_>) {
        to.put(&self.version);
        self.entries.write(to);
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        4 + self.entries.len() * AclEntry::SIZE
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// What a user may do with a file, of what is asked for: 4 to read, 2 to write, 1 to execute or
/// search. `owner` is the user and the group of the file, and `mode` its permissions, which say all
/// if the list is empty. `is_in` says in which groups the user is.
///
/// It is the algorithm of acl(5): the first class counts that applies. Of several entries for
/// groups of the user, one has to allow all that is asked for.
pub fn allowed(
    entries: &[AclEntry],
    (mode, owner): (u32, (u32, u32)),
    uid: u32,
    is_in: impl Fn(u32) -> bool,
    asks: u32,
) -> u32 {
    let shift = match () {
        () if uid == owner.0 => 6,
        () if is_in(owner.1) => 3,
        () => 0,
    };
    if entries.is_empty() {
        return mode >> shift & 7;
    }
    let first = |tag| entries.iter().find(move |entry| entry.tag == tag);
    // Without a mask nothing is masked.
    let mask = first(AclTag::MASK).map_or(7, |entry| u32::from(entry.perm));
    if uid == owner.0 {
        return first(AclTag::USER_OBJ).map_or(0, |entry| u32::from(entry.perm));
    }
    let named = |entry: &&AclEntry| entry.tag == AclTag::USER && entry.id == uid;
    if let Some(entry) = entries.iter().find(named) {
        return u32::from(entry.perm) & mask;
    }
    let of_groups = entries.iter().filter(|entry| match entry.tag {
        AclTag::GROUP_OBJ => is_in(owner.1),
        AclTag::GROUP => is_in(entry.id),
        _ => false,
    });
    let mut in_one = false;
    for entry in of_groups {
        let allowed = u32::from(entry.perm) & mask;
        if asks & !allowed == 0 {
            return allowed;
        }
        in_one = true;
    }
    match in_one {
        true => 0,
        false => first(AclTag::OTHER).map_or(0, |entry| u32::from(entry.perm)),
    }
}

impl Describe for Acl<'_> {
    fn describe(&self) -> Value {
        self.entries.describe()
    }
}
