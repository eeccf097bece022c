//! `lustrine fs mkdir`, `rm`, `mv` and `ln`.

use clap::Args;
use lustrine_fs::{Attr, FileSystem, FsUrl};

use super::{ClientOptions, check_depth, split, with_file_system};
use crate::output::Failure;

/// Make a directory.
#[derive(Args, Debug)]
pub(crate) struct MkdirArgs {
    /// The directory
    url: FsUrl,

    /// Make the directories on the way too, and accept one that is there
    #[arg(long, short)]
    parents: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Remove files.
#[derive(Args, Debug)]
pub(crate) struct RmArgs {
    /// The file
    url: FsUrl,

    /// Remove a directory with all that is in it
    #[arg(long, short)]
    recursive: bool,

    /// Accept a file that does not exist
    #[arg(long, short)]
    force: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Change the name of a file.
#[derive(Args, Debug)]
pub(crate) struct MvArgs {
    /// The file
    from: FsUrl,

    /// Its new name, or a directory, in the same file system
    to: FsUrl,

    #[command(flatten)]
    client: ClientOptions,
}

/// Make a symbolic link.
#[derive(Args, Debug)]
pub(crate) struct LnArgs {
    /// What the link points to: a path from the directory of the link
    target: String,

    /// The link
    url: FsUrl,

    #[command(flatten)]
    client: ClientOptions,
}

pub(super) fn mkdir(args: &MkdirArgs) -> Result<(), Failure> {
    let path = args.url.path.as_str();
    if !args.parents {
        let (dir, name) = split(path)?;
        return with_file_system(&args.url, &args.client, |files| {
            let parent = files.walk(dir)?;
            let made = files.mkdir(&parent, name.as_bytes(), 0o777);
            made.map_err(|error| error.at(path))?;
            Ok(())
        });
    }
    with_file_system(&args.url, &args.client, |files| {
        let mut here = files.walk("")?;
        let mut done = String::new();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            done = format!("{done}{name}");
            let next = match files.walk(&done) {
                Ok(attr) if attr.is_dir() => attr,
                Ok(_) => return Err(format!("{done}: is not a directory").into()),
                Err(error) if error.is_not_found() => files
                    .mkdir(&here, name.as_bytes(), 0o777)
                    .and_then(|_| files.walk(&done))
                    .map_err(|error| error.at(&done))?,
                Err(error) => return Err(error.into()),
            };
            here = next;
            done.push('/');
        }
        Ok(())
    })
}

pub(super) fn rm(args: &RmArgs) -> Result<(), Failure> {
    let path = args.url.path.as_str();
    let (dir, name) = split(path)?;
    with_file_system(&args.url, &args.client, |files| {
        let removed = files.walk(dir).and_then(|parent| {
            let attr = files.look(&parent, name.as_bytes()).map_err(|error| error.at(path))?;
            Ok((parent, attr))
        });
        let (parent, attr) = match removed {
            Ok(found) => found,
            Err(error) if args.force && error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if attr.is_dir() && !args.recursive {
            return Err(format!("{path}: is a directory; --recursive removes it").into());
        }
        remove(files, &parent, name.as_bytes(), &attr, path)
    })
}

/// Removes a file, or a directory with all that is in it.
fn remove(
    files: &FileSystem,
    parent: &Attr,
    name: &[u8],
    attr: &Attr,
    path: &str,
) -> Result<(), Failure> {
    if attr.is_dir() {
        check_depth(path)?;
        for entry in files.list(attr).map_err(|error| error.at(path))? {
            let path = format!("{path}/{}", String::from_utf8_lossy(&entry.name));
            let child = files.look(attr, &entry.name).map_err(|error| error.at(&path))?;
            remove(files, attr, &entry.name, &child, &path)?;
        }
    }
    Ok(files.unlink(parent, name, attr.is_dir()).map_err(|error| error.at(path))?)
}

pub(super) fn mv(args: &MvArgs) -> Result<(), Failure> {
    if (&args.from.mgs, &args.from.fsname) != (&args.to.mgs, &args.to.fsname) {
        let error = "the two names are not in the same file system; copy the file with `get` and \
                     `put`";
        return Err(Failure::Usage(error.to_owned()));
    }
    let (dir, name) = split(&args.from.path)?;
    with_file_system(&args.from, &args.client, |files| {
        let parent = files.walk(dir)?;
        let path = args.to.path.as_str();
        let (new_parent, new_name) = match files.walk(path) {
            Ok(attr) if attr.is_dir() => (attr, name),
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {
                let (dir, name) = split(path)?;
                (files.walk(dir)?, name)
            }
        };
        let renamed = files.rename((&parent, name.as_bytes()), (&new_parent, new_name.as_bytes()));
        Ok(renamed.map_err(|error| error.at(&args.from.path))?)
    })
}

pub(super) fn ln(args: &LnArgs) -> Result<(), Failure> {
    let path = args.url.path.as_str();
    let (dir, name) = split(path)?;
    with_file_system(&args.url, &args.client, |files| {
        let parent = files.walk(dir)?;
        let made = files.symlink(&parent, name.as_bytes(), args.target.as_bytes());
        made.map_err(|error| error.at(path))?;
        Ok(())
    })
}
