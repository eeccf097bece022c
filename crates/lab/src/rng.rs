//! Random numbers from a seed.

/// A stream of numbers that its seed determines; splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number, any of 64 bits.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number up to `high`, included.
    pub(crate) fn up_to(&mut self, high: u64) -> u64 {
        match high.checked_add(1) {
            Some(bound) => self.draw() % bound,
            None => self.draw(),
        }
    }

    /// True so many times out of 1,000,000,000.
    pub(crate) fn chance(&mut self, billionths: u32) -> bool {
        billionths > 0 && self.draw() % 1_000_000_000 < u64::from(billionths)
    }
}

/// Spreads the differences of a number over all its bits.
pub(crate) fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
