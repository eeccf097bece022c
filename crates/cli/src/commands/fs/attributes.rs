//! `lustrine fs chmod`, `chown`, `touch` and `truncate`.

use std::collections::BTreeMap;

use clap::{ArgAction, Args};
use lustrine_fs::{Attr, Changes, FileSystem, FollowLinks, SetTime, shown, umask};

use super::mode::{ModeChange, Owner};
use super::walk::{Walk, in_parallel};
use super::{ClientOptions, Url, no_dir, on_files, split};
use crate::output::{Failure, print_error};

/// Change permissions.
#[derive(Args, Debug)]
pub(crate) struct ChmodArgs {
    /// Permissions: octal, such as 640, or symbolic, such as u=rw,g+r,o-rwx
    #[arg(allow_hyphen_values = true)]
    mode: ModeChange,

    /// The files
    #[arg(required = true)]
    urls: Vec<Url>,

    /// Change directories and everything in them
    #[arg(long, short = 'R', short_alias = 'r')]
    recursive: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// Change the owner or the group.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct ChownArgs {
    /// USER, USER:GROUP or :GROUP, as numbers or as names that this machine knows
    owner: Owner,

    /// The files
    #[arg(required = true)]
    urls: Vec<Url>,

    /// Change directories and everything in them
    #[arg(long, short = 'R', short_alias = 'r')]
    recursive: bool,

    /// Change symbolic links instead of what they point to
    #[arg(long, short = 'h')]
    no_dereference: bool,

    /// Print help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,

    #[command(flatten)]
    client: ClientOptions,
}

/// Set the times of files; create those that do not exist.
#[derive(Args, Debug)]
pub(crate) struct TouchArgs {
    /// The files
    #[arg(required = true)]
    urls: Vec<Url>,

    /// Create no files
    #[arg(long, short = 'c')]
    no_create: bool,

    /// Set only the time of the last access
    #[arg(long, short = 'a')]
    access: bool,

    /// Set only the time of the last change
    #[arg(long, short = 'm')]
    modify: bool,

    /// The time, such as 2026-11-23T12:00:00Z, or @ and seconds since 1970 [default: now]
    #[arg(long, short = 'd', value_parser = time, hide_default_value = true)]
    date: Option<i64>,

    #[command(flatten)]
    client: ClientOptions,
}

/// Shorten files, or extend them with a hole; create those that do not exist.
#[derive(Args, Debug)]
pub(crate) struct TruncateArgs {
    /// Size in bytes; K, M, G and T are powers of 1024; with + or -, relative to the current size
    #[arg(long, short = 's', value_parser = new_size, allow_hyphen_values = true)]
    size: NewSize,

    /// The files
    #[arg(required = true)]
    urls: Vec<Url>,

    /// Create no files
    #[arg(long, short = 'c')]
    no_create: bool,

    #[command(flatten)]
    client: ClientOptions,
}

/// A size, or a change of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewSize {
    To(u64),
    By(u64),
    Less(u64),
}

pub(super) fn chmod(args: &ChmodArgs) -> Result<(), Failure> {
    let mode = &args.mode;
    change_all(&args.urls, &args.client, args.recursive, FollowLinks::Yes, |attr| {
        // The permissions of a symbolic link mean nothing.
        let mode = mode.of(attr.mode, umask());
        (!attr.is_symlink()).then(|| Changes { mode: Some(mode), ..Changes::default() })
    })
}

pub(super) fn chown(args: &ChownArgs) -> Result<(), Failure> {
    let Owner { uid, gid } = args.owner;
    let links = if args.no_dereference { FollowLinks::No } else { FollowLinks::Yes };
    change_all(&args.urls, &args.client, args.recursive, links, |attr| {
        // Below the top links are not followed, and what they point to may be elsewhere.
        let skips = attr.is_symlink() && !args.no_dereference;
        (!skips).then(|| Changes { uid, gid, ..Changes::default() })
    })
}

/// Changes files, and what is below them if `recursive`, several at once. They are durable then.
fn change_all(
    urls: &[Url],
    client: &ClientOptions,
    recursive: bool,
    links: FollowLinks,
    changes: impl Fn(&Attr) -> Option<Changes> + Sync,
) -> Result<(), Failure> {
    on_files(urls, client, |files, path| {
        let top = files.find(path, links)?;
        let mut walk = Walk::new(files, false);
        let work = |(path, attr): (Vec<u8>, Attr)| {
            if let Some(changes) = changes(&attr) {
                files.set_attributes(attr.fid, changes).map_err(|error| error.at(&path))?;
            }
            Ok(())
        };
        // A file for each sequence of FIDs: all of a sequence are at one metadata target.
        let mut changed = BTreeMap::new();
        let mut dirs_done = true;
        let done = in_parallel(
            |give| {
                walk.visit(path, &top, 0, &mut |path, attr, _| {
                    changed.entry(attr.fid.seq).or_insert(attr.fid);
                    if !attr.is_dir() {
                        return give((path.to_owned(), attr.clone())).map(|()| recursive);
                    }
                    // Before it is read, which may become possible only by this.
                    match work((path.to_owned(), attr.clone())) {
                        Err(Failure::Failed(error)) => {
                            print_error(&error);
                            dirs_done = false;
                        }
                        other => other?,
                    }
                    Ok(recursive)
                })
            },
            work,
        )?;
        let done = done && dirs_done;
        files.sync_all(changed.into_values().collect())?;
        if done && !walk.failed { Ok(()) } else { Err(Failure::Reported(1)) }
    })
}

pub(super) fn touch(args: &TouchArgs) -> Result<(), Failure> {
    let time = args.date.map_or(SetTime::Now, SetTime::At);
    let both = args.access == args.modify;
    let changes = Changes {
        atime: (both || args.access).then_some(time),
        mtime: (both || args.modify).then_some(time),
        ..Changes::default()
    };
    on_files(&args.urls, &args.client, |files, path| {
        let Some((attr, made)) = find_or_make(files, path, args.no_create)? else { return Ok(()) };
        let attr = match made && args.date.is_none() {
            // It has the present time.
            true => attr,
            false => files.set_attributes(attr.fid, changes).map_err(|error| error.at(path))?,
        };
        Ok(files.fsync(&attr).map_err(|error| error.at(path))?)
    })
}

pub(super) fn truncate(args: &TruncateArgs) -> Result<(), Failure> {
    on_files(&args.urls, &args.client, |files, path| {
        let Some((attr, _)) = find_or_make(files, path, args.no_create)? else { return Ok(()) };
        let size = match args.size {
            NewSize::To(size) => size,
            relative => {
                let attr = files.with_size(attr.clone()).map_err(|error| error.at(path))?;
                let present = attr.size.unwrap_or_default();
                match relative {
                    NewSize::Less(less) => present.saturating_sub(less),
                    NewSize::By(more) | NewSize::To(more) => present.saturating_add(more),
                }
            }
        };
        let changes = Changes { size: Some(size), ..Changes::default() };
        let attr = files.set_attributes(attr.fid, changes).map_err(|error| error.at(path))?;
        Ok(files.fsync(&attr).map_err(|error| error.at(path))?)
    })
}

/// A file, and whether it was made; none if it does not exist and is not to be made.
fn find_or_make(
    files: &FileSystem,
    path: &[u8],
    no_create: bool,
) -> Result<Option<(Attr, bool)>, Failure> {
    match files.walk(path) {
        Ok(attr) => return Ok(Some((attr, false))),
        Err(error) if !error.is_not_found() => return Err(error.into()),
        Err(_) if no_create => return Ok(None),
        // What ends with a slash means a directory.
        Err(_) if path.ends_with(b"/") => return Err(no_dir(shown(path)).into()),
        Err(_) => {}
    }
    let (dir, name) = split(path)?;
    let parent = files.walk(dir)?;
    let file = files.create(&parent, name, 0o666, false);
    file.and_then(lustrine_fs::File::close).map_err(|error| error.at(path))?;
    Ok(Some((files.walk(path)?, true)))
}

/// A time as `touch -d` takes it.
fn time(text: &str) -> Result<i64, String> {
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.parse().map_err(|error| format!("{error}"));
    }
    let time: Result<jiff::Timestamp, _> = text.parse();
    time.map(jiff::Timestamp::as_second)
        .map_err(|_| "use a time such as 2026-11-23T12:00:00Z, or @1795435200".to_owned())
}

fn new_size(text: &str) -> Result<NewSize, String> {
    match text.as_bytes().first() {
        Some(b'+') => bytes(&text[1..]).map(NewSize::By),
        Some(b'-') => bytes(&text[1..]).map(NewSize::Less),
        _ => bytes(text).map(NewSize::To),
    }
}

/// Bytes with a suffix.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "k" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        other => return Err(format!("the suffix `{other}` is not K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|error| format!("{error}"))?;
    number.checked_mul(1 << shift).ok_or_else(|| "larger than any file".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes_and_signs() {
        assert_eq!(new_size("10"), Ok(NewSize::To(10)));
        assert_eq!(new_size("+2K"), Ok(NewSize::By(2048)));
        assert_eq!(new_size("-1G"), Ok(NewSize::Less(1 << 30)));
        assert!(new_size("1X").is_err() && new_size("").is_err() && new_size("99999999T").is_err());
    }

    #[test]
    fn times_are_read() {
        assert_eq!(time("@5"), Ok(5));
        assert_eq!(time("1970-01-01T00:01:00Z"), Ok(60));
        assert!(time("yesterday").is_err());
    }
}
