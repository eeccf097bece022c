//! Every parser of `lustrine-fswire` on arbitrary bytes: none panics, and what is read survives
//! being encoded and read again. A client's reading of its configuration comes with them.

use lustrine_client::config::{Command, ConfigReader};
use lustrine_fswire::batch::{BatchHeader, Block, UpdateHeader, Updates};
use lustrine_fswire::body::PtlrpcBody;
use lustrine_fswire::codec::Writer;
use lustrine_fswire::describe::Describe;
use lustrine_fswire::dir;
use lustrine_fswire::layout::Layout;
use lustrine_fswire::llog::{Changelog, Chunk, LlogHeader, LustreCfg};
use lustrine_fswire::message::{Header, Message, MessageBuilder};
use lustrine_fswire::mgs::nid_table;
use lustrine_fswire::ost::{bulk_pieces, check_niobufs};
use lustrine_fswire::rpc::{Kind, Reply, Request};

/// The first byte says what the others are.
pub fn check(data: &[u8]) {
    let Some((&what, rest)) = data.split_first() else { return };
    match what % 8 {
        0 => framed(rest),
        1 => request(rest),
        2 => reply(rest),
        3 => layout(rest),
        4 => pages(rest),
        5 => {
            log(rest);
            configuration(rest);
        }
        6 => nids(rest),
        _ => blocks(rest),
    }
}

fn framed(bytes: &[u8]) {
    if let Ok((message, body)) = Message::parse_request(bytes) {
        let _ = Request::parse(&message, &body).map(|request| request.fields());
    }
    if let Ok((message, body)) = Message::parse_reply(bytes) {
        let _ = (message.early_reply_is_intact(), body.describe());
        for &kind in Kind::ALL {
            let _ = Reply::parse(kind, &message).map(|reply| reply.fields());
        }
    }
}

/// A kind, and a message of buffers: their number, their lengths, their bytes.
fn message(bytes: &[u8]) -> Option<(Kind, Vec<u8>)> {
    let (&kind, bytes) = bytes.split_first()?;
    let (&count, bytes) = bytes.split_first()?;
    let (lens, mut bytes) = bytes.split_at_checked(2 * usize::from(count % 16))?;
    let kind = Kind::ALL[usize::from(kind) % Kind::ALL.len()];
    let mut out = Vec::new();
    let mut to = MessageBuilder::new(&mut out, &Header::default(), 1 + lens.len() / 2);
    to.value(&PtlrpcBody::request(kind.opcode()));
    for len in lens.chunks_exact(2) {
        let len = usize::from(u16::from_le_bytes([len[0], len[1]])).min(bytes.len());
        let (buffer, rest) = bytes.split_at(len);
        to.bytes(buffer);
        bytes = rest;
    }
    to.finish();
    Some((kind, out))
}

fn request(bytes: &[u8]) {
    let Some((kind, bytes)) = message(bytes) else { return };
    let message = Message::parse(&bytes).expect("it was built");
    let Ok(request) = Request::parse_kind(kind, &message) else { return };
    request.fields();
    if let Request::OstRead(brw) | Request::OstWrite(brw) = &request {
        if check_niobufs(&brw.object, &brw.niobufs).is_ok_and(|total| total < 64 << 20) {
            let _ = bulk_pieces(0x1000, brw.object.bulk_step().unwrap_or(1), &brw.niobufs);
        }
        let _ = brw.body.checksum();
    }
    let mut again = Vec::new();
    request.encode(message.header(), &PtlrpcBody::request(kind.opcode()), &mut again);
    let message = Message::parse(&again).expect("it was encoded");
    assert_eq!(Request::parse_kind(kind, &message), Ok(request));
}

fn reply(bytes: &[u8]) {
    let Some((kind, bytes)) = message(bytes) else { return };
    let message = Message::parse(&bytes).expect("it was built");
    let Ok(reply) = Reply::parse(kind, &message) else { return };
    reply.fields();
    let mut again = Vec::new();
    reply.encode(message.header(), &PtlrpcBody::reply(kind.opcode()), &mut again);
    let message = Message::parse(&again).expect("it was encoded");
    assert_eq!(Reply::parse(kind, &message), Ok(reply));
}

fn layout(bytes: &[u8]) {
    let Ok(layout) = Layout::parse(bytes) else { return };
    layout.describe();
    let mut again = Vec::new();
    layout.write(&mut Writer::new(&mut again));
    assert_eq!(Layout::parse(&again), Ok(layout));
    let valid = layout.validate().is_ok();
    match &layout {
        Layout::Plain(plain) if valid => {
            if let Some(striping) = plain.striping() {
                let offset = u64::from(plain.header.stripe_size) * 3 + 1;
                let stripe = striping.stripe_of(offset);
                let object = striping.object_offset(offset);
                assert_eq!(striping.file_size(stripe, object + 1), Some(offset + 1));
            }
        }
        Layout::Composite(composite) => {
            let _ = (composite.at(0, 0), composite.at(1, u64::MAX));
        }
        _ => {}
    }
}

fn pages(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(dir::PAGE_SIZE), 0);
    dir::describe(&bytes);
}

fn log(bytes: &[u8]) {
    for record in Chunk(bytes).records().flatten() {
        let mut again = Vec::new();
        record.write(&mut Writer::new(&mut again));
        assert_eq!(Chunk(&again).records().next(), Some(Ok(record)));
        record.describe();
    }
    let _ = LlogHeader::parse(bytes).map(|header| header.describe());
    if let Ok(config) = LustreCfg::parse(bytes) {
        let mut again = Vec::new();
        config.write(&mut Writer::new(&mut again));
        assert_eq!(LustreCfg::parse(&again), Ok(config));
    }
    if let Ok(change) = Changelog::parse(bytes) {
        let mut again = Vec::new();
        change.write(&mut Writer::new(&mut again));
        assert_eq!(Changelog::parse(&again), Ok(change));
    }
}

/// A log that a client reads in two parts, as it does after a change.
fn configuration(bytes: &[u8]) {
    let (first, second) = bytes.split_at(bytes.len() / 16 * 8);
    let mut reader = ConfigReader::default();
    let _ = reader.read(Chunk(first), 9, |index| index % 7 != 6);
    reader.be_lenient();
    for part in [first, second, bytes] {
        let before = reader.last();
        let _ = reader.read(Chunk(part), u32::MAX, |_| true);
        assert!(reader.last() >= before);
        if let Ok(config) = reader.finish() {
            assert!(config.osts.values().all(|target| target.nids.len() <= 64));
        }
        for command in reader.take_commands() {
            if let Command::Parameter(parameter) = command {
                let text = parameter.to_string();
                assert!(text.len() < 2048 && !text.contains(char::is_control));
                let _ = parameter.is_known();
            }
        }
    }
}

fn nids(bytes: &[u8]) {
    for entry in nid_table(bytes).flatten() {
        let mut again = Vec::new();
        entry.write(&mut Writer::new(&mut again));
        assert_eq!(nid_table(&again).next(), Some(Ok(entry)));
        entry.describe();
    }
}

fn blocks(bytes: &[u8]) {
    let _ = Block::parse(bytes).map(|block| block.describe());
    let _ = Updates::parse(bytes).map(|updates| updates.describe());
    let _ = BatchHeader::parse(bytes).map(|header| header.describe());
    let _ = UpdateHeader::parse(bytes).map(|header| header.describe());
}
