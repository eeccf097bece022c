//! Test support for worked examples: bytes from hexadecimal text.

/// Reads pairs of hexadecimal digits; all other characters are skipped, and `00*8` stands for eight
/// zero bytes.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for word in text.split_whitespace() {
        let (value, count) = match word.split_once('*') {
            Some((value, count)) => (value, count.parse().unwrap()),
            None => (word, 1),
        };
        let value = u8::from_str_radix(value, 16).unwrap();
        out.extend(std::iter::repeat_n(value, count));
    }
    out
}
