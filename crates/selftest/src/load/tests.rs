use lustrine_lnet::memory::VecMemory;
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::srpc::{BrwReply, DebugReply, Message, Name, PingReply, Sid, VERSION};

use super::*;
use crate::errno;

fn read(len: u32, check: BrwCheck) -> Test {
    Test::Read { len, check }
}

#[test]
fn what_brings_a_kernel_down_is_never_planned() {
    use BrwCheck::{Discard, Full, None as Unchecked, Simple};
    let rows = [
        (read(4095, Unchecked), 1, HarmfulTest::NotWords(4095)),
        (Test::Write { len: 12, check: Full }, 1, HarmfulTest::NotWords(12)),
        (read(0, Simple), 1, HarmfulTest::Length(0)),
        (read(BULK_MAX + 8, Full), 1, HarmfulTest::Length(BULK_MAX + 8)),
        (read(4096, Discard), 1, HarmfulTest::Discard),
        (read(4096, Full), 3, HarmfulTest::Features(3)),
        (Test::Ping, 2, HarmfulTest::Features(2)),
        (read(8, Full), 0, HarmfulTest::PartialPage(8)),
    ];
    for (test, features, danger) in rows {
        assert_eq!(Plan::new(test, features, 0).unwrap_err(), danger, "{test:?}");
    }
    for test in [Test::Ping, read(8, Full), read(BULK_MAX, Simple)] {
        assert!(Plan::new(test, 1, 0).is_ok(), "{test:?}");
    }
}

#[test]
fn only_reads_need_memory_of_their_own() {
    let len = |test, offset| Plan::new(test, 1, offset).unwrap().sink_len();
    assert_eq!(len(Test::Ping, 0), None);
    assert_eq!(len(Test::Write { len: 4096, check: BrwCheck::Full }, 8), None);
    assert_eq!(len(read(4096, BrwCheck::Full), 0), Some(4096));
    assert_eq!(len(read(4096, BrwCheck::Full), 4096 + 16), Some(4112));
}

fn completion(body: Body, bulk_moved: u32) -> Completion {
    let reply = Message { order: ByteOrder::Little, version: VERSION, features: 1, body };
    Completion { user: 0, took: Nanos(1), bulk_moved, outcome: Ok(reply) }
}

#[test]
fn verdicts_on_pings() {
    let memory = VecMemory::default();
    let plan = Plan::new(Test::Ping, 1, 0).unwrap();
    let pong = |status, magic, seq| {
        let body = Body::PingReply(PingReply { status, magic, seq });
        judge(&memory, &plan, None, 7, &completion(body, 0))
    };
    assert_eq!(pong(0, PING_MAGIC, 7), Ok(()));
    assert_eq!(pong(0, PING_MAGIC, 8), Err(TestError::Echo));
    assert_eq!(pong(0, PING_MAGIC + 1, 7), Err(TestError::Echo));
    assert_eq!(pong(errno::EPROTO, PING_MAGIC, 7), Err(TestError::Remote(errno::EPROTO)));
    let failed = Completion { outcome: Err(RpcError::TimedOut), ..completion_of_nothing() };
    let verdict = judge(&memory, &plan, None, 7, &failed);
    assert_eq!(verdict, Err(TestError::Rpc(RpcError::TimedOut)));
}

fn completion_of_nothing() -> Completion {
    let debug = DebugReply { status: 0, sid: Sid::NONE, timeout: 0, batches: 0, name: Name::EMPTY };
    completion(Body::DebugReply(debug), 0)
}

#[test]
fn verdicts_on_reads() {
    let mut memory = VecMemory::default();
    let plan = Plan::new(read(4096, BrwCheck::Full), 1, 16).unwrap();
    let sink = memory.alloc(4112).unwrap();
    let ok = Body::BrwReply(BrwReply { status: 0 });
    pattern::fill(&mut memory, sink.part(16, 4096));
    assert_eq!(judge(&memory, &plan, Some(sink), 0, &completion(ok, 4096)), Ok(()));
    let short = judge(&memory, &plan, Some(sink), 0, &completion(ok, 4088));
    assert_eq!(short, Err(TestError::Short));
    memory.write(sink.part(16 + 4095, 1), &[1]);
    let corrupt = judge(&memory, &plan, Some(sink), 0, &completion(ok, 4096));
    assert_eq!(corrupt, Err(TestError::Corrupt));
}
