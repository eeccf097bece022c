//! Every parser of `lustrine-wire` on arbitrary bytes: none panics, none requests fewer bytes than
//! it has, none reads beyond the end of its message, and the result survives being encoded and
//! parsed again.

mod binary;
mod text;

/// Passes the same bytes to every parser. Almost all return at the magic number, so this costs
/// little and one corpus is enough.
pub fn check(data: &[u8]) {
    binary::acceptor(data);
    binary::hello(data);
    binary::header(data);
    binary::frame(data);
    binary::ping(data);
    binary::selftest(data);
    binary::client_stats(data);
    if let Ok(text) = core::str::from_utf8(data) {
        text::nids(text);
        text::nid_ranges(text);
        text::text_range(text);
    }
}
