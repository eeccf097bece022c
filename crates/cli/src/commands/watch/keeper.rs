//! The file of the daemon: samples wait in memory while it cannot be written.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lustrine_sys::Clock;
use lustrine_watch::{Detector, Event, Sample, Steadiness};
use lustrine_watch_store::{Limits, NewSample, Store, StoreError};

/// Most samples that wait; then the oldest are lost.
const WAITING_MAX: usize = 2000;
/// The wait before a file that could not be written is opened again.
const AGAIN: Duration = Duration::from_secs(10);
/// The usual time between two looks at what is old.
const TIDY: Duration = Duration::from_secs(600);

/// A sample with what it led to.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) peer: String,
    pub(super) sample: Sample,
    pub(super) events: Vec<Event>,
    /// The detector after it.
    pub(super) detector: Detector,
}

/// The file, and what is not in it yet.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    limits: Limits,
    store: Option<Store>,
    waiting: VecDeque<Taken>,
    /// When it is opened again.
    again: Instant,
    tidied: Option<Instant>,
    steadiness: Steadiness,
    /// Why the last attempt to write failed, which was said.
    failing: Option<String>,
    /// Samples that are lost because the file could not be written.
    lost: u64,
}

impl Keeper {
    /// Opens the file, or makes it, for samples of these peers.
    ///
    /// # Errors
    /// When it cannot be used, or has no room for the peers.
    pub(super) fn open(
        path: PathBuf,
        limits: Limits,
        peers: &[String],
    ) -> Result<Keeper, StoreError> {
        let store = Store::open(&path, limits)?;
        store.has_room_for(peers)?;
        for nid in store.unread() {
            tracing::warn!("{nid}: its state is of another release; it is learnt again");
        }
        let store = Some(store);
        Ok(Keeper {
            path,
            limits,
            store,
            waiting: VecDeque::new(),
            again: Instant::now(),
            tidied: None,
            steadiness: Steadiness::default(),
            failing: None,
            lost: 0,
        })
    }

    /// The detector of a peer as it was left, once; `None` for a new peer.
    pub(super) fn take_detector(&mut self, peer: &str) -> Option<Detector> {
        self.store.as_mut()?.take_detector(peer)
    }

    /// Samples that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Stores samples, and those that wait. A failure is logged once for each reason, until
    /// it is over.
    pub(super) fn store(&mut self, samples: Vec<Taken>) {
        self.waiting.extend(samples);
        let surplus = self.waiting.len().saturating_sub(WAITING_MAX);
        self.lost += self.waiting.drain(..surplus).count() as u64;
        if self.store.is_none() && Instant::now() >= self.again {
            match Store::open(&self.path, self.limits) {
                Ok(store) => self.store = Some(store),
                Err(error) => self.failed(&error),
            }
        }
        let Some(store) = &mut self.store else { return };
        let new: Vec<NewSample<'_>> = self.waiting.iter().map(Taken::as_new).collect();
        let count = new.len();
        match store.append(&new) {
            Ok(()) => {
                self.waiting.clear();
                let lost = std::mem::take(&mut self.lost);
                if self.failing.take().is_some() {
                    tracing::info!("samples are stored again: {count} now; {lost} are lost");
                }
                self.tidy();
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &StoreError) {
        self.store = None;
        self.again = Instant::now() + AGAIN;
        let why = error.to_string();
        if self.failing.as_ref() == Some(&why) {
            return;
        }
        tracing::error!(
            "{why}; samples wait in memory, at most {WAITING_MAX}, and it is tried again every \
             {} s",
            AGAIN.as_secs()
        );
        self.failing = Some(why);
    }

    /// Thins and drops what is old, at times.
    fn tidy(&mut self) {
        let steady = self.steadiness.observe(Clock::Monotonic.now(), Clock::Wall.now());
        let Some(store) = &mut self.store else { return };
        let is_time = self.tidied.is_none_or(|last| last.elapsed() >= TIDY);
        if !is_time && !store.is_due() {
            return;
        }
        self.tidied = Some(Instant::now());
        match store.tidy(steady.then(|| Clock::Wall.now() / 1_000_000)) {
            Ok(done) if done.was_full => tracing::warn!(
                "{} is at its size (--max-size): {} samples became rows of hours, {} rows were \
                 dropped",
                self.path.display(),
                done.thinned,
                done.dropped
            ),
            Ok(_) => {}
            Err(error) => self.failed(&error),
        }
    }
}

impl Taken {
    fn as_new(&self) -> NewSample<'_> {
        let Taken { peer, sample, events, detector } = self;
        NewSample { peer, sample, events, detector }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_reason_of_a_failed_reopening_is_said() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("watch.db");
        let limits = Limits { samples_ms: 1, keep_ms: 1, bytes: 8 << 20 };
        let mut keeper = Keeper::open(path.clone(), limits, &[]).expect("a new file");
        keeper.failed(&StoreError::Write { path: path.clone(), why: "no space".to_owned() });
        keeper.again = Instant::now();
        fs::write(&path, "a text").expect("a file");
        keeper.store(Vec::new());
        let said = keeper.failing.clone().expect("it is not usable");
        assert!(said.contains("is not a file of `lustrine watch`"), "{said}");
        fs::remove_file(&path).expect("it is there");
        keeper.again = Instant::now();
        keeper.store(Vec::new());
        assert_eq!(keeper.failing, None);
    }
}
