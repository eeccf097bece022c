//! Between the client's values and those of FUSE.

use std::time::{Duration, SystemTime};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use lustrine_client::{Attr, ClientError};
use lustrine_lnet::time::Nanos;

/// The block size that programs see, in bytes: that of kernel clients.
const BLOCK_SIZE: u32 = 4 << 20;

/// The kernel may use no name and no attribute without asking again.
pub(crate) const NOT_CACHED: Duration = Duration::ZERO;

/// A length of time of the client's as one of FUSE.
pub(crate) fn duration(length: Nanos) -> Duration {
    Duration::from_nanos(length.0)
}

/// The attributes of a file, as node `number`, with the owner and the group that programs see.
pub(crate) fn file_attr(attr: &Attr, number: u64, (uid, gid): (u32, u32)) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: attr.size.unwrap_or(0),
        blocks: attr.blocks.unwrap_or(0),
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: time(attr.btime),
        kind: kind(attr.mode),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid,
        gid,
        rdev: attr.rdev,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// The type in a mode. A type that Linux does not have is shown as a regular file.
pub(crate) fn kind(mode: u32) -> FileType {
    match mode & 0o170_000 {
        0o010_000 => FileType::NamedPipe,
        0o020_000 => FileType::CharDevice,
        0o040_000 => FileType::Directory,
        0o060_000 => FileType::BlockDevice,
        0o120_000 => FileType::Symlink,
        0o140_000 => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

/// A time in seconds since 1970. One that the system cannot express is shown as 1970.
fn time(seconds: i64) -> SystemTime {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(distance),
        false => SystemTime::UNIX_EPOCH.checked_add(distance),
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Seconds since 1970, rounded down as kernel clients do.
pub(crate) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = before.duration();
            let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            -whole - i64::from(before.subsec_nanos() > 0)
        }
    }
}

/// The error that a program gets.
pub(crate) fn errno(error: &ClientError) -> Errno {
    Errno::from_i32(error.errno())
}

/// The bits of a mode that a write clears: those of the user, and of the group if it may execute.
pub(crate) const SET_USER_ID: u32 = 0o4000;
pub(crate) const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// The permissions that a file has after it is written to, if they change.
pub(crate) fn without_ids(mode: u32) -> Option<u32> {
    let mut cleared = mode & !SET_USER_ID;
    if mode & GROUP_EXECUTE != 0 {
        cleared &= !SET_GROUP_ID;
    }
    (cleared != mode).then_some(cleared)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_same_in_both_directions() {
        for second in [0, 1, -1, 1 << 33, -(1 << 33)] {
            assert_eq!(seconds(time(second)), second);
        }
        assert_eq!(seconds(time(i64::MAX)), i64::MAX);
        let half = SystemTime::UNIX_EPOCH - Duration::from_millis(500);
        assert_eq!(seconds(half), -1);
    }

    #[test]
    fn types_and_permissions_are_those_of_the_mode() {
        let attr = Attr { mode: 0o042_775, nlink: 3, ..Attr::default() };
        let shown = file_attr(&attr, 9, (7, 8));
        assert_eq!((shown.uid, shown.gid), (7, 8));
        assert_eq!((shown.kind, shown.perm, shown.ino), (FileType::Directory, 0o2775, INodeNo(9)));
        assert_eq!(kind(0o120_777), FileType::Symlink);
        assert_eq!(kind(0o020_600), FileType::CharDevice);
        assert_eq!(kind(0), FileType::RegularFile);
    }

    #[test]
    fn a_write_takes_the_rights_of_the_owner_away() {
        assert_eq!(without_ids(0o104_755), Some(0o100_755));
        assert_eq!(without_ids(0o106_755), Some(0o100_755));
        // Without the right to execute, the bit of the group has another meaning.
        assert_eq!(without_ids(0o102_644), None);
        assert_eq!(without_ids(0o100_644), None);
    }
}
