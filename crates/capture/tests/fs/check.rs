//! Decodes and encodes every message of a capture.

use std::collections::BTreeMap;

use lustrine_capture::{Bulk, Content, Event, Item, Message, Rpc, RpcRole};
use lustrine_fswire::batch::{Block, Updates};
use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::codec::{Wire, Writer};
use lustrine_fswire::describe::Describe;
use lustrine_fswire::layout::{Ea, Layout};
use lustrine_fswire::llog::{Changelog, Chunk, LustreCfg, RecordKind};
use lustrine_fswire::message::Message as Lustre;
use lustrine_fswire::opcode::portal;
use lustrine_fswire::rpc::{BlockBuilder, BufferList, Kind, Lvb, LvbValue, Reply, Request, dlm};
use lustrine_wire::Nid;
use lustrine_wire::header::Body;

use crate::Counts;
use crate::data::{self, Transfers};

/// What is remembered of a request until its reply comes.
struct Sent {
    payload: Vec<u8>,
}

pub(crate) fn capture(name: &str, events: &[Event]) -> Counts {
    let mut counts = Counts::new();
    let mut sent: BTreeMap<(Nid, u64), Sent> = BTreeMap::new();
    let mut transfers = Transfers::default();
    let messages = events.iter().filter_map(|event| match &event.item {
        Item::Message(message) => Some((event, message)),
        _ => None,
    });
    // Replies may overtake the end of their bulk: data are checked at the end.
    let mut replies = Vec::new();
    for (event, message) in messages {
        let payload = &event.raw[message.payload_at()..];
        let context = || format!("{name} at {} ns: {:?}", event.time_ns, message.header);
        match &message.content {
            Content::Rpc(rpc) => {
                *counts.entry(label(rpc)).or_default() += 1;
                check_rpc(rpc, payload, &context);
                let header = &message.header;
                match rpc.role {
                    RpcRole::Request => {
                        let payload = payload.to_vec();
                        sent.insert((header.src.nid, rpc.xid), Sent { payload });
                    }
                    RpcRole::Reply => replies.push((header.dst.nid, rpc.xid, payload.to_vec())),
                    RpcRole::EarlyReply => {}
                }
            }
            Content::Bulk(bulk) => {
                let label = format!("{}:bulk", bulk.kind.name());
                *counts.entry(label).or_default() += 1;
                note_bulk(&mut transfers, message, bulk, payload);
            }
            Content::Malformed(error) => panic!("{}: {error}", context()),
            Content::Opaque => panic!("{}: not decoded, portal {:?}", context(), portal(message)),
            _ => {}
        }
    }
    for (client, xid, reply) in replies {
        if let Some(request) = sent.get(&(client, xid)) {
            let label = data::check(&request.payload, &reply, transfers.of(client, xid), name);
            if let Some(label) = label {
                *counts.entry(label).or_default() += 1;
            }
        }
    }
    counts
}

fn portal(message: &Message) -> Option<u32> {
    match message.header.body {
        Body::Put { portal, .. } | Body::Get { portal, .. } => Some(portal),
        _ => None,
    }
}

fn note_bulk(transfers: &mut Transfers, message: &Message, bulk: &Bulk, payload: &[u8]) {
    // A PUT and a REPLY both carry data to or from the client's memory.
    let client = match message.header.body {
        Body::Put { portal, .. } => {
            assert!(portal::is_bulk(portal));
            message.header.dst.nid
        }
        _ => message.header.src.nid,
    };
    transfers.add(client, bulk, payload);
}

fn label(rpc: &Rpc) -> String {
    let name = rpc.kind.name();
    match rpc.role {
        RpcRole::Request => name.to_owned(),
        RpcRole::Reply if rpc.request_ns.is_none() => format!("{name}:stray"),
        RpcRole::Reply => format!("{name}:reply"),
        RpcRole::EarlyReply => format!("{name}:early"),
    }
}

fn check_rpc(rpc: &Rpc, payload: &[u8], context: &dyn Fn() -> String) {
    let mut again = Vec::new();
    match rpc.role {
        RpcRole::Request => {
            let (message, body) = Lustre::parse_request(payload).unwrap();
            let request = Request::parse(&message, &body).unwrap();
            assert_eq!(body.version, body.opcode.version_word(), "{}", context());
            request.encode(message.header(), &body, &mut again);
            assert_eq!(again, payload, "{}: {request:?}", context());
            assert!(!request.fields().iter().any(|(name, _)| name.is_empty()));
            if let Kind::Unknown(opcode) = request.kind() {
                panic!("{}: {opcode} has no list", context());
            }
            deep_request(&request, context);
        }
        RpcRole::Reply => {
            let (message, body) = Lustre::parse_reply(payload).unwrap();
            let reply = Reply::parse(rpc.kind, &message).unwrap();
            reply.encode(message.header(), &body, &mut again);
            assert_eq!(again, payload, "{}: {reply:?}", context());
            reply.fields();
            assert_eq!(body.opcode, rpc.kind.opcode());
            deep_reply(&reply, &body, context);
        }
        RpcRole::EarlyReply => {
            let (message, body) = Lustre::parse_reply(payload).unwrap();
            assert!(message.early_reply_is_intact(), "{}", context());
            Reply::Bare.encode(message.header(), &body, &mut again);
            assert_eq!(again, payload, "{}", context());
        }
    }
}

/// Buffers whose content is looked at on demand.
fn deep_request(request: &Request<'_>, context: &dyn Fn() -> String) {
    match request {
        Request::EnqueueOpen(open) | Request::EnqueueCreat(open) => layout(&open.ea, context),
        Request::EnqueueOpenCreat(open) => layout(&open.ea, context),
        Request::ReintSetattr(setattr) => layout(&setattr.ea, context),
        Request::EnqueueLayout(intent) => layout(&intent.ea, context),
        Request::LdlmCpCallback(grant) => lvb(&grant.lvb, context),
        Request::MdsBatch(batch) if !batch.header.inline.is_empty() => {
            block(batch.header.inline, context);
        }
        Request::OutUpdate(out) if !out.header.inline.is_empty() => {
            updates(out.header.inline, context);
        }
        _ => {}
    }
}

fn deep_reply(reply: &Reply<'_>, body: &PtlrpcBody, context: &dyn Fn() -> String) {
    match reply {
        Reply::EnqueueOpen(open) | Reply::EnqueueOpenCreat(open) => {
            layout(&open.ea, context);
            open.default_ea.iter().for_each(|ea| layout(ea, context));
        }
        Reply::EnqueueGetattr(getattr) | Reply::EnqueueLookup(getattr) => {
            getattr_reply(getattr, context);
        }
        Reply::ReintCreate(create) => create.ea.iter().for_each(|ea| layout(ea, context)),
        Reply::Enqueue(reply) | Reply::EnqueueLayout(reply) => {
            reply.lvb.iter().for_each(|value| lvb(value, context));
        }
        Reply::LdlmGlCallback(reply) => lvb(&reply.lvb, context),
        Reply::LlogNextBlock(next) => chunk(&next.chunk, context),
        Reply::MdsBatch(reply) => {
            let found = block(reply.reply, context);
            assert_eq!(found, if body.status < 0 { 1 } else { 0 }, "{}", context());
        }
        _ => {}
    }
}

fn getattr_reply(reply: &dlm::GetattrIntentReply<'_>, context: &dyn Fn() -> String) {
    // A symbolic link has its target there.
    if reply.body.mode & 0o170_000 != 0o120_000 {
        layout(&reply.ea, context);
    }
    reply.default_ea.iter().for_each(|ea| layout(ea, context));
}

fn layout(ea: &Ea<'_>, context: &dyn Fn() -> String) {
    let Some(layout) = ea.layout().unwrap_or_else(|e| panic!("{}: {e} {:x?}", context(), ea.0))
    else {
        return;
    };
    let mut again = Vec::new();
    layout.write(&mut Writer::new(&mut again));
    // Behind a requested composite layout there is room for what the server makes of it.
    assert_eq!(again, ea.0[..again.len()], "{}", context());
    assert!(ea.0[again.len()..].iter().all(|&byte| byte == 0), "{}", context());
    assert!(!layout.describe().is_empty());
    if let Layout::Composite(composite) = layout {
        let parts = composite.components().map(|c| (c.entry, c.layout.unwrap()));
        let mut built = Vec::new();
        lustrine_fswire::layout::CompositeLayout::build(
            &composite.header,
            &parts.collect::<Vec<_>>(),
            &mut Writer::new(&mut built),
        );
        assert_eq!(built, composite.bytes(), "{}", context());
    }
}

fn lvb(value: &Lvb<'_>, context: &dyn Fn() -> String) {
    match value.guess() {
        LvbValue::None => {}
        LvbValue::Object(object) => assert_eq!(object.to_bytes()[..value.0.len()], *value.0),
        LvbValue::Layout(_) => layout(&Ea(value.0), context),
        // Of the global index of a quota, between servers.
        LvbValue::Unknown => panic!("{}: lvb {:x?}", context(), value.0),
    }
}

fn chunk(chunk: &Chunk<'_>, context: &dyn Fn() -> String) {
    let mut again = Vec::new();
    let mut records = chunk.records();
    for record in &mut records {
        let record = record.unwrap_or_else(|e| panic!("{}: {e}", context()));
        let mut inner = Vec::new();
        let mut to = Writer::new(&mut inner);
        match record.kind {
            RecordKind::CONFIG => LustreCfg::parse(record.payload).unwrap().write(&mut to),
            RecordKind::CHANGELOG => Changelog::parse(record.payload).unwrap().write(&mut to),
            RecordKind::LOGID => {
                to.put(&record.log_id().unwrap());
                to.zeros(20);
            }
            RecordKind::PADDING => to.bytes(record.payload),
            other => panic!("{}: record of kind {other}", context()),
        }
        assert_eq!(inner, record.payload, "{}: {:?}", context(), record.describe());
        record.write(&mut Writer::new(&mut again));
    }
    assert!(records.rest().iter().all(|&byte| byte == 0), "{}", context());
    again.resize(chunk.0.len(), 0);
    assert_eq!(again, chunk.0, "{}", context());
}

/// Decodes and encodes a block; how many messages it has beyond those it counts.
pub(crate) fn block(bytes: &[u8], context: &dyn Fn() -> String) -> usize {
    let block = Block::parse(bytes).unwrap_or_else(|e| panic!("{}: {e}", context()));
    let mut again = BlockBuilder::new(block.header.magic);
    let mut messages = block.messages();
    let counted = usize::from(block.header.count);
    let mut found = 0;
    for message in &mut messages {
        let message = message.unwrap_or_else(|e| panic!("{}: {e}", context()));
        let is_counted = found < counted;
        found += 1;
        if block.header.magic == Block::REQUEST_MAGIC {
            sub::<dlm::GetattrIntent<'_>>(&message, is_counted, &mut again);
        } else {
            sub::<dlm::GetattrIntentReply<'_>>(&message, is_counted, &mut again);
        }
    }
    assert!(messages.rest().iter().all(|&byte| byte == 0), "{}", context());
    let mut again = again.finish();
    again.resize(bytes.len(), 0);
    assert_eq!(again, bytes, "{}", context());
    found - counted
}

fn sub<'a, T: BufferList<'a>>(message: &Lustre<'a>, is_counted: bool, to: &mut BlockBuilder) {
    let list = T::parse_list(message, 0).unwrap();
    match is_counted {
        true => to.push(message.header(), &list),
        false => to.push_failed(message.header(), &list),
    }
}

pub(crate) fn updates(bytes: &[u8], context: &dyn Fn() -> String) {
    let updates = Updates::parse(bytes).unwrap_or_else(|e| panic!("{}: {e}", context()));
    assert_eq!(updates.updates().count(), usize::from(updates.header.count), "{}", context());
    assert!(updates.updates().all(|u| u.params().count() == usize::from(u.fields.params)));
}
