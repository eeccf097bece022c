//! Fills bytes with a repeated 8-byte word, and checks that they still hold it.
//!
//! Plain loops over whole words: the compiler turns them into vector instructions.

/// Bytes compared between two checks of the result: enough to keep the loop free of branches, and
/// few enough to find the exact byte quickly afterwards.
const STRIPE: usize = 1024;

/// Repeats `word` from the first byte on; the last repetition may be cut.
pub(crate) fn fill(bytes: &mut [u8], word: [u8; 8]) {
    let mut words = bytes.chunks_exact_mut(8);
    for chunk in &mut words {
        chunk.copy_from_slice(&word);
    }
    let rest = words.into_remainder();
    let len = rest.len();
    rest.copy_from_slice(&word[..len]);
}

/// Position of the first byte that differs from what [`fill`] would have written.
pub(crate) fn first_difference(bytes: &[u8], word: [u8; 8]) -> Option<usize> {
    let mut stripes = bytes.chunks_exact(STRIPE);
    for (i, stripe) in (&mut stripes).enumerate() {
        if differs(stripe, word) {
            return locate(stripe, word).map(|at| i * STRIPE + at);
        }
    }
    let rest = stripes.remainder();
    locate(rest, word).map(|at| bytes.len() - rest.len() + at)
}

/// Whether any whole word of `bytes` is not `word`.
fn differs(bytes: &[u8], word: [u8; 8]) -> bool {
    let expected = u64::from_ne_bytes(word);
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0, |sum, chunk| sum | (u64::from_ne_bytes(*chunk) ^ expected)) != 0
}

fn locate(bytes: &[u8], word: [u8; 8]) -> Option<usize> {
    bytes.iter().zip(word.iter().cycle()).position(|(found, expected)| found != expected)
}

#[cfg(test)]
mod tests;
