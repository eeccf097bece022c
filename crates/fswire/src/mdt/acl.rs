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

impl Describe for Acl<'_> {
    fn describe(&self) -> Value {
        self.entries.describe()
    }
}
