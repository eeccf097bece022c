//! Requests, replies and bulk data of the RPC layer.

use lustrine_capture::{Bulk, Rpc, RpcRole};
use lustrine_fswire::batch::{Block, Updates};
use lustrine_fswire::body::{BodyFlags, PtlrpcBody};
use lustrine_fswire::describe::{Describe, Fields, Value};
use lustrine_fswire::dir;
use lustrine_fswire::message::Message;
use lustrine_fswire::mgs::nid_table;
use lustrine_fswire::rpc::{Kind, Reply, Request};

use super::payload::Payload;

/// The most important fields of a request or a reply: the place among all fields, and the name on
/// the line. Those that are there and not empty are printed.
const TELLING: [(&str, &str); 42] = [
    ("target", "target"),
    ("data.flags", "flags"),
    ("data.flags2", "flags2"),
    ("lock.flags", "lock_flags"),
    ("lock.desc.kind", "lock"),
    ("lock.desc.resource", "resource"),
    ("lock.desc.req_mode", "mode"),
    ("lock.desc.policy.bits", "bits"),
    ("lock.desc.policy.start", "start"),
    ("lock.desc.policy.end", "end"),
    ("lock.count", "count"),
    ("lock.handles", "handles"),
    ("layout.op", "op"),
    ("reply.flags", "lock_flags"),
    ("reply.desc.granted_mode", "granted"),
    ("reply.desc.resource", "resource"),
    ("reply.desc.policy.bits", "bits"),
    ("reply.desc.policy.start", "start"),
    ("reply.desc.policy.end", "end"),
    ("reply.handle", "handle"),
    ("reply.policy_res2", "result"),
    ("lvb.size", "size"),
    ("record.parent", "parent"),
    ("record.fid", "fid"),
    ("record.fid1", "fid1"),
    ("record.fid2", "fid2"),
    ("record.valid", "valid"),
    ("record.flags", "flags"),
    ("body.fid1", "fid1"),
    ("body.fid2", "fid2"),
    ("body.open_handle", "open_handle"),
    ("epoch.open_handle", "open_handle"),
    ("name", "name"),
    ("key", "key"),
    ("quota.id", "id"),
    ("op", "op"),
    ("range.start", "start"),
    ("range.end", "end"),
    ("body.oi", "object"),
    ("body.name", "name"),
    ("body.index", "index"),
    ("statfs.bavail", "bavail"),
];

/// Describes a request or a reply, whose framing and buffers the dissector has checked. `time_ns`
/// is when it was captured.
pub(super) fn describe(rpc: &Rpc, time_ns: u64, bytes: &[u8]) -> Payload {
    let suffix = match rpc.role {
        RpcRole::Request => "",
        RpcRole::Reply => " reply",
        RpcRole::EarlyReply => " early reply",
    };
    let mut fields = vec![("xid", Value::Hex(rpc.xid))];
    if let Some(request_ns) = rpc.request_ns {
        fields.push(("took_us", Value::Number(time_ns.saturating_sub(request_ns) / 1000)));
    }
    let mut details = Vec::new();
    if let Ok((message, body)) = Message::parse_with_body(bytes) {
        let buffers = match rpc.role {
            RpcRole::Request => {
                request_state(&body, &mut fields);
                buffers_of_request(rpc, &message, &mut fields)
            }
            RpcRole::Reply => {
                reply_state(&body, &mut fields);
                buffers_of_reply(rpc, &message, &mut fields)
            }
            RpcRole::EarlyReply => {
                fields.push(("timeout", Value::Number(body.timeout.into())));
                Vec::new()
            }
        };
        details.push(("message", Value::Fields(message.header_fields())));
        details.push(("ptlrpc_body", body.describe()));
        details.extend(buffers);
    }
    Payload { kind: format!("{}{suffix}", rpc.kind.name()), fields, details }
}

fn request_state(body: &PtlrpcBody, fields: &mut Fields) {
    let state = body.flags.difference(BodyFlags::UID_GID | BodyFlags::PROJID);
    if !state.is_empty() {
        fields.push(("state", state.describe()));
    }
    if body.transno != 0 {
        fields.push(("transno", Value::Hex(body.transno)));
    }
}

fn reply_state(body: &PtlrpcBody, fields: &mut Fields) {
    fields.push(("status", Value::Signed(body.status.into())));
    if body.transno != 0 {
        fields.push(("transno", Value::Hex(body.transno)));
    }
    if !body.op_flags.is_empty() {
        fields.push(("op_flags", body.op_flags.describe()));
    }
}

fn buffers_of_request(rpc: &Rpc, message: &Message<'_>, fields: &mut Fields) -> Fields {
    let Ok(request) = Request::parse_kind(rpc.kind, message) else {
        return Vec::new();
    };
    if let Request::OstRead(brw) | Request::OstWrite(brw) = &request {
        let first = brw.niobufs.get(0).unwrap_or_default();
        let bytes: u64 = brw.niobufs.iter().map(|niobuf| u64::from(niobuf.len)).sum();
        fields.push(("offset", Value::Number(first.offset)));
        fields.push(("bytes", Value::Number(bytes)));
    }
    let buffers = request.fields();
    push_telling(&buffers, fields);
    buffers
}

fn buffers_of_reply(rpc: &Rpc, message: &Message<'_>, fields: &mut Fields) -> Fields {
    let Ok(reply) = Reply::parse(rpc.kind, message) else {
        return Vec::new();
    };
    let disposition = match &reply {
        Reply::EnqueueOpen(open) | Reply::EnqueueOpenCreat(open) => Some(open.reply),
        Reply::EnqueueGetattr(getattr) | Reply::EnqueueLookup(getattr) => Some(getattr.reply),
        _ => None,
    };
    if let Some(reply) = disposition {
        fields.push(("disposition", reply.disposition().describe()));
    }
    let buffers = reply.fields();
    push_telling(&buffers, fields);
    buffers
}

fn push_telling(buffers: &Fields, fields: &mut Fields) {
    let buffers = Value::Fields(buffers.clone());
    for (path, name) in TELLING {
        match buffers.at(path) {
            Some(value) if !value.is_empty() => fields.push((name, shortened(value))),
            _ => {}
        }
    }
}

/// Lists without the zeros at their end.
fn shortened(value: &Value) -> Value {
    match value {
        Value::List(list) => {
            let len = list.iter().rposition(|value| !value.is_empty()).map_or(0, |last| last + 1);
            Value::List(list[..len].to_vec())
        }
        other => other.clone(),
    }
}

/// Describes data that an RPC moves by bulk.
pub(super) fn describe_bulk(bulk: &Bulk, bytes: &[u8]) -> Payload {
    let mut fields =
        vec![("xid", Value::Hex(bulk.xid)), ("part", Value::Number(bulk.index.into()))];
    let mut details = Vec::new();
    match bulk.kind {
        Kind::MdsReadpage => {
            let pages = dir::pages(bytes).map_or(0, |pages| pages.len() as u64);
            fields.push(("pages", Value::Number(pages)));
            details.push(("pages", dir::describe(bytes)));
        }
        Kind::MgsConfigRead => {
            let entries = nid_table(bytes).map(|entry| match entry {
                Ok(entry) => entry.describe(),
                Err(error) => Value::text(error),
            });
            details.push(("entries", Value::List(entries.collect())));
        }
        Kind::MdsBatch => details.push((
            "block",
            Block::parse(bytes).map_or_else(Value::text, |block| block.describe()),
        )),
        Kind::OutUpdate => details.push((
            "updates",
            Updates::parse(bytes).map_or_else(Value::text, |updates| updates.describe()),
        )),
        _ => {}
    }
    Payload { kind: format!("{} bulk", bulk.kind.name()), fields, details }
}
