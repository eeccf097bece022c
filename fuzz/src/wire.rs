//! Every parser of `lustrine-wire` on arbitrary bytes: none panics, none asks for less than it has,
//! none looks behind the end of its message, and what was parsed survives being written and parsed
//! again.

mod binary;
mod text;

/// Gives the same bytes to every parser. Almost all leave at the magic number, so this costs little
/// and one corpus serves them all.
pub fn check(data: &[u8]) {
    binary::acceptor(data);
    binary::hello(data);
    binary::header(data);
    binary::frame(data);
    binary::ping(data);
    binary::selftest(data);
    binary::figures(data);
    if let Ok(text) = core::str::from_utf8(data) {
        text::nids(text);
        text::nid_ranges(text);
        text::text_range(text);
    }
}
