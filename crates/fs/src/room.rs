//! A bound of what is under way in all threads together.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Room for a number of pieces.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<(Mutex<usize>, Condvar)>);

/// The place of a piece; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Room);

impl Room {
    pub(crate) fn new(pieces: usize) -> Room {
        Room(Arc::new((Mutex::new(pieces), Condvar::new())))
    }

    /// Takes a place. If there is none it waits for one up to `limit`; zero does not wait.
    pub(crate) fn take(&self, limit: Duration) -> Option<Permit> {
        let (left, freed) = &*self.0;
        let left = left.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut left, _) = freed
            .wait_timeout_while(left, limit, |left| *left == 0)
            .unwrap_or_else(PoisonError::into_inner);
        *left = left.checked_sub(1)?;
        drop(left);
        Some(Permit(self.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (left, freed) = &*self.0.0;
        *left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_place_that_is_left_is_taken_by_who_waits() {
        let room = Room::new(1);
        let long = Duration::from_secs(60);
        let first = room.take(long);
        assert!(first.is_some() && room.take(Duration::ZERO).is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| room.take(long).is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
        assert!(room.take(Duration::ZERO).is_some());
    }

    /// A server that is down keeps the places of its requests.
    #[test]
    fn waiting_for_a_place_ends() {
        let room = Room::new(1);
        let first = room.take(Duration::ZERO);
        assert!(room.take(Duration::from_millis(10)).is_none());
        drop(first);
        assert!(room.take(Duration::from_millis(10)).is_some());
    }
}
