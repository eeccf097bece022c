//! An event as a kind, two parties and named fields: the common source of both forms of output.

use std::fmt::Write as _;

use lustrine_capture::{
    Certainty, Checksum, Content, Event, Item, Message, Noop, PingInfo, Start, StreamFormat,
};
use lustrine_fswire::describe::{Fields, Value};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::frame::{FrameHeader, ZcAck};
use lustrine_wire::header::{Body, MdHandle};
use lustrine_wire::hello::{ConnType, Hello};
use lustrine_wire::ping::NiStatus;
use lustrine_wire::srpc::{self, TestParams};

use super::payload::Payload;
use super::rpc;

/// The description of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) kind: &'static str,
    /// The sender and the receiver.
    pub(super) parties: Option<(String, String)>,
    pub(super) fields: Fields,
    /// The payload.
    pub(super) content: Option<Payload>,
}

impl Description {
    fn new(kind: &'static str, fields: Fields) -> Description {
        Description { kind, parties: None, fields, content: None }
    }
}

fn text(value: impl ToString) -> Value {
    Value::Text(value.to_string())
}

/// Two digits for each byte.
pub(super) fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("strings take everything");
        text
    })
}

fn number(value: impl Into<u64>) -> Value {
    Value::Number(value.into())
}

fn hex(value: impl Into<u64>) -> Value {
    Value::Hex(value.into())
}

/// Describes an event.
pub(super) fn describe(event: &Event) -> Description {
    match &event.item {
        Item::Opened { opener, acceptor, start } => Description {
            parties: Some((opener.to_string(), acceptor.to_string())),
            ..Description::new("OPEN", vec![("start", text(start_name(*start)))])
        },
        Item::Request(request) => {
            let mut fields =
                vec![("version", number(request.version)), ("target", text(request.target))];
            push_order(&mut fields, request.order);
            Description::new("REQUEST", fields)
        }
        Item::Answer(answer) => {
            Description::new("ANSWER", vec![("version", number(answer.version))])
        }
        Item::Hello(hello) => describe_hello(hello),
        Item::Noop(noop) => describe_noop(noop),
        Item::Message(message) => describe_message(message, event),
        Item::Gap { missing } => Description::new("GAP", vec![("missing", number(*missing))]),
        Item::Undecoded(why) => {
            let fields = vec![("len", number(event.raw.len() as u64)), ("reason", text(why))];
            Description::new("UNDECODED", fields)
        }
        Item::Fin => Description::new("FIN", Vec::new()),
        Item::Reset => Description::new("RESET", Vec::new()),
    }
}

fn start_name(start: Start) -> &'static str {
    match start {
        Start::Handshake => "handshake",
        Start::MidStream => "midway",
    }
}

/// Little-endian order is the default and not printed.
fn push_order(fields: &mut Fields, order: ByteOrder) {
    if order == ByteOrder::Big {
        fields.push(("order", text("big")));
    }
}

fn conn_type(kind: ConnType) -> &'static str {
    match kind {
        ConnType::Any => "any",
        ConnType::Control => "control",
        ConnType::BulkIn => "bulk_in",
        ConnType::BulkOut => "bulk_out",
        ConnType::None => "none",
    }
}

fn describe_hello(hello: &Hello) -> Description {
    let mut fields = vec![
        ("version", number(hello.version.number())),
        ("type", text(conn_type(hello.kind))),
        ("src_incarnation", hex(hello.src_incarnation)),
    ];
    if hello.dst_incarnation != 0 {
        fields.push(("dst_incarnation", hex(hello.dst_incarnation)));
    }
    let ips = hello.ips.as_slice();
    if !ips.is_empty() {
        let ips = ips.iter().map(|&ip| text(core::net::Ipv4Addr::from_bits(ip)));
        fields.push(("ips", Value::List(ips.collect())));
    }
    push_order(&mut fields, hello.order);
    Description {
        parties: Some((hello.src.to_string(), hello.dst.to_string())),
        ..Description::new("HELLO", fields)
    }
}

fn describe_noop(noop: &Noop) -> Description {
    let mut fields = Vec::new();
    match noop.frame.acknowledged() {
        Ok(ZcAck::Nothing) => {}
        Ok(ZcAck::Keepalive) => fields.push(("keepalive", text("yes"))),
        Ok(ZcAck::One(cookie)) => fields.push(("zc_ack", number(cookie))),
        Ok(ZcAck::Pair(a, b)) => {
            fields.push(("zc_ack", Value::List(vec![number(a), number(b)])));
        }
        Ok(ZcAck::Range(low, high)) => fields.push(("zc_ack", text(format!("{low}..={high}")))),
        Err(error) => fields.push(("error", text(error))),
    }
    push_checksum(&mut fields, &noop.frame, noop.checksum);
    push_format(&mut fields, noop.format);
    Description::new("NOOP", fields)
}

fn push_checksum(fields: &mut Fields, frame: &FrameHeader, checksum: Checksum) {
    match checksum {
        Checksum::Absent => return,
        Checksum::Good => fields.push(("csum", text("good"))),
        Checksum::Bad { computed } => {
            fields.push(("csum", text("bad")));
            fields.push(("csum_computed", hex(computed)));
        }
    }
    fields.push(("csum_sent", hex(frame.csum)));
}

/// Version 3 in little-endian order, known from HELLO, is the default and not printed.
fn push_format(fields: &mut Fields, format: StreamFormat) {
    if format.version.number() != 3 {
        fields.push(("version", number(format.version.number())));
    }
    match format.certainty {
        Certainty::Announced => {}
        Certainty::Inferred => fields.push(("version_is", text("inferred"))),
        Certainty::Assumed => fields.push(("version_is", text("assumed"))),
    }
    push_order(fields, format.order);
}

fn md(handle: MdHandle) -> Value {
    if handle.is_none() {
        return text("none");
    }
    text(format!("{:x}.{:x}", handle.interface, handle.object))
}

fn describe_message(message: &Message, event: &Event) -> Description {
    let header = &message.header;
    let mut fields = body_fields(&header.body);
    if header.payload_len != 0 {
        fields.push(("payload_len", number(header.payload_len)));
    }
    if let Some(frame) = &message.frame {
        if frame.zc_request != 0 {
            fields.push(("zc_request", number(frame.zc_request)));
        }
        if frame.zc_ack != 0 {
            fields.push(("zc_ack", number(frame.zc_ack)));
        }
        push_checksum(&mut fields, frame, message.checksum);
    }
    push_format(&mut fields, message.format);
    Description {
        kind: header.body.kind().name(),
        parties: Some((header.src.to_string(), header.dst.to_string())),
        fields,
        content: payload(message, event),
    }
}

fn body_fields(body: &Body) -> Fields {
    match *body {
        Body::Ack { md: handle, match_bits, mlength } => {
            vec![("match_bits", hex(match_bits)), ("mlength", number(mlength)), ("md", md(handle))]
        }
        Body::Put { ack_md, match_bits, hdr_data, portal, offset } => vec![
            ("portal", number(portal)),
            ("match_bits", hex(match_bits)),
            ("offset", number(offset)),
            ("hdr_data", hex(hdr_data)),
            ("ack_md", md(ack_md)),
        ],
        Body::Get { return_md, match_bits, portal, offset, sink_len } => vec![
            ("portal", number(portal)),
            ("match_bits", hex(match_bits)),
            ("offset", number(offset)),
            ("sink_len", number(sink_len)),
            ("return_md", md(return_md)),
        ],
        Body::Reply { md: handle } => vec![("md", md(handle))],
        Body::Hello { incarnation, kind } => {
            vec![("incarnation", hex(incarnation)), ("type", number(kind))]
        }
    }
}

fn payload(message: &Message, event: &Event) -> Option<Payload> {
    let bytes = event.raw.get(message.payload_at()..).unwrap_or_default();
    match &message.content {
        Content::Rpc(rpc) => Some(rpc::describe(rpc, event.time_ns, bytes)),
        Content::Bulk(bulk) => Some(rpc::describe_bulk(bulk, bytes)),
        other => content(other).map(|(kind, fields)| Payload {
            kind: kind.to_owned(),
            fields,
            details: Vec::new(),
        }),
    }
}

fn content(content: &Content) -> Option<(&'static str, Fields)> {
    Some(match content {
        Content::Empty => return None,
        Content::Ping(info) => ("PING_INFO", ping_fields(info)),
        Content::Srpc(message) => (message.body.message_type().name(), srpc_fields(message)),
        Content::Destinations(list) => {
            let list = list.iter().map(|entry| text(entry.process_id())).collect();
            ("DESTINATIONS", vec![("list", Value::List(list))])
        }
        Content::TestData => ("TEST_DATA", Vec::new()),
        Content::Opaque | Content::Rpc(_) | Content::Bulk(_) => ("DATA", Vec::new()),
        Content::Malformed(error) => ("MALFORMED", vec![("reason", text(error))]),
    })
}

fn ping_fields(info: &PingInfo) -> Fields {
    let features = info.features.iter_names().map(|(name, _)| text(name)).collect();
    let nids = info.entries.iter().map(|entry| match entry.status {
        NiStatus::Up => text(format!("{}:up", entry.nid)),
        NiStatus::Down => text(format!("{}:down", entry.nid)),
        NiStatus::Other(word) => text(format!("{}:{word:#x}", entry.nid)),
    });
    let mut fields = vec![
        ("features", Value::List(features)),
        ("pid", number(info.pid)),
        ("sequence", number(info.sequence)),
        ("nids", Value::List(nids.collect())),
    ];
    if info.trailing != 0 {
        fields.push(("trailing", number(info.trailing as u64)));
    }
    push_order(&mut fields, info.order);
    fields
}

fn srpc_fields(message: &srpc::Message) -> Fields {
    let mut fields = srpc_body(&message.body);
    fields.push(("features", hex(message.features)));
    if message.version != srpc::VERSION {
        fields.push(("version", number(message.version)));
    }
    push_order(&mut fields, message.order);
    fields
}

fn srpc_body(body: &srpc::Body) -> Fields {
    use srpc::Body as B;
    match body {
        B::MakeSessionRequest(r) => vec![
            ("reply_bits", hex(r.reply_bits)),
            ("sid", text(r.sid)),
            ("force", number(r.force)),
            ("name", text(r.name)),
        ],
        B::MakeSessionReply(r) => vec![
            ("status", number(r.status)),
            ("sid", text(r.sid)),
            ("timeout", number(r.timeout)),
            ("name", text(r.name)),
        ],
        B::RemoveSessionRequest(r) => {
            vec![("reply_bits", hex(r.reply_bits)), ("sid", text(r.sid))]
        }
        B::RemoveSessionReply(r) => vec![("status", number(r.status)), ("sid", text(r.sid))],
        B::ClientStatsRequest(r) => vec![
            ("reply_bits", hex(r.reply_bits)),
            ("bulk_bits", hex(r.bulk_bits)),
            ("sid", text(r.sid)),
            ("batch", number(r.batch)),
            ("test", number(r.test)),
            ("room", number(r.room)),
        ],
        B::ClientStatsReply(r) => {
            vec![("status", number(r.status)), ("sid", text(r.sid)), ("len", number(r.len))]
        }
        B::BatchRequest(r) => vec![
            ("reply_bits", hex(r.reply_bits)),
            ("sid", text(r.sid)),
            ("batch", number(r.batch)),
            ("op", text(batch_op(r.op))),
            ("test", number(r.test)),
            ("arg", number(r.arg)),
        ],
        B::BatchReply(r) => vec![
            ("status", number(r.status)),
            ("sid", text(r.sid)),
            ("active", number(r.active)),
            ("time", number(r.time)),
        ],
        B::StatRequest(r) => vec![
            ("reply_bits", hex(r.reply_bits)),
            ("sid", text(r.sid)),
            ("stat_type", number(r.kind)),
        ],
        B::StatReply(r) => stat_fields(r),
        B::TestRequest(r) => test_fields(r),
        B::TestReply(r) => vec![("status", number(r.status)), ("sid", text(r.sid))],
        B::DebugRequest(r) => {
            vec![("reply_bits", hex(r.reply_bits)), ("sid", text(r.sid)), ("flags", hex(r.flags))]
        }
        B::DebugReply(r) => vec![
            ("status", number(r.status)),
            ("sid", text(r.sid)),
            ("timeout", number(r.timeout)),
            ("batches", number(r.batches)),
            ("name", text(r.name)),
        ],
        B::BrwRequest(r) => vec![
            ("reply_bits", hex(r.reply_bits)),
            ("bulk_bits", hex(r.bulk_bits)),
            ("rw", text(rw(r.rw))),
            ("len", number(r.len)),
            ("check", text(check(r.check))),
        ],
        B::BrwReply(r) => vec![("status", number(r.status))],
        B::PingRequest(r) => vec![
            ("reply_bits", hex(r.reply_bits)),
            ("magic", hex(r.magic)),
            ("seq", number(r.seq)),
            ("time_s", number(r.time_s)),
            ("time_ns", number(r.time_ns)),
        ],
        B::PingReply(r) => {
            vec![("status", number(r.status)), ("magic", hex(r.magic)), ("seq", number(r.seq))]
        }
        B::JoinRequest(r) => {
            vec![("reply_bits", hex(r.reply_bits)), ("sid", text(r.sid)), ("group", text(r.group))]
        }
        B::JoinReply(r) => vec![
            ("status", number(r.status)),
            ("sid", text(r.sid)),
            ("timeout", number(r.timeout)),
            ("name", text(r.name)),
        ],
    }
}

fn stat_fields(reply: &srpc::StatReply) -> Fields {
    let srpc::Counters { framework, rpc, lnet } = &reply.counters;
    vec![
        ("status", number(reply.status)),
        ("sid", text(reply.sid)),
        ("running_ms", number(framework.running_ms)),
        ("active_batches", number(framework.active_batches)),
        ("zombie_sessions", number(framework.zombie_sessions)),
        ("brw_errors", number(framework.brw_errors)),
        ("ping_errors", number(framework.ping_errors)),
        ("rpc_errors", number(rpc.errors)),
        ("rpcs_sent", number(rpc.sent)),
        ("rpcs_received", number(rpc.received)),
        ("rpcs_dropped", number(rpc.dropped)),
        ("rpcs_expired", number(rpc.expired)),
        ("bulk_get", number(rpc.bulk_get)),
        ("bulk_put", number(rpc.bulk_put)),
        ("msgs_alloc", number(lnet.msgs_alloc)),
        ("msgs_max", number(lnet.msgs_max)),
        ("lnet_errors", number(lnet.errors)),
        ("send_count", number(lnet.send_count)),
        ("recv_count", number(lnet.recv_count)),
        ("route_count", number(lnet.route_count)),
        ("drop_count", number(lnet.drop_count)),
        ("send_length", number(lnet.send_length)),
        ("recv_length", number(lnet.recv_length)),
        ("route_length", number(lnet.route_length)),
        ("drop_length", number(lnet.drop_length)),
    ]
}

fn test_fields(request: &srpc::TestRequest) -> Fields {
    let role = match request.role {
        srpc::Role::Server => "server",
        srpc::Role::Client => "client",
    };
    let service = match srpc::Service::from_id(request.service) {
        Some(srpc::Service::Brw) => text("brw"),
        Some(srpc::Service::Ping) => text("ping"),
        _ => number(request.service),
    };
    let mut fields = vec![
        ("reply_bits", hex(request.reply_bits)),
        ("bulk_bits", hex(request.bulk_bits)),
        ("sid", text(request.sid)),
        ("batch", number(request.batch)),
        ("service", service),
        ("role", text(role)),
        ("loops", Value::Signed(i64::from(request.loops))),
        ("concurrency", number(request.concurrency)),
        ("stop_on_error", number(request.stop_on_error)),
        ("destinations", number(request.destinations)),
    ];
    match request.params {
        TestParams::BrwV0 { rw: op, pages, check: how } => fields.extend([
            ("rw", text(rw(op))),
            ("pages", number(pages)),
            ("check", text(check(how))),
        ]),
        TestParams::BrwV1 { rw: op, check: how, len, offset } => fields.extend([
            ("rw", text(rw(u32::from(op)))),
            ("check", text(check(u32::from(how)))),
            ("len", number(len)),
            ("offset", number(offset)),
        ]),
        // Both are unused and often garbage.
        TestParams::Ping { .. } => {}
        TestParams::Unknown(raw) => fields.push(("params", text(hex_of(&raw)))),
    }
    if request.rate != 0 {
        fields.push(("rate", number(request.rate)));
    }
    fields
}

fn batch_op(number: u32) -> String {
    match srpc::BatchOp::from_number(number) {
        Some(srpc::BatchOp::Run) => "run".to_owned(),
        Some(srpc::BatchOp::Stop) => "stop".to_owned(),
        Some(srpc::BatchOp::Query) => "query".to_owned(),
        None => number.to_string(),
    }
}

fn rw(number: u32) -> String {
    match srpc::BrwOp::from_number(number) {
        Some(srpc::BrwOp::Read) => "read".to_owned(),
        Some(srpc::BrwOp::Write) => "write".to_owned(),
        None => number.to_string(),
    }
}

fn check(number: u32) -> String {
    match srpc::BrwCheck::from_number(number) {
        Some(srpc::BrwCheck::None) => "none".to_owned(),
        Some(srpc::BrwCheck::Simple) => "simple".to_owned(),
        Some(srpc::BrwCheck::Full) => "full".to_owned(),
        Some(srpc::BrwCheck::Discard) => "discard".to_owned(),
        None => number.to_string(),
    }
}
