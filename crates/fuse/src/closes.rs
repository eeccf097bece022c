//! Closes of files that are in flight.
//!
//! The kernel asks for a close after close(2) has returned, and waits for no answer. What a program
//! does next can meet a lock or an open that its close ends, or be overtaken by a time that the
//! close sets.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lustrine_client::Client;
use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;

/// How long something waits for closes, at most.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits for the kernel to ask for the close of an open file of which a descriptor is
/// closed: there may be others.
const FLUSH_PATIENCE: Duration = Duration::from_millis(200);

/// What waits for closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// A lock that the close of an open file may end.
    Locks,
    /// The end of an open.
    Opens,
    /// A modification time that a close sets.
    Times,
}

/// What is done after a close.
pub(crate) type Act = Box<dyn FnOnce(&mut Client, &mut Turn<'_>) + Send>;

/// Open files of which descriptors are closed, by file and handle, and what waits for them.
#[derive(Default)]
pub(crate) struct Closes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    closing: BTreeMap<(Fid, u64), Closing>,
    waits: Vec<Wait>,
    /// Whether a thread looks after those that wait.
    watched: bool,
}

/// An open file of which a descriptor is closed.
struct Closing {
    /// When the kernel has said so.
    since: Instant,
    /// Whether that was its last one.
    is_last: bool,
    has_locks: bool,
    is_written: bool,
}

struct Wait {
    fid: Fid,
    handles: Vec<u64>,
    until: Instant,
    act: Act,
}

impl Closing {
    /// Until when something waits for the end of the close; none if it does not.
    fn awaited_until(&self, what: Awaits, now: Instant) -> Option<Instant> {
        let matters = match what {
            Awaits::Locks => self.has_locks,
            Awaits::Opens => true,
            // What comes before the close, the close knows of.
            Awaits::Times => self.is_last && self.is_written,
        };
        let until = match self.is_last {
            true => now + PATIENCE,
            false => self.since + FLUSH_PATIENCE,
        };
        (matters && until > now).then_some(until)
    }
}

impl Closes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A descriptor of an open file is closed.
    pub(crate) fn flushed(&self, (fid, handle): (Fid, u64), now: Instant, has_locks: bool) {
        let closing = Closing { since: now, is_last: false, has_locks, is_written: false };
        self.state().closing.insert((fid, handle), closing);
    }

    /// The last one is, and the close begins.
    pub(crate) fn begun(
        &self,
        key: (Fid, u64),
        now: Instant,
        (has_locks, is_written): (bool, bool),
    ) {
        let closing = Closing { since: now, is_last: true, has_locks, is_written };
        self.state().closing.insert(key, closing);
    }

    /// A close is over. What was waiting for it alone.
    pub(crate) fn ended(&self, (fid, handle): (Fid, u64)) -> Vec<Act> {
        let mut state = self.state();
        state.closing.remove(&(fid, handle));
        for wait in state.waits.iter_mut().filter(|wait| wait.fid == fid) {
            wait.handles.retain(|other| *other != handle);
        }
        state.ready(|wait| wait.handles.is_empty())
    }

    /// Whether there are closes for which something is to wait.
    pub(crate) fn are_awaited(&self, fid: Fid, what: Awaits, now: Instant) -> bool {
        !self.state().awaited(fid, what, now).is_empty()
    }

    /// Has something wait for the closes that are under way now, unless there are none: then it is
    /// returned. The other value is whether somebody has to look after what waits from now on.
    pub(crate) fn wait(
        &self,
        fid: Fid,
        what: Awaits,
        now: Instant,
        act: Act,
    ) -> (Option<Act>, bool) {
        let mut state = self.state();
        let awaited = state.awaited(fid, what, now);
        let Some(until) = awaited.iter().map(|(_, until)| *until).max() else {
            return (Some(act), false);
        };
        let handles = awaited.iter().map(|(handle, _)| *handle).collect();
        state.waits.push(Wait { fid, handles, until, act });
        (None, !core::mem::replace(&mut state.watched, true))
    }

    /// What has waited long enough. None if nothing waits, and then no one looks after it any more.
    pub(crate) fn expired(&self, now: Instant) -> Option<Vec<Act>> {
        let mut state = self.state();
        if state.waits.is_empty() {
            state.watched = false;
            return None;
        }
        Some(state.ready(|wait| wait.until <= now))
    }

    /// Nothing looks after what waits: it does not wait any more.
    pub(crate) fn unwatched(&self) -> Vec<Act> {
        let mut state = self.state();
        state.watched = false;
        state.ready(|_| true)
    }
}

impl State {
    /// The closes for which something is to wait, and until when.
    fn awaited(&self, fid: Fid, what: Awaits, now: Instant) -> Vec<(u64, Instant)> {
        let of_file = self.closing.range((fid, 0)..=(fid, u64::MAX));
        let until =
            of_file.map(|((_, handle), closing)| (*handle, closing.awaited_until(what, now)));
        until.filter_map(|(handle, until)| Some((handle, until?))).collect()
    }

    fn ready(&mut self, is_ready: impl Fn(&Wait) -> bool) -> Vec<Act> {
        self.waits.extract_if(.., |wait| is_ready(wait)).map(|wait| wait.act).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FID: Fid = Fid::new(1, 1);

    fn act() -> Act {
        Box::new(|_, _| {})
    }

    #[test]
    fn what_waits_for_closes_waits_for_those_that_matter() {
        let (closes, now) = (Closes::default(), Instant::now());
        let awaited = |what| closes.are_awaited(FID, what, now);
        let all = || [Awaits::Locks, Awaits::Opens, Awaits::Times].map(awaited);
        closes.begun((Fid::new(1, 2), 1), now, (true, true));
        assert_eq!(all(), [false, false, false]);
        closes.flushed((FID, 2), now, false);
        assert_eq!(all(), [false, true, false]);
        closes.flushed((FID, 2), now, true);
        assert_eq!(all(), [true, true, false]);
        assert!(!closes.are_awaited(FID, Awaits::Opens, now + FLUSH_PATIENCE));
        closes.begun((FID, 2), now, (false, true));
        assert_eq!(all(), [false, true, true]);
        assert!(closes.ended((FID, 2)).is_empty());
        assert_eq!(all(), [false, false, false]);
        assert!(closes.wait(FID, Awaits::Opens, now, act()).0.is_some());
    }

    #[test]
    fn it_waits_for_all_of_them_or_long_enough() {
        let (closes, now) = (Closes::default(), Instant::now());
        let wait = |what| closes.wait(FID, what, now, act());
        closes.flushed((FID, 1), now, true);
        closes.begun((FID, 2), now, (false, false));
        assert!(matches!(wait(Awaits::Opens), (None, true)));
        assert!(matches!(wait(Awaits::Locks), (None, false)));
        assert!(closes.ended((FID, 2)).is_empty());
        // The last descriptor is closed as well.
        closes.begun((FID, 1), now, (true, false));
        assert_eq!(closes.ended((FID, 1)).len(), 2);
        assert!(closes.expired(now).is_none(), "nobody looks after it");
        closes.flushed((FID, 1), now, true);
        assert!(matches!(wait(Awaits::Locks), (None, true)));
        closes.begun((FID, 2), now, (false, false));
        assert!(matches!(wait(Awaits::Opens), (None, false)));
        let expired = |after| closes.expired(now + after).expect("some wait").len();
        assert_eq!((expired(Duration::ZERO), expired(FLUSH_PATIENCE)), (0, 1));
        assert_eq!(expired(PATIENCE), 1);
    }
}
