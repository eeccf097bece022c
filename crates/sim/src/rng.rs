//! Random numbers from a seed.

/// A stream of numbers that its seed determines; splitmix64.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of numbers of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number, any of 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.draw() % bound }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True `part` times out of `whole`.
    pub fn chance(&mut self, part: u64, whole: u64) -> bool {
        self.below(whole) < part
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        assert!(!of.is_empty(), "nothing to pick from");
        &of[self.below(of.len() as u64) as usize]
    }

    /// A separate stream, so that drawing from it does not affect this one.
    pub fn fork(&mut self) -> Rng {
        Rng(self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_a_stream() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.draw()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        // The reference value of splitmix64 with seed 0.
        assert_eq!(draw(0)[0], 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(7);
        for _ in 0..1000 {
            assert!(rng.below(10) < 10);
            assert!((5..=7).contains(&rng.between(5, 7)));
        }
        assert_eq!(rng.below(0), 0);
        assert!((0..100).any(|_| rng.chance(1, 2)) && !rng.chance(0, 2) && rng.chance(2, 2));
    }
}
