//! Slots at a running node, which serves a limited number of callers at once. A ping takes one
//! until it is answered or lost, so peers that do not answer must not have all of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Pings in flight at once: half of the callers that a node serves, which has others too.
pub(super) const SLOTS: usize = 16;
/// Most of them to peers that did not answer last.
pub(super) const SILENT_SLOTS: usize = 8;
/// The wait between two looks at whether the program ends.
const LOOK: Duration = Duration::from_millis(50);

/// What came of the last ping of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    Answered,
    Silent,
}

/// The slots of one daemon.
#[derive(Debug, Default)]
pub(super) struct Slots {
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Those of peers that did not answer last.
    silent: usize,
    /// Who waits for one, with a peer that answered last.
    waiting: usize,
}

impl Taken {
    /// Whether there is one for a peer. Those that answered last come first.
    fn has_room(&self, last: Last) -> bool {
        let has_turn = match last {
            Last::Answered => true,
            Last::Silent => self.silent < SILENT_SLOTS && self.waiting == 0,
        };
        has_turn && self.all < SLOTS
    }
}

/// A slot, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Slot<'a> {
    slots: &'a Slots,
    last: Last,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.all -= 1;
        if self.last == Last::Silent {
            taken.silent -= 1;
        }
        drop(taken);
        self.slots.freed.notify_all();
    }
}

impl Slots {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot, for a ping of a peer with this last one; `None` if there is none until
    /// then, or the program ends.
    pub(super) fn take(
        &self,
        last: Last,
        until: Instant,
        stopped: &AtomicBool,
    ) -> Option<Slot<'_>> {
        let waits = usize::from(last == Last::Answered);
        let mut taken = self.lock();
        taken.waiting += waits;
        while !taken.has_room(last) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || stopped.load(Ordering::Relaxed) {
                taken.waiting -= waits;
                drop(taken);
                self.freed.notify_all();
                return None;
            }
            let waited = self.freed.wait_timeout(taken, left.min(LOOK));
            taken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        taken.waiting -= waits;
        taken.all += 1;
        taken.silent += usize::from(last == Last::Silent);
        drop(taken);
        // Without one that waits, others may go on.
        self.freed.notify_all();
        Some(Slot { slots: self, last })
    }
}

/// Which of the peers that are due a round has: those that answered last, and at most so many of
/// the others, which have been due for the longest time. The rest stay due, so that the round does
/// not last as long as all of their time-outs one after the other.
pub(super) fn of_round(
    due: impl Iterator<Item = (usize, Instant, Last)>,
    most_silent: usize,
) -> Vec<usize> {
    let (mut round, mut silent) = (Vec::new(), Vec::new());
    for (peer, due, last) in due {
        match last {
            Last::Answered => round.push(peer),
            Last::Silent => silent.push((due, peer)),
        }
    }
    silent.sort_unstable();
    round.extend(silent.into_iter().take(most_silent).map(|(_, peer)| peer));
    round.sort_unstable();
    round
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_peers_have_some_of_the_slots_and_others_the_rest() {
        let (slots, stopped) = (Slots::default(), AtomicBool::new(false));
        let take = |last| slots.take(last, Instant::now(), &stopped);
        let silent: Vec<_> = (0..SLOTS).filter_map(|_| take(Last::Silent)).collect();
        assert_eq!(silent.len(), SILENT_SLOTS);
        let mut answered: Vec<_> = (0..SLOTS).filter_map(|_| take(Last::Answered)).collect();
        assert_eq!(answered.len(), SLOTS - SILENT_SLOTS);
        drop(silent);
        answered.extend((0..SLOTS).filter_map(|_| take(Last::Answered)));
        assert_eq!(answered.len(), SLOTS);
        assert!(take(Last::Silent).is_none());
        drop(answered);
        assert!(take(Last::Silent).is_some());
        stopped.store(true, Ordering::Relaxed);
        assert!(take(Last::Answered).is_some(), "there is one at once");
        let taken = slots.lock();
        assert_eq!((taken.all, taken.silent, taken.waiting), (0, 0, 0));
    }

    #[test]
    fn peers_that_do_not_answer_take_turns() {
        let now = Instant::now();
        let mut dues = [now; 64];
        let silent = |peer: &usize| !peer.is_multiple_of(4);
        let round = |dues: &[Instant; 64]| {
            let last = |peer| if silent(&peer) { Last::Silent } else { Last::Answered };
            let due = dues.iter().enumerate().map(|(peer, due)| (peer, *due, last(peer)));
            of_round(due, SILENT_SLOTS)
        };
        let mut asked = [0; 64];
        for number in 1..=6 {
            for peer in round(&dues) {
                asked[peer] += 1;
                dues[peer] = now + Duration::from_secs(number);
            }
        }
        for (peer, times) in asked.into_iter().enumerate() {
            assert_eq!(times, if silent(&peer) { 1 } else { 6 }, "peer {peer}");
        }
        let all = dues.iter().enumerate().map(|(peer, due)| (peer, *due, Last::Silent));
        assert_eq!(of_round(all, usize::MAX), (0..64).collect::<Vec<_>>());
    }
}
