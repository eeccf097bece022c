//! Trees of directories, and work on many files at once.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use lustrine_fs::{Attr, Fid, FileSystem, FsError};

use super::check_depth;
use super::list::shown;
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
    above: Above,
}

/// The directories that are walked at the moment, each in the one before it.
#[derive(Default)]
pub(super) struct Above(Vec<Fid>);

impl Above {
    /// Enters a directory. A server can show one that holds itself, twice or more: walking it to
    /// the largest depth would not end.
    pub(super) fn enter(&mut self, path: &str, dir: Fid) -> Result<(), String> {
        if self.0.contains(&dir) {
            let error = "the directory holds itself; check the file system with LFSCK";
            return Err(error.to_owned());
        }
        check_depth(path)?;
        self.0.push(dir);
        Ok(())
    }

    /// Leaves the directory that was entered last.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }
}

/// What is called for each file with its path, its attributes and its depth below the top; the
/// outcome says whether a directory is entered.
pub(super) type Visit<'v> = dyn FnMut(&str, &Attr, usize) -> Result<bool, Failure> + 'v;

impl<'a> Walk<'a> {
    pub(super) fn new(files: &'a FileSystem, sizes: bool) -> Walk<'a> {
        Walk { files, sizes, failed: false, above: Above::default() }
    }

    /// Visits a file, and if it is a directory all that is below it.
    pub(super) fn visit(
        &mut self,
        path: &str,
        attr: &Attr,
        depth: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), Failure> {
        if !visit(path, attr, depth)? || !attr.is_dir() {
            return Ok(());
        }
        if let Err(error) = self.above.enter(path, attr.fid) {
            return self.note(path, &error);
        }
        let visited = self.children(path, attr, depth, visit);
        self.above.leave();
        visited
    }

    fn children(
        &mut self,
        path: &str,
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
                let path = join(path, &shown(&entry.name));
                match found {
                    Ok(found) => self.visit(&path, &found, depth + 1, visit)?,
                    // It was removed in the meantime.
                    Err(error) if error.is_not_found() => {}
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

    fn note(&mut self, path: &str, error: &str) -> Result<(), Failure> {
        print_error(&format!("{path}: {error}"));
        self.failed = true;
        Ok(())
    }
}

/// The path of a name in a directory.
pub(super) fn join(dir: &str, name: &str) -> String {
    match dir.trim_end_matches('/') {
        "" => name.to_owned(),
        dir => format!("{dir}/{name}"),
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

    #[test]
    fn a_directory_that_holds_itself_is_not_entered_again() {
        let (a, b) = (Fid { seq: 1, oid: 1, ver: 0 }, Fid { seq: 1, oid: 2, ver: 0 });
        let mut above = Above::default();
        assert_eq!(above.enter("a", a), Ok(()));
        assert_eq!(above.enter("a/b", b), Ok(()));
        assert!(above.enter("a/b/a", a).is_err());
        above.leave();
        assert_eq!(above.enter("a/c", b), Ok(()));
        assert!(above.enter(&"/a".repeat(1002), Fid::ROOT).is_err());
    }

    #[test]
    fn paths_have_one_slash() {
        assert_eq!(join("", "a"), "a");
        assert_eq!(join("a/", "b"), "a/b");
    }
}
