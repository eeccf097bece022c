//! Requests and replies of the RPC layer, and the memory for bulk that requests name.

use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::message::{HeaderFlags, MAGIC, Message};
use lustrine_fswire::opcode::portal;
use lustrine_fswire::rpc::{Kind, Reply, Request};
use lustrine_wire::Nid;
use lustrine_wire::header::Header;

use crate::correlate::{Correlations, Pending};
use crate::event::{Bulk, Content, ContentError, Rpc, RpcRole};

/// The most memory descriptors of one transfer that are remembered.
const TRANSFERS_MAX: u64 = 128;

/// Whether a PUT carries a request or a reply: other protocols may use the same portals.
pub(super) fn is_rpc(portal: u32, payload: &[u8]) -> bool {
    let magic = payload.get(8..12).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    (portal::is_request(portal) || portal::is_reply(portal))
        && magic.is_some_and(|magic| magic == MAGIC || magic == MAGIC.swap_bytes())
}

/// Checks a request or a reply, and remembers what belongs to it.
pub(super) fn look(
    header: &Header,
    portal: u32,
    match_bits: u64,
    offset: u32,
    payload: &[u8],
    known: &mut Correlations,
) -> Content {
    let found = if portal::is_request(portal) {
        request(header, match_bits, payload, known)
    } else {
        reply(header, match_bits, offset, payload, known)
    };
    found.map_or_else(Content::Malformed, Content::Rpc)
}

fn request(
    header: &Header,
    xid: u64,
    payload: &[u8],
    known: &mut Correlations,
) -> Result<Rpc, ContentError> {
    let (message, body) = Message::parse_with_body(payload)?;
    let request = Request::parse(&message, &body)?;
    let kind = request.kind();
    let has_early_replies = message.header().flags.contains(HeaderFlags::AT_SUPPORT);
    let pending = Pending { kind, xid, time_ns: known.now_ns, has_early_replies };
    let (client, server) = (header.src.nid, header.dst.nid);
    for bits in [xid, body.mbits] {
        if bits != 0 {
            known.expect_rpc_reply(client, server, bits, pending);
        }
    }
    remember_bulk(&request, &body, xid, client, known);
    Ok(Rpc { role: RpcRole::Request, kind, xid, request_ns: None })
}

/// Records the memory for bulk [RPC-15].
fn remember_bulk(
    request: &Request<'_>,
    body: &PtlrpcBody,
    xid: u64,
    client: Nid,
    known: &mut Correlations,
) {
    let last = if body.mbits == 0 { xid } else { body.mbits };
    let step = match request {
        Request::OstRead(brw) | Request::OstWrite(brw) if brw.data.is_empty() => {
            brw.object.bulk_step().unwrap_or(1)
        }
        Request::MdsReadpage(_)
        | Request::MgsConfigRead(_)
        | Request::ObdIdxRead(_)
        | Request::MgsTargetReg(_)
        | Request::MdsBatch(_)
        | Request::OutUpdate(_) => 1,
        _ => return,
    };
    let first = last & !(step - 1);
    for bits in (first..=last).rev().take(TRANSFERS_MAX as usize) {
        let index = u32::try_from(bits - first).unwrap_or(u32::MAX);
        known.expect_bulk(client, bits, Bulk { kind: request.kind(), xid, index });
    }
}

fn reply(
    header: &Header,
    match_bits: u64,
    offset: u32,
    payload: &[u8],
    known: &mut Correlations,
) -> Result<Rpc, ContentError> {
    let (message, body) = Message::parse_with_body(payload)?;
    let Some(request) = known.request(header.dst.nid, header.src.nid, match_bits) else {
        let kind = Kind::Unknown(body.opcode);
        return Ok(Rpc { role: RpcRole::Reply, kind, xid: match_bits, request_ns: None });
    };
    let role = match request.has_early_replies && offset == 0 {
        true => RpcRole::EarlyReply,
        false => RpcRole::Reply,
    };
    if role == RpcRole::Reply {
        Reply::parse(request.kind, &message)?;
    }
    let request_ns = Some(request.time_ns);
    Ok(Rpc { role, kind: request.kind, xid: request.xid, request_ns })
}
