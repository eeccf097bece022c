//! Bytes to be sent, contiguous, so that one write carries many messages.

/// A byte queue in one piece. Its memory is initialised once and reused; it only grows when the
/// bytes waiting do not fit, and is given back by [`Staging::release`].
#[derive(Debug, Default)]
pub(crate) struct Staging {
    /// Initialised throughout; bytes outside `head..tail` mean nothing.
    buffer: Vec<u8>,
    head: usize,
    tail: usize,
}

/// First size; enough for a burst of small messages.
const CAPACITY_MIN: usize = 4096;

impl Staging {
    pub(crate) fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Bytes waiting, oldest first.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.head..self.tail]
    }

    /// The same, mutable.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.head..self.tail]
    }

    /// Appends `len` bytes of any value and lets the caller write them.
    pub(crate) fn grow(&mut self, len: usize) -> &mut [u8] {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
        if self.tail + len > self.buffer.len() {
            self.make_room(len);
        }
        let start = self.tail;
        self.tail += len;
        &mut self.buffer[start..self.tail]
    }

    #[cold]
    fn make_room(&mut self, len: usize) {
        let waiting = self.len();
        self.buffer.copy_within(self.head..self.tail, 0);
        (self.head, self.tail) = (0, waiting);
        // A quarter stays free, so that moving bytes down is paid for by as many that left.
        let need = waiting + len;
        if need > self.buffer.len() / 4 * 3 {
            let capacity = (need + need / 2).next_power_of_two().max(CAPACITY_MIN);
            self.buffer.resize(capacity, 0);
        }
    }

    /// The `len` newest bytes are withdrawn.
    pub(crate) fn withdraw(&mut self, len: usize) {
        assert!(len <= self.len(), "withdrew more than was staged");
        self.tail -= len;
    }

    /// The `len` oldest bytes have left.
    pub(crate) fn consume(&mut self, len: usize) {
        assert!(len <= self.len(), "consumed more than was staged");
        self.head += len;
    }

    /// Gives the memory back if nothing waits.
    pub(crate) fn release(&mut self) {
        if self.len() == 0 {
            *self = Staging::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_bytes_under_any_sizes() {
        let mut staging = Staging::default();
        let (mut written, mut read) = (0u8, 0u8);
        let mut state = 1u32;
        for _ in 0..10_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let grow = (state >> 20) as usize % 300;
            for byte in staging.grow(grow) {
                *byte = written;
                written = written.wrapping_add(1);
            }
            let take = (state >> 8) as usize % (staging.len() + 1);
            for byte in &staging.bytes()[..take] {
                assert_eq!(*byte, read);
                read = read.wrapping_add(1);
            }
            staging.consume(take);
        }
        assert!(staging.buffer.len() < 64 * 1024, "grew to {}", staging.buffer.len());
    }

    #[test]
    fn memory_is_released_only_when_empty() {
        let mut staging = Staging::default();
        staging.grow(10).fill(7);
        staging.release();
        assert_eq!(staging.bytes(), [7; 10]);
        staging.withdraw(4);
        staging.consume(6);
        staging.release();
        assert!(staging.buffer.is_empty());
    }
}
