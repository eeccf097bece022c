//! Copies of files and trees, from this machine or a file system to this machine or a file system.

mod holes;
mod input;
mod options;
mod part;
mod pieces;
mod source;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use lustrine_fs::{Attr, Changes, Fid, FileSystem, Piece, SetTime, shown, umask};
use lustrine_sys::files::close;
use rustix::fs::OFlags;

use super::walk::{Entered, NotEntered, in_parallel, join};
use super::{check_depth, local, open};
use crate::interrupt;
use crate::output::{Failure, print_error};
use holes::write_here;
use input::Input;
pub(super) use options::{CopyOptions, check_options};
use part::{PART_PREFIX, kept_part, new_here, part_name, resume_here, resume_there};
use pieces::read_here;
use source::{Source, SourceFile, children_here, of_file, open_found, sum_of};
pub(super) use stream::{Target, to_node, to_output};

/// Names that are looked up at once.
const PART: usize = 1024;

/// What a copy that is ended by force may leave.
const LEFT: &str = "a part, .lustrine-part-*, may be left: `lustrine fs find` or find(1) with \
                    --name '.lustrine-part-*' shows it";

/// A copy of a file or a tree.
pub(super) struct Transfer<'a> {
    /// The file system of the original; none for this machine.
    pub(super) from: Option<&'a FileSystem>,
    /// The file system of the copy; none for this machine.
    pub(super) to: Option<&'a FileSystem>,
    pub(super) options: &'a CopyOptions,
    /// Whether files that are there are replaced.
    pub(super) replace: bool,
    /// Whether both are the same file system, which may hold its own copies then.
    pub(super) within: bool,
}

/// A file that is copied.
pub(super) enum Item {
    Here(PathBuf, fs::Metadata),
    There(String, Attr),
    /// Standard input, from which one file is made.
    Input,
}

/// A directory that gets copies.
#[derive(Clone)]
pub(super) enum Dir {
    Here(PathBuf),
    /// With its path.
    There(Box<Attr>, String),
}

/// What kind of file it is.
enum Kind {
    File,
    Dir,
    Link,
    Other,
}

/// A directory that was made, whose permissions and times are set when it is complete.
struct Made {
    dir: Dir,
    mode: u32,
    times: (i64, i64),
    /// Whether its permissions have to be set.
    new: bool,
}

/// What a walk of the original gathers.
struct Gathered<'b> {
    bar: &'b ProgressBar,
    /// The directories that got copies.
    made: Vec<Made>,
    /// The directories of file systems among them, and the one that all is copied to.
    targets: BTreeSet<Fid>,
    entered: Entered,
    /// Whether all could be copied.
    complete: bool,
}

/// Takes the files that are to be copied.
type Give<'g> = dyn FnMut(Job) -> Result<(), Failure> + 'g;

/// A file whose copy is to be made.
type Job = (Item, Dir, OsString);

impl Dir {
    /// The path of a name in it, for people.
    fn path_of(&self, name: &OsStr) -> String {
        match self {
            Dir::Here(dir) => dir.join(name).display().to_string(),
            Dir::There(_, dir) => shown(&join(dir.as_bytes(), name.as_bytes())),
        }
    }
}

impl Item {
    fn path(&self) -> String {
        match self {
            Item::Here(path, _) => path.display().to_string(),
            Item::There(path, _) => path.clone(),
            Item::Input => input::NAME.to_owned(),
        }
    }

    fn mode(&self) -> u32 {
        match self {
            Item::Here(_, meta) => meta.mode(),
            Item::There(_, attr) => attr.mode,
            Item::Input => 0o100_666,
        }
    }

    fn kind(&self) -> Kind {
        match self.mode() & 0o170_000 {
            0o100_000 => Kind::File,
            0o040_000 => Kind::Dir,
            0o120_000 => Kind::Link,
            _ => Kind::Other,
        }
    }

    /// Times of access and change, in seconds since 1970.
    fn times(&self) -> (i64, i64) {
        match self {
            Item::Here(_, meta) => (meta.atime(), meta.mtime()),
            Item::There(_, attr) => (attr.atime, attr.mtime),
            // They are not preserved.
            Item::Input => (0, 0),
        }
    }
}

impl Transfer<'_> {
    /// As [`Transfer::run`], and a signal ends it without leaving a part.
    pub(super) fn run_until_signal(
        &self,
        item: Item,
        dir: &Dir,
        name: &OsStr,
    ) -> Result<(), Failure> {
        interrupt::clean_up_first(LEFT)?;
        self.run(item, dir, name)
    }

    /// Copies a file or a tree to a name in a directory. What cannot be copied is named, and the
    /// rest is copied. Copies in a file system are durable then.
    fn run(&self, item: Item, dir: &Dir, name: &OsStr) -> Result<(), Failure> {
        if matches!(item.kind(), Kind::Dir) && !self.options.recursive {
            let path = item.path();
            return Err(format!("{path} is a directory; --recursive copies it").into());
        }
        let bar = progress(self.options.quiet, name);
        let targets = match dir {
            Dir::There(dir, _) => BTreeSet::from([dir.fid]),
            Dir::Here(_) => BTreeSet::new(),
        };
        let (made, entered) = (Vec::new(), Entered::default());
        let mut gathered = Gathered { bar: &bar, made, targets, entered, complete: true };
        let done = in_parallel(
            |give| self.tree(item, dir, name, (give, &mut gathered)),
            |(item, dir, name): Job| self.file(&item, &dir, &name, &bar),
        );
        bar.finish_and_clear();
        // What is in a directory changes its times. After an error too no directory is left with
        // the permissions that it has while it is filled.
        for made in gathered.made.iter().rev() {
            self.finish_dir(made).or_else(|failure| note(failure, &mut gathered.complete))?;
        }
        if let Some(to) = self.to {
            to.sync_all(gathered.targets.into_iter().collect())?;
        }
        match done.map_err(interrupt::ended)? && gathered.complete {
            true => Ok(()),
            false => Err(Failure::Reported(1)),
        }
    }

    fn tree(
        &self,
        item: Item,
        dir: &Dir,
        name: &OsStr,
        (give, gathered): (&mut Give<'_>, &mut Gathered<'_>),
    ) -> Result<(), Failure> {
        interrupt::asked()?;
        let path = item.path();
        let outcome = match item.kind() {
            Kind::File => {
                gathered.bar.inc_length(match &item {
                    Item::Here(_, meta) => meta.len(),
                    // The objects of a file say more when it is opened.
                    Item::There(_, attr) => attr.size.unwrap_or(0),
                    // It is not known before the end.
                    Item::Input => 0,
                });
                return give((item, dir.clone(), name.to_owned()));
            }
            Kind::Link => self.link(&item, dir, name),
            Kind::Other => Err(format!("{path}: is not a regular file").into()),
            Kind::Dir => self.enter(&item, gathered).and_then(|entered| match entered {
                true => self.directory(&item, dir, name, (give, &mut *gathered)),
                false => Ok(()),
            }),
        };
        outcome.or_else(|failure| note(failure, &mut gathered.complete))
    }

    /// Enters a directory of the original, unless it is one of the copy. Whether it is entered; if
    /// not, the reason was named before.
    fn enter(&self, item: &Item, gathered: &mut Gathered<'_>) -> Result<bool, Failure> {
        let path = item.path();
        // Directories of this machine do not hold themselves.
        let fid = match item {
            Item::Here(..) | Item::Input => Fid::ZERO,
            Item::There(_, attr) => attr.fid,
        };
        if self.within && gathered.targets.contains(&fid) {
            return Err(format!("{path}: cannot be copied into itself").into());
        }
        let entered = match item {
            Item::Here(..) | Item::Input => {
                check_depth(path.as_bytes()).map_err(NotEntered::Because)
            }
            Item::There(..) => gathered.entered.enter(path.as_bytes(), fid),
        };
        match entered {
            Ok(()) => Ok(true),
            Err(NotEntered::Because(error)) => Err(format!("{path}: {error}").into()),
            Err(NotEntered::Known) => {
                gathered.complete = false;
                Ok(false)
            }
        }
    }

    /// Copies a directory that was entered.
    fn directory(
        &self,
        item: &Item,
        dir: &Dir,
        name: &OsStr,
        (give, gathered): (&mut Give<'_>, &mut Gathered<'_>),
    ) -> Result<(), Failure> {
        let new = self.make_dir(item, dir, name)?;
        let dir = new.dir.clone();
        if let Dir::There(attr, _) = &dir {
            gathered.targets.insert(attr.fid);
        }
        gathered.made.push(new);
        for (name, child) in self.children(item)? {
            // Parts of interrupted copies. A link of such a name, sent by a server, would have a
            // copy written where it points.
            if name.as_bytes().starts_with(PART_PREFIX.as_bytes()) {
                continue;
            }
            match child {
                Ok(child) => self.tree(child, &dir, &name, (give, &mut *gathered))?,
                Err(failure) => note(failure, &mut gathered.complete)?,
            }
        }
        Ok(())
    }

    /// What is in a directory, in the order of names.
    #[allow(clippy::type_complexity, reason = "names and what they lead to")]
    fn children(&self, item: &Item) -> Result<Vec<(OsString, Result<Item, Failure>)>, Failure> {
        match (item, self.from) {
            (Item::There(path, attr), Some(files)) => {
                let entries = files.list(attr).map_err(|error| error.at(path))?;
                let mut children = Vec::with_capacity(entries.len());
                for part in entries.chunks(PART) {
                    let names: Vec<&[u8]> =
                        part.iter().map(|entry| entry.name.as_slice()).collect();
                    for (name, attr) in names.iter().zip(files.look_all(attr, &names)?) {
                        let path = shown(&join(path.as_bytes(), name));
                        let child = match attr {
                            Ok(attr) => Ok(Item::There(path, attr)),
                            Err(error) if error.is_not_found() => continue,
                            Err(error) => Err(error.at(&path).into()),
                        };
                        children.push((OsStr::from_bytes(name).to_owned(), child));
                    }
                }
                Ok(children)
            }
            (Item::Here(path, meta), _) => {
                let found = children_here(path, meta).map_err(|error| local(path, &error))?;
                let of = |(name, meta): (OsString, io::Result<fs::Metadata>)| {
                    let path = path.join(&name);
                    let item = meta.map_err(|error| local(&path, &error));
                    (name, item.map(|meta| Item::Here(path, meta)))
                };
                Ok(found.into_iter().map(of).collect())
            }
            (Item::There(..), None) | (Item::Input, _) => Ok(Vec::new()),
        }
    }

    fn make_dir(&self, item: &Item, dir: &Dir, name: &OsStr) -> Result<Made, Failure> {
        let (mode, times) = (item.mode() & 0o777, item.times());
        // As with coreutils: while it is filled its owner may do everything.
        let (dir, new) = match (dir, self.to) {
            (Dir::There(parent, _), Some(files)) => {
                let path = dir.path_of(name);
                match files.mkdir(parent, name.as_bytes(), mode | 0o700) {
                    Ok(made) => (Dir::There(Box::new(made), path), true),
                    Err(error) if error.errno() == EEXIST => {
                        let there = files.look(parent, name.as_bytes());
                        let there = there.map_err(|error| error.at(&path))?;
                        if !there.is_dir() {
                            return Err(format!("{path}: is not a directory").into());
                        }
                        (Dir::There(Box::new(there), path), false)
                    }
                    Err(error) => return Err(error.at(&path).into()),
                }
            }
            (Dir::Here(parent), _) => {
                let path = parent.join(name);
                let new = make_dir(&path, mode | 0o700).map_err(|error| local(&path, &error))?;
                (Dir::Here(path), new)
            }
            (Dir::There(..), None) => return Err(Failure::Failed("no file system".to_owned())),
        };
        Ok(Made { dir, mode, times, new })
    }

    /// Gives a directory that is complete its permissions and times.
    fn finish_dir(&self, made: &Made) -> Result<(), Failure> {
        let mask = if self.options.preserve { 0 } else { umask() };
        let sets_mode = self.options.preserve || made.new && made.mode & 0o700 != 0o700;
        let mode = sets_mode.then_some(made.mode & !mask);
        let times = self.options.preserve.then_some(made.times);
        match (&made.dir, self.to) {
            (Dir::Here(path), _) => {
                if mode.is_none() && times.is_none() {
                    return Ok(());
                }
                // It was made with permissions to read it, and so it is still.
                let set = open_dir(path).and_then(|dir| set_here(&dir, mode, times));
                set.map_err(|error| local(path, &error))
            }
            (Dir::There(attr, path), Some(files)) => {
                Ok(set_there(files, attr, mode, times).map_err(|error| error.at(path))?)
            }
            (Dir::There(..), None) => Ok(()),
        }
    }

    fn link(&self, item: &Item, dir: &Dir, name: &OsStr) -> Result<(), Failure> {
        let target = match (item, self.from) {
            (Item::There(path, attr), Some(files)) => {
                files.readlink(attr.fid).map_err(|error| error.at(path))?
            }
            (Item::Here(path, _), _) => {
                let target = fs::read_link(path).map_err(|error| local(path, &error))?;
                target.as_os_str().as_bytes().to_vec()
            }
            (Item::There(..), None) | (Item::Input, _) => return Ok(()),
        };
        let copy = dir.path_of(name);
        match (dir, self.to) {
            (Dir::Here(dir), _) => {
                let to = dir.join(name);
                symlink(OsStr::from_bytes(&target), &to).map_err(|error| local(&to, &error))
            }
            (Dir::There(dir, _), Some(files)) => {
                let times = self.options.preserve.then(|| item.times());
                let made = files.symlink(dir, name.as_bytes(), &target);
                let done = made.and_then(|made| set_there(files, &made, None, times));
                done.map_err(|error| error.at(&copy).into())
            }
            (Dir::There(..), None) => Ok(()),
        }
    }

    /// Copies a file. It appears under its name when it is complete.
    fn file(&self, item: &Item, dir: &Dir, name: &OsStr, bar: &ProgressBar) -> Result<(), Failure> {
        interrupt::asked()?;
        let (path, copy) = (item.path(), dir.path_of(name));
        self.check_free(dir, name).map_err(|failure| of_file(&copy, failure))?;
        let source = self.open_source(item)?;
        if let Item::There(_, Attr { size: None, .. }) = item {
            bar.inc_length(source.size);
        }
        let part = match self.options.resume {
            true => part_name(name, source.size, source.times.1),
            false => format!("{PART_PREFIX}{}", lustrine_fs::unique_name()?),
        };
        // Errors of the original have its path.
        let of_copy = |failure| match &failure {
            Failure::Failed(error) if error.starts_with(&format!("{path}: ")) => failure,
            _ => of_file(&copy, failure),
        };
        let copied = self.fill(&source, item, (dir, name), &part, bar).map_err(of_copy);
        let closed = source.close();
        // A signal can have ended what writes to standard input: that is not the end of the data.
        let complete = copied.and(closed).and_then(|()| interrupt::asked());
        let named = complete.and_then(|()| self.give_name(dir, &part, name).map_err(of_copy));
        match &named {
            // A part must not be taken for the whole.
            Err(_) if !self.options.resume => self.remove_part(dir, &part),
            Err(Failure::Interrupted) => bar.suspend(|| print_error(&kept_part(&copy))),
            _ => {}
        }
        named
    }

    /// Refuses to replace a file, before its copy is made.
    fn check_free(&self, dir: &Dir, name: &OsStr) -> Result<(), Failure> {
        if let Dir::Here(dir) = dir {
            return check_free_here(&dir.join(name));
        }
        let (Dir::There(dir, _), Some(files), false) = (dir, self.to, self.replace) else {
            return Ok(());
        };
        match files.look(dir, name.as_bytes()) {
            Ok(_) => Err(Failure::Failed("file exists; --force replaces it".to_owned())),
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_part(&self, dir: &Dir, part: &str) {
        // The copy has failed: that is what is reported.
        match (dir, self.to) {
            (Dir::Here(dir), _) => drop(fs::remove_file(dir.join(part))),
            (Dir::There(dir, _), Some(files)) => drop(files.unlink(dir, part.as_bytes(), false)),
            (Dir::There(..), None) => {}
        }
    }

    /// Compares the checksum of a copy with that of the original. A copy that differs is of no use
    /// for the next one.
    fn check(
        &self,
        source: &Source<'_>,
        copy: &str,
        (dir, part): (&Dir, &str),
    ) -> Result<(), Failure> {
        if source.sum()? == copy {
            return Ok(());
        }
        self.remove_part(dir, part);
        Err(Failure::Failed("the copy differs from the original; copy it again".into()))
    }

    fn open_source(&self, item: &Item) -> Result<Source<'_>, Failure> {
        match (item, self.from) {
            (Item::There(path, attr), Some(files)) => {
                let file = open(files, attr, path)?;
                let times = (file.attr().atime, file.attr().mtime);
                let (size, path) = (file.size(), path.clone());
                Ok(Source { path, size, times, file: SourceFile::There(Box::new(file)) })
            }
            (Item::Here(path, found), _) => {
                let opened = open_found(path, found);
                let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
                let (meta, file) = opened.map_err(|error| local(path, &error))?;
                let times = (meta.atime(), meta.mtime());
                let path = path.display().to_string();
                Ok(Source { path, size: meta.len(), times, file: SourceFile::Here(file) })
            }
            (Item::Input, _) => {
                let file = SourceFile::Input(Input::new(self.options.verify));
                Ok(Source { path: item.path(), size: 0, times: item.times(), file })
            }
            (Item::There(..), None) => Err(Failure::Failed("no file system".to_owned())),
        }
    }

    /// Writes a part of a copy until it is the whole, with its permissions and times.
    fn fill(
        &self,
        source: &Source<'_>,
        item: &Item,
        (dir, name): (&Dir, &OsStr),
        part: &str,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        // Set-user-id programs do not become those of another owner.
        let mode = item.mode() & 0o777;
        let preserve = self.options.preserve;
        let times = preserve.then_some(source.times);
        let at = (dir, part);
        match (dir, self.to) {
            (Dir::There(dir, _), Some(files)) => {
                let (mut file, start) = match self.options.resume {
                    true => resume_there(files, dir, part, source)?,
                    false => (files.create(dir, part.as_bytes(), mode, true)?, 0),
                };
                let kept = file.size();
                file.write_from(start);
                bar.inc(start);
                let written = source.pump(start, bar, |pieces| {
                    file.write_pieces(|| pieces.recv().unwrap_or(Ok(Piece::Data(Bytes::new()))))
                });
                let attr = file.attr().clone();
                // What is behind the end now would be taken for data.
                let written = written.and_then(|()| match file.size() < kept {
                    true => Err(Failure::Failed("it was truncated during the copy".to_owned())),
                    false => Ok(()),
                });
                match written {
                    Ok(()) => file.close()?,
                    Err(failure) => {
                        file.abandon();
                        return Err(failure);
                    }
                }
                if self.options.verify {
                    let back = files.open(&attr)?;
                    let sum = sum_of(|take| back.read_from(0, take));
                    back.close()?;
                    self.check(source, &sum?, at)?;
                }
                if preserve || self.options.resume {
                    let mask = if preserve { 0 } else { umask() };
                    set_there(files, &attr, Some(mode & !mask), times)?;
                }
                Ok(())
            }
            (Dir::Here(dir), _) => {
                let to = dir.join(part);
                // The user knows the name that the part is to get.
                let failed = |error: io::Error| local(&dir.join(name), &error);
                let (mut file, start) = match self.options.resume {
                    true => resume_here(&to, source)?,
                    false => (new_here(&to).map_err(failed)?, 0),
                };
                bar.inc(start);
                source.pump(start, bar, |pieces| {
                    let mut in_hole = false;
                    for piece in pieces {
                        in_hole = write_here(&mut file, piece?).map_err(failed)?;
                    }
                    match in_hole {
                        true => file.stream_position().and_then(|end| file.set_len(end)),
                        false => Ok(()),
                    }
                    .map_err(failed)
                })?;
                if self.options.verify {
                    file.rewind().map_err(failed)?;
                    let sum = sum_of(|take| read_here(&mut file, take).map_err(failed)?);
                    self.check(source, &sum?, at)?;
                }
                let mask = if preserve { 0 } else { umask() };
                set_here(&file, Some(mode & !mask), times).map_err(failed)?;
                // Network file systems report there what could not be written.
                close(file).map_err(failed)
            }
            (Dir::There(..), None) => Ok(()),
        }
    }

    /// Gives a part that is complete its name.
    fn give_name(&self, dir: &Dir, part: &str, name: &OsStr) -> Result<(), Failure> {
        match (dir, self.to) {
            (Dir::Here(dir), _) => {
                let to = dir.join(name);
                fs::rename(dir.join(part), &to).map_err(|error| local(&to, &error))
            }
            (Dir::There(dir, _), Some(files)) if self.replace => {
                let to = (&**dir, name.as_bytes());
                Ok(files.rename((dir, part.as_bytes()), to)?)
            }
            (Dir::There(dir, _), Some(files)) => {
                // A link replaces nothing, also not what another client makes meanwhile.
                let attr = files.look(dir, part.as_bytes())?;
                files.link(attr.fid, dir, name.as_bytes())?;
                Ok(files.unlink(dir, part.as_bytes(), false)?)
            }
            (Dir::There(..), None) => Ok(()),
        }
    }
}

/// Refuses to replace what is no file. A symbolic link is replaced: the one that the user names was
/// followed before, and others may be the server's.
fn check_free_here(path: &Path) -> Result<(), Failure> {
    let error = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => "is a directory",
        Ok(meta) if !meta.is_file() && !meta.is_symlink() => {
            "is no regular file, and is not replaced"
        }
        _ => return Ok(()),
    };
    Err(Failure::Failed(error.to_owned()))
}

fn set_here(file: &fs::File, mode: Option<u32>, times: Option<(i64, i64)>) -> io::Result<()> {
    // First what needs permissions.
    if let Some(times) = times {
        set_times_here(file, times)?;
    }
    match mode {
        Some(mode) => file.set_permissions(fs::Permissions::from_mode(mode)),
        None => Ok(()),
    }
}

fn set_times_here(file: &fs::File, (atime, mtime): (i64, i64)) -> io::Result<()> {
    let at = |seconds: i64| match u64::try_from(seconds) {
        Ok(seconds) => SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
        Err(_) => SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    let mut times = fs::FileTimes::new();
    if let (Some(atime), Some(mtime)) = (at(atime), at(mtime)) {
        times = times.set_accessed(atime).set_modified(mtime);
    }
    file.set_times(times)
}

fn set_there(
    files: &FileSystem,
    attr: &Attr,
    mode: Option<u32>,
    times: Option<(i64, i64)>,
) -> Result<(), lustrine_fs::FsError> {
    let changes = Changes {
        mode,
        atime: times.map(|(atime, _)| SetTime::At(atime)),
        mtime: times.map(|(_, mtime)| SetTime::At(mtime)),
        ..Changes::default()
    };
    if !changes.is_empty() {
        files.set_attributes(attr.fid, changes)?;
    }
    Ok(())
}

/// Opens a directory, but no symbolic link.
fn open_dir(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::DIRECTORY;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Makes a directory, or accepts one that is there; whether it is new. A symbolic link is none: the
/// server could have sent it before, to have files written where it points.
fn make_dir(to: &Path, mode: u32) -> io::Result<bool> {
    match fs::symlink_metadata(to) {
        Ok(meta) if meta.is_dir() => Ok(false),
        _ => fs::DirBuilder::new().mode(mode).create(to).map(|()| true),
    }
}

/// A progress bar, which is shown on terminals only.
fn progress(quiet: bool, name: &OsStr) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let style = "{msg} {bar:30} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}";
    let style = ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    bar.set_message(shown(name.as_bytes()));
    bar
}

/// Names what could not be copied; the rest is copied.
fn note(failure: Failure, complete: &mut bool) -> Result<(), Failure> {
    match failure {
        Failure::Failed(error) => {
            print_error(&error);
            *complete = false;
            Ok(())
        }
        other => Err(other),
    }
}

const EEXIST: i32 = 17;
