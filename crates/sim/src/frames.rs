//! Writes streams as the frames of a capture: for a dissector, or for a file.

use core::net::{IpAddr, SocketAddr};

/// Most payload in one frame, in bytes.
const PAYLOAD_MAX: usize = 60_000;

const TCP_LEN: usize = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// The sender of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that dialled.
    Dialler,
    /// The side that listened.
    Listener,
}

/// Writes one stream as frames: IP packets without a link layer, and without checksums.
#[derive(Clone, Debug)]
pub struct Framer {
    ends: [SocketAddr; 2],
    next: [u32; 2],
}

impl Framer {
    /// Starts a stream that was just dialled; the frames of its handshake are appended to `out`.
    ///
    /// `first` is the first sequence number; it must differ between streams of the same ends, so
    /// that a reader can distinguish them.
    pub fn open(
        dialler: SocketAddr,
        listener: SocketAddr,
        first: u32,
        out: &mut Vec<Vec<u8>>,
    ) -> Framer {
        let mut framer = Framer { ends: [dialler, listener], next: [first, first] };
        out.push(framer.frame(Side::Dialler, SYN, &[]));
        framer.next[0] = first.wrapping_add(1);
        out.push(framer.frame(Side::Listener, SYN | ACK, &[]));
        framer.next[1] = first.wrapping_add(1);
        framer
    }

    /// One side sends data.
    pub fn say(&mut self, side: Side, bytes: &[u8], out: &mut Vec<Vec<u8>>) {
        for chunk in bytes.chunks(PAYLOAD_MAX) {
            out.push(self.frame(side, ACK, chunk));
            let next = &mut self.next[side as usize];
            *next = next.wrapping_add(chunk.len() as u32);
        }
    }

    /// One side closes its half.
    pub fn finish(&mut self, side: Side, out: &mut Vec<Vec<u8>>) {
        out.push(self.frame(side, FIN | ACK, &[]));
        let next = &mut self.next[side as usize];
        *next = next.wrapping_add(1);
    }

    /// One side breaks the stream.
    pub fn reset(&mut self, side: Side, out: &mut Vec<Vec<u8>>) {
        out.push(self.frame(side, RST | ACK, &[]));
    }

    fn frame(&self, side: Side, flags: u8, payload: &[u8]) -> Vec<u8> {
        let from = side as usize;
        let (source, target) = (self.ends[from], self.ends[1 - from]);
        let mut frame = Vec::with_capacity(60 + payload.len());
        ip_header(source.ip(), target.ip(), TCP_LEN + payload.len(), &mut frame);
        frame.extend_from_slice(&source.port().to_be_bytes());
        frame.extend_from_slice(&target.port().to_be_bytes());
        frame.extend_from_slice(&self.next[from].to_be_bytes());
        let ack = if flags & ACK == 0 { 0 } else { self.next[1 - from] };
        frame.extend_from_slice(&ack.to_be_bytes());
        // Header length in words, flags, window, no checksum, no urgent data.
        frame.extend_from_slice(&[(TCP_LEN as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend_from_slice(payload);
        frame
    }
}

fn ip_header(source: IpAddr, target: IpAddr, len: usize, out: &mut Vec<u8>) {
    const TCP: u8 = 6;
    const HOPS: u8 = 64;
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let total = (20 + len) as u16;
            out.extend_from_slice(&[0x45, 0]);
            out.extend_from_slice(&total.to_be_bytes());
            out.extend_from_slice(&[0, 0, 0, 0, HOPS, TCP, 0, 0]);
            out.extend_from_slice(&source.octets());
            out.extend_from_slice(&target.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            out.extend_from_slice(&[0x60, 0, 0, 0]);
            out.extend_from_slice(&(len as u16).to_be_bytes());
            out.extend_from_slice(&[TCP, HOPS]);
            out.extend_from_slice(&source.octets());
            out.extend_from_slice(&target.octets());
        }
        _ => panic!("one stream has addresses of one kind"),
    }
}
