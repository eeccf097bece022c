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
    /// Whether the last attempt to write failed, which was said.
    is_failing: bool,
    /// Samples that are lost because the file could not be written.
    lost: u64,
}

impl Keeper {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn open(path: PathBuf, limits: Limits) -> Result<Keeper, StoreError> {
        let store = Some(Store::open(&path, limits)?);
        Ok(Keeper {
            path,
            limits,
            store,
            waiting: VecDeque::new(),
            again: Instant::now(),
            tidied: None,
            steadiness: Steadiness::default(),
            is_failing: false,
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

    /// Stores samples, and those that wait. A failure is logged once, until it is over.
    pub(super) fn store(&mut self, samples: Vec<Taken>) {
        self.waiting.extend(samples);
        let surplus = self.waiting.len().saturating_sub(WAITING_MAX);
        self.lost += self.waiting.drain(..surplus).count() as u64;
        if self.store.is_none() && Instant::now() >= self.again {
            match Store::open(&self.path, self.limits) {
                Ok(store) => self.store = Some(store),
                Err(_) => self.again = Instant::now() + AGAIN,
            }
        }
        let Some(store) = &mut self.store else { return };
        let new: Vec<NewSample<'_>> = self.waiting.iter().map(Taken::as_new).collect();
        let count = new.len();
        match store.append(&new) {
            Ok(()) => {
                self.waiting.clear();
                let lost = std::mem::take(&mut self.lost);
                if std::mem::take(&mut self.is_failing) {
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
        if std::mem::replace(&mut self.is_failing, true) {
            return;
        }
        tracing::error!(
            "{error}; samples wait in memory, at most {WAITING_MAX}, and it is tried again every \
             {} s",
            AGAIN.as_secs()
        );
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
