//! Translates the identifiers that the captured node chose to those that the Lustrine node chose.
//!
//! A node chooses identifiers that others only repeat: handles of its memory descriptors, match
//! bits of its replies and bulk buffers, zero-copy cookies, its incarnation. Everything that the
//! played side repeats is translated.

use std::collections::HashMap;
use std::net::IpAddr;

use lustrine_capture::{Checksum, Event, Item, Message, Noop};
use lustrine_wire::crc;
use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::Version;
use lustrine_wire::srpc;

/// Captured identifiers to those of the Lustrine node.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) handles: HashMap<MdHandle, MdHandle>,
    pub(crate) bits: HashMap<u64, u64>,
    /// By peer, because cookies belong to a peer.
    pub(crate) cookies: HashMap<(IpAddr, u64), u64>,
}

impl Names {
    /// Two messages correspond to each other, and so do the identifiers in them.
    pub(crate) fn learn(&mut self, peer: IpAddr, captured: &Message, ours: &Message) {
        match (&captured.header.body, &ours.header.body) {
            (Body::Get { return_md: theirs, .. }, Body::Get { return_md: ours, .. })
            | (Body::Put { ack_md: theirs, .. }, Body::Put { ack_md: ours, .. }) => {
                self.handles.insert(*theirs, *ours);
            }
            _ => {}
        }
        if let (Some(theirs), Some(ours)) = (captured.frame, ours.frame)
            && theirs.zc_request != 0
        {
            self.cookies.insert((peer, theirs.zc_request), ours.zc_request);
        }
        if let (Some(theirs), Some(ours)) = (invented(captured), invented(ours)) {
            self.bits.insert(theirs.0, ours.0);
            self.bits.insert(theirs.1, ours.1);
        }
    }

    /// A message of the played side, with the captured node's identifiers replaced.
    pub(crate) fn translate(&self, peer: IpAddr, event: &Event) -> Vec<u8> {
        match &event.item {
            Item::Message(message) => self.translate_message(peer, message, &event.raw),
            Item::Noop(noop) => self.translate_noop(peer, noop),
            _ => event.raw.clone(),
        }
    }

    fn cookie(&self, peer: IpAddr, captured: u64) -> u64 {
        self.cookies.get(&(peer, captured)).copied().unwrap_or(captured)
    }

    fn translate_noop(&self, peer: IpAddr, noop: &Noop) -> Vec<u8> {
        let mut frame = noop.frame;
        frame.zc_ack = self.cookie(peer, frame.zc_ack);
        if frame.zc_request > noop.frame.zc_ack {
            // Two cookies, the larger one first.
            let other = self.cookie(peer, frame.zc_request);
            (frame.zc_request, frame.zc_ack) = (other.max(frame.zc_ack), other.min(frame.zc_ack));
        }
        let order = noop.format.order;
        if noop.checksum == Checksum::Good && noop.format.version == Version::V2 {
            frame.csum = frame.csum_start(order);
        }
        frame.encode(order).to_vec()
    }

    fn translate_message(&self, peer: IpAddr, message: &Message, raw: &[u8]) -> Vec<u8> {
        let handle = |md: &mut MdHandle| {
            if let Some(ours) = self.handles.get(md) {
                *md = *ours;
            }
        };
        let bits = |bits: &mut u64| {
            if let Some(ours) = self.bits.get(bits) {
                *bits = *ours;
            }
        };
        let mut header = message.header;
        match &mut header.body {
            Body::Ack { md, .. } | Body::Reply { md } => handle(md),
            Body::Put { match_bits, portal, .. } | Body::Get { match_bits, portal, .. }
                if *portal == srpc::REPLY_PORTAL =>
            {
                bits(match_bits);
            }
            _ => {}
        }
        let payload = &raw[message.payload_at()..];
        let frame = message.frame.map(|frame| FrameHeader {
            zc_ack: if frame.zc_ack == 0 { 0 } else { self.cookie(peer, frame.zc_ack) },
            ..frame
        });
        encode(message, frame, &header, payload)
    }
}

/// Match bits that the sender of a request chose: of the reply, and of the bulk transfer.
fn invented(message: &Message) -> Option<(u64, u64)> {
    let lustrine_capture::Content::Srpc(srpc) = &message.content else { return None };
    match &srpc.body {
        srpc::Body::BrwRequest(brw) => Some((brw.reply_bits, brw.bulk_bits)),
        srpc::Body::PingRequest(ping) => Some((ping.reply_bits, 0)),
        _ => None,
    }
}

/// A message with another header; a checksum that was correct is computed again.
fn encode(
    message: &Message,
    frame: Option<FrameHeader>,
    header: &Header,
    payload: &[u8],
) -> Vec<u8> {
    let mut head = vec![0; message.format.version.header_len()];
    match message.format.version {
        Version::V4 => header.encode_long(head.first_chunk_mut().expect("96 bytes")),
        _ => header.encode_short(head.first_chunk_mut().expect("72 bytes")).expect("short NIDs"),
    }
    let mut bytes = Vec::new();
    if let Some(mut frame) = frame {
        assert_eq!(frame.kind, FrameKind::Lnet);
        let order = message.format.order;
        if message.checksum == Checksum::Good {
            // Above V2, the checksum covers only the payload (capture r_csumv3payloadonly).
            let state = match message.format.version {
                Version::V2 => crc::update(frame.csum_start(order), &head),
                _ => crc::INIT,
            };
            frame.csum = crc::update(state, payload);
        }
        bytes.extend_from_slice(&frame.encode(order));
    }
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(payload);
    bytes
}
