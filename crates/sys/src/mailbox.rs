//! Values that one event loop sends to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::waker::Waker;

/// The receiving end, owned by one event loop. Dropping it drops what is in it; later
/// pushes fail with [`PushError::Closed`].
#[derive(Debug)]
pub struct Mailbox<T> {
    post: Arc<Post<T>>,
}

/// A sending end; it can be cloned and used in any number of threads.
#[derive(Debug)]
pub struct Sender<T> {
    post: Arc<Post<T>>,
    waker: Waker,
}

/// Why a value was not accepted; the error holds the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError<T> {
    /// There is no room at this moment.
    Full(T),
    /// The receiving end was dropped.
    Closed(T),
}

#[derive(Debug)]
struct Post<T> {
    queue: ArrayQueue<T>,
    closed: AtomicBool,
}

impl<T> Post<T> {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    fn clear(&self) {
        while self.queue.pop().is_some() {}
    }
}

/// A mailbox with room for `capacity` values; every push wakes `waker`'s sleeper.
///
/// # Panics
/// If `capacity` is 0.
pub fn mailbox<T>(capacity: usize, waker: Waker) -> (Sender<T>, Mailbox<T>) {
    let queue = ArrayQueue::new(capacity);
    let post = Arc::new(Post { queue, closed: AtomicBool::new(false) });
    (Sender { post: Arc::clone(&post), waker }, Mailbox { post })
}

impl<T> Sender<T> {
    /// Adds a value; the values of one sender arrive in order.
    ///
    /// # Errors
    /// The value is returned when there is no room, or the receiving end was dropped.
    pub fn push(&self, value: T) -> Result<(), PushError<T>> {
        if self.post.is_closed() {
            return Err(PushError::Closed(value));
        }
        self.post.queue.push(value).map_err(PushError::Full)?;
        if self.post.is_closed() {
            // The value may have been added after the reader's last look. Dropping it lets a sender
            // that waits for an answer notice that there will be none.
            self.post.clear();
        }
        self.waker.wake();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { post: Arc::clone(&self.post), waker: self.waker.clone() }
    }
}

impl<T> Mailbox<T> {
    /// Takes out the values that are there, at most as many as the capacity, so that a fast sender
    /// cannot keep the loop here.
    pub fn drain(&self, mut each: impl FnMut(T)) {
        for _ in 0..self.post.queue.capacity() {
            match self.post.queue.pop() {
                Some(value) => each(value),
                None => break,
            }
        }
    }

    /// Whether there is nothing to take out.
    pub fn is_empty(&self) -> bool {
        self.post.queue.is_empty()
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        // In this order: a sender that misses the mark is seen when it is cleared.
        self.post.closed.store(true, Ordering::SeqCst);
        self.post.clear();
    }
}

#[cfg(test)]
mod tests;
