//! Attributes of files, entries of directories, space of a file system.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::Ea;
use lustrine_fswire::mdt::{self, AclEntry, MdValid, MdtBody};
use lustrine_fswire::ost::Statfs;

use crate::dir_layout::DirLayout;

/// Attributes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// Its FID.
    pub fid: Fid,
    /// Type and permissions.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The project.
    pub projid: u32,
    /// Bytes, if the metadata server knows them. It does not for a file with objects:
    /// [`Client::glimpse`](crate::Client::glimpse) asks these.
    pub size: Option<u64>,
    /// Units of 512 bytes, if the metadata server knows them.
    pub blocks: Option<u64>,
    /// Seconds since 1970.
    pub atime: i64,
    /// Seconds since 1970.
    pub mtime: i64,
    /// Seconds since 1970.
    pub ctime: i64,
    /// When it was made, in seconds since 1970; 0 if that is not known.
    pub btime: i64,
    /// Device number: the major number in bits 8 to 15, the minor one in bits 0 to 7.
    pub rdev: u32,
    /// Whether an access control list says more than the permissions; none if the server has not
    /// said.
    pub has_acl: Option<bool>,
    /// The layout of a file or directory; empty if it has none.
    pub layout: Box<[u8]>,
}

/// What the objects of a file say of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// Bytes of the file.
    pub size: u64,
    /// Units of 512 bytes of all objects.
    pub blocks: u64,
    /// The latest time of access of an object, in seconds since 1970; 0 if none has one.
    pub atime: i64,
    /// The same for the last change of the data.
    pub mtime: i64,
    /// The same for the last change of anything.
    pub ctime: i64,
}

/// Who a file belongs to: quota of the space that objects use is charged to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOwner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The project; 0 for none.
    pub projid: u32,
}

/// The type bits of a mode.
pub(crate) const TYPE_MASK: u32 = 0o170_000;
pub(crate) const TYPE_DIRECTORY: u32 = 0o040_000;
pub(crate) const TYPE_REGULAR: u32 = 0o100_000;
pub(crate) const TYPE_SYMLINK: u32 = 0o120_000;
pub(crate) const TYPE_FIFO: u32 = 0o010_000;
pub(crate) const TYPE_CHARACTER: u32 = 0o020_000;
pub(crate) const TYPE_BLOCK: u32 = 0o060_000;
pub(crate) const TYPE_SOCKET: u32 = 0o140_000;

impl Attr {
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & TYPE_MASK == TYPE_DIRECTORY
    }

    /// Whether it is a regular file.
    pub fn is_file(&self) -> bool {
        self.mode & TYPE_MASK == TYPE_REGULAR
    }

    /// What a user may do with it, of what is asked for: 4 to read, 2 to write, 1 to execute or
    /// search. The access control list is empty if the permissions say all.
    pub fn allowed(
        &self,
        acl: &[AclEntry],
        uid: u32,
        is_in: impl Fn(u32) -> bool,
        asks: u32,
    ) -> u32 {
        mdt::allowed(acl, (self.mode, (self.uid, self.gid)), uid, is_in, asks)
    }

    /// Whether it is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode & TYPE_MASK == TYPE_SYMLINK
    }

    /// Whether it is a directory whose names are spread over several metadata targets.
    pub fn is_striped_dir(&self) -> bool {
        self.is_dir() && !matches!(DirLayout::parse(&self.layout), Ok(None))
    }

    /// Who it belongs to.
    pub fn owner(&self) -> FileOwner {
        FileOwner { uid: self.uid, gid: self.gid, projid: self.projid }
    }

    /// Adds what the objects of the file say: the times shown are the latest ones [OST-11].
    pub fn add_objects(&mut self, glimpse: Glimpse) {
        (self.size, self.blocks) = (Some(glimpse.size), Some(glimpse.blocks));
        self.atime = self.atime.max(glimpse.atime);
        self.mtime = self.mtime.max(glimpse.mtime);
        self.ctime = self.ctime.max(glimpse.ctime);
    }

    pub(crate) fn of(body: &MdtBody, ea: Ea<'_>) -> Attr {
        let has = |bits| body.valid.contains(bits);
        let layout = if ea.is_unused() { &[] } else { ea.0 };
        Attr {
            fid: body.fid1,
            mode: body.mode,
            nlink: body.nlink,
            uid: body.uid,
            gid: body.gid,
            projid: if has(MdValid::PROJID) { body.projid } else { 0 },
            size: has(MdValid::SIZE).then_some(body.size),
            blocks: has(MdValid::BLOCKS).then_some(body.blocks),
            atime: body.atime,
            mtime: body.mtime,
            ctime: body.ctime,
            btime: if has(MdValid::BTIME) { body.btime } else { 0 },
            rdev: body.rdev,
            has_acl: has(MdValid::ACL).then_some(body.aclsize > 0),
            layout: layout.into(),
        }
    }
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name: 1 to 255 bytes without zero bytes and slashes.
    pub name: Vec<u8>,
    /// The FID.
    pub fid: Fid,
    /// The hash of the name, by which a listing can start here.
    pub hash: u64,
    /// The type bits of the mode, if the server could say.
    pub file_type: Option<u16>,
}

/// A part of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirPage {
    /// Its entries, in the order of the hashes of their names.
    pub entries: Vec<DirEntry>,
    /// Where the next part starts; none at the end.
    pub next: Option<u64>,
}

/// Space of a file system, in the units of `statfs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block.
    pub block_size: u32,
    /// Blocks.
    pub blocks: u64,
    /// Free blocks.
    pub free: u64,
    /// Blocks that ordinary users may still use.
    pub available: u64,
    /// Files that there can be.
    pub files: u64,
    /// Files that may still be made.
    pub files_free: u64,
}

impl From<Statfs> for Space {
    fn from(statfs: Statfs) -> Space {
        Space {
            block_size: statfs.bsize,
            blocks: statfs.blocks,
            free: statfs.bfree,
            available: statfs.bavail,
            files: statfs.files,
            files_free: statfs.ffree,
        }
    }
}
