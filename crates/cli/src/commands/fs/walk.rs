//! Trees of directories, and work on many files at once.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use lustrine_fs::{Attr, Fid, FileSystem, FsError, shown};

use super::{check_depth, without_slash};
use crate::output::{Failure, print_error};

/// Entries whose attributes are asked for before they are visited.
const PART: usize = 1024;
/// Files that are worked on at once.
const WORKERS: usize = 8;
/// Files that wait to be worked on.
const WAITING: usize = 64;

/// A tree that is walked: each directory before what is in it, in the order of names.
pub(super) struct Walk<'a> {
    pub(super) files: &'a FileSystem,
    /// Whether the sizes and the times of the objects of files are asked for.
    pub(super) sizes: bool,
    /// Whether something could not be read. It was named then.
    pub(super) failed: bool,
    entered: Entered,
}

/// The directories of a tree that were entered, each once.
///
/// A directory has one parent. A server can show one that holds itself, or one in many places:
/// walking it as often as it appears would not end. All directories of a walk are remembered, about
/// 30 bytes each, up to 10,000,000.
#[derive(Default)]
pub(super) struct Entered {
    /// Those that were entered, and whether it was said that one has appeared again.
    dirs: BTreeMap<Fid, bool>,
    /// Whether it was said that there are too many.
    full: bool,
}

/// Why a directory is not entered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotEntered {
    /// To be said.
    Because(String),
    /// It was said before, and counts as a failure again.
    Known,
}

impl NotEntered {
    /// Names the reason, unless that was done before.
    pub(super) fn print(&self, path: &[u8]) {
        if let NotEntered::Because(error) = self {
            print_error(&format!("{}: {error}", shown(path)));
        }
    }
}

/// Most directories of a walk.
const DIRS_MAX: usize = 10_000_000;

impl Entered {
    /// Enters a directory, unless it was entered before or is too deep.
    pub(super) fn enter(&mut self, path: &[u8], dir: Fid) -> Result<(), NotEntered> {
        self.enter_up_to(DIRS_MAX, path, dir)
    }

    fn enter_up_to(&mut self, most: usize, path: &[u8], dir: Fid) -> Result<(), NotEntered> {
        if let Some(said) = self.dirs.get_mut(&dir) {
            if std::mem::replace(said, true) {
                return Err(NotEntered::Known);
            }
            let error = "the directory has appeared before, and is not entered again: it was moved \
                         meanwhile, or the server shows it in two places; if so, check the file \
                         system with LFSCK";
            return Err(NotEntered::Because(error.to_owned()));
        }
        check_depth(path).map_err(NotEntered::Because)?;
        if self.dirs.len() >= most {
            if std::mem::replace(&mut self.full, true) {
                return Err(NotEntered::Known);
            }
            let error = format!("the tree has more than {most} directories: name parts of it");
            return Err(NotEntered::Because(error));
        }
        self.dirs.insert(dir, false);
        Ok(())
    }
}

/// What is called for each file with its path, its attributes and its depth below the top; the
/// outcome says whether a directory is entered.
pub(super) type Visit<'v> = dyn FnMut(&[u8], &Attr, usize) -> Result<bool, Failure> + 'v;

impl<'a> Walk<'a> {
    pub(super) fn new(files: &'a FileSystem, sizes: bool) -> Walk<'a> {
        Walk { files, sizes, failed: false, entered: Entered::default() }
    }

    /// Visits a file, and if it is a directory all that is below it.
    pub(super) fn visit(
        &mut self,
        path: &[u8],
        attr: &Attr,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), Failure> {
        if !visit(path, attr, depth)? || !attr.is_dir() {
            return Ok(());
        }
        if let Err(error) = self.entered.enter(path, attr.fid) {
            error.print(path);
            self.failed = true;
            return Ok(());
        }
        self.children(path, attr, depth, visit)
    }

    fn children(
        &mut self,
        path: &[u8],
        attr: &Attr,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), Failure> {
        let entries = match self.files.list(attr) {
            Ok(entries) => entries,
            Err(error) => return self.note(path, &error.to_string()),
        };
        for part in entries.chunks(PART) {
            let names: Vec<&[u8]> = part.iter().map(|entry| entry.name.as_slice()).collect();
            for (entry, found) in part.iter().zip(self.look(attr, &names)?) {
                let path = join(path, &entry.name);
                match found {
                    Ok(found) => self.visit(&path, &found, depth + 1, visit)?,
                    Err(error) if error.is_not_found() => {
                        // Otherwise it was removed in the meantime.
                        if self.sizes && self.files.look(attr, &entry.name).is_ok() {
                            self.note(&path, &format!("an object of the file is lost: {error}"))?;
                        }
                    }
                    Err(error) => self.note(&path, &error.to_string())?,
                }
            }
        }
        Ok(())
    }

    fn look(&self, dir: &Attr, names: &[&[u8]]) -> Result<Vec<Result<Attr, FsError>>, Failure> {
        let found = self.files.look_all(dir, names)?;
        if !self.sizes {
            return Ok(found);
        }
        // Those that were found, with their sizes, at their places.
        let present = found.iter().filter_map(|attr| attr.as_ref().ok().cloned()).collect();
        let mut sized = self.files.all_with_sizes(present)?.into_iter();
        let with_size = |attr: Result<Attr, FsError>| match attr {
            Ok(attr) => sized.next().unwrap_or(Ok(attr)),
            Err(error) => Err(error),
        };
        Ok(found.into_iter().map(with_size).collect())
    }

    fn note(&mut self, path: &[u8], error: &str) -> Result<(), Failure> {
        print_error(&format!("{}: {error}", shown(path)));
        self.failed = true;
        Ok(())
    }
}

/// The path of a name in a directory.
pub(super) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    match without_slash(dir) {
        b"" => name.to_owned(),
        dir => [dir, b"/", name].concat(),
    }
}

/// Does work on many things, several at once. `feed` gives them, one after the other. What cannot
/// be done is named, and the rest is done; the outcome is whether all was done.
pub(super) fn in_parallel<T: Send>(
    feed: impl FnOnce(&mut dyn FnMut(T) -> Result<(), Failure>) -> Result<(), Failure>,
    work: impl Fn(T) -> Result<(), Failure> + Sync,
) -> Result<bool, Failure> {
    let (sender, receiver) = sync_channel(WAITING);
    let receiver = Mutex::new(receiver);
    let outcome = Mutex::new(Ok(true));
    let next = |receiver: &Mutex<Receiver<T>>| {
        receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    };
    let fed = thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(thing) = next(&receiver) {
                    let ended = outcome.lock().unwrap_or_else(PoisonError::into_inner).is_err();
                    if ended {
                        continue;
                    }
                    let Err(failure) = work(thing) else { continue };
                    let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                    match failure {
                        Failure::Failed(error) => {
                            print_error(&error);
                            if let Ok(all) = &mut *outcome {
                                *all = false;
                            }
                        }
                        other => *outcome = Err(other),
                    }
                }
            });
        }
        let fed = feed(&mut |thing| {
            if let Err(failure) = &*outcome.lock().unwrap_or_else(PoisonError::into_inner) {
                return Err(failure.clone());
            }
            sender.send(thing).map_err(|_| Failure::Failed("the work has ended".to_owned()))
        });
        drop(sender);
        fed
    });
    let done = outcome.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    fed.map(|()| done)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn work_is_done_on_all_and_failures_are_counted() {
        let sum = AtomicU32::new(0);
        let add = |number: u32| {
            sum.fetch_add(number, Ordering::Relaxed);
            if number == 3 { Err(Failure::Failed("three".to_owned())) } else { Ok(()) }
        };
        assert_eq!(in_parallel(|give| (0..3).try_for_each(give), add), Ok(true));
        assert_eq!(in_parallel(|give| (0..100).try_for_each(give), add), Ok(false));
        assert_eq!(sum.into_inner(), 3 + 4950);
    }

    #[test]
    fn an_interrupt_ends_the_work() {
        let work = |_: u32| Err(Failure::Interrupted);
        let outcome = in_parallel(|give| (0..100_000).try_for_each(give), work);
        assert_eq!(outcome, Err(Failure::Interrupted));
    }

    fn dir(oid: u32) -> Fid {
        Fid { seq: 1, oid, ver: 0 }
    }

    #[test]
    fn a_directory_is_entered_once_and_it_is_said_once() {
        let mut entered = Entered::default();
        assert_eq!(entered.enter(b"a", dir(1)), Ok(()));
        assert_eq!(entered.enter(b"a/b", dir(2)), Ok(()));
        // It holds itself, and it is in another directory too.
        for path in [&b"a/b/a"[..], b"c/a"] {
            let error = entered.enter(path, dir(1));
            assert_eq!(error == Err(NotEntered::Known), path == b"c/a", "{error:?}");
        }
        assert!(matches!(entered.enter(b"c/b", dir(2)), Err(NotEntered::Because(_))));
        assert!(entered.enter(&b"/a".repeat(1002), Fid::ROOT).is_err());
    }

    /// Each of 30 directories holds the next one twice: there are 2^30 paths.
    #[test]
    fn directories_with_many_parents_do_not_multiply_the_work() {
        fn walk(entered: &mut Entered, path: &[u8], level: u32, steps: &mut u32) {
            *steps += 1;
            if level == 30 || entered.enter(path, dir(level)).is_err() {
                return;
            }
            for name in [b"a", b"b"] {
                walk(entered, &join(path, name), level + 1, steps);
            }
        }
        let mut steps = 0;
        walk(&mut Entered::default(), b"", 0, &mut steps);
        assert_eq!(steps, 61);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut entered = Entered::default();
        let outcomes: Vec<_> = (0..10).map(|n| entered.enter_up_to(5, b"a", dir(n))).collect();
        assert!(outcomes[..5].iter().all(Result::is_ok));
        assert!(matches!(&outcomes[5], Err(NotEntered::Because(_))));
        assert!(outcomes[6..].iter().all(|outcome| *outcome == Err(NotEntered::Known)));
        assert_eq!(entered.dirs.len(), 5);
    }

    #[test]
    fn paths_have_one_slash() {
        assert_eq!(join(b"", b"a"), b"a");
        assert_eq!(join(b"a/", b"b"), b"a/b");
    }
}
