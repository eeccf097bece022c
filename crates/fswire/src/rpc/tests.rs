use proptest::prelude::*;

use super::*;
use crate::body::PtlrpcBody;
use crate::codec::{Wire, Writer};
use crate::fid::Fid;
use crate::layout::Ea;
use crate::ldlm::{IntentOp, LdlmRequest};
use crate::mdt::{CreateRecord, MdtBody, Reint, ReintOp};
use crate::message::{Header, Message, MessageBuilder};
use crate::opcode::Opcode;
use crate::text::Text;

fn encoded(request: &Request<'_>) -> Vec<u8> {
    let body = PtlrpcBody { timeout: 5, ..PtlrpcBody::request(request.kind().opcode()) };
    let mut bytes = Vec::new();
    request.encode(&Header::default(), &body, &mut bytes);
    bytes
}

fn lens(bytes: &[u8]) -> Vec<usize> {
    Message::parse(bytes).unwrap().buffers().map(<[u8]>::len).collect()
}

/// The buffers of requests that kernels send [MDT-7] [LOCK-9].
#[test]
fn requests_have_their_buffers() {
    let open = dlm::OpenIntent {
        intent: IntentOp::OPEN_CREAT,
        record: Reint::Create(CreateRecord { op: ReintOp::OPEN, ..CreateRecord::default() }),
        name: Text::new(b"new"),
        ..dlm::OpenIntent::default()
    };
    let bytes = encoded(&Request::EnqueueOpenCreat(open));
    assert_eq!(lens(&bytes), [184, 104, 8, 136, 0, 0, 4, 0, 0, 0, 0, 0]);
    assert_eq!(bytes.len(), 520);

    let getattr = dlm::GetattrIntent {
        intent: IntentOp::GETATTR,
        name: Text::new(b"foo"),
        secctx_name: Some(Text::NONE),
        ..dlm::GetattrIntent::default()
    };
    let bytes = encoded(&Request::EnqueueGetattr(getattr));
    assert_eq!((lens(&bytes), bytes.len()), (vec![184, 104, 8, 216, 0, 4, 0], 584));

    let mkdir = mds::ReintCreate {
        record: Reint::Create(CreateRecord { op: ReintOp::CREATE, ..CreateRecord::default() }),
        name: Text::new(b"dir1"),
        locks: Some(LdlmRequest::default()),
        ..mds::ReintCreate::default()
    };
    let bytes = encoded(&Request::ReintCreate(mkdir));
    assert_eq!(lens(&bytes), [184, 136, 0, 5, 0, 104, 0, 0, 0, 0]);
    assert_eq!(bytes.len(), 504);

    let ping = encoded(&Request::ObdPing(obd::Nothing {}));
    assert_eq!(ping.len(), crate::message::BARE_LEN);
}

/// [RPC-6]
#[test]
fn buffers_at_the_end_may_be_missing() {
    let statfs = |body| lens(&encoded(&Request::MdsStatfs(mds::Statfs { body })));
    assert_eq!(statfs(None), [184]);
    assert_eq!(statfs(Some(MdtBody::default())), [184, 216]);
    let getxattr = mds::Getxattr { value: Some(&[]), ..mds::Getxattr::default() };
    assert_eq!(lens(&encoded(&Request::MdsGetxattr(getxattr))), [184, 216, 0, 0, 0]);
    // A shorter form, as older releases send it, is read as if the rest were empty.
    let mut bytes = Vec::new();
    let body = PtlrpcBody { timeout: 5, ..PtlrpcBody::request(Opcode::MDS_REINT) };
    let mut message = MessageBuilder::new(&mut bytes, &Header::default(), 4);
    message.value(&body);
    message
        .value(&Reint::Name(crate::mdt::NameRecord { op: ReintOp::UNLINK, ..Default::default() }));
    message.bytes(&[]);
    message.bytes(b"name\0");
    message.finish();
    let (message, body) = Message::parse_request(&bytes).unwrap();
    let Ok(Request::ReintUnlink(unlink)) = Request::parse(&message, &body) else { panic!() };
    assert_eq!((unlink.name.as_bytes(), unlink.locks), (&b"name"[..], None));
}

#[test]
fn wrong_buffers_are_named() {
    let mut bytes = Vec::new();
    let body = PtlrpcBody { timeout: 5, ..PtlrpcBody::request(Opcode::MDS_GETATTR) };
    let mut message = MessageBuilder::new(&mut bytes, &Header::default(), 2);
    message.value(&body);
    message.bytes(&[0; 215]);
    message.finish();
    let (message, body) = Message::parse_request(&bytes).unwrap();
    let error = Request::parse(&message, &body).unwrap_err();
    assert_eq!(error.to_string(), "buffer 1 (body): 216 bytes are needed, 215 are there");
}

/// A reply with a body only has failed early, unless it never has more [RPC-8].
#[test]
fn bare_replies() {
    let mut bytes = Vec::new();
    let body = PtlrpcBody { status: -107, ..PtlrpcBody::reply(Opcode::MDS_GETATTR) };
    Reply::Bare.encode(&Header::default(), &body, &mut bytes);
    let (message, _) = Message::parse_reply(&bytes).unwrap();
    assert_eq!(Reply::parse(Kind::MdsGetattr, &message), Ok(Reply::Bare));
    let nothing = Ok(Reply::ObdPing(obd::Nothing {}));
    assert_eq!(Reply::parse(Kind::ObdPing, &message), nothing);
}

#[test]
fn operations_without_a_list_keep_their_buffers() {
    let mut bytes = Vec::new();
    let body = PtlrpcBody { timeout: 5, ..PtlrpcBody::request(Opcode::LFSCK_QUERY) };
    let mut message = MessageBuilder::new(&mut bytes, &Header::default(), 3);
    message.value(&body);
    message.bytes(b"abc");
    message.bytes(&[]);
    message.finish();
    let (message, body) = Message::parse_request(&bytes).unwrap();
    let request = Request::parse(&message, &body).unwrap();
    let Request::Unknown(Opcode::LFSCK_QUERY, buffers) = &request else { panic!("{request:?}") };
    assert_eq!(buffers.iter().collect::<Vec<_>>(), [&b"abc"[..], b""]);
    assert_eq!(request.kind().name(), "LFSCK_QUERY");
    let mut again = Vec::new();
    request.encode(message.header(), &body, &mut again);
    assert_eq!(again, bytes);
}

/// Kinds agree with their opcodes, and the replies of those without buffers are never bare.
#[test]
fn the_table_is_consistent() {
    for &kind in Kind::ALL {
        let opcode = kind.opcode();
        assert!(kind.name().starts_with(opcode.name().unwrap()), "{kind:?}");
        if !matches!(opcode, Opcode::MDS_REINT | Opcode::LDLM_ENQUEUE) {
            assert_eq!(Kind::of_opcode(opcode), kind);
        }
        // A message of empty buffers: what can be read has no buffers, or only such as may be
        // empty.
        let mut bytes = Vec::new();
        let mut message = MessageBuilder::new(&mut bytes, &Header::default(), 1);
        message.value(&PtlrpcBody::reply(opcode));
        message.finish();
        let message = Message::parse(&bytes).unwrap();
        let bare = Reply::parse(kind, &message).unwrap() == Reply::Bare;
        assert_eq!(bare, !kind.has_bare_reply(), "{kind:?}");
    }
}

#[test]
fn modifying_operations_take_a_slot() {
    assert!(Kind::MdsClose.is_modifying() && Kind::EnqueueOpen.is_modifying());
    assert!(!Kind::MdsGetattr.is_modifying() && !Kind::OstWrite.is_modifying());
}

#[test]
fn names_are_listed() {
    let names: Vec<_> = Names(b"user.a\0user.b\0").iter().collect();
    assert_eq!(names, [&b"user.a"[..], b"user.b"]);
    assert_eq!(Names(b"").iter().count(), 0);
}

#[test]
fn a_value_block_is_guessed() {
    assert_eq!(Lvb(&[]).guess(), LvbValue::None);
    assert!(matches!(Lvb(&[0; 56]).guess(), LvbValue::Object(_)));
    assert_eq!(Lvb(&[0; 55]).guess(), LvbValue::Unknown);
    let _ = Ea(&[1, 2, 3]);
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL.to_vec())
}

/// A message whose buffers have about the lengths of real ones.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![
        Just(0),
        Just(4),
        Just(8),
        Just(24),
        Just(104),
        Just(112),
        Just(136),
        Just(208),
        Just(216),
        0usize..300,
    ];
    let buffer = len.prop_flat_map(|len| prop::collection::vec(any::<u8>(), len));
    prop::collection::vec(buffer, 0..12).prop_map(|buffers| {
        let mut out = Vec::new();
        let mut message = MessageBuilder::new(&mut out, &Header::default(), 1 + buffers.len());
        message.value(&PtlrpcBody::request(Opcode::OBD_PING));
        buffers.iter().for_each(|buffer| message.bytes(buffer));
        message.finish();
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is read is written, read again, and equal; whatever is not is an error.
    #[test]
    fn reading_what_was_written_gives_the_same(bytes in any_message(), kind in any_kind()) {
        let message = Message::parse(&bytes).unwrap();
        let body = PtlrpcBody::default();
        if let Ok(request) = Request::parse_kind(kind, &message) {
            prop_assert_eq!(request.kind(), kind);
            request.fields();
            let mut again = Vec::new();
            request.encode(message.header(), &body, &mut again);
            let message = Message::parse(&again).unwrap();
            prop_assert_eq!(Request::parse_kind(kind, &message).unwrap(), request);
        }
        if let Ok(reply) = Reply::parse(kind, &message) {
            reply.fields();
            let mut again = Vec::new();
            reply.encode(message.header(), &body, &mut again);
            let message = Message::parse(&again).unwrap();
            prop_assert_eq!(Reply::parse(kind, &message).unwrap(), reply);
        }
    }

    #[test]
    fn handles_come_back(raw in prop::collection::vec(any::<u64>(), 2..20), count: u32) {
        let handles: Vec<_> = raw.iter().map(|&handle| crate::fid::Handle(handle)).collect();
        let handles_view = handles.as_slice().into();
        let request = LdlmRequest { count, handles: handles_view, ..Default::default() };
        let mut bytes = Vec::new();
        request.write(&mut Writer::new(&mut bytes));
        prop_assert_eq!(LdlmRequest::parse(&bytes).unwrap(), request);
        prop_assert!(request.counted(1).count() <= raw.len());
    }
}

#[test]
fn fids_are_read_in_lists() {
    let fids = [Fid::ROOT, Fid::new(0x2_0000_0402, 1)];
    let rmfid = mds::Rmfid { fids: fids.as_slice().into(), ..mds::Rmfid::default() };
    let bytes = encoded(&Request::MdsRmfid(rmfid));
    assert_eq!(lens(&bytes), [184, 216, 2 * Fid::SIZE, 0, 0]);
}
