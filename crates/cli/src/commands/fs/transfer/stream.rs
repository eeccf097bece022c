//! Copies to what is no file of its own: standard output, devices, FIFOs.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lustrine_fs::{Attr, FileSystem};
use lustrine_sys::files::{Existing, close, open_for_writing};

use super::options::CopyOptions;
use super::progress;
use super::source::of_file;
use crate::commands::fs::{local, open};
use crate::output::{Failure, write_error};

/// Where a copy on this machine goes, as cp(1) sees it.
pub(in crate::commands::fs) enum Target {
    /// A name in a directory, which a new file gets when it is complete.
    Name(PathBuf, OsString),
    /// Something that is there and is no regular file. It is written to, and stays what it is.
    Node(PathBuf),
}

impl Target {
    /// What a name in a directory leads to. A symbolic link is followed: what it points to is
    /// replaced, and the link stays.
    pub(in crate::commands::fs) fn of(dir: PathBuf, name: OsString) -> Result<Target, Failure> {
        let path = dir.join(&name);
        let failed = |error: io::Error| local(&path, &error);
        let meta = match fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
                return Ok(Target::Name(dir, name));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let error = "is a symbolic link to a file that does not exist";
                return Err(format!("{}: {error}", path.display()).into());
            }
            Err(error) => return Err(failed(error)),
        };
        if meta.is_dir() {
            return Ok(Target::Name(dir, name));
        }
        if !meta.is_file() {
            return Ok(Target::Node(path));
        }
        if !path.is_symlink() {
            return Ok(Target::Name(dir, name));
        }
        // Who may not write to the file may not replace it through a link, and links that others
        // make in shared directories are not followed.
        close(open_for_writing(&path, Existing::Keep).map_err(failed)?).map_err(failed)?;
        let real = fs::canonicalize(&path).map_err(failed)?;
        match (real.parent(), real.file_name()) {
            (Some(dir), Some(name)) => Ok(Target::Name(dir.to_owned(), name.to_owned())),
            _ => Err(format!("{}: is not a regular file", path.display()).into()),
        }
    }
}

/// Writes a file to something that is no regular file.
pub(in crate::commands::fs) fn to_node(
    files: &FileSystem,
    (path, attr): (&str, &Attr),
    to: &Path,
    options: &CopyOptions,
) -> Result<(), Failure> {
    let failed = |error: io::Error| local(to, &error);
    if attr.is_dir() {
        return Err(format!("{}: is not a directory", to.display()).into());
    }
    let mut out = open_for_writing(to, Existing::Keep).map_err(failed)?;
    write_all(files, (path, attr), &mut out, failed, options.quiet)?;
    close(out).map_err(failed)
}

/// Writes a file to standard output.
pub(in crate::commands::fs) fn to_output(
    files: &FileSystem,
    file: (&str, &Attr),
    quiet: bool,
) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    write_all(files, file, &mut out, write_error, quiet)?;
    out.flush().map_err(write_error)
}

fn write_all(
    files: &FileSystem,
    (path, attr): (&str, &Attr),
    out: &mut dyn Write,
    failed: impl Fn(io::Error) -> Failure,
    quiet: bool,
) -> Result<(), Failure> {
    let file = open(files, attr, path)?;
    let bar = progress(quiet, path.as_ref());
    bar.inc_length(file.size());
    // Errors of the original get its path.
    let mut refused = None;
    let read = file.read_all(|bytes| {
        bar.inc(bytes.len() as u64);
        out.write_all(bytes).map_err(|error| {
            refused = Some(failed(error));
            Failure::ReaderLeft
        })
    });
    bar.finish_and_clear();
    let closed = file.close().map_err(|error| error.at(path));
    match refused {
        Some(failure) => Err(failure),
        None => read.map_err(|failure| of_file(path, failure)).and(Ok(closed?)),
    }
}
