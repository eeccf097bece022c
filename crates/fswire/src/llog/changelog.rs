//! Records of changes of metadata, for programs that follow them [MDT-17].

use crate::codec::{Reader, Short, Wire, Writer};
use crate::describe::{Describe, Value};
use crate::fid::Fid;
use crate::text::FixedText;

wire_flags! {
    /// Which parts a record has: the upper bits. The lower ones depend on its type.
    pub struct ChangelogFlags: u16 {
        /// FIDs of the source of a rename.
        RENAME = 0x2000;
        /// The name of a job.
        JOBID = 0x4000;
        /// More parts; see [`ChangelogExtra`].
        EXTRA = 0x8000;
    }
}

wire_flags! {
    /// More parts of a record.
    pub struct ChangelogExtra: u64 {
        /// User and group.
        UID_GID = 0x1;
        /// The NID of the client.
        NID = 0x2;
        /// How a file was opened.
        OPEN = 0x4;
        /// The name of an extended attribute.
        XATTR = 0x8;
        /// The NID is in its long form.
        LONG_NID = 0x10;
    }
}

wire_struct! {
    /// The part that every record has.
    pub struct ChangelogHeader [64] {
        /// Bytes of the names.
        namelen: u16;
        /// Which parts follow.
        flags: ChangelogFlags;
        /// What changed.
        kind: u32;
        /// Number of the record.
        index: u64;
        /// Number of the record before it for the same file.
        prev: u64;
        /// Seconds since 1970 in the upper 34 bits, nanoseconds in the lower 30.
        time: u64 => hex;
        /// What was changed.
        target: Fid;
        /// Its parent.
        parent: Fid;
    }
}

wire_struct! {
    /// The source of a rename.
    pub struct ChangelogRename [32] {
        /// What was renamed.
        source: Fid;
        /// Its old parent.
        source_parent: Fid;
    }
}

wire_struct! {
    /// Who made the change.
    pub struct ChangelogUser [16] {
        /// The user.
        uid: u64;
        /// The group.
        gid: u64;
    }
}

wire_struct! {
    /// The NID of the client.
    pub struct ChangelogNid [24] {
        /// Its bytes.
        nid: [u8; 20] => hex, pad 4;
    }
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changelog<'a> {
    /// The part that every record has.
    pub header: ChangelogHeader,
    /// With [`ChangelogFlags::RENAME`].
    pub rename: Option<ChangelogRename>,
    /// With [`ChangelogFlags::JOBID`].
    pub jobid: Option<FixedText<32>>,
    /// With [`ChangelogFlags::EXTRA`].
    pub extra: Option<ChangelogExtra>,
    /// With [`ChangelogExtra::UID_GID`].
    pub user: Option<ChangelogUser>,
    /// With [`ChangelogExtra::NID`].
    pub nid: Option<ChangelogNid>,
    /// With [`ChangelogExtra::OPEN`].
    pub open: Option<u32>,
    /// With [`ChangelogExtra::XATTR`].
    pub xattr: Option<FixedText<256>>,
    /// The name; in a rename the new one, a zero byte, and the old one.
    pub names: &'a [u8],
}

fn part<T: Wire>(has: bool, from: &mut Reader<'_>) -> Result<Option<T>, Short> {
    if has { from.value().map(Some) } else { Ok(None) }
}

impl<'a> Changelog<'a> {
    /// Reads a record. What follows the names fills it up to a multiple of 8 bytes.
    ///
    /// # Errors
    /// [`Short`].
    pub fn parse(bytes: &'a [u8]) -> Result<Changelog<'a>, Short> {
        let mut from = Reader::new(bytes);
        let header: ChangelogHeader = from.value()?;
        let has = |flag| header.flags.contains(flag);
        let rename = part(has(ChangelogFlags::RENAME), &mut from)?;
        let jobid = part(has(ChangelogFlags::JOBID), &mut from)?;
        let extra: Option<ChangelogExtra> = part(has(ChangelogFlags::EXTRA), &mut from)?;
        let has = |flag| extra.unwrap_or_default().contains(flag);
        let user = part(has(ChangelogExtra::UID_GID), &mut from)?;
        let nid = part(has(ChangelogExtra::NID), &mut from)?;
        let open = part(has(ChangelogExtra::OPEN), &mut from)?;
        let xattr = part(has(ChangelogExtra::XATTR), &mut from)?;
        let names = from.take(usize::from(header.namelen))?;
        Ok(Changelog { header, rename, jobid, extra, user, nid, open, xattr, names })
    }

    /// Appends the record, filled up to a multiple of 8 bytes from its own start.
    pub fn write(&self, to: &mut Writer<'_>) {
        let mut own = Vec::new();
        let mut out = Writer::new(&mut own);
        out.put(&self.header);
        put(&self.rename, &mut out);
        put(&self.jobid, &mut out);
        put(&self.extra, &mut out);
        put(&self.user, &mut out);
        put(&self.nid, &mut out);
        put(&self.open, &mut out);
        put(&self.xattr, &mut out);
        out.bytes(self.names);
        own.resize(own.len().next_multiple_of(8), 0);
        to.bytes(&own);
    }

    /// The name; in a rename the new one.
    pub fn name(&self) -> &'a [u8] {
        self.names.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Nanoseconds since 1970.
    pub const fn time_ns(&self) -> u128 {
        let (seconds, ns) = (self.header.time >> 30, self.header.time & 0x3fff_ffff);
        seconds as u128 * 1_000_000_000 + ns as u128
    }
}

fn put<T: Wire>(value: &Option<T>, to: &mut Writer<'_>) {
    if let Some(value) = value {
        to.put(value);
    }
}

impl Describe for Changelog<'_> {
    fn describe(&self) -> Value {
        let Value::Fields(mut fields) = self.header.describe() else {
            unreachable!("structures have fields")
        };
        fields.extend([
            ("rename", self.rename.describe()),
            ("jobid", self.jobid.describe()),
            ("extra", self.extra.describe()),
            ("user", self.user.describe()),
            ("nid", self.nid.describe()),
            ("open", self.open.describe().hex()),
            ("xattr", self.xattr.describe()),
            ("names", Value::escaped(self.names)),
        ]);
        Value::Fields(fields)
    }
}
