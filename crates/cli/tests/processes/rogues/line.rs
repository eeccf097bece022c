//! One TCP connection between a rogue and a node.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};

use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, Header};
use lustrine_wire::hello::Hello;
use lustrine_wire::{ByteOrder, Progress};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::words::{framed, message};
use crate::common::eventually;

/// A connection that the rogue dialled, or accepted.
#[derive(Debug)]
pub(crate) struct Line(TcpStream);

impl Line {
    /// A stream that does not block.
    pub(crate) fn of(stream: TcpStream) -> Line {
        stream.set_nonblocking(true).expect("a stream takes options");
        Line(stream)
    }

    /// Dials from this address and port; `None` if the port is in use there. With `window`, the
    /// system buffers at most about this number of unread bytes.
    pub(crate) fn dial(
        from: SocketAddrV4,
        to: SocketAddrV4,
        window: Option<usize>,
    ) -> Option<Line> {
        let dialled = socket(AddressFamily::INET, SocketType::STREAM, None).and_then(|socket| {
            if let Some(bytes) = window {
                set_socket_recv_buffer_size(&socket, bytes)?;
            }
            bind(&socket, &from)?;
            connect(&socket, &to)?;
            Ok(socket)
        });
        match dialled {
            Ok(socket) => Some(Line::of(TcpStream::from(socket))),
            Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => None,
            Err(error) => panic!("cannot dial {to} from {from}: {error}"),
        }
    }

    /// Sends all bytes; `false` if the node has closed the connection before.
    pub(crate) fn say(&mut self, mut bytes: &[u8]) -> bool {
        eventually("room for what a rogue says", || {
            loop {
                match self.0.write(bytes) {
                    Ok(len) if len == bytes.len() => return Some(true),
                    Ok(len) => bytes = &bytes[len..],
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                    Err(_) => return Some(false),
                }
            }
        })
    }

    /// Sends the same bytes repeatedly without reading, until the node has closed the connection.
    /// Returns how often all of them were sent.
    pub(crate) fn say_until_closed(&mut self, bytes: &[u8]) -> usize {
        let (mut rounds, mut at) = (0, 0);
        eventually("an end of the node's patience", || {
            loop {
                match self.0.write(&bytes[at..]) {
                    Ok(len) => {
                        at += len;
                        rounds += at / bytes.len();
                        at %= bytes.len();
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                    Err(_) => return Some(rounds),
                }
            }
        })
    }

    /// Reads the available bytes, at most `room`; `None` at the end of the stream.
    fn listen(&mut self, room: &mut [u8]) -> Option<usize> {
        match self.0.read(room) {
            Ok(0) => None,
            Ok(len) => Some(len),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }

    /// Reads the available bytes, at most this number, and returns how many; `None` at the end of
    /// the stream.
    pub(crate) fn hear_up_to(&mut self, len: usize) -> Option<usize> {
        self.listen(&mut vec![0; len])
    }

    /// Reads exactly this number of bytes; `None` if the stream ends before.
    pub(crate) fn hear(&mut self, len: usize) -> Option<Vec<u8>> {
        let (mut heard, mut at) = (vec![0; len], 0);
        eventually("words of the node", || {
            let Some(more) = self.listen(&mut heard[at..]) else { return Some(false) };
            at += more;
            (at == len).then_some(true)
        })
        .then_some(heard)
    }

    /// Reads a HELLO; `None` if the stream ends before.
    pub(crate) fn hear_hello(&mut self) -> Option<Hello> {
        let mut heard = Vec::new();
        loop {
            match Hello::parse(&heard) {
                Ok(Progress::Got(hello, _)) => return Some(hello),
                Ok(Progress::Need(len)) => heard.extend(self.hear(len - heard.len())?),
                Err(error) => panic!("{error} in a HELLO of the node: {heard:x?}"),
            }
        }
    }

    /// Reads the next message's header; the caller reads its payload.
    pub(crate) fn hear_header(&mut self) -> Option<Header> {
        loop {
            let frame = self.hear(FrameHeader::LEN)?;
            let raw = frame.first_chunk().expect("a frame header");
            let frame =
                FrameHeader::parse(raw, ByteOrder::Little).expect("the node sends valid frames");
            if frame.kind == FrameKind::Noop {
                continue;
            }
            let raw = self.hear(Header::SHORT_LEN)?;
            let raw = raw.first_chunk().expect("a header");
            return Some(Header::parse_short(raw).expect("the node sends valid headers"));
        }
    }

    /// Waits until the node has closed the connection; what it still sends is dropped.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self) {
        let mut scrap = [0; 4096];
        eventually("a closed connection", || {
            while let Some(len) = self.listen(&mut scrap) {
                if len == 0 {
                    return None;
                }
            }
            Some(())
        });
    }

    /// Whether the node answers a ping with a REPLY; then it has read everything before it, and has
    /// kept the connection.
    pub(crate) fn answers(&mut self, question: &Header) -> bool {
        self.say(&message(question));
        while let Some(header) = self.hear_header() {
            if self.hear(header.payload_len as usize).is_none() {
                return false;
            }
            if matches!(header.body, Body::Reply { .. }) {
                return true;
            }
        }
        false
    }

    /// Whether the node acknowledges a message with a cookie; then it has read everything before
    /// it, and has kept the connection.
    pub(crate) fn acknowledges(&mut self, cookie: u64, header: &Header) -> bool {
        self.say(&framed(FrameHeader { zc_request: cookie, ..FrameHeader::LNET }, header));
        while let Some(frame) = self.hear(FrameHeader::LEN) {
            let raw = frame.first_chunk().expect("a frame header");
            let frame =
                FrameHeader::parse(raw, ByteOrder::Little).expect("the node sends valid frames");
            assert_eq!(frame.kind, FrameKind::Noop, "nothing else travels on such a connection");
            if frame.zc_ack == cookie {
                return true;
            }
        }
        false
    }

    /// Closes the sending half.
    pub(crate) fn finish(&mut self) {
        self.0.shutdown(Shutdown::Write).expect("the stream is open");
    }
}
