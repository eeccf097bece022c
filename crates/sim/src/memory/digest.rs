//! A hash of a byte string that can be combined from the hashes of its parts.
//!
//! The string is a polynomial with its bytes as coefficients, evaluated at a fixed place modulo the
//! prime 2^61 - 1. Concatenation costs one multiplication, repeating a string n times log n. The
//! hash detects accidents, not attacks.

/// The prime.
const PRIME: u64 = (1 << 61) - 1;

/// Where the polynomial is evaluated.
const PLACE: u64 = 0x0d3f_87a9_4c21_b865;

/// The powers of [`PLACE`], from 0 to 8.
const POWERS: [u64; 9] = {
    let mut powers = [1; 9];
    let mut index = 1;
    while index < powers.len() {
        powers[index] = times(powers[index - 1], PLACE);
        index += 1;
    }
    powers
};

/// The hash of a string, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sum {
    value: u64,
    len: u64,
}

impl Sum {
    pub(super) const EMPTY: Sum = Sum { value: 0, len: 0 };

    pub(super) fn of(bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut value = 0;
        for word in words {
            // All products but the first are independent: one reduction for eight bytes.
            let mut sum = u128::from(value) * u128::from(POWERS[8]);
            for (byte, power) in word.iter().zip(POWERS[..8].iter().rev()) {
                sum += u128::from(*byte) * u128::from(*power);
            }
            value = reduce(sum);
        }
        for byte in rest {
            value = reduce(u128::from(value) * u128::from(PLACE) + u128::from(*byte));
        }
        Sum { value, len: bytes.len() as u64 }
    }

    /// This string followed by another one.
    #[must_use]
    pub(super) fn then(self, other: Sum) -> Sum {
        if self.len == 0 {
            return other;
        }
        let value = u128::from(self.value) * u128::from(power(other.len));
        Sum { value: reduce(value + u128::from(other.value)), len: self.len + other.len }
    }

    /// This string repeated this number of times.
    #[must_use]
    pub(super) fn repeated(self, mut count: u64) -> Sum {
        let mut sum = 0;
        // The string doubled repeatedly, and the factor of a string before it.
        let (mut value, mut shift) = (self.value, power(self.len));
        let len = self.len * count;
        while count != 0 {
            if count & 1 == 1 {
                sum = reduce(u128::from(sum) * u128::from(shift) + u128::from(value));
            }
            value = reduce(u128::from(value) * u128::from(shift) + u128::from(value));
            shift = times(shift, shift);
            count >>= 1;
        }
        Sum { value: sum, len }
    }

    /// The hash; strings of different lengths differ.
    pub(super) fn number(self) -> u64 {
        let mixed = (self.value ^ self.len << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}

/// The factor of a string that this number of bytes follows.
fn power(mut exponent: u64) -> u64 {
    if let Some(power) = POWERS.get(exponent as usize) {
        return *power;
    }
    let (mut product, mut base) = (1, PLACE);
    while exponent != 0 {
        if exponent & 1 == 1 {
            product = times(product, base);
        }
        base = times(base, base);
        exponent >>= 1;
    }
    product
}

const fn times(one: u64, other: u64) -> u64 {
    reduce(one as u128 * other as u128)
}

const fn reduce(number: u128) -> u64 {
    let low = (number as u64 & PRIME) + ((number >> 61) as u64 & PRIME) + (number >> 122) as u64;
    let low = (low & PRIME) + (low >> 61);
    if low >= PRIME { low - PRIME } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_the_whole_follows_from_its_parts() {
        let bytes: Vec<u8> = (0_u8..100).map(|byte| byte.wrapping_mul(37) ^ 5).collect();
        for cut in 0..=bytes.len() {
            let (front, back) = bytes.split_at(cut);
            assert_eq!(Sum::of(front).then(Sum::of(back)), Sum::of(&bytes), "cut at {cut}");
        }
        for count in [0, 1, 2, 3, 17] {
            assert_eq!(Sum::of(&bytes).repeated(count), Sum::of(&bytes.repeat(count as usize)));
        }
    }

    #[test]
    fn strings_differ_by_content_place_and_length() {
        let strings: [&[u8]; 7] =
            [b"", b"\0", b"\0\0", b"a", b"\0a", b"12345678901234567", b"12345678901234576"];
        for (index, one) in strings.iter().enumerate() {
            for other in &strings[..index] {
                assert_ne!(Sum::of(one).number(), Sum::of(other).number(), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_largest_numbers_are_reduced() {
        assert_eq!(reduce(u128::from(PRIME)), 0);
        assert_eq!(times(PRIME - 1, PRIME - 1), 1);
        assert_eq!(reduce(u128::MAX), ((u128::MAX) % u128::from(PRIME)) as u64);
    }
}
