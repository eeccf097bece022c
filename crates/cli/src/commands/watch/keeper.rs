//! The file of the daemon: samples wait in memory while it cannot be written.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lustrine_sys::Clock;
use lustrine_watch::{Detector, Event, Sample, Steadiness};
use lustrine_watch_store::{Limits, NewSample, Store, StoreError};

/// Most samples that wait; then the oldest are lost.
const WAITING_MAX: usize = 2000;
/// Most events of lost samples that are kept for each peer, beside those of alarms that last.
const EVENTS_MAX: usize = 100;
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
    /// Events of samples that are lost, of peers without a sample that waits.
    carried: BTreeMap<String, Vec<Event>>,
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
            tracing::warn!("{nid}: its baseline was stored by another release and is learnt again");
        }
        let store = Some(store);
        Ok(Keeper {
            path,
            limits,
            store,
            waiting: VecDeque::new(),
            carried: BTreeMap::new(),
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
        self.drop_surplus();
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

    /// Drops the oldest samples if too many wait. Their events go to the next sample of the peer:
    /// an alarm in the file would last for ever without its end.
    fn drop_surplus(&mut self) {
        let surplus = self.waiting.len().saturating_sub(WAITING_MAX);
        self.lost += surplus as u64;
        for Taken { peer, events, .. } in self.waiting.drain(..surplus) {
            if !events.is_empty() {
                self.carried.entry(peer).or_default().extend(events);
            }
        }
        if self.carried.is_empty() {
            return;
        }
        for taken in &mut self.waiting {
            if let Some(mut events) = self.carried.remove(&taken.peer) {
                events.append(&mut taken.events);
                taken.events = events;
                drop_oldest_pairs(&mut taken.events);
            }
        }
        self.carried.values_mut().for_each(drop_oldest_pairs);
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
                "{} has reached --max-size: {} samples were reduced to hourly rows, {} rows were \
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

/// Drops the oldest alarms that both begin and end among these events if there are too many. What
/// is left says of every alarm in the file whether it is over.
fn drop_oldest_pairs(events: &mut Vec<Event>) {
    while events.len() > EVENTS_MAX {
        let end_of = |at: usize| {
            let Event::Raised(alarm) = &events[at] else { return None };
            let is_end = |event: &Event| {
                let Event::Over(over) = event else { return false };
                over.kind == alarm.kind && over.part == alarm.part
            };
            let after = events[at + 1..].iter().position(is_end)?;
            Some((at, at + 1 + after))
        };
        let Some((raised, over)) = (0..events.len()).find_map(end_of) else { return };
        events.remove(over);
        events.remove(raised);
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

    use lustrine_watch::{Alarm, AlarmEnd, AlarmKind, Rtt};

    use super::*;

    /// A sample of a path with a longer round trip from number 60 to number 99.
    fn taken(detector: &mut Detector, number: u64) -> Taken {
        let rtt = if (60..100).contains(&number) { 30_000_000 } else { 10_000_000 };
        let at_ms = 1_764_000_000_000 + number * 10_000;
        let sample = Sample { at_ms, sent: 1, rtt: Rtt::of(vec![rtt]), ..Sample::default() };
        let events = detector.observe(&sample);
        Taken { peer: "10.0.0.2@tcp".to_owned(), sample, events, detector: detector.clone() }
    }

    /// An alarm that ends while the file cannot be written, so long that the sample is lost.
    #[test]
    fn the_end_of_an_alarm_is_stored_though_its_sample_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("watch.db");
        let limits = Limits { samples_ms: u64::MAX, keep_ms: u64::MAX, bytes: 64 << 20 };
        let mut keeper = Keeper::open(path.clone(), limits, &[]).expect("a new file");
        let mut detector = Detector::new(10_000, 10_000, 10_000);
        keeper.store((0..100).map(|number| taken(&mut detector, number)).collect());
        assert_eq!((keeper.waiting(), detector.active().len()), (0, 1), "the alarm is stored");
        let why = "no space".to_owned();
        keeper.failed(&StoreError::Write { path: path.clone(), why });
        keeper.again = Instant::now() + Duration::from_secs(3600);
        for number in 100..200 {
            keeper.store(vec![taken(&mut detector, number)]);
        }
        assert_eq!(detector.active(), [], "it is over");
        // All samples of the peer are lost, and only then is there another one.
        let other = Taken { peer: "10.0.0.3@tcp".to_owned(), ..taken(&mut detector, 200) };
        keeper.store(vec![other; WAITING_MAX]);
        keeper.store(vec![taken(&mut detector, 201)]);
        assert_eq!((keeper.waiting(), keeper.lost), (WAITING_MAX, 101));
        keeper.again = Instant::now();
        keeper.store(Vec::new());
        assert_eq!((keeper.waiting(), keeper.lost), (0, 0));
        let found = lustrine_watch_store::read(&path).expect("it is sound");
        let ends: Vec<_> = found[0].alarms.iter().map(|alarm| alarm.over).collect();
        assert!(matches!(ends[..], [Some((at_ms, AlarmEnd::Back))] if at_ms > 1_764_001_000_000));
    }

    #[test]
    fn events_of_lost_samples_are_bounded_and_alarms_that_last_are_among_them() {
        let alarm = |part: &str, at_ms| Alarm {
            kind: AlarmKind::Mtu,
            part: part.to_owned(),
            since_ms: at_ms,
            raised_ms: at_ms,
            what: String::new(),
            before: String::new(),
            after: String::new(),
            evidence: String::new(),
            over: None,
        };
        let first = [Event::Over(alarm("out", 0)), Event::Raised(alarm("back", 1))];
        let pair = |at| [Event::Raised(alarm("out", at)), Event::Over(alarm("out", at))];
        let mut events: Vec<Event> =
            first.iter().cloned().chain((2..1000).flat_map(pair)).collect();
        drop_oldest_pairs(&mut events);
        assert_eq!((events.len(), &events[..2]), (EVENTS_MAX, &first[..]));
        assert_eq!(events[98..], pair(999));
    }

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
