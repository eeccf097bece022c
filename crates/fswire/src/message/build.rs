//! Writes messages.

use super::{BUFFERS_MAX, HEADER_LEN, Header, header_len, write_header};
use crate::codec::{Wire, Writer};

/// Most messages are not longer, in bytes.
const LEN_USUAL: usize = 1024;

/// Writes a message buffer by buffer, with its padding.
///
/// ```
/// use lustrine_fswire::body::PtlrpcBody;
/// use lustrine_fswire::message::{Header, Message, MessageBuilder};
/// use lustrine_fswire::opcode::Opcode;
///
/// let mut out = Vec::new();
/// let mut message = MessageBuilder::new(&mut out, &Header::default(), 1);
/// message.value(&PtlrpcBody { timeout: 5, ..PtlrpcBody::request(Opcode::OBD_PING) });
/// message.finish();
/// assert_eq!(out.len(), 224);
/// let (_, body) = Message::parse_request(&out).unwrap();
/// assert_eq!(body.opcode, Opcode::OBD_PING);
/// ```
#[derive(Debug)]
pub struct MessageBuilder<'v> {
    out: &'v mut Vec<u8>,
    /// Where the message starts.
    start: usize,
    count: usize,
    written: usize,
}

impl<'v> MessageBuilder<'v> {
    /// A message of `count` buffers, appended to `out`.
    ///
    /// # Panics
    /// If `count` is not 1 to 32.
    pub fn new(out: &'v mut Vec<u8>, header: &Header, count: usize) -> MessageBuilder<'v> {
        assert!((1..=BUFFERS_MAX).contains(&count), "a message of {count} buffers");
        let start = out.len();
        out.reserve(LEN_USUAL);
        write_header(header, count, out);
        out.resize(start + header_len(count), 0);
        MessageBuilder { out, start, count, written: 0 }
    }

    /// The next buffer: what `write` appends.
    ///
    /// # Panics
    /// If all buffers are there, or the buffer is larger than 4 GiB.
    pub fn buffer(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        assert!(self.written < self.count, "more than {} buffers", self.count);
        let at = self.out.len();
        write(&mut Writer::new(self.out));
        let len = self.out.len() - at;
        let word = u32::try_from(len).expect("a buffer below 4 GiB").to_le_bytes();
        let place = self.start + HEADER_LEN + 4 * self.written;
        self.out[place..place + 4].copy_from_slice(&word);
        self.out.resize(at + len.next_multiple_of(8), 0);
        self.written += 1;
    }

    /// The next buffer: a structure.
    ///
    /// # Panics
    /// As [`MessageBuilder::buffer`].
    pub fn value<T: Wire>(&mut self, value: &T) {
        self.buffer(|to| to.put(value));
    }

    /// The next buffer: these bytes.
    ///
    /// # Panics
    /// As [`MessageBuilder::buffer`].
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer(|to| to.bytes(bytes));
    }

    /// Ends the message.
    ///
    /// # Panics
    /// If buffers are missing.
    pub fn finish(self) {
        assert_eq!(self.written, self.count, "buffers of a message");
    }
}
