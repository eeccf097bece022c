//! Asks the node and the mounts, each from a thread of its own: one that does not answer does not
//! hold up the others, or the keyboard.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use lustrine_sys::Clock;
use lustrine_top::{MountSample, NodeSample, Sample, View};

use crate::access::roots_node;
use crate::output::Failure;
use crate::values::utc_millis;

mod asked;
mod feed;

use asked::{Room, of_mount, of_node};
use feed::{Feed, FeedState, Shown, is_due, late_after};

/// Most mounts that are asked, and threads that ask them.
const MOUNTS_MAX: usize = 64;

/// What a thread found, and what did not answer.
#[derive(Debug)]
struct Found<T> {
    at_ns: u64,
    value: T,
    notes: Vec<String>,
}

type NodeFeed = Feed<Found<Option<NodeSample>>>;
type MountFeed = Feed<Found<Option<MountSample>>>;
type ListFeed = Feed<Result<Vec<PathBuf>, String>>;

/// Samples of the node and of the mounts.
#[derive(Debug)]
pub(super) struct Sampler {
    node: Option<NodeFeed>,
    /// Why a node that seems to run is not asked.
    unasked: Option<String>,
    /// Which mounts there are; `None` if the user has named them.
    list: Option<ListFeed>,
    mounts: Mounts,
    late_after: Duration,
    begun: Instant,
    shown: Option<Instant>,
}

impl Sampler {
    /// Begins to ask the node at this control socket, and these mounts, or all of them.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(
        node: Option<PathBuf>,
        dirs: Vec<PathBuf>,
        interval: Duration,
    ) -> Result<Sampler, Failure> {
        let begun = Instant::now();
        let node = node.map(|place| {
            let mut held = None;
            Feed::begin(interval, "lustrine-top-node", move || {
                let found = of_node(&place, &mut held);
                let at_ns = since(begun);
                match found {
                    Ok((value, notes)) => Found { at_ns, value: Some(value), notes },
                    Err(why) => {
                        // It may be back at the next sample.
                        held = None;
                        Found { at_ns, value: None, notes: vec![why] }
                    }
                }
            })
        });
        let mut mounts = Mounts::new(interval, begun);
        let list = match dirs.is_empty() {
            true => Some(Feed::begin(interval, "lustrine-top-list", self::mounts)?),
            false => {
                mounts.follow(&dirs);
                None
            }
        };
        let late_after = late_after(interval);
        let node = node.transpose()?;
        let unasked = if node.is_none() { roots_node() } else { None };
        Ok(Sampler { node, unasked, list, mounts, late_after, begun, shown: None })
    }

    /// Takes new samples in; whether there were any, or something has become late.
    pub(super) fn pull(&mut self) -> bool {
        let (at, late) = (Instant::now(), self.late_after);
        let mut changed = self.node.as_mut().is_some_and(|feed| feed.pull(at, late));
        if let Some(list) = &mut self.list
            && list.pull(at, late)
        {
            changed = true;
            if let Some(Ok(dirs)) = list.now() {
                self.mounts.follow(dirs);
            }
        }
        for feed in self.mounts.feeds.values_mut() {
            changed |= feed.pull(at, late);
        }
        changed
    }

    /// Whether a view of one interval is due; it is shown then.
    pub(super) fn is_due(&mut self) -> bool {
        let node = self.node.iter().map(Feed::state);
        let list = self.list.iter().map(Feed::state);
        let feeds = self.mounts.feeds.values().map(Feed::state);
        let all: Vec<FeedState> = node.chain(list).chain(feeds).collect();
        let shown = match self.shown {
            None => Shown::Nothing(self.begun.elapsed()),
            Some(shown) => Shown::View(shown.elapsed()),
        };
        if !is_due(&all, shown, self.late_after) {
            return false;
        }
        self.node.iter_mut().for_each(Feed::shown);
        self.list.iter_mut().for_each(Feed::shown);
        self.mounts.feeds.values_mut().for_each(Feed::shown);
        self.shown = Some(Instant::now());
        true
    }

    /// What happened between the latest two samples of each.
    pub(super) fn view(&self) -> View {
        let (node, feeds) = (self.node.as_ref(), &self.mounts.feeds);
        // Mounts have a clock of their own.
        let mut pairs =
            feeds.values().filter_map(|feed| Some((feed.then()?.at_ns, feed.now()?.at_ns)));
        let pair = node.and_then(|feed| Some((feed.then()?.at_ns, feed.now()?.at_ns)));
        let pair = pair.or_else(|| pairs.next());
        let (then_ns, now_ns) = pair.unwrap_or_default();
        let age_ns = pair.map_or(0, |(_, now_ns)| since(self.begun).saturating_sub(now_ns));
        let then = Sample {
            at_ns: then_ns,
            node: node.and_then(|feed| feed.then()?.value.clone()),
            mounts: feeds.values().filter_map(|feed| feed.then()?.value.clone()).collect(),
            ..Sample::default()
        };
        let now = Sample {
            date: utc_millis(Clock::Wall.now().saturating_sub(age_ns) / 1_000_000),
            at_ns: now_ns,
            node: node.and_then(|feed| feed.now()?.value.clone()),
            node_is_awaited: node.is_some_and(Feed::is_awaited),
            mounts: feeds.values().filter_map(|feed| feed.now()?.value.clone()).collect(),
            mounts_are_awaited: self.list.as_ref().is_some_and(Feed::is_awaited)
                || feeds.values().any(Feed::is_awaited),
            notes: self.notes(),
        };
        View::between(&then, &now)
    }

    /// What did not answer, and why.
    fn notes(&self) -> Vec<String> {
        let late = |what: &str, state: FeedState| {
            let seconds = self.late_after.as_secs_f64();
            state.is_late.then(|| format!("{what} has not answered for {seconds} s"))
        };
        let node = self.node.iter().flat_map(|feed| {
            let said = feed.now().map(|found| found.notes.clone()).unwrap_or_default();
            said.into_iter().chain(late("the node", feed.state()))
        });
        let none = self.unasked.clone();
        let list = self.list.iter().filter_map(|feed| feed.now()?.as_ref().err().cloned());
        let mounts = self.mounts.feeds.iter().flat_map(|(dir, feed)| {
            let said = feed.now().map(|found| found.notes.clone()).unwrap_or_default();
            said.into_iter().chain(late(&format!("the mount at {}", dir.display()), feed.state()))
        });
        node.chain(none).chain(list).chain(mounts).chain(self.mounts.left_out.clone()).collect()
    }
}

/// The mounts, with a thread for each.
#[derive(Debug)]
struct Mounts {
    interval: Duration,
    begun: Instant,
    feeds: BTreeMap<PathBuf, MountFeed>,
    /// Mounts that have no thread, and why.
    left_out: Option<String>,
    targets: Arc<AtomicUsize>,
    /// Each thread has one more reference, also one that waits for a mount that has gone.
    threads: Arc<()>,
}

impl Mounts {
    fn new(interval: Duration, begun: Instant) -> Mounts {
        let (feeds, targets) = (BTreeMap::new(), Room::whole());
        Mounts { interval, begun, feeds, left_out: None, targets, threads: Arc::new(()) }
    }

    /// Asks these mounts from now on, and no others.
    fn follow(&mut self, dirs: &[PathBuf]) {
        self.feeds.retain(|dir, _| dirs.contains(dir));
        self.left_out = None;
        for dir in dirs {
            if self.feeds.contains_key(dir) {
                continue;
            }
            if Arc::strong_count(&self.threads) > MOUNTS_MAX {
                self.left_out = Some(format!("only {MOUNTS_MAX} mounts are asked"));
                return;
            }
            match self.begin(dir) {
                Ok(feed) => {
                    self.feeds.insert(dir.clone(), feed);
                }
                Err(why) => self.left_out = Some(why),
            }
        }
    }

    fn begin(&self, dir: &Path) -> Result<MountFeed, String> {
        let (dir, begun, thread) = (dir.to_owned(), self.begun, Arc::clone(&self.threads));
        let mut room = Room::share(&self.targets);
        Feed::begin(self.interval, "lustrine-top-mount", move || {
            // It belongs to the thread.
            let _ = &thread;
            let found = of_mount(&dir, &mut room);
            let at_ns = since(begun);
            match found {
                Ok(value) => Found { at_ns, value: Some(value), notes: Vec::new() },
                Err(why) => Found { at_ns, value: None, notes: vec![why] },
            }
        })
    }
}

/// Nanoseconds since then.
fn since(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The directories of these at which `lustrine mount` has mounted nothing.
///
/// # Errors
/// As [`mounts`].
pub(super) fn not_mounted(dirs: &[PathBuf]) -> Result<Vec<&PathBuf>, String> {
    let mounts = mounts()?;
    // A mount that hangs is found by its name: looking at its directory would hang as well.
    let is_there = |dir: &Path| mounts.iter().any(|mount| mount == dir);
    let resolved = |dir: &Path| dir.canonicalize().is_ok_and(|real| is_there(&real));
    Ok(dirs.iter().filter(|dir| !is_there(dir) && !resolved(dir)).collect())
}

/// The mount points of `lustrine mount`.
///
/// # Errors
/// When the kernel does not say which file systems are mounted.
pub(super) fn mounts() -> Result<Vec<PathBuf>, String> {
    lustrine_fuse::mount_points()
        .map_err(|error| format!("cannot read /proc/self/mountinfo: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mount_has_a_thread_of_its_own_up_to_a_limit() {
        let mut mounts = Mounts::new(Duration::from_secs(3600), Instant::now());
        let dirs: Vec<PathBuf> =
            (0..=MOUNTS_MAX).map(|n| format!("/nonexistent/{n}").into()).collect();
        mounts.follow(&dirs[..2]);
        assert_eq!((mounts.feeds.len(), mounts.left_out.clone()), (2, None));
        mounts.follow(&dirs[1..2]);
        assert!(mounts.feeds.keys().eq(&dirs[1..2]));
        let mut mounts = Mounts::new(Duration::from_secs(3600), Instant::now());
        mounts.follow(&dirs);
        assert_eq!(mounts.feeds.len(), MOUNTS_MAX);
        assert!(mounts.left_out.is_some_and(|note| note.contains("only 64 mounts")));
    }
}
