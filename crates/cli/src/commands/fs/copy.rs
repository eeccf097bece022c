//! `lustrine fs cat`, `get`, `put` and `cp`.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::Args;
use lustrine_fs::{Fid, FileSystem, shown};

use super::transfer::{
    CopyOptions, Dir, Item, Target, Transfer, check_options, to_node, to_output,
};
use super::walk::join;
use super::{
    ClientOptions, Url, local, no_dir, no_name, on_files, split, with_file_system, without_slash,
};
use crate::output::Failure;

/// Write files to standard output.
#[derive(Args, Debug)]
pub(crate) struct CatArgs {
    /// The files
    #[arg(required = true)]
    urls: Vec<Url>,

    #[command(flatten)]
    client: ClientOptions,
}

/// Copy a file to this machine.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// The file in the file system
    url: Url,

    /// Local file or directory, or - for standard output [default: the current directory]
    #[arg(default_value = ".", hide_default_value = true)]
    to: PathBuf,

    #[command(flatten)]
    copy: CopyOptions,

    #[command(flatten)]
    client: ClientOptions,
}

/// Copy a file of this machine, or standard input, to a file system.
#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    /// Local file, or - for standard input
    from: PathBuf,

    /// The file in the file system, or a directory in it
    url: Url,

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
    from: Url,

    /// The copy, or a directory
    to: Url,

    #[command(flatten)]
    copy: CopyOptions,

    #[command(flatten)]
    client: ClientOptions,
}

pub(super) fn cat(args: &CatArgs) -> Result<(), Failure> {
    on_files(&args.urls, &args.client, |files, path| {
        let attr = files.walk(path)?;
        to_output(files, (&shown(path), &attr), true)
    })
}

pub(super) fn get(args: &GetArgs) -> Result<(), Failure> {
    let (path, named) = (&args.url.path, shown(&args.url.path));
    if args.to.as_os_str() == "-" {
        check_options("standard output", &args.copy)?;
        return with_file_system(&args.url, &args.client, |files| {
            let attr = files.walk(path)?;
            // Progress would be among what is shown.
            let quiet = args.copy.quiet || io::stdout().is_terminal();
            to_output(files, (&named, &attr), quiet)
        });
    }
    let no_dir_there = slash_without_dir(&args.to);
    // The copy of a directory can be a new one.
    if let Some(error) = no_dir_there.clone().filter(|_| !args.copy.recursive) {
        return Err(error.into());
    }
    let (dir, name) = place_here(&args.to, last_name(path)?)?;
    let target = Target::of(dir, name)?;
    if let Target::Node(node) = &target {
        let what = format!("{} is no regular file, and", node.display());
        check_options(&what, &args.copy)?;
    }
    with_file_system(&args.url, &args.client, |files| {
        let attr = files.walk(path)?;
        if let Some(error) = no_dir_there.filter(|_| !attr.is_dir()) {
            return Err(error.into());
        }
        let (dir, name) = match target {
            Target::Name(dir, name) => (dir, name),
            Target::Node(node) => return to_node(files, (&named, &attr), &node, &args.copy),
        };
        // Also behind a symbolic link.
        if !attr.is_dir() && dir.join(&name).is_dir() {
            let error = "is a directory, and does not become a file";
            return Err(format!("{}: {error}", dir.join(&name).display()).into());
        }
        let (from, options) = (Some(files), &args.copy);
        let transfer = Transfer { from, to: None, options, replace: true, within: false };
        transfer.run_until_signal(Item::There(named, attr), &Dir::Here(dir), &name)
    })
}

/// Makes a file of what standard input brings.
fn put_input(args: &PutArgs) -> Result<(), Failure> {
    let CopyOptions { recursive, preserve, resume, .. } = args.copy;
    let options = [("recursive", recursive), ("preserve", preserve), ("resume", resume)];
    if let Some((option, _)) = options.iter().find(|(_, given)| *given) {
        let error = format!("standard input cannot be copied with --{option}");
        return Err(Failure::Usage(error));
    }
    with_file_system(&args.url, &args.client, |files| {
        let (dir, name) = place_there(files, &args.url.path, (None, false))?;
        let (to, options, replace) = (Some(files), &args.copy, args.force);
        let transfer = Transfer { from: None, to, options, replace, within: false };
        transfer.run_until_signal(Item::Input, &dir, &name)
    })
}

pub(super) fn put(args: &PutArgs) -> Result<(), Failure> {
    let from = &args.from;
    if from.as_os_str() == "-" {
        return put_input(args);
    }
    let meta = fs::metadata(from).map_err(|error| local(from, &error))?;
    if meta.is_dir() && !args.copy.recursive {
        let error = format!("{} is a directory; --recursive copies it", from.display());
        return Err(Failure::Usage(error));
    }
    with_file_system(&args.url, &args.client, |files| {
        // The last name of the path, also of a symbolic link. What `.` or `a/..` is called is found
        // out.
        let name = from.file_name().map(Into::into).filter(|_| !ends_with_dot(from));
        let name = name.or_else(|| Some(from.canonicalize().ok()?.file_name()?.into()));
        let (dir, name) = place_there(files, &args.url.path, (name, meta.is_dir()))?;
        // A symbolic link is followed here and nowhere below.
        let path = match from.is_symlink() {
            true => from.canonicalize().map_err(|error| local(from, &error))?,
            false => from.clone(),
        };
        let (to, options, replace) = (Some(files), &args.copy, args.force);
        let transfer = Transfer { from: None, to, options, replace, within: false };
        transfer.run_until_signal(Item::Here(path, meta), &dir, &name)
    })
}

/// Whether a path ends with `/.`, which [`Path::file_name`] leaves out.
fn ends_with_dot(path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    path == b"." || path.ends_with(b"/.")
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
    let named = shown(path);
    let name = Some(last_name(path)?.to_owned()).filter(|name| !name.is_empty());
    let (dir, name) = place_there(to, &args.to.path, (name, attr.is_dir()))?;
    let within = from.is_same(to)?;
    if let (true, Dir::There(dir, _)) = (within, &dir) {
        let there = to.look(dir, name.as_bytes());
        if there.is_ok_and(|there| there.fid == attr.fid) {
            return Err(format!("{named}: the file and its copy are the same").into());
        }
        if attr.is_dir() && is_below(to, &args.to.path, attr.fid)? {
            return Err(format!("{named}: cannot be copied into itself").into());
        }
    }
    let options = &args.copy;
    let transfer = Transfer { from: Some(from), to: Some(to), options, replace: true, within };
    transfer.run_until_signal(Item::There(named, attr), &dir, &name)
}

/// Whether a path, as far as it exists, leads through a directory.
fn is_below(files: &FileSystem, path: &[u8], dir: Fid) -> Result<bool, Failure> {
    let mut done = Vec::new();
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
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
fn last_name(path: &[u8]) -> Result<&OsStr, Failure> {
    match without_slash(path).rsplit(|byte| *byte == b'/').next().unwrap_or_default() {
        b"." | b".." => Err(no_name(&shown(path))),
        name => Ok(OsStr::from_bytes(name)),
    }
}

/// The error for a path here that ends with a slash and is no directory.
fn slash_without_dir(to: &Path) -> Option<String> {
    if !to.as_os_str().as_bytes().ends_with(b"/") || to.is_dir() {
        return None;
    }
    match to.components().as_path().exists() {
        true => Some(format!("{}: is not a directory", to.display())),
        false => Some(no_dir(to.display())),
    }
}

/// The directory here that a copy goes to, and its name: that of the original if `to` is a
/// directory, which it is said to be by a slash at its end.
fn place_here(to: &Path, original: &OsStr) -> Result<(PathBuf, OsString), Failure> {
    if to.is_dir() && !original.is_empty() {
        return Ok((to.to_owned(), original.into()));
    }
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = to.file_name() else { return Err(no_name(&to.display().to_string())) };
    match fs::metadata(dir) {
        Ok(meta) if !meta.is_dir() => Err(format!("{}: is not a directory", dir.display()).into()),
        Ok(_) => Ok((dir.to_owned(), name.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_dir(dir.display()).into()),
        Err(error) => Err(local(dir, &error)),
    }
}

/// The directory of a file system that a copy goes to, and its name: that of the original if the
/// path is a directory, which it is said to be by a slash at its end.
fn place_there(
    files: &FileSystem,
    path: &[u8],
    (original, is_dir): (Option<OsString>, bool),
) -> Result<(Dir, OsString), Failure> {
    let there = |dir, path: &[u8]| Dir::There(Box::new(dir), shown(path));
    match files.walk(path) {
        Ok(dir) if dir.is_dir() => {
            let no_name = || {
                let path = if path.is_empty() { "/".to_owned() } else { shown(path) };
                let error = "is a directory, and the original has no name: name the file in it";
                Failure::Usage(format!("{path}: {error}"))
            };
            let name = original.ok_or_else(no_name)?;
            return Ok((there(dir, path), name));
        }
        Ok(_) => {}
        // The copy of a directory can be a new one.
        Err(error) if error.is_not_found() && path.ends_with(b"/") && !is_dir => {
            return Err(no_dir(shown(path)).into());
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let (dir, name) = split(path)?;
    let found = files.walk(dir)?;
    Ok((there(found, dir), OsStr::from_bytes(name).to_owned()))
}
