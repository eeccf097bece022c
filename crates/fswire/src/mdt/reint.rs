//! Records of changes of metadata: 136 bytes each [MDT-5].

use crate::codec::{Reader, Short, SliceWriter, Wire};
use crate::describe::{Describe, Value};
use crate::fid::{Fid, Handle};
use crate::mdt::{AttrFlags, Bias, FileFlags, MdValid, OpenFlags, XattrFlags};

wire_enum! {
    /// The kind of a change.
    pub struct ReintOp: u32 {
        /// Sets attributes.
        SETATTR = 1, "setattr";
        /// Makes a directory, a symbolic link, a special file.
        CREATE = 2, "create";
        /// Adds a name.
        LINK = 3, "link";
        /// Removes a name.
        UNLINK = 4, "unlink";
        /// Changes a name.
        RENAME = 5, "rename";
        /// Opens a file; only within an intent.
        OPEN = 6, "open";
        /// Sets or removes an extended attribute.
        SETXATTR = 7, "setxattr";
        /// Removes a name whose object is lost.
        RMENTRY = 8, "rmentry";
        /// Moves a directory to another server.
        MIGRATE = 9, "migrate";
        /// Prepares mirrors to be made equal.
        RESYNC = 10, "resync";
    }
}

wire_struct! {
    /// Sets attributes; part of every close [MDT-6].
    pub struct SetattrRecord [136] {
        /// [`ReintOp::SETATTR`].
        op: ReintOp;
        /// Capabilities of the caller.
        cap: u32 => hex;
        /// The user whose rights count.
        fsuid: u32, pad 4;
        /// The group whose rights count.
        fsgid: u32, pad 4;
        /// One more group; -1 for none.
        suppgid: u32 => or_none, pad 12;
        /// The file.
        fid: Fid;
        /// What is to be set.
        valid: AttrFlags;
        /// New owner.
        uid: u32;
        /// New group.
        gid: u32;
        /// New size in bytes.
        size: u64;
        /// Units of 512 bytes.
        blocks: u64;
        /// Seconds since 1970.
        mtime: i64;
        /// Seconds since 1970.
        atime: i64;
        /// Seconds since 1970.
        ctime: i64;
        /// New attributes of the file.
        attr_flags: FileFlags;
        /// Type and permissions.
        mode: u32 => octal;
        /// How it is done.
        bias: Bias;
        /// New project, pad at the end.
        projid: u32, pad 8;
    }
}

wire_struct! {
    /// Makes a directory, a link or a special file, or opens a file [MDT-5].
    pub struct CreateRecord [136] {
        /// [`ReintOp::CREATE`] or [`ReintOp::OPEN`].
        op: ReintOp;
        /// Capabilities of the caller.
        cap: u32 => hex;
        /// The user whose rights count.
        fsuid: u32;
        /// Version of the parent's layout, 1 for a plain directory; 0 is never checked.
        layout_version: u32;
        /// The group whose rights count.
        fsgid: u32, pad 4;
        /// One more group; -1 for none.
        suppgid1: u32 => or_none, pad 4;
        /// One more group; -1 for none.
        suppgid2: u32 => or_none, pad 4;
        /// The parent.
        parent: Fid;
        /// The new object, or the one that is opened.
        fid: Fid;
        /// Replay of an open: the handle of the first reply.
        old_handle: Handle;
        /// Seconds since 1970.
        time: i64;
        /// Device number.
        rdev: u64 => hex;
        /// Unused.
        ioepoch: u64, pad 8;
        /// Type and permissions.
        mode: u32 => octal;
        /// How it is done.
        bias: Bias;
        /// How it is opened.
        flags: OpenFlags;
        /// Permissions that the creator takes away.
        umask: u32 => octal, pad 4;
    }
}

wire_struct! {
    /// Changes names: link, unlink, rename, rmentry, migrate [MDT-5].
    pub struct NameRecord [136] {
        /// The kind.
        op: ReintOp;
        /// Capabilities of the caller.
        cap: u32 => hex;
        /// The user whose rights count.
        fsuid: u32, pad 4;
        /// The group whose rights count.
        fsgid: u32, pad 4;
        /// One more group; -1 for none.
        suppgid1: u32 => or_none, pad 4;
        /// One more group; -1 for none.
        suppgid2: u32 => or_none, pad 4;
        /// Link: the file. Rename: the old parent. Else: the parent.
        fid1: Fid;
        /// Link: the parent. Rename: the new parent. Else: the child, or none.
        fid2: Fid;
        /// Seconds since 1970.
        time: i64, pad 32;
        /// How it is done.
        bias: Bias;
        /// Rename: type and permissions of the object. Unlink: 0, or 040000 for a directory.
        mode: u32 => octal, pad 16;
    }
}

wire_struct! {
    /// Sets or removes an extended attribute [MDT-5].
    pub struct SetxattrRecord [136] {
        /// [`ReintOp::SETXATTR`].
        op: ReintOp;
        /// Capabilities of the caller.
        cap: u32 => hex;
        /// The user whose rights count.
        fsuid: u32, pad 4;
        /// The group whose rights count.
        fsgid: u32, pad 4;
        /// One more group; -1 for none.
        suppgid1: u32 => or_none, pad 4;
        /// One more group; -1 for none.
        suppgid2: u32 => or_none, pad 4;
        /// The file.
        fid: Fid, pad 16;
        /// XATTR to set, XATTRRM to remove, and CTIME.
        valid: MdValid;
        /// Seconds since 1970.
        time: i64, pad 24;
        /// Bytes of the value.
        size: u32;
        /// Whether it must be new or there.
        flags: XattrFlags, pad 16;
    }
}

wire_struct! {
    /// Prepares mirrors to be made equal [MDT-5].
    pub struct ResyncRecord [136] {
        /// [`ReintOp::RESYNC`].
        op: ReintOp;
        /// Capabilities of the caller.
        cap: u32 => hex;
        /// The user whose rights count.
        fsuid: u32, pad 4;
        /// The group whose rights count.
        fsgid: u32, pad 4;
        /// One more group; -1 for none.
        suppgid1: u32 => or_none, pad 4;
        /// One more group; -1 for none.
        suppgid2: u32 => or_none, pad 4;
        /// The file.
        fid: Fid, pad 16;
        /// The lease that the client holds.
        lease: Handle, pad 32;
        /// How it is done.
        bias: Bias, pad 12;
        /// The mirror; 0 for all.
        mirror: u32, pad 4;
    }
}

/// A record by its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reint {
    /// Kind 1.
    Setattr(SetattrRecord),
    /// Kinds 2 and 6.
    Create(CreateRecord),
    /// Kinds 3, 4, 5, 8 and 9.
    Name(NameRecord),
    /// Kind 7.
    Setxattr(SetxattrRecord),
    /// Kind 10.
    Resync(ResyncRecord),
    /// Any other kind: all bytes.
    Unknown([u8; Reint::SIZE]),
}

impl Reint {
    /// The kind.
    pub fn op(&self) -> ReintOp {
        match self {
            Reint::Setattr(record) => record.op,
            Reint::Create(record) => record.op,
            Reint::Name(record) => record.op,
            Reint::Setxattr(record) => record.op,
            Reint::Resync(record) => record.op,
            Reint::Unknown([a, b, c, d, ..]) => ReintOp(u32::from_le_bytes([*a, *b, *c, *d])),
        }
    }
}

impl Default for Reint {
    fn default() -> Reint {
        Reint::Unknown([0; Reint::SIZE])
    }
}

impl Wire for Reint {
    const SIZE: usize = 136;

    fn read(from: &mut Reader<'_>) -> Result<Reint, Short> {
        let op = from.clone().value()?;
        Ok(match op {
            ReintOp::SETATTR => Reint::Setattr(from.value()?),
            ReintOp::CREATE | ReintOp::OPEN => Reint::Create(from.value()?),
            ReintOp::LINK
            | ReintOp::UNLINK
            | ReintOp::RENAME
            | ReintOp::RMENTRY
            | ReintOp::MIGRATE => Reint::Name(from.value()?),
            ReintOp::SETXATTR => Reint::Setxattr(from.value()?),
            ReintOp::RESYNC => Reint::Resync(from.value()?),
            _ => Reint::Unknown(from.value()?),
        })
    }

    #[inline]
    fn write_to(&self, to: &mut SliceWriter<'_>) {
        match self {
            Reint::Setattr(record) => to.put(record),
            Reint::Create(record) => to.put(record),
            Reint::Name(record) => to.put(record),
            Reint::Setxattr(record) => to.put(record),
            Reint::Resync(record) => to.put(record),
            Reint::Unknown(raw) => to.bytes(raw),
        }
    }
}

impl Describe for Reint {
    fn describe(&self) -> Value {
        match self {
            Reint::Setattr(record) => record.describe(),
            Reint::Create(record) => record.describe(),
            Reint::Name(record) => record.describe(),
            Reint::Setxattr(record) => record.describe(),
            Reint::Resync(record) => record.describe(),
            Reint::Unknown(raw) => raw.as_slice().describe(),
        }
    }
}
