//! A thread that asks one node or mount, and when enough of them have answered.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What does not answer for this long, beyond the interval, is late.
const LATE_SLACK: Duration = Duration::from_secs(10);

/// Silence from which on a feed that samples at this interval is late.
pub(super) fn late_after(interval: Duration) -> Duration {
    interval + LATE_SLACK
}

/// The latest two samples of a thread. The thread ends after its sample when this is dropped.
#[derive(Debug)]
pub(super) struct Feed<T> {
    latest: Arc<Mutex<Option<Arc<T>>>>,
    then: Option<Arc<T>>,
    now: Option<Arc<T>>,
    /// When there was a new sample, or it began.
    heard: Instant,
    state: FeedState,
}

/// How far a feed is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FeedState {
    /// Whether there is a sample that was not shown yet.
    pub(super) is_fresh: bool,
    /// Whether there are two samples.
    pub(super) is_complete: bool,
    /// Whether it has been silent for too long.
    pub(super) is_late: bool,
}

impl<T: Send + Sync + 'static> Feed<T> {
    /// Samples at this interval. Samples that are not fetched are replaced.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(
        interval: Duration,
        name: &str,
        mut sample: impl FnMut() -> T + Send + 'static,
    ) -> Result<Feed<T>, String> {
        let latest = Arc::new(Mutex::new(None));
        let own = Arc::downgrade(&latest);
        let work = move || {
            let mut next = Instant::now();
            loop {
                let new = Arc::new(sample());
                let Some(latest) = own.upgrade() else { return };
                *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
                drop(latest);
                // Time that was lost is not made up for.
                next = (next + interval).max(Instant::now());
                thread::sleep(next.saturating_duration_since(Instant::now()));
                if own.strong_count() == 0 {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let (heard, state) = (Instant::now(), FeedState::default());
        Ok(Feed { latest, then: None, now: None, heard, state })
    }

    /// Whether there is a new sample, which is taken in then, or it has become late.
    pub(super) fn pull(&mut self, at: Instant, late_after: Duration) -> bool {
        let new = self.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        if new.is_some() {
            self.then = self.now.take();
            self.now = new;
            self.heard = at;
            let is_complete = self.then.is_some();
            self.state = FeedState { is_fresh: true, is_complete, is_late: false };
            return true;
        }
        let was_late = self.state.is_late;
        self.state.is_late = at.saturating_duration_since(self.heard) >= late_after;
        self.state.is_late && !was_late
    }

    pub(super) fn state(&self) -> FeedState {
        self.state
    }

    /// Whether it has no sample so far, and is not late.
    pub(super) fn is_awaited(&self) -> bool {
        self.now.is_none() && !self.state.is_late
    }

    /// What there is has been shown.
    pub(super) fn shown(&mut self) {
        self.state.is_fresh = false;
    }

    /// The latest sample.
    pub(super) fn now(&self) -> Option<&T> {
        self.now.as_deref()
    }

    /// The sample before, from which rates are computed: there are none of a feed that is late.
    pub(super) fn then(&self) -> Option<&T> {
        self.then.as_deref().filter(|_| !self.state.is_late)
    }
}

/// What was shown last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// Nothing; this long ago it began.
    Nothing(Duration),
    /// A view, this long ago.
    View(Duration),
}

/// Whether the next view is due: once there is something new of everything that is not late, and
/// for the first one, which has rates, two samples. If all are late, a view says so now and then.
pub(super) fn is_due(feeds: &[FeedState], shown: Shown, late_after: Duration) -> bool {
    let (since, is_first) = match shown {
        Shown::Nothing(since) => (since, true),
        Shown::View(since) => (since, false),
    };
    let is_ready =
        |feed: &FeedState| feed.is_late || feed.is_fresh && (feed.is_complete || !is_first);
    let is_new = feeds.iter().any(|feed| feed.is_fresh && !feed.is_late);
    feeds.iter().all(is_ready) && (is_new || since >= late_after)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const NEVER: Duration = Duration::MAX;

    #[test]
    fn a_feed_has_the_latest_two_samples_and_no_more() {
        let (give, take) = mpsc::channel::<u32>();
        let (taken, wait) = mpsc::channel();
        let mut feed = Feed::begin(Duration::ZERO, "test", move || {
            let _ = taken.send(());
            take.recv().unwrap_or(u32::MAX)
        })
        .unwrap();
        let at = Instant::now();
        assert!(!feed.pull(at, NEVER));
        for value in 1..=3 {
            wait.recv().unwrap();
            give.send(value).unwrap();
        }
        // The third one is asked for once the second one is there.
        wait.recv().unwrap();
        feed.pull(at, NEVER);
        assert_eq!((feed.then(), feed.now().copied()), (None, Some(3)));
        give.send(4).unwrap();
        wait.recv().unwrap();
        assert!(feed.pull(at, NEVER));
        assert_eq!((feed.then(), feed.now()), (Some(&3), Some(&4)));
        assert!(!feed.pull(at, NEVER));
        // The fifth one has no receiver: the thread ends.
        drop(feed);
        give.send(5).unwrap();
        assert!(wait.recv().is_err());
    }

    #[test]
    fn a_feed_that_never_answers_becomes_late_once() {
        let (_hangs, never) = mpsc::channel::<()>();
        let mut feed = Feed::begin(Duration::ZERO, "test", move || never.recv().is_ok()).unwrap();
        let (begun, limit) = (Instant::now(), Duration::from_secs(11));
        assert!(!feed.pull(begun, limit));
        assert_eq!(feed.state(), FeedState::default());
        assert!(feed.pull(begun + limit, limit));
        assert_eq!(feed.state(), FeedState { is_late: true, ..FeedState::default() });
        assert!(!feed.pull(begun + limit * 2, limit));
    }

    const LIMIT: Duration = Duration::from_secs(11);
    const SOON: Duration = Duration::from_millis(20);
    const FRESH: FeedState = FeedState { is_fresh: true, is_complete: true, is_late: false };
    const SEEN: FeedState = FeedState { is_fresh: false, ..FRESH };
    const FIRST: FeedState = FeedState { is_complete: false, ..FRESH };
    const NONE: FeedState = FeedState { is_fresh: false, is_complete: false, is_late: false };
    const LATE: FeedState = FeedState { is_late: true, ..NONE };

    #[test]
    fn one_view_is_due_for_one_interval() {
        // The node's sample and the mount's come at different looks: that is one view.
        for feeds in [[FRESH, SEEN], [SEEN, FRESH], [SEEN, SEEN]] {
            assert!(!is_due(&feeds, Shown::View(SOON), LIMIT), "{feeds:?}");
        }
        assert!(is_due(&[FRESH, FRESH], Shown::View(SOON), LIMIT));
        // The first one has rates; a mount that appears later has them in the view after.
        assert!(!is_due(&[FRESH, FIRST], Shown::Nothing(SOON), LIMIT));
        assert!(is_due(&[FRESH, FRESH], Shown::Nothing(SOON), LIMIT));
        assert!(is_due(&[FRESH, FIRST], Shown::View(SOON), LIMIT));
        assert!(!is_due(&[FRESH, NONE], Shown::View(SOON), LIMIT));
    }

    #[test]
    fn what_is_late_is_not_waited_for() {
        for shown in [Shown::Nothing(SOON), Shown::View(SOON)] {
            assert!(is_due(&[FRESH, LATE], shown, LIMIT));
            assert!(!is_due(&[SEEN, LATE], shown, LIMIT));
            assert!(!is_due(&[LATE, LATE], shown, LIMIT));
        }
        // Nothing is new, and that is said.
        assert!(is_due(&[LATE], Shown::Nothing(LIMIT), LIMIT));
        assert!(is_due(&[LATE, LATE], Shown::View(LIMIT), LIMIT));
        assert!(!is_due(&[SEEN, LATE], Shown::View(LIMIT), LIMIT));
        // It was fresh before it fell silent.
        let silent = FeedState { is_late: true, ..FRESH };
        assert!(is_due(&[FRESH, silent], Shown::View(SOON), LIMIT));
    }
}
