//! A bound of what is in flight in all threads together.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Room for a number of pieces.
#[derive(Clone, Debug)]
pub(crate) struct Room(Arc<(Mutex<Places>, Condvar)>);

#[derive(Debug)]
struct Places {
    free: usize,
    /// Threads that wait for one.
    waiting: usize,
}

/// The place of a piece; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Room);

impl Room {
    pub(crate) fn new(pieces: usize) -> Room {
        Room(Arc::new((Mutex::new(Places { free: pieces, waiting: 0 }), Condvar::new())))
    }

    /// Takes a place. If there is none it waits for one up to `limit`. With zero it does not wait,
    /// and takes none while other threads wait: a thread that gives a place back would take it
    /// again before they have woken up.
    pub(crate) fn take(&self, limit: Duration) -> Option<Permit> {
        let (places, freed) = &*self.0;
        let mut places = places.lock().unwrap_or_else(PoisonError::into_inner);
        if limit.is_zero() && places.waiting > 0 {
            return None;
        }
        places.waiting += 1;
        let (mut places, _) = freed
            .wait_timeout_while(places, limit, |places| places.free == 0)
            .unwrap_or_else(PoisonError::into_inner);
        places.waiting -= 1;
        places.free = places.free.checked_sub(1)?;
        drop(places);
        Some(Permit(self.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (places, freed) = &*self.0.0;
        places.lock().unwrap_or_else(PoisonError::into_inner).free += 1;
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

    /// Otherwise threads that have places would take them again and again.
    #[test]
    fn threads_that_wait_come_first() {
        let room = Room::new(1);
        let long = Duration::from_secs(60);
        let first = room.take(long).expect("a place");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| room.take(long));
            while room.0.0.lock().unwrap().waiting == 0 {
                thread::yield_now();
            }
            drop(first);
            assert!(room.take(Duration::ZERO).is_none());
            assert!(waiting.join().unwrap().is_some());
        });
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
