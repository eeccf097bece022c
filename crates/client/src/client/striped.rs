//! Directories whose names are spread over several metadata targets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;

use super::io::{Io, Work};
use super::targets::TargetKey;
use super::{Caller, Client, Done, or_again};
use crate::attr::{Attr, DirEntry, DirPage};
use crate::dir_layout::{DirLayout, Homes};
use crate::error::{ClientError, Outcome, malformed};

/// Most bytes of a directory that [`Client::readdir`] asks for: 256 KiB.
pub const READDIR_LEN: u64 = 256 << 10;

/// Most stripes that are remembered, of all directories together: 16 MiB.
const STRIPES_MAX: usize = 1 << 18;

/// What the layout of a directory says; the error says why it cannot be used.
type Known = Outcome<Arc<DirLayout>>;
/// How names are spread; none if they are in the directory itself.
type Spread = Option<Arc<DirLayout>>;

/// The striped directories whose attributes were seen.
#[derive(Debug, Default)]
pub(super) struct Dirs {
    pub(super) striped: BTreeMap<Fid, Known>,
    /// The directories that the stripes belong to. A directory that is moved to other targets gets
    /// a new FID, and has the stripes of the old one for a while.
    wholes: BTreeMap<Fid, Fid>,
    /// How many stripes they have.
    stripes: usize,
    /// Whether some were forgotten: a directory that is not there may be one of them.
    pub(super) forgot: bool,
}

impl Dirs {
    /// Notes the attributes of a file.
    pub(super) fn seen(&mut self, attr: &Attr) {
        if !attr.is_dir() {
            return;
        }
        let known = match DirLayout::parse(&attr.layout) {
            Ok(None) => {
                self.forget(attr.fid);
                return;
            }
            Ok(Some(layout)) => Ok(Arc::new(layout)),
            Err(error) => Err(error),
        };
        if self.striped.get(&attr.fid) == Some(&known) {
            return;
        }
        self.forget(attr.fid);
        self.stripes += stripes_of(&known);
        if let Ok(layout) = &known {
            self.wholes.extend(layout.stripes.iter().map(|stripe| (*stripe, attr.fid)));
        }
        self.striped.insert(attr.fid, known);
        if self.stripes > STRIPES_MAX {
            (self.stripes, self.forgot) = (0, true);
            self.striped.clear();
            self.wholes.clear();
        }
    }

    fn forget(&mut self, fid: Fid) {
        if let Some(known) = self.striped.remove(&fid) {
            self.stripes -= stripes_of(&known);
            for stripe in known.iter().flat_map(|layout| &layout.stripes) {
                if self.wholes.get(stripe) == Some(&fid) {
                    self.wholes.remove(stripe);
                }
            }
        }
    }
}

/// A directory counts as one stripe at least.
fn stripes_of(known: &Known) -> usize {
    known.as_ref().map_or(1, |layout| layout.stripes.len().max(1))
}

/// What an operation does with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameUse {
    /// It looks for the name.
    Find,
    /// It makes the name.
    Make,
}

impl Client {
    /// Goes on with the layout of a directory; none if its names are in the directory itself.
    fn with_layout<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        dir: Fid,
        done: Done<T>,
        then: impl FnOnce(&mut Client, &mut Turn<'_>, Spread, Done<T>) + Send + 'static,
    ) {
        match self.dirs.striped.get(&dir) {
            Some(Ok(layout)) => {
                let layout = Arc::clone(layout);
                return then(self, turn, Some(layout), done);
            }
            Some(Err(error)) => {
                let error = error.clone();
                return done(self, turn, Err(error));
            }
            None if !self.dirs.forgot => return then(self, turn, None, done),
            None => {}
        }
        let asked: Done<Attr> = Box::new(move |client, turn, attr| {
            let known = attr.and_then(|attr| DirLayout::parse(&attr.layout));
            match known {
                Ok(layout) => then(client, turn, layout.map(Arc::new), done),
                Err(error) => done(client, turn, Err(error)),
            }
        });
        self.getattr(turn, Caller::ROOT, dir, asked);
    }

    /// The directory that has a name, as far as is known: the one named, or the stripe of it. None
    /// while names move from stripe to stripe.
    pub(super) fn home_of(&self, parent: Fid, name: &[u8]) -> Option<Fid> {
        match self.dirs.striped.get(&parent) {
            None => (!self.dirs.forgot || self.attrs.is_plain_dir(parent)).then_some(parent),
            Some(Ok(layout)) => {
                let Homes { first, moved } = layout.homes(name);
                moved.is_none().then_some(first)
            }
            Some(Err(_)) => None,
        }
    }

    /// The directory that a stripe belongs to; of any other directory, itself. Its lock protects
    /// who may search the stripe [LOCK-22].
    pub(super) fn whole_of(&self, dir: Fid) -> Fid {
        self.dirs.wholes.get(&dir).copied().unwrap_or(dir)
    }

    /// Does something with a name in the directory that has it: the one named, or the stripe of it.
    /// While names move from stripe to stripe, a name that is not found is sought where it goes.
    pub(super) fn at_name<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        (parent, name): (Fid, &[u8]),
        what: NameUse,
        done: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, Fid, Done<T>) + Clone + Send + 'static,
    ) {
        let name = name.to_vec();
        self.with_layout(turn, parent, done, move |client, turn, layout, done| {
            let Some(layout) = layout else { return act(client, turn, parent, done) };
            if what == NameUse::Make && layout.is_moving() {
                let text = "its names are being moved to other metadata targets".to_owned();
                return done(client, turn, Err(ClientError::Directory(text)));
            }
            let Homes { first, moved } = layout.homes(&name);
            let Some(moved) = moved else { return act(client, turn, first, done) };
            let again = act.clone();
            let then = or_again(done, move |client, turn, done| again(client, turn, moved, done));
            act(client, turn, first, then);
        });
    }

    /// Reads a part of a directory, from a hash on; 0 for the start.
    ///
    /// The server does not check whether the caller may list the directory: [`Client::open`] does.
    pub fn readdir(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        from: u64,
        done: Done<DirPage>,
    ) {
        self.with_layout(turn, fid, done, move |client, turn, layout, done| {
            let Some(layout) = layout else {
                let then: Done<DirPage> = Box::new(move |client, turn, page| {
                    if let Ok(page) = &page {
                        client.ahead.listed(fid, from, page);
                    }
                    done(client, turn, page);
                });
                return client.read_part(turn, caller, (fid, from), READDIR_LEN, then);
            };
            // All together have the room of a directory that is not striped.
            let len = READDIR_LEN / layout.stripes.len() as u64;
            let then: Done<Vec<(usize, DirPage)>> = Box::new(move |client, turn, parts| {
                let page = parts.and_then(|parts| merged(fid, from, parts));
                if let Ok(page) = &page {
                    client.ahead.listed(fid, from, page);
                }
                done(client, turn, page);
            });
            let work = Work::Pages { parts: Vec::new(), done: then };
            let Some(io) = client.start_io(turn, layout.stripes.len(), work) else { return };
            for (index, stripe) in layout.stripes.iter().enumerate() {
                let part: Done<DirPage> = Box::new(move |client, turn, page| match page {
                    Ok(page) => {
                        if let Some(Io { work: Work::Pages { parts, .. }, .. }) =
                            client.ios.get_mut(io)
                        {
                            parts.push((index, page));
                        }
                        client.io_answered(turn, io);
                    }
                    Err(error) => client.io_failed(turn, io, error),
                });
                client.read_part(turn, caller, (*stripe, from), len, part);
            }
        });
    }

    /// Adds to the attributes of a striped directory what its stripes know: the latest times, and
    /// how many directories and how much space they have together.
    pub(super) fn add_stripes(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        mut attr: Attr,
        done: Done<Attr>,
    ) {
        // One that cannot be used can still be looked at.
        let Ok(Some(layout)) = DirLayout::parse(&attr.layout) else {
            return done(self, turn, Ok(attr));
        };
        let then: Done<Vec<Attr>> = Box::new(move |client, turn, found| {
            let whole = found.map(|found| {
                add_all(&mut attr, &found);
                attr
            });
            done(client, turn, whole);
        });
        let work = Work::Attrs { found: Vec::new(), done: then };
        let Some(io) = self.start_io(turn, layout.stripes.len(), work) else { return };
        for stripe in layout.stripes {
            let part: Done<Attr> = Box::new(move |client, turn, attr| match attr {
                Ok(attr) => {
                    if let Some(Io { work: Work::Attrs { found, .. }, .. }) = client.ios.get_mut(io)
                    {
                        found.push(attr);
                    }
                    client.io_answered(turn, io);
                }
                Err(error) => client.io_failed(turn, io, error),
            });
            self.getattr(turn, caller, stripe, part);
        }
    }

    /// The metadata targets that a listing of a directory can wait for, each once. Those that are
    /// not known are left out.
    pub fn targets_of_dir(&self, dir: Fid) -> Vec<TargetKey> {
        let layout = self.dirs.striped.get(&dir).and_then(|known| known.as_ref().ok());
        let stripes = layout.map_or(&[][..], |layout| &layout.stripes);
        let all = stripes.iter().chain([&dir]);
        let targets: BTreeSet<TargetKey> =
            all.filter_map(|fid| self.metadata_target_of(*fid)).collect();
        targets.into_iter().collect()
    }
}

/// The parts of all stripes that start at a hash as one part. It ends where the first of them ends:
/// what others have behind that is read again.
pub(super) fn merged(dir: Fid, from: u64, parts: Vec<(usize, DirPage)>) -> Outcome<DirPage> {
    let next = parts.iter().filter_map(|(_, page)| page.next).min();
    let mut entries: Vec<DirEntry> = Vec::new();
    for (stripe, page) in parts {
        let shown = page.entries.into_iter().filter_map(|mut entry| {
            if next.is_some_and(|next| entry.hash >= next) {
                return None;
            }
            // Each stripe has those of its own; the directory has them once.
            match (&*entry.name, stripe) {
                (b".", 0) => entry.fid = dir,
                (b"." | b"..", 1..) => return None,
                _ => {}
            }
            Some(entry)
        });
        entries.extend(shown);
    }
    entries.sort_by_key(|entry| entry.hash);
    // Otherwise a server could have it asked without end.
    if next.is_some_and(|next| entries.is_empty() || next <= from) {
        return Err(malformed("a part of a directory that leads nowhere"));
    }
    Ok(DirPage { entries, next })
}

/// Adds to the attributes of a directory those of its stripes.
fn add_all(attr: &mut Attr, stripes: &[Attr]) {
    let sum = |of: fn(&Attr) -> Option<u64>| {
        stripes.iter().map(of).try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)))
    };
    attr.size = sum(|stripe| stripe.size).or(attr.size);
    attr.blocks = sum(|stripe| stripe.blocks).or(attr.blocks);
    // Two names of each stripe are its own. A file system that does not count says 1.
    let counted = stripes.iter().all(|stripe| stripe.nlink >= 2);
    let below =
        stripes.iter().fold(0u32, |sum, stripe| sum.saturating_add(stripe.nlink.saturating_sub(2)));
    attr.nlink = if counted { below.saturating_add(2) } else { 1 };
    for stripe in stripes {
        attr.atime = attr.atime.max(stripe.atime);
        attr.mtime = attr.mtime.max(stripe.mtime);
        attr.ctime = attr.ctime.max(stripe.ctime);
    }
}
