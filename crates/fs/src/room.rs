//! A bound of what is under way in all threads together.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

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

    /// Takes a place. If there is none it waits for one, or gives up if it shall not wait.
    pub(crate) fn take(&self, wait: bool) -> Option<Permit> {
        let (left, freed) = &*self.0;
        let mut left = left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left == 0 {
            if !wait {
                return None;
            }
            left = freed.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= 1;
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
        let first = room.take(true);
        assert!(first.is_some() && room.take(false).is_none());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| room.take(true).is_some());
            drop(first);
            assert!(waiting.join().unwrap());
        });
        assert!(room.take(false).is_some());
    }
}
