//! `lustrine fs cat`, `get`, `put` and `cp`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use lustrine_fs::{Attr, Fid, FileSystem, FsUrl};

use super::transfer::{Dir, Item, Transfer};
use super::walk::join;
use super::{ClientOptions, no_name, split, with_file_system};
use crate::output::{Failure, write_error};

/// Write a file to standard output.
#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    /// The file
    url: FsUrl,

    #[command(flatten)]
    client: ClientOptions,
}

/// Copy a file to this machine.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The file in the file system
    url: FsUrl,

    /// Local file or directory [default: the current directory]
    #[arg(default_value = ".", hide_default_value = true)]
    to: PathBuf,

    #[command(flatten)]
    copy: CopyOptions,

    #[command(flatten)]
    client: ClientOptions,
}

/// Copy a file of this machine to a file system.
#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    /// Local file
    from: PathBuf,

    /// The file in the file system, or a directory in it
    url: FsUrl,

    /// Overwrite existing files
    #[arg(long, short)]
    force: bool,

    #[command(flatten)]
    copy: CopyOptions,

    #[command(flatten)]
    client: ClientOptions,
}

/// Copy a file within a file system, or from one file system to another.
#[derive(Args, Debug)]
pub(crate) struct CpArgs {
    /// The file
    from: FsUrl,

    /// The copy, or a directory
    to: FsUrl,

    #[command(flatten)]
    copy: CopyOptions,

    #[command(flatten)]
    client: ClientOptions,
}

/// Options of all copies.
#[derive(Args, Debug)]
pub(super) struct CopyOptions {
    /// Copy directories and everything in them
    #[arg(long, short)]
    pub(super) recursive: bool,

    /// Give copies the permissions and the times of the originals
    #[arg(long, short)]
    pub(super) preserve: bool,

    /// Continue an interrupted copy where it stopped
    #[arg(long)]
    pub(super) resume: bool,

    /// Read each copy back, and compare its SHA-256 checksum with that of the original
    #[arg(long)]
    pub(super) verify: bool,

    /// Show no progress
    #[arg(long, short)]
    pub(super) quiet: bool,
}

pub(super) fn cat(args: &CatArgs) -> Result<(), Failure> {
    with_file_system(&args.url, &args.client, |files| {
        let attr = files.walk(&args.url.path)?;
        let file = open(files, &attr, &args.url.path)?;
        let mut out = io::stdout().lock();
        let read = file.read_all(|bytes| out.write_all(bytes).map_err(write_error));
        let closed = file.close();
        read?;
        out.flush().map_err(write_error)?;
        Ok(closed?)
    })
}

/// Opens a regular file to read it.
pub(super) fn open<'a>(
    files: &'a FileSystem,
    attr: &Attr,
    path: &str,
) -> Result<lustrine_fs::File<'a>, Failure> {
    if attr.is_dir() {
        return Err(format!("{path}: is a directory").into());
    }
    if !attr.is_file() {
        return Err(format!("{path}: is not a regular file").into());
    }
    Ok(files.open(attr).map_err(|error| error.at(path))?)
}

pub(super) fn get(args: &GetArgs) -> Result<(), Failure> {
    with_file_system(&args.url, &args.client, |files| {
        let path = &args.url.path;
        let attr = files.walk(path)?;
        let name = last_name(path)?;
        let (dir, name) = match args.to.is_dir() && !name.is_empty() {
            true => (args.to.clone(), name.into()),
            false => place_here(&args.to)?,
        };
        let (from, options) = (Some(files), &args.copy);
        let transfer = Transfer { from, to: None, options, replace: true, within: false };
        transfer.run(Item::There(path.clone(), attr), &Dir::Here(dir), &name)
    })
}

pub(super) fn put(args: &PutArgs) -> Result<(), Failure> {
    let from = &args.from;
    let meta = fs::metadata(from).map_err(|error| local(from, &error))?;
    if meta.is_dir() && !args.copy.recursive {
        let error = format!("{} is a directory; --recursive copies it", from.display());
        return Err(Failure::Usage(error));
    }
    with_file_system(&args.url, &args.client, |files| {
        let name = from.canonicalize().ok().and_then(|path| path.file_name().map(Into::into));
        let (dir, name) = place_there(files, &args.url.path, name)?;
        // A symbolic link is followed here and nowhere below.
        let path = match from.is_symlink() {
            true => from.canonicalize().map_err(|error| local(from, &error))?,
            false => from.clone(),
        };
        let (to, options, replace) = (Some(files), &args.copy, args.force);
        let transfer = Transfer { from: None, to, options, replace, within: false };
        transfer.run(Item::Here(path, meta), &Dir::There(Box::new(dir)), &name)
    })
}

pub(super) fn cp(args: &CpArgs) -> Result<(), Failure> {
    with_file_system(&args.from, &args.client, |files| {
        if args.to.is_same_file_system(&args.from) {
            return cp_between(args, files, files);
        }
        with_file_system(&args.to, &args.client, |to| cp_between(args, files, to))
    })
}

fn cp_between(args: &CpArgs, from: &FileSystem, to: &FileSystem) -> Result<(), Failure> {
    let path = &args.from.path;
    let attr = from.walk(path)?;
    let name = Some(last_name(path)?.into()).filter(|name: &OsString| !name.is_empty());
    let (dir, name) = place_there(to, &args.to.path, name)?;
    let within = from.is_same(to)?;
    if within {
        let there = to.look(&dir, name.as_bytes());
        if there.is_ok_and(|there| there.fid == attr.fid) {
            return Err(format!("{path}: the file and its copy are the same").into());
        }
        if attr.is_dir() && is_below(to, &args.to.path, attr.fid)? {
            return Err(format!("{path}: cannot be copied into itself").into());
        }
    }
    let options = &args.copy;
    let transfer = Transfer { from: Some(from), to: Some(to), options, replace: true, within };
    transfer.run(Item::There(path.clone(), attr), &Dir::There(Box::new(dir)), &name)
}

/// Whether a path, as far as it exists, leads through a directory.
fn is_below(files: &FileSystem, path: &str, dir: Fid) -> Result<bool, Failure> {
    let mut done = String::new();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        done = join(&done, name);
        match files.walk(&done) {
            Ok(attr) if attr.fid == dir => return Ok(true),
            Ok(_) => {}
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// The last name of a path; empty for the root.
fn last_name(path: &str) -> Result<&str, Failure> {
    match path.trim_end_matches('/').rsplit('/').next().unwrap_or_default() {
        "." | ".." => Err(no_name(path)),
        name => Ok(name),
    }
}

/// The directory here that a copy goes to, and its name.
fn place_here(to: &Path) -> Result<(PathBuf, OsString), Failure> {
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match to.file_name() {
        Some(name) => Ok((dir.to_owned(), name.to_owned())),
        None => Err(no_name(to.display())),
    }
}

/// The directory of a file system that a copy goes to, and its name: that of the original if the
/// path is a directory.
fn place_there(
    files: &FileSystem,
    path: &str,
    name: Option<OsString>,
) -> Result<(Attr, OsString), Failure> {
    match files.walk(path) {
        Ok(dir) if dir.is_dir() => {
            let name = name.ok_or_else(|| Failure::Usage("the original has no name".to_owned()))?;
            Ok((dir, name))
        }
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => {
            let (dir, name) = split(path)?;
            Ok((files.walk(dir)?, name.into()))
        }
    }
}

pub(super) fn local(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}
