//! Decodes payloads: ping info, selftest, and the RPC layer.

mod rpc;

use lustrine_fswire::opcode::portal;
use lustrine_wire::header::{Body, Header};
use lustrine_wire::srpc::{self, BrwOp, Destination, Message as Srpc, destination_at};
use lustrine_wire::{ByteOrder, Nid, PING_MATCH_BITS, PING_PORTAL, ping};

use crate::correlate::{Correlations, Expected};
use crate::event::{Content, PingInfo};

/// The usual page size of the console, which lays out lists of destinations in pages.
const PAGE_SIZE: usize = 4096;

/// The largest number of entries of ping info that is read. Releases differ in their limits, so
/// this is the largest of them.
const PING_ENTRIES_MAX: u32 = 4096;

/// Decodes the payload of a message, and remembers what its answer will carry.
pub(crate) fn look(header: &Header, payload: &[u8], known: &mut Correlations) -> Content {
    match header.body {
        Body::Put { portal, match_bits, .. } if portal::is_bulk(portal) && !payload.is_empty() => {
            let bulk = known.bulk(header.dst.nid, match_bits);
            bulk.map_or(Content::Opaque, Content::Bulk)
        }
        Body::Put { portal, match_bits, offset, .. } if rpc::is_rpc(portal, payload) => {
            rpc::look(header, portal, match_bits, offset, payload, known)
        }
        Body::Put { portal, match_bits, .. } => put(header, portal, match_bits, payload, known),
        Body::Get { portal, match_bits, return_md, .. } => {
            if let Some(expected) = get(header.dst.nid, portal, match_bits, known) {
                known.expect_reply(header.src.nid, return_md, expected);
            }
            Content::Empty
        }
        Body::Reply { md } => match known.reply(header.dst.nid, md) {
            Some(expected) => expected_content(expected, payload),
            None => unexpected_reply(payload),
        },
        Body::Ack { .. } | Body::Hello { .. } => Content::Empty,
    }
}

fn get(target: Nid, portal: u32, match_bits: u64, known: &Correlations) -> Option<Expected> {
    match portal {
        PING_PORTAL if match_bits == PING_MATCH_BITS => Some(Expected::Ping),
        srpc::REPLY_PORTAL => known.transfer(target, match_bits),
        _ if portal::is_bulk(portal) => known.bulk(target, match_bits).map(Expected::Bulk),
        _ => None,
    }
}

fn put(
    header: &Header,
    portal: u32,
    match_bits: u64,
    payload: &[u8],
    known: &mut Correlations,
) -> Content {
    match portal {
        PING_PORTAL if match_bits == PING_MATCH_BITS => expected_content(Expected::Ping, payload),
        srpc::TEST_PORTAL | srpc::FRAMEWORK_PORTAL => match Srpc::parse(payload) {
            Ok(message) => {
                remember(&message, header.src.nid, known);
                Content::Srpc(message)
            }
            Err(error) => Content::Malformed(error.into()),
        },
        srpc::REPLY_PORTAL => match known.transfer(header.dst.nid, match_bits) {
            Some(expected) => expected_content(expected, payload),
            // The request was sent before the capture began.
            None => Srpc::parse(payload).map_or(Content::Opaque, Content::Srpc),
        },
        _ if payload.is_empty() => Content::Empty,
        _ => Content::Opaque,
    }
}

/// Records the buffers that a request names.
fn remember(message: &Srpc, caller: Nid, known: &mut Correlations) {
    use srpc::Body as B;
    let order = message.order;
    let (reply_bits, bulk) = match &message.body {
        B::MakeSessionRequest(r) => (r.reply_bits, None),
        B::RemoveSessionRequest(r) => (r.reply_bits, None),
        B::BatchRequest(r) => (r.reply_bits, None),
        B::StatRequest(r) => (r.reply_bits, None),
        B::DebugRequest(r) => (r.reply_bits, None),
        B::JoinRequest(r) => (r.reply_bits, None),
        B::PingRequest(r) => (r.reply_bits, None),
        B::TestRequest(r) => (r.reply_bits, Some((r.bulk_bits, Expected::Destinations(order)))),
        B::BrwRequest(r) => {
            let bulk = BrwOp::from_number(r.rw).map(|_| (r.bulk_bits, Expected::TestData));
            (r.reply_bits, bulk)
        }
        _ => return,
    };
    known.expect_transfer(caller, reply_bits, Expected::SrpcReply);
    if let Some((bits, expected)) = bulk {
        known.expect_transfer(caller, bits, expected);
    }
}

fn expected_content(expected: Expected, payload: &[u8]) -> Content {
    match expected {
        Expected::Ping => match ping_info(payload) {
            Ok(info) => Content::Ping(info),
            Err(error) => Content::Malformed(error.into()),
        },
        Expected::SrpcReply => match Srpc::parse(payload) {
            Ok(message) => Content::Srpc(message),
            Err(error) => Content::Malformed(error.into()),
        },
        Expected::Destinations(order) => Content::Destinations(destinations(payload, order)),
        Expected::TestData => Content::TestData,
        Expected::Bulk(bulk) => Content::Bulk(bulk),
    }
}

/// A REPLY whose GET was sent before the capture began.
fn unexpected_reply(payload: &[u8]) -> Content {
    match ping_info(payload) {
        _ if payload.is_empty() => Content::Empty,
        Ok(info) => Content::Ping(info),
        Err(_) => Content::Opaque,
    }
}

fn ping_info(payload: &[u8]) -> Result<PingInfo, ping::PingError> {
    let info = ping::PingInfo::parse_limited(payload, PING_ENTRIES_MAX)?;
    Ok(PingInfo {
        order: info.order(),
        features: info.features(),
        pid: info.pid(),
        sequence: info.sequence(),
        entries: info.entries().collect(),
        trailing: info.trailing().len(),
    })
}

fn destinations(payload: &[u8], order: ByteOrder) -> Vec<Destination> {
    (0..)
        .map_while(|index| payload.get(destination_at(index, PAGE_SIZE)..)?.first_chunk())
        .map(|raw| Destination::parse(raw, order))
        .collect()
}
