//! Recognises messages in streams whose beginning is not known.

#[cfg(test)]
mod tests;

use lustrine_wire::frame::{FrameHeader, FrameKind};
use lustrine_wire::header::{Body, PORTAL_MAX};
use lustrine_wire::hello::Version;
use lustrine_wire::{ByteOrder, Header, NetKind, Nid, PID_LUSTRE, PID_USERLAND, ProcessId};

use crate::event::{Certainty, StreamFormat};

/// The largest number of bytes that are needed to recognise a message.
pub(crate) const LOOK_AHEAD: usize = FrameHeader::LEN + Header::LONG_LEN;

/// Whether a message starts somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guess {
    /// A message does.
    Message(StreamFormat),
    /// A NOOP might.
    Noop(StreamFormat),
    /// No message does.
    No,
    /// At least this number of bytes is needed to decide.
    Need(usize),
}

/// Checks whether a message starts at the beginning of `buf`.
pub(crate) fn at_start(buf: &[u8]) -> Guess {
    if buf.len() < 4 {
        return Guess::Need(4);
    }
    for order in [ByteOrder::Little, ByteOrder::Big] {
        match order.u32_at(buf, 0) {
            0xC1 => return framed(buf, order),
            0xC0 => return noop(buf, order),
            _ => {}
        }
    }
    match buf.first_chunk() {
        Some(raw) if is_short_header(raw) => Guess::Message(StreamFormat {
            version: Version::V1,
            order: ByteOrder::Little,
            certainty: Certainty::Inferred,
        }),
        Some(_) => Guess::No,
        None => Guess::Need(Header::SHORT_LEN),
    }
}

fn framed(buf: &[u8], order: ByteOrder) -> Guess {
    let format = |version| StreamFormat { version, order, certainty: Certainty::Inferred };
    let header = &buf[FrameHeader::LEN.min(buf.len())..];
    match (header.first_chunk(), header.first_chunk()) {
        (Some(short), _) if is_short_header(short) => {
            // Only V2 has checksums over frames.
            let csum = order.u32_at(buf, 4);
            Guess::Message(format(if csum == 0 { Version::V3 } else { Version::V2 }))
        }
        (_, Some(long)) if is_long_header(long) => Guess::Message(format(Version::V4)),
        (Some(_), Some(_)) => Guess::No,
        (None, _) => Guess::Need(FrameHeader::LEN + Header::SHORT_LEN),
        (_, None) => Guess::Need(LOOK_AHEAD),
    }
}

fn noop(buf: &[u8], order: ByteOrder) -> Guess {
    let Some(raw) = buf.first_chunk() else {
        return Guess::Need(FrameHeader::LEN);
    };
    match FrameHeader::parse(raw, order) {
        // Cookies count up from 2, so that large numbers are no cookies.
        Ok(FrameHeader { kind: FrameKind::Noop, csum, zc_request, zc_ack })
            if zc_ack != 0 && (zc_ack | zc_request) >> 48 == 0 =>
        {
            let version = if csum == 0 { Version::V3 } else { Version::V2 };
            Guess::Noop(StreamFormat { version, order, certainty: Certainty::Assumed })
        }
        _ => Guess::No,
    }
}

fn is_short_header(raw: &[u8; 72]) -> bool {
    let Ok(header) = Header::parse_short(raw) else {
        return false;
    };
    let mut again = [0; 72];
    // Encoding it gives the same bytes only if all unused ones are zero.
    is_plausible(&header) && header.encode_short(&mut again).is_ok() && again == *raw
}

fn is_long_header(raw: &[u8; 96]) -> bool {
    let Ok(header) = Header::parse_long(raw) else {
        return false;
    };
    let mut again = [0; 96];
    header.encode_long(&mut again);
    is_plausible(&header) && again == *raw
}

fn is_plausible(header: &Header) -> bool {
    let portal_ok = match header.body {
        Body::Put { portal, .. } | Body::Get { portal, .. } => portal <= PORTAL_MAX,
        Body::Ack { .. } | Body::Reply { .. } => true,
        Body::Hello { .. } => false,
    };
    portal_ok && is_plausible_id(header.src) && is_plausible_id(header.dst)
}

fn is_plausible_id(id: ProcessId) -> bool {
    let pid_ok =
        id.pid == PID_LUSTRE || (id.is_userland() && id.pid & !PID_USERLAND <= u32::from(u16::MAX));
    let NetKind(kind) = id.nid.net().kind;
    pid_ok && id.nid != Nid::ANY && (NetKind::TCP.0..=NetKind::BXI3F.0).contains(&kind)
}
