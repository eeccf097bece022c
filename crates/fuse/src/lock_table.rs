//! The locks that processes have and wait for, and what ends their waiting.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lustrine_client::FlockKey;
use lustrine_fswire::fid::Fid;

/// Most locks that processes wait for: they are operations in flight, and an unlock has to find
/// room among those.
const WAITS_MAX: usize = 1024;

/// The locks that processes have and wait for.
#[derive(Default)]
pub(crate) struct LockTable {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Owners of locks, by file, with the open file that the last one was taken through. Each close
    /// of the file ends those of fcntl(2).
    owners: BTreeMap<(Fid, u64), u64>,
    last: u64,
    waits: BTreeMap<u64, Wait>,
    /// Whether a thread looks after those that wait.
    watched: bool,
}

/// A process that waits for a lock.
struct Wait {
    pid: u32,
    /// None until it is asked for.
    key: Option<FlockKey>,
    given_up: bool,
}

impl LockTable {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner has locks on a file, or may get one, through an open file.
    pub(crate) fn note(&self, fid: Fid, owner: u64, handle: u64) {
        self.state().owners.insert((fid, owner), handle);
    }

    /// An owner has no lock on a file any more. Whether it had some.
    pub(crate) fn forget(&self, fid: Fid, owner: u64) -> bool {
        self.state().owners.remove(&(fid, owner)).is_some()
    }

    /// Whether owners have locks on a file through an open file.
    pub(crate) fn are_through(&self, fid: Fid, handle: u64) -> bool {
        let state = self.state();
        let mut of_file = state.owners.range((fid, 0)..=(fid, u64::MAX));
        of_file.any(|(_, through)| *through == handle)
    }

    /// The last descriptor of an open file is closed: the owners whose locks end with it, which are
    /// those of flock(2) and of F_OFD_SETLK. The kernel says nothing of the latter. Locks of
    /// processes have ended with the close before.
    pub(crate) fn forget_all(&self, fid: Fid, handle: u64) -> Vec<u64> {
        let mut state = self.state();
        let of_file = state.owners.range((fid, 0)..=(fid, u64::MAX));
        let ended = of_file.filter(|(_, through)| **through == handle);
        let ended: Vec<u64> = ended.map(|((_, owner), _)| *owner).collect();
        for owner in &ended {
            state.owners.remove(&(fid, *owner));
        }
        ended
    }

    /// Nothing looks after those that wait.
    pub(crate) fn unwatched(&self) {
        self.state().watched = false;
    }

    /// A process is going to wait for a lock. Its number; none if too many wait.
    pub(crate) fn begin(&self, pid: u32) -> Option<u64> {
        let mut state = self.state();
        if state.waits.len() >= WAITS_MAX {
            return None;
        }
        state.last += 1;
        let number = state.last;
        state.waits.insert(number, Wait { pid, key: None, given_up: false });
        Some(number)
    }

    /// It does not wait any more.
    pub(crate) fn end(&self, number: u64) {
        self.state().waits.remove(&number);
    }

    /// The lock is asked for, unless it is over already. Whether somebody has to look after it now.
    pub(crate) fn asked(&self, number: u64, key: FlockKey) -> bool {
        let mut state = self.state();
        match state.waits.get_mut(&number) {
            Some(wait) => wait.key = Some(key),
            None => return false,
        }
        !core::mem::replace(&mut state.watched, true)
    }

    /// The locks whose processes are not to wait any longer. None if nothing waits, and then no one
    /// looks after it any more.
    pub(crate) fn to_give_up(&self, stops: impl Fn(u32) -> bool) -> Option<Vec<FlockKey>> {
        let mut state = self.state();
        if state.waits.is_empty() {
            state.watched = false;
            return None;
        }
        let mut keys = Vec::new();
        for wait in state.waits.values_mut().filter(|wait| !wait.given_up) {
            if let Some(key) = wait.key.filter(|_| stops(wait.pid)) {
                wait.given_up = true;
                keys.push(key);
            }
        }
        Some(keys)
    }

    /// These could not be given up: they are found again.
    pub(crate) fn not_given_up(&self, keys: &[FlockKey]) {
        let mut state = self.state();
        let of_keys = |wait: &&mut Wait| wait.key.is_some_and(|key| keys.contains(&key));
        state.waits.values_mut().filter(of_keys).for_each(|wait| wait.given_up = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_an_open_file_end_with_it() {
        let (table, fid, other) = (LockTable::default(), Fid::new(1, 1), Fid::new(1, 2));
        table.note(fid, 7, 1);
        table.note(fid, 8, 2);
        table.note(other, 9, 1);
        // A process that has the file open twice.
        table.note(fid, 10, 1);
        table.note(fid, 10, 2);
        assert!(table.are_through(fid, 1) && !table.are_through(other, 2));
        assert_eq!(table.forget_all(fid, 1), [7]);
        assert!(!table.are_through(fid, 1));
        assert!(table.forget_all(fid, 1).is_empty());
        assert!(table.forget(fid, 10) && !table.forget(fid, 7));
        assert_eq!(table.forget_all(fid, 2), [8]);
        assert!(table.forget(other, 9));
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let table = LockTable::default();
        assert_eq!(table.to_give_up(|_| true), None);
        let numbers: Vec<u64> = (0..WAITS_MAX).filter_map(|_| table.begin(1)).collect();
        assert_eq!((numbers.len(), table.begin(1)), (WAITS_MAX, None));
        // Those that are not asked for yet have nothing to give up.
        assert_eq!(table.to_give_up(|_| true), Some(Vec::new()));
        numbers.iter().for_each(|number| table.end(*number));
        assert_eq!(table.to_give_up(|_| true), None);
    }
}
