//! Match bits for replies and bulk transfers [LST-9].

use crate::mark::ClientSlot;

/// Bits that count; above them the client_slot, above that the seed.
const COUNTER_BITS: u32 = 40;

/// A counter that starts where no earlier life of this node has been.
///
/// Bits 48 to 63 are the low bits of the wall clock's seconds at the start, as kernels do it. Bits
/// 40 to 47 keep the callers of one process apart, whose replies share portal 52. The counter
/// wraps after 10^12 RPCs, long after the first ones are over.
#[derive(Debug)]
pub(crate) struct Ids {
    base: u64,
    counter: u64,
}

impl Ids {
    /// `wall_seconds` is the wall clock's at the start.
    pub(crate) fn new(wall_seconds: u64, client_slot: ClientSlot) -> Ids {
        Ids { base: wall_seconds << 48 | u64::from(client_slot.0) << COUNTER_BITS, counter: 0 }
    }

    /// The next number, counted up first.
    pub(crate) fn next(&mut self) -> u64 {
        self.counter = (self.counter + 1) & ((1 << COUNTER_BITS) - 1);
        self.base | self.counter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_bits_of_the_seconds_lead_as_in_capture_c00() {
        // c00: the first request of a process has reply bits 0xee7d000000000001.
        let mut ids = Ids::new(0x6b00_ee7d, ClientSlot::SERVICE);
        assert_eq!(ids.next(), 0xee7d_0000_0000_0001);
        assert_eq!(ids.next(), 0xee7d_0000_0000_0002);
    }

    #[test]
    fn lanes_stay_apart_when_the_counter_wraps() {
        let mut ids = Ids { base: 0x0001_0300_0000_0000, counter: (1 << COUNTER_BITS) - 1 };
        assert_eq!(ids.next(), 0x0001_0300_0000_0000);
        assert_eq!(ids.next(), 0x0001_0300_0000_0001);
    }
}
