//! Parts: copies that are not complete yet.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::thread;

use bytes::Bytes;
use lustrine_fs::{Attr, Changes, File, FileSystem, WRITE_AHEAD};

use super::pieces::read_here;
use super::source::Source;
use crate::commands::fs::local;
use crate::commands::fs::sha256::Sha256Sum;
use crate::output::Failure;

/// How the names of parts begin.
pub(super) const PART_PREFIX: &str = ".lustrine-part-";

/// The name of the part of a copy that can be resumed. It stands for what is copied: another size
/// or time of the original gives another name.
pub(super) fn part_name(name: &OsStr, size: u64, mtime: i64) -> String {
    let mut sum = Sha256Sum::default();
    sum.add(name.as_bytes());
    sum.add(&[0]);
    sum.add(&size.to_le_bytes());
    sum.add(&mtime.to_le_bytes());
    format!("{PART_PREFIX}{}", &sum.text()[..32])
}

/// What is said of a copy with `--resume` that is interrupted.
pub(super) fn kept_part(copy: &str) -> String {
    format!("{copy}: what was copied is kept; the same command continues there")
}

/// Where the copying of a part goes on: behind what was complete when it was interrupted.
pub(super) fn resume_at(len: u64) -> u64 {
    len.saturating_sub(WRITE_AHEAD)
}

/// Opens a new part of this machine, to be written from its start.
pub(super) fn new_here(path: &Path) -> io::Result<fs::File> {
    let mut file = OpenOptions::new();
    file.read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens the part of an interrupted copy on this machine, or makes one; and where the writing goes
/// on. Others may write to the directory and can compute the name: what they put there is refused,
/// and of what is kept each byte is compared with the original.
pub(super) fn resume_here(path: &Path, source: &Source<'_>) -> Result<(fs::File, u64), Failure> {
    let failed = |error: io::Error| local(path, &error);
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut file = OpenOptions::new();
    file.read(true).write(true).custom_flags(flags.bits().cast_signed());
    let mut file = match file.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((new_here(path).map_err(failed)?, 0));
        }
        Err(error) if error.raw_os_error() == Some(ELOOP) => {
            return Err(foreign(&path.display().to_string()));
        }
        Err(error) => return Err(failed(error)),
    };
    let meta = file.metadata().map_err(failed)?;
    let user = rustix::process::geteuid().as_raw();
    if !meta.is_file() || meta.uid() != user || meta.nlink() != 1 {
        return Err(foreign(&path.display().to_string()));
    }
    let mut start = resume_at(meta.len().min(source.size));
    let same = same_until(start, source, |take| {
        file.rewind().map_err(failed)?;
        read_here(&mut file, take).map_err(failed)?
    })?;
    if !same {
        start = 0;
    }
    file.set_len(start).map_err(failed)?;
    file.seek(io::SeekFrom::Start(start)).map_err(failed)?;
    Ok((file, start))
}

/// The same in a file system.
pub(super) fn resume_there<'f>(
    files: &'f FileSystem,
    dir: &Attr,
    part: &str,
    source: &Source<'_>,
) -> Result<(File<'f>, u64), Failure> {
    // The next copy may have to open it.
    let new = || Ok((files.create(dir, part.as_bytes(), 0o600, true)?, 0));
    let attr = match files.look(dir, part.as_bytes()) {
        Ok(attr) => attr,
        Err(error) if error.is_not_found() => return new(),
        Err(error) => return Err(error.into()),
    };
    if !attr.is_file() || attr.uid != files.user() || attr.nlink != 1 {
        return Err(foreign(part));
    }
    let kept = files.open(&attr)?;
    let start = resume_at(kept.size());
    let fits = kept.size() <= source.size;
    let same = match fits {
        true => same_until(start, source, |take| kept.read_from(0, take)),
        false => Ok(false),
    };
    let closed = kept.close();
    if same.and_then(|same| Ok((same, closed?)))?.0 {
        // What is behind it would be left where the original has a hole.
        let changes = Changes { size: Some(start), ..Changes::default() };
        files.set_attributes(attr.fid, changes)?;
        return Ok((files.open_to_write(&attr)?, start));
    }
    files.unlink(dir, part.as_bytes(), false)?;
    new()
}

/// Whether a part has the same bytes as the original, up to an offset.
fn same_until(
    end: u64,
    source: &Source<'_>,
    part: impl FnOnce(&mut dyn FnMut(Bytes) -> Result<(), Failure>) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    if end == 0 {
        return Ok(true);
    }
    thread::scope(|scope| {
        let original = scope.spawn(|| sum_until(end, |take| source.read(0, take)));
        let part = sum_until(end, part);
        let lost = || Err(Failure::Failed("the comparison with the original failed".to_owned()));
        let original = original.join().unwrap_or_else(|_| lost());
        let (part, original) = (part?, original?);
        Ok(part.is_some() && part == original)
    })
}

/// The checksum of the first bytes that a reader hands out; none if it has fewer.
fn sum_until(
    end: u64,
    read: impl FnOnce(&mut dyn FnMut(Bytes) -> Result<(), Failure>) -> Result<(), Failure>,
) -> Result<Option<String>, Failure> {
    let mut sum = Sha256Sum::default();
    let mut left = end;
    let read = read(&mut |data| {
        let len = left.min(data.len() as u64);
        sum.add(&data[..len as usize]);
        left -= len;
        // No more is wanted.
        if left == 0 { Err(Failure::Interrupted) } else { Ok(()) }
    });
    match read {
        _ if left == 0 => Ok(Some(sum.text())),
        Ok(()) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn foreign(part: &str) -> Failure {
    let text = "the part of an interrupted copy belongs to another user, has other hard links, \
                or is not a regular file; remove it, or copy without --resume";
    Failure::Failed(format!("{part}: {text}"))
}

/// What an open that follows no symbolic links says of one.
const ELOOP: i32 = 40;
