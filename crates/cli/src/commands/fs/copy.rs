//! `lustrine fs cat`, `get` and `put`.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use lustrine_fs::{Attr, FileSystem, FsUrl};

use super::{ClientOptions, check_depth, split, with_file_system};
use crate::output::{Failure, print_error, write_error};

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
    /// The file of the file system
    url: FsUrl,

    /// The file here, or a directory [default: the present directory]
    #[arg(default_value = ".", hide_default_value = true)]
    to: PathBuf,

    /// Copy a directory with all that is in it
    #[arg(long, short)]
    recursive: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Copy a file of this machine to a file system.
#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    /// The file here
    from: PathBuf,

    /// The file of the file system, or a directory of it
    url: FsUrl,

    /// Replace a file that is there
    #[arg(long, short)]
    force: bool,

    /// Show no progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    client: ClientOptions,
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
fn open<'a>(
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
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        if name == "." || name == ".." {
            return Err(Failure::Usage(format!("`{path}` does not end with a name")));
        }
        let to = match args.to.is_dir() && !name.is_empty() {
            true => args.to.join(name),
            false => args.to.clone(),
        };
        let mut copy = Copy { files, quiet: args.quiet, failed: false };
        if attr.is_dir() {
            if !args.recursive {
                return Err(format!("{path}: is a directory; --recursive copies it").into());
            }
            copy.directory(&attr, path, &to)?;
        } else {
            copy.file(&attr, path, &to)?;
        }
        if copy.failed { Err(Failure::Reported(1)) } else { Ok(()) }
    })
}

struct Copy<'a> {
    files: &'a FileSystem,
    quiet: bool,
    /// Whether something could not be copied.
    failed: bool,
}

impl Copy<'_> {
    /// Copies a directory. What cannot be copied is named, and the rest is copied.
    fn directory(&mut self, dir: &Attr, path: &str, to: &Path) -> Result<(), Failure> {
        check_depth(path)?;
        let entries = self.files.list(dir).map_err(|error| error.at(path))?;
        make_dir(to).map_err(|error| local(to, &error))?;
        for entry in entries {
            use std::os::unix::ffi::OsStrExt;
            let name = std::ffi::OsStr::from_bytes(&entry.name);
            let (path, to) = (format!("{path}/{}", name.display()), to.join(name));
            let copied = self
                .files
                .look(dir, &entry.name)
                .map_err(Failure::from)
                .and_then(|attr| self.any(&attr, &path, &to));
            match copied {
                Ok(()) => {}
                Err(Failure::Failed(error)) => {
                    print_error(&error);
                    self.failed = true;
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    fn any(&mut self, attr: &Attr, path: &str, to: &Path) -> Result<(), Failure> {
        if attr.is_dir() {
            return self.directory(attr, path, to);
        }
        if attr.is_symlink() {
            use std::os::unix::ffi::OsStrExt;
            let target = self.files.readlink(attr.fid)?;
            let target = std::ffi::OsStr::from_bytes(&target);
            return symlink(target, to).map_err(|error| local(to, &error));
        }
        self.file(attr, path, to)
    }

    /// Copies a file. It appears under its name when it is complete.
    fn file(&mut self, attr: &Attr, path: &str, to: &Path) -> Result<(), Failure> {
        let file = open(self.files, attr, path)?;
        let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let failed = |error: &io::Error| local(to, error);
        let mut part = tempfile::Builder::new()
            .prefix(".lustrine-get-")
            .tempfile_in(dir)
            .map_err(|error| failed(&error))?;
        let bar = progress(self.quiet, path, file.size());
        let read = file.read_all(|bytes| {
            bar.inc(bytes.len() as u64);
            part.write_all(bytes).map_err(|error| failed(&error))
        });
        bar.finish_and_clear();
        let closed = file.close();
        read.map_err(|failure| of_file(path, failure))?;
        closed.map_err(|error| error.at(path))?;
        let permissions = fs::Permissions::from_mode(attr.mode & 0o777);
        part.as_file().set_permissions(permissions).map_err(|error| failed(&error))?;
        part.persist(to).map_err(|error| failed(&error.error))?;
        Ok(())
    }
}

pub(super) fn put(args: &PutArgs) -> Result<(), Failure> {
    let from = &args.from;
    let mut source = fs::File::open(from).map_err(|error| local(from, &error))?;
    let meta = source.metadata().map_err(|error| local(from, &error))?;
    if meta.is_dir() {
        return Err(Failure::Usage(format!("{}: is a directory", from.display())));
    }
    with_file_system(&args.url, &args.client, |files| {
        let path = args.url.path.as_str();
        let there = match files.walk(path) {
            Ok(attr) => Some(attr),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let (parent, name) = match there {
            Some(dir) if dir.is_dir() => {
                let name = from.file_name().and_then(|name| name.to_str());
                let name = name.ok_or_else(|| format!("{}: has no name", from.display()))?;
                (dir, name.to_owned())
            }
            _ => {
                let (dir, name) = split(path)?;
                (files.walk(dir)?, name.to_owned())
            }
        };
        // A file that is there stays until the new one is complete.
        let made = match args.force {
            true => format!(".lustrine-put-{}", lustrine_fs::unique_name()?),
            false => name.clone(),
        };
        // Set-user-id programs do not become those of another owner.
        let mode = meta.permissions().mode() & 0o777;
        let mut file =
            files.create(&parent, made.as_bytes(), mode, true).map_err(|error| error.at(path))?;
        let bar = progress(args.quiet, path, meta.len());
        let written = file.write_all(|room| {
            let mut data = Vec::with_capacity(room);
            let read = (&mut source).take(room as u64).read_to_end(&mut data);
            read.map_err(|error| local(from, &error))?;
            bar.inc(data.len() as u64);
            Ok::<_, Failure>(data)
        });
        bar.finish_and_clear();
        let copied = match written {
            Ok(()) => file.close().map_err(Failure::from),
            Err(failure) => {
                file.abandon();
                Err(failure)
            }
        };
        let named = copied.and_then(|()| match args.force {
            true => {
                let to = (&parent, name.as_bytes());
                Ok(files.rename((&parent, made.as_bytes()), to)?)
            }
            false => Ok(()),
        });
        named.map_err(|failure| {
            // A part must not be taken for the whole.
            let _ = files.unlink(&parent, made.as_bytes(), false);
            of_file(path, failure)
        })
    })
}

/// A progress bar, which is shown on terminals only.
fn progress(quiet: bool, name: &str, len: u64) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = "{msg} {bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}";
    let style = ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar());
    let bar = ProgressBar::new(len).with_style(style);
    bar.set_message(name.rsplit('/').next().unwrap_or_default().to_owned());
    bar
}

/// Makes a directory, or accepts one that is there. A symbolic link is none: the server could have
/// sent it before, to have files written where it points.
fn make_dir(to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(meta) if meta.is_dir() => Ok(()),
        _ => fs::create_dir(to),
    }
}

/// Adds the path of the file to an error of a server, which names none.
fn of_file(path: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(error) => Failure::Failed(format!("{path}: {error}")),
        other => other,
    }
}

fn local(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_taken_for_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (link, real) = (dir.path().join("link"), dir.path().join("real"));
        make_dir(&real).unwrap();
        make_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        assert_eq!(make_dir(&link).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
