//! `lustrine fs mkdir`, `rm`, `mv` and `ln`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Args;
use lustrine_fs::{Attr, FileSystem, FollowLinks, FsError, FsUrl, shown};

use super::walk::{Entered, join};
use super::{
    ClientOptions, Url, change_files, no_dir, no_directory, split, with_file_system, without_slash,
};
use crate::output::{Failure, print_error};

/// Make a directory.
#[derive(Args, Debug)]
pub(crate) struct MkdirArgs {
    /// The directories
    #[arg(required = true)]
    urls: Vec<Url>,

    /// Make missing parent directories too, and accept a directory that exists
    #[arg(long, short)]
    parents: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Remove files.
#[derive(Args, Debug)]
pub(crate) struct RmArgs {
    /// The files
    #[arg(required = true)]
    urls: Vec<Url>,

    /// Remove directories and everything in them
    #[arg(long, short)]
    recursive: bool,

    /// Ignore a file that does not exist
    #[arg(long, short)]
    force: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Move or rename a file or directory.
#[derive(Args, Debug)]
pub(crate) struct MvArgs {
    /// The file
    from: Url,

    /// Its new name, or a directory, in the same file system
    to: Url,

    #[command(flatten)]
    client: ClientOptions,
}

/// Add a name for a file, or make a symbolic link.
#[derive(Args, Debug)]
pub(crate) struct LnArgs {
    /// The existing file; with --symbolic, the path to store in the link, which is resolved from
    /// the link's directory
    target: OsString,

    /// The new name, or a directory
    url: Url,

    /// Make a symbolic link
    #[arg(long, short)]
    symbolic: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Nothing is done if one of the paths has no name at its end.
fn names_of(urls: &[Url]) -> Result<(), Failure> {
    urls.iter().try_for_each(|url| split(&url.path).map(drop))
}

pub(super) fn mkdir(args: &MkdirArgs) -> Result<(), Failure> {
    if !args.parents {
        names_of(&args.urls)?;
        return change_files(&args.urls, &args.client, |files, path, changed| {
            let (dir, name) = split(path)?;
            let parent = files.walk(dir)?;
            let made = files.mkdir(&parent, name, 0o777).map_err(|error| error.at(path))?;
            changed.push(made.fid);
            Ok(())
        });
    }
    change_files(&args.urls, &args.client, |files, path, changed| {
        let mut here = files.walk("")?;
        let mut done = Vec::new();
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            done = join(&done, name);
            let next = match files.walk(&done) {
                Ok(attr) if attr.is_dir() => attr,
                Ok(_) => return Err(no_directory(&done)),
                Err(error) if error.is_not_found() => {
                    let next = files
                        .mkdir(&here, name, 0o777)
                        .and_then(|_| files.walk(&done))
                        .map_err(|error| error.at(&done))?;
                    changed.extend([here.fid, next.fid]);
                    next
                }
                Err(error) => return Err(error.into()),
            };
            here = next;
        }
        Ok(())
    })
}

pub(super) fn rm(args: &RmArgs) -> Result<(), Failure> {
    names_of(&args.urls)?;
    change_files(&args.urls, &args.client, |files, path, changed| {
        let (dir, name) = split(path)?;
        let removed = files.walk(dir).and_then(|parent| {
            let attr = files.look(&parent, name).map_err(|error| error.at(path))?;
            Ok((parent, attr))
        });
        let (parent, attr) = match removed {
            Ok(found) => found,
            Err(error) if args.force && error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if path.ends_with(b"/") && !attr.is_dir() {
            // As with rm(1), there is no such directory, and a link to one is not removed.
            return match args.force {
                true => Ok(()),
                false => Err(no_directory(path)),
            };
        }
        if attr.is_dir() && !args.recursive {
            let error = "is a directory; --recursive removes it";
            return Err(format!("{}: {error}", shown(path)).into());
        }
        let path = without_slash(path);
        let mut removal = Removal { files, force: args.force, entered: Entered::default() };
        let removed = removal.remove(&parent, name, &attr, path);
        changed.push(parent.fid);
        if removed { Ok(()) } else { Err(Failure::Reported(1)) }
    })
}

/// The removal of a tree.
struct Removal<'a> {
    files: &'a FileSystem,
    /// Whether it does not matter that a file has gone meanwhile.
    force: bool,
    entered: Entered,
}

impl Removal<'_> {
    /// Removes a file, or a directory with all that is in it. What cannot be removed is named, and
    /// the rest is removed; whether all was.
    fn remove(&mut self, parent: &Attr, name: &[u8], attr: &Attr, path: &[u8]) -> bool {
        if attr.is_dir() && !self.empty(attr, path) {
            return false;
        }
        self.done(path, self.files.unlink(parent, name, attr.is_dir())).is_some()
    }

    /// Removes what is in a directory.
    fn empty(&mut self, dir: &Attr, path: &[u8]) -> bool {
        if let Err(error) = self.entered.enter(path, dir.fid) {
            error.print(path);
            return false;
        }
        let Some(entries) = self.done(path, self.files.list(dir)) else { return false };
        let mut all = true;
        for entry in entries {
            let path = join(path, &entry.name);
            all &= match self.files.look(dir, &entry.name) {
                Ok(child) => self.remove(dir, &entry.name, &child, &path),
                // It was removed meanwhile.
                Err(error) if self.force && error.is_not_found() => true,
                Err(error) => self.done::<()>(&path, Err(error)).is_some(),
            };
        }
        all
    }

    /// What was done; an error is named.
    fn done<T>(&self, path: &[u8], outcome: Result<T, FsError>) -> Option<T> {
        outcome.map_err(|error| print_error(&error.at(path).to_string())).ok()
    }
}

pub(super) fn mv(args: &MvArgs) -> Result<(), Failure> {
    if !args.from.is_same_file_system(&args.to) {
        let error = "the two names are not in the same file system; copy the file with `cp`";
        return Err(Failure::Usage(error.to_owned()));
    }
    let (dir, name) = split(&args.from.path)?;
    with_file_system(&args.from, &args.client, |files| {
        let parent = files.walk(dir)?;
        let attr = files.look(&parent, name);
        let attr = attr.map_err(|error| error.at(&args.from.path))?;
        // As for rename(2), a link to a directory is none.
        if args.from.path.ends_with(b"/") && !attr.is_dir() {
            return Err(no_directory(&args.from.path));
        }
        let to = (name, attr.is_dir());
        let (new_parent, new_name, new_path) = destination(files, &args.to.path, to)?;
        // The server says what is wrong, but not with which of the two.
        if let Ok(there) = files.look(&new_parent, &new_name)
            && there.is_dir() != attr.is_dir()
        {
            let error = match there.is_dir() {
                true => "is a directory, and is not replaced by a file",
                false => "is not a directory, and is not replaced by one",
            };
            return Err(format!("{}: {error}", shown(&new_path)).into());
        }
        let renamed = files
            .rename((&parent, name), (&new_parent, &new_name))
            .and_then(|()| files.sync(new_parent.fid))
            .and_then(|()| files.sync(parent.fid));
        Ok(renamed.map_err(|error| match error.errno() {
            ENOTEMPTY => error.at(&new_path),
            _ => error.at(&args.from.path),
        })?)
    })
}

pub(super) fn ln(args: &LnArgs) -> Result<(), Failure> {
    let path = args.url.path.as_slice();
    let target = match args.symbolic {
        true => None,
        false => {
            let target = FsUrl::from_bytes(args.target.as_bytes()).map_err(|error| {
                let hint = "for a symbolic link use --symbolic";
                Failure::Usage(format!("{error}; {hint}"))
            })?;
            if !target.is_same_file_system(&args.url) {
                let error = "the two names are not in the same file system";
                return Err(Failure::Usage(error.to_owned()));
            }
            Some(target)
        }
    };
    with_file_system(&args.url, &args.client, |files| {
        let last = target.as_ref().map_or(args.target.as_bytes(), |target| &target.path);
        let (parent, name, _) = destination(files, path, (last, false))?;
        let made = match &target {
            Some(target) => {
                let attr = files.find(&target.path, FollowLinks::No)?;
                files.link(attr.fid, &parent, &name)
            }
            None => {
                let made = files.symlink(&parent, &name, args.target.as_bytes());
                made.map(drop)
            }
        };
        made.and_then(|()| files.sync(parent.fid)).map_err(|error| error.at(path))?;
        Ok(())
    })
}

/// The directory, the name and the path that a path stands for: it names a new file, or a directory
/// that gets one with the last name of another path. Only a directory can be new with a slash at
/// the end.
fn destination(
    files: &FileSystem,
    path: &[u8],
    (from, is_dir): (&[u8], bool),
) -> Result<(Attr, Vec<u8>, Vec<u8>), Failure> {
    match files.walk(path) {
        Ok(attr) if attr.is_dir() => {
            let name = split(from)?.1;
            Ok((attr, name.to_owned(), join(path, name)))
        }
        Err(error) if !error.is_not_found() => Err(error.into()),
        Err(_) if path.ends_with(b"/") && !is_dir => Err(no_dir(shown(path)).into()),
        _ => {
            let (dir, name) = split(path)?;
            Ok((files.walk(dir)?, name.to_owned(), path.to_owned()))
        }
    }
}

/// What the server says of a directory that would be replaced.
const ENOTEMPTY: i32 = 39;
