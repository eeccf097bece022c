//! The connections that brought something last: a loop that polls reads them without asking the
//! system first which streams are readable, which would cost a call of its own before each read.

use lustrine_lnet::lnd::{Core, PollOutcome};
use lustrine_lnet::time::{Nanos, Time};

use crate::conn::Conn;
use crate::driver::{Env, RECENT_MAX, Socklnd};
use crate::io::Io;
use crate::keys::ConnKey;

/// A connection that has brought nothing for so long is left to the poller.
const RECENT_FOR: Nanos = Nanos::from_millis(1);

impl Socklnd {
    /// Reads the connections that brought something in the last millisecond, as far as it is at
    /// most three, although nothing was reported of them. If something came, or one of them has
    /// ended, [`flush`](Socklnd::flush) has to be called.
    pub fn poll<I: Io, C: Core>(&mut self, now: Time, core: &mut C, io: &mut I) -> PollOutcome {
        let mut env = Env { now, core, io };
        let reads = self.counters.reads;
        let mut outcome = PollOutcome::NotPolled;
        for key in self.recent {
            let Some(conn) = self.conns.get_mut(key) else { continue };
            let fresh = |conn: &Conn| {
                let open = conn.open();
                open.is_some_and(|open| open.last_received + RECENT_FOR >= now)
            };
            if !fresh(conn) {
                break;
            }
            conn.readable = true;
            if outcome == PollOutcome::NotPolled {
                outcome = PollOutcome::Nothing;
            }
            if let Err(reason) = self.receive(&mut env, key) {
                self.fail(&mut env, key, reason);
                outcome = PollOutcome::Found;
            }
        }
        if self.counters.reads == reads { outcome } else { PollOutcome::Found }
    }

    /// Remembers that a connection has brought something.
    #[inline]
    pub(crate) fn note_recent(&mut self, key: ConnKey) {
        if self.recent[0] != key {
            let place = self.recent.iter().position(|one| *one == key);
            self.recent[..=place.unwrap_or(RECENT_MAX - 1)].rotate_right(1);
            self.recent[0] = key;
        }
    }
}
