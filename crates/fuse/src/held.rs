//! A limit on the data of requests that wait in this program.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Most bytes of writes, and of other requests with data, that wait to be sent. The threads that
/// read requests of the kernel wait when there are as many.
pub(crate) const LIMIT: u64 = 256 << 20;

/// Room for the data of requests.
#[derive(Debug)]
pub(crate) struct Room {
    limit: u64,
    held: Mutex<u64>,
    freed: Condvar,
}

/// The room that the data of a request take, until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    room: Arc<Room>,
    bytes: u64,
}

impl Room {
    pub(crate) fn new() -> Arc<Room> {
        Room::of(LIMIT)
    }

    fn of(limit: u64) -> Arc<Room> {
        Arc::new(Room { limit, held: Mutex::new(0), freed: Condvar::new() })
    }

    /// Takes room for so many bytes. It waits if there is none; one request always has room.
    pub(crate) fn take(self: &Arc<Room>, bytes: u64) -> Held {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |held: &mut u64| *held > 0 && held.saturating_add(bytes) > self.limit;
        let held = self.freed.wait_while(held, full);
        *held.unwrap_or_else(PoisonError::into_inner) += bytes;
        Held { room: Arc::clone(self), bytes }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        *self.room.held.lock().unwrap_or_else(PoisonError::into_inner) -= self.bytes;
        // Requests of several sizes wait.
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_bytes_that_wait_are_bounded() {
        let room = Room::of(100);
        let mut held: Vec<Held> = (0..10).map(|_| room.take(10)).collect();
        let (sender, taken) = mpsc::channel();
        let waiting = Arc::clone(&room);
        let thread = thread::spawn(move || {
            for bytes in [20, 1000] {
                let held = waiting.take(bytes);
                sender.send(bytes).unwrap();
                drop(held);
            }
        });
        assert!(taken.recv_timeout(Duration::from_millis(50)).is_err());
        held.pop();
        assert!(taken.recv_timeout(Duration::from_millis(50)).is_err(), "10 bytes are not enough");
        held.pop();
        assert_eq!(taken.recv(), Ok(20));
        // One that is larger than all room is taken alone.
        assert!(taken.recv_timeout(Duration::from_millis(50)).is_err());
        held.clear();
        assert_eq!(taken.recv(), Ok(1000));
        thread.join().unwrap();
        assert_eq!(*room.held.lock().unwrap(), 0);
    }
}
