//! Wakes a sleeping event loop from another thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};

/// The loop's side: register it with the loop's poller
/// ([`Interest::WakeUp`](crate::Interest::WakeUp)).
///
/// Wake-ups cost a system call only while the loop is *armed*, that is, asleep or about to be; and
/// then only one, regardless of the number of callers. So the loop's turn is
///
/// 1. [`arm`](Self::arm);
/// 2. check once more everything that other threads may have filled; if there is anything, skip 3;
/// 3. wait on the poller;
/// 4. [`disarm`](Self::disarm), and do the work.
///
/// Anything that was added before a `wake` is either seen in step 2 or ends step 3.
#[derive(Debug)]
pub struct Sleeper {
    bell: Arc<Bell>,
}

/// The other threads' side; it can be cloned.
#[derive(Debug, Clone)]
pub struct Waker {
    bell: Arc<Bell>,
}

#[derive(Debug)]
struct Bell {
    event: OwnedFd,
    armed: AtomicBool,
}

impl Sleeper {
    /// A sleeper, armed.
    ///
    /// # Errors
    /// When descriptors or memory are used up.
    pub fn new() -> io::Result<Sleeper> {
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Sleeper { bell: Arc::new(Bell { event, armed: AtomicBool::new(true) }) })
    }

    /// A handle that wakes this sleeper.
    pub fn waker(&self) -> Waker {
        Waker { bell: Arc::clone(&self.bell) }
    }

    /// From now on the next [`Waker::wake`] writes to the eventfd.
    pub fn arm(&self) {
        self.bell.armed.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either this thread sees what was added before, or the
        // other thread sees that the sleeper is armed.
        fence(Ordering::SeqCst);
    }

    /// From now on wake-ups cost no system call.
    pub fn disarm(&self) {
        self.bell.armed.store(false, Ordering::Relaxed);
    }
}

impl Waker {
    /// Ends the sleeper's wait, or keeps it from starting; does nothing while it is awake.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        // Read first without writing: this leaves the cache line shared among the callers.
        if self.bell.armed.load(Ordering::Relaxed) && self.bell.armed.swap(false, Ordering::Relaxed)
        {
            self.bell.ring();
        }
    }
}

impl Bell {
    fn ring(&self) {
        // The counter is never read: each write is a new edge for the poller. The counter is full
        // after 2^64 writes only, and a full one is still reported.
        let written =
            rustix::io::retry_on_intr(|| rustix::io::write(&self.event, &1u64.to_ne_bytes()));
        debug_assert!(written.is_ok(), "eventfd: {written:?}");
    }
}

impl AsFd for Sleeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.event.as_fd()
    }
}

#[cfg(test)]
mod tests;
