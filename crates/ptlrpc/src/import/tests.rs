//! An import against a small model of a target.

mod disconnecting;
mod limits;
mod moving;
mod replays;
mod windows;

use std::collections::BTreeMap;

use lustrine_fswire::body::{BodyFlags, MessageType, OpFlags, PtlrpcBody, early_reply_checksum};
use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::{ConnectData, ConnectFlags, ConnectFlags2};
use lustrine_fswire::fid::Handle;
use lustrine_fswire::message::{BARE_LEN, Header, HeaderFlags, Message, MessageBuilder};
use lustrine_fswire::opcode::{Opcode, Target, portal};
use lustrine_wire::nid::{Nid, ProcessId};
use proptest::prelude::*;

use super::*;
use crate::request::Keep;
use crate::slots::SlotKind;

const SECOND: Nanos = Nanos::from_secs(1);

fn peer(last: u8) -> ProcessId {
    ProcessId::lustre(Nid::new4(lustrine_wire::nid::Net::TCP, 0x0a00_0000 + u32::from(last)))
}

fn offer() -> ConnectData {
    ConnectData {
        flags: ConnectFlags::FULL20
            | ConnectFlags::FID
            | ConnectFlags::ATTRFID
            | ConnectFlags::VERSION
            | ConnectFlags::AT
            | ConnectFlags::BULK_MBITS
            | ConnectFlags::MULTIMODRPCS
            | ConnectFlags::FLAGS2,
        flags2: ConnectFlags2::REP_MBITS,
        ..ConnectData::default()
    }
}

/// A target: it executes each change once, commits late, and can lose what is not committed.
struct Server {
    export: u64,
    next_export: u64,
    conn_cnt: u32,
    recovering: bool,
    /// Whether it knows the client since an earlier connect.
    knows: bool,
    next_transno: u64,
    committed: u64,
    /// Changes by xid, with their transactions, in the order of execution.
    changes: BTreeMap<u64, u64>,
    grants: ConnectData,
    /// How often each xid was executed, also if it was lost since.
    executed: BTreeMap<u64, u32>,
    /// The status of connects, if it refuses them.
    refuses: Option<i32>,
    /// The statuses of the next enqueues; 0 after these.
    enqueues: VecDeque<i32>,
}

impl Server {
    fn new() -> Server {
        Server {
            export: 0,
            next_export: 100,
            conn_cnt: 0,
            recovering: false,
            knows: false,
            next_transno: 1,
            committed: 0,
            changes: BTreeMap::new(),
            grants: ConnectData { maxmodrpcs: 2, ..offer() },
            executed: BTreeMap::new(),
            refuses: None,
            enqueues: VecDeque::new(),
        }
    }

    /// A power cut: what is not committed is lost.
    fn crash(&mut self) {
        let committed = self.committed;
        self.changes.retain(|_, transno| *transno <= committed);
        self.recovering = self.knows;
        self.export = 0;
    }

    /// Answers a request; `None` drops it.
    fn answer(&mut self, xid: u64, message: &[u8]) -> Option<Vec<u8>> {
        let (_, body) = Message::parse_request(message).expect("a good request");
        let mut reply =
            PtlrpcBody { timeout: 5, service_time: 1, ..PtlrpcBody::reply(body.opcode) };
        if body.opcode == Opcode::MDS_CONNECT {
            return Some(self.connect(&body, reply));
        }
        if body.handle.0 != self.export || self.export == 0 {
            reply.status = -107;
            reply.kind = MessageType::ERROR;
            return Some(bare(&reply));
        }
        if body.conn_cnt < self.conn_cnt {
            return None;
        }
        if body.flags.contains(BodyFlags::LOCK_REPLAY_DONE) {
            self.recovering = false;
        }
        let replay = body.flags.contains(BodyFlags::REPLAY);
        assert_eq!(replay, body.transno != 0, "a replay names its transaction");
        assert!(!replay || self.recovering, "a server evicts a client for that");
        if body.opcode == Opcode::MDS_REINT {
            let again = replay || body.flags.contains(BodyFlags::RESENT);
            assert!(again || !self.changes.contains_key(&xid), "a known xid, not marked as such");
            let transno = match self.changes.get(&xid) {
                Some(done) => *done,
                None => {
                    let transno = match replay {
                        true => body.transno,
                        false => self.next_transno,
                    };
                    self.next_transno = self.next_transno.max(transno + 1);
                    self.changes.insert(xid, transno);
                    *self.executed.entry(xid).or_insert(0) += 1;
                    transno
                }
            };
            reply.transno = transno;
        }
        if body.opcode == Opcode::LDLM_ENQUEUE {
            reply.status = self.enqueues.pop_front().unwrap_or(0);
        }
        if body.opcode == Opcode::MDS_DISCONNECT {
            self.export = 0;
            self.knows = false;
        }
        reply.last_committed = self.committed;
        Some(bare(&reply))
    }

    fn connect(&mut self, body: &PtlrpcBody, mut reply: PtlrpcBody) -> Vec<u8> {
        if let Some(status) = self.refuses {
            reply.status = status;
            return bare(&reply);
        }
        let reconnects = self.export != 0;
        let known = reconnects && body.handle.0 == self.export;
        if known && body.conn_cnt <= self.conn_cnt {
            reply.status = -114;
            return bare(&reply);
        }
        self.conn_cnt = body.conn_cnt;
        if !known {
            self.next_export += 1;
            self.export = self.next_export;
        }
        if !self.knows {
            self.recovering = false;
        }
        self.knows = true;
        reply.handle = Handle(self.export);
        reply.op_flags = OpFlags::REPLAYABLE;
        reply.op_flags.set(OpFlags::RECONNECT, reconnects);
        reply.op_flags.set(OpFlags::RECOVERING, self.recovering);
        reply.last_committed = self.committed;
        let mut out = Vec::new();
        let mut message = MessageBuilder::new(&mut out, &Header::default(), 2);
        message.value(&reply);
        message.value(&self.grants);
        message.finish();
        out
    }
}

/// A request of the owner.
fn request(opcode: Opcode, user: u64) -> RequestArgs {
    RequestArgs {
        portal: portal::MDS,
        message: bare(&PtlrpcBody::request(opcode)),
        reply_len: 512,
        user,
        ..RequestArgs::default()
    }
}

fn bare(body: &PtlrpcBody) -> Vec<u8> {
    let mut out = Vec::new();
    let mut message = MessageBuilder::new(&mut out, &Header::default(), 1);
    message.value(body);
    message.finish();
    out
}

/// An import, its server, and what has happened.
struct Pair {
    now: Time,
    xids: XidSource,
    import: Import,
    server: Server,
    /// Requests sent, in their order: the arguments and the message.
    sent: Vec<(SendArgs, Vec<u8>)>,
    /// How many of them were answered.
    answered: usize,
    done: Vec<(u64, Result<i32, RpcError>)>,
    released: Vec<u64>,
    replayed: Vec<u64>,
    evictions: Vec<usize>,
    states: Vec<ImportState>,
    /// Whether the owner has a lock.
    has_lock: bool,
}

/// The `user` value of the replay of the lock.
const LOCK: u64 = 1000;

impl Pair {
    fn new() -> Pair {
        let tunables = ImportTunables {
            max_rpcs_in_flight: 2,
            idle_timeout: None,
            ..ImportTunables::default()
        };
        Pair::with(tunables, &[1])
    }

    fn with(tunables: ImportTunables, peers: &[u8]) -> Pair {
        let args = ImportArgs {
            kind: Target::Mdt,
            target: "lab-MDT0000_UUID".to_owned(),
            client_uuid: "6e1df634-0000-0000-0000-000000000010".to_owned(),
            client_handle: 0x77,
            peers: peers.iter().map(|last| peer(*last)).collect(),
            offer: offer(),
        };
        Pair {
            now: Time::ZERO + SECOND,
            xids: XidSource::new(1000, 0),
            import: Import::new(args, tunables),
            server: Server::new(),
            sent: Vec::new(),
            answered: 0,
            done: Vec::new(),
            released: Vec::new(),
            replayed: Vec::new(),
            evictions: Vec::new(),
            states: Vec::new(),
            has_lock: false,
        }
    }

    fn connected() -> Pair {
        let mut pair = Pair::new();
        pair.import.connect(pair.now, &mut pair.xids);
        pair.run();
        assert_eq!(pair.import.state(), ImportState::Full);
        pair.forget();
        pair
    }

    /// Collects actions; the lock is replayed at once, if there is one.
    fn collect(&mut self) {
        while let Some(action) = self.import.next_action() {
            match action {
                Action::Send(send) => {
                    let message = self.import.message(send.key).to_vec();
                    self.sent.push((send, message));
                }
                Action::Done { user, result, .. } => {
                    if user == LOCK && result.is_ok() {
                        self.import.locks_replayed(self.now, &mut self.xids);
                    }
                    self.done.push((user, result.map(|reply| reply.status)));
                }
                Action::Release { user, .. } => self.released.push(user),
                Action::Replayed { user, .. } => {
                    self.replayed.push(user);
                    self.import.replay_next(self.now, &mut self.xids);
                }
                Action::ReplayLocks if self.has_lock => {
                    let args = request(Opcode::LDLM_ENQUEUE, LOCK);
                    self.import.replay_lock(self.now, &mut self.xids, args);
                }
                Action::ReplayLocks => self.import.locks_replayed(self.now, &mut self.xids),
                Action::Unused if self.has_lock => {}
                Action::Unused => self.import.become_idle(self.now, &mut self.xids),
                Action::Evicted => self.evictions.push(self.done.len()),
                Action::State { to, .. } => self.states.push(to),
                Action::Withdraw { .. } => {}
            }
        }
    }

    /// Delivers a reply to a request that was sent.
    fn reply(&mut self, send: &SendArgs, message: &[u8], reply: &[u8]) {
        let header = *Message::parse(message).expect("a request").header();
        let at = header.flags.contains(HeaderFlags::AT_SUPPORT);
        let (offset, bytes) = (if at { BARE_LEN as u32 } else { 0 }, reply.to_vec());
        let arrived = ReplyEvent { offset, sent: bytes.len() as u32, bytes, bulk_moved: 0 };
        self.import.on_reply(self.now, &mut self.xids, send.key, arrived);
    }

    /// Answers everything until nothing is sent any more.
    fn run(&mut self) {
        self.collect();
        while self.answered < self.sent.len() {
            self.answer_next(true);
        }
    }

    /// Has the server answer the next request. Whether the answer arrives.
    fn answer_next(&mut self, arrives: bool) {
        let (send, message) = self.sent[self.answered].clone();
        self.answered += 1;
        let answer = self.server.answer(send.xid, &message).filter(|_| arrives);
        answer.into_iter().for_each(|answer| self.reply(&send, &message, &answer));
        self.collect();
    }

    /// Forgets what was sent and answered.
    fn forget(&mut self) {
        self.sent.clear();
        self.answered = 0;
    }

    fn pass(&mut self, length: Nanos) {
        self.now = self.now + length;
        self.import.drive(self.now, &mut self.xids);
        self.collect();
    }

    fn submit(&mut self, user: u64, change: bool) -> RequestKey {
        let opcode = if change { Opcode::MDS_REINT } else { Opcode::MDS_STATFS };
        let args = RequestArgs {
            slot: if change { SlotKind::Modify } else { SlotKind::None },
            counted: !change,
            keep: if change { Keep::UntilCommitted } else { Keep::No },
            ..request(opcode, user)
        };
        let key = self.import.submit(self.now, &mut self.xids, args);
        self.collect();
        key
    }

    fn body(&self, index: usize) -> PtlrpcBody {
        Message::parse_request(&self.sent[index].1).expect("a request").1
    }
}

#[test]
fn the_first_connect_is_that_of_a_kernel() {
    let mut pair = Pair::new();
    pair.import.connect(pair.now, &mut pair.xids);
    pair.collect();
    let (send, message) = pair.sent[0].clone();
    let (parsed, body) = Message::parse_request(&message).expect("a request");
    // fs/s01_client_mount #7: six buffers of these lengths.
    let lens: Vec<usize> = parsed.buffers().map(<[u8]>::len).collect();
    assert_eq!(lens, [184, 39, 39, 8, 192, 0]);
    assert_eq!((body.handle.0, body.conn_cnt, body.timeout, body.last_xid), (0, 1, 5, 0));
    assert_eq!(body.op_flags, OpFlags::INITIAL);
    assert_eq!(parsed.header().flags, HeaderFlags::empty());
    assert_eq!((send.portal, send.reply_portal), (portal::MDS, portal::MDS_REPLY));
    assert_eq!(send.reply_bits, send.xid);
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Full);
    assert_eq!(pair.states, [ImportState::Connecting, ImportState::Recover, ImportState::Full]);
}

#[test]
fn requests_carry_what_the_connection_says() {
    let mut pair = Pair::connected();
    pair.submit(1, false);
    let body = pair.body(0);
    assert_eq!(body.handle.0, 101);
    let xid = pair.sent[0].0.xid;
    assert_eq!((body.last_xid, body.mbits, body.timeout), (xid - 1, xid, 11));
    let flags = *Message::parse(&pair.sent[0].1).expect("a request").header();
    assert_eq!(flags.flags, HeaderFlags::AT_SUPPORT | HeaderFlags::CKSUM_INCOMPAT18);
    pair.run();
    assert_eq!(pair.done, [(1, Ok(0))]);
    assert_eq!(pair.released, [1]);
}

#[test]
fn a_lost_reply_is_asked_for_again_with_the_same_xid() {
    let mut pair = Pair::connected();
    pair.submit(1, true);
    let (send, message) = pair.sent[0].clone();
    pair.answered = 1;
    pair.server.answer(send.xid, &message).expect("it is executed");
    pair.pass(Nanos::from_secs(20));
    pair.run();
    let again = pair.sent.iter().rposition(|(other, _)| other.xid == send.xid).expect("again");
    let body = pair.body(again);
    assert!(body.flags.contains(BodyFlags::RESENT));
    assert_ne!(body.mbits, send.xid, "its descriptors are new");
    assert_eq!(body.conn_cnt, 2);
    assert_eq!((pair.done, pair.evictions), (vec![(1, Ok(0))], vec![]));
    assert_eq!(pair.server.executed, BTreeMap::from([(send.xid, 1)]));
}

/// [RPC-13]: a server takes no request whose xid a later `last_xid` has passed.
#[test]
fn what_a_restarted_server_refuses_is_not_called_answered() {
    let mut pair = Pair::connected();
    pair.server.crash();
    pair.submit(1, false);
    let xid = pair.sent[0].0.xid;
    pair.run();
    assert_eq!(pair.done, [(1, Ok(0))]);
    let requests = (0..pair.sent.len()).map(|index| (pair.sent[index].0.xid, pair.body(index)));
    let later: Vec<u64> = requests.skip(1).map(|(_, body)| body.last_xid).collect();
    assert!(later.len() >= 2 && later.iter().all(|last| *last < xid), "{xid}, then {later:?}");
}

#[test]
fn an_eviction_fails_what_is_in_flight_and_the_import_goes_on() {
    let mut pair = Pair::connected();
    pair.submit(1, true);
    pair.run();
    pair.server.export = 0;
    pair.server.knows = false;
    pair.submit(2, true);
    pair.run();
    assert_eq!(pair.evictions, [1], "what was in flight is over after it");
    assert_eq!(pair.done, [(1, Ok(0)), (2, Err(RpcError::Evicted))]);
    assert_eq!(pair.released, [1, 2]);
    pair.submit(3, true);
    pair.run();
    assert_eq!(pair.done.last(), Some(&(3, Ok(0))));
}

/// Otherwise locks would be trusted that the server has given to others.
#[test]
fn locks_at_a_target_that_refuses_the_client_are_void() {
    let mut first = Pair::new();
    first.server.refuses = Some(-13);
    first.import.connect(first.now, &mut first.xids);
    first.run();
    assert!(first.import.is_deactivated() && first.evictions.is_empty());
    let mut pair = Pair::connected();
    pair.server.refuses = Some(-13);
    pair.server.crash();
    pair.submit(1, false);
    pair.run();
    assert!(pair.import.is_deactivated());
    assert_eq!(
        (pair.done.as_slice(), pair.evictions.len()),
        (&[(1, Err(RpcError::Refused(13)))][..], 1)
    );
}

#[test]
fn early_replies_move_the_deadline() {
    let mut pair = Pair::connected();
    pair.submit(1, false);
    let (send, _) = pair.sent[0].clone();
    pair.pass(Nanos::from_secs(6));
    let mut body =
        PtlrpcBody { timeout: 36, service_time: 6, ..PtlrpcBody::reply(Opcode::MDS_STATFS) };
    let deliver = |pair: &mut Pair, body: &PtlrpcBody, good: bool| {
        let mut bytes = Vec::new();
        body.write(&mut lustrine_fswire::codec::Writer::new(&mut bytes));
        let cksum = early_reply_checksum(&bytes) ^ u32::from(!good);
        let mut out = Vec::new();
        let header = Header { cksum, ..Header::default() };
        let mut message = MessageBuilder::new(&mut out, &header, 1);
        message.value(body);
        message.finish();
        let arrived = ReplyEvent { offset: 0, sent: out.len() as u32, bytes: out, bulk_moved: 0 };
        pair.import.on_reply(pair.now, &mut pair.xids, send.key, arrived);
    };
    deliver(&mut pair, &body, true);
    // 36 + 36 / 4 + 5 seconds after it was sent, and a second for the network.
    pair.pass(Nanos::from_secs(43));
    assert_eq!(pair.import.state(), ImportState::Full);
    body.timeout = 600;
    deliver(&mut pair, &body, false);
    pair.pass(Nanos::from_secs(3));
    assert_eq!(pair.import.state(), ImportState::Connecting, "a damaged one counts for nothing");
}

#[test]
fn a_server_that_asks_for_patience_gets_another_xid_later() {
    let mut pair = Pair::connected();
    pair.submit(1, true);
    let (send, message) = pair.sent[0].clone();
    let patience = PtlrpcBody { status: -115, ..PtlrpcBody::reply(Opcode::MDS_REINT) };
    pair.reply(&send, &message, &bare(&patience));
    pair.pass(Nanos::from_millis(900));
    assert_eq!(pair.sent.len(), 1);
    pair.pass(Nanos::from_millis(200));
    assert_eq!(pair.sent.len(), 2);
    assert_ne!(pair.sent[1].0.xid, send.xid);
    assert!(!pair.body(1).flags.contains(BodyFlags::RESENT));
    pair.run();
    assert_eq!(pair.done, [(1, Ok(0))]);
}

#[test]
fn a_server_that_grants_what_was_not_offered_is_refused() {
    let mut pair = Pair::new();
    pair.server.grants.flags |= ConnectFlags::GRANT;
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Disconn);
    assert!(pair.import.next_deadline() < Time::NEVER, "it is tried again later");
}

#[test]
fn a_reconnect_asks_for_the_grant_that_unwritten_data_need() {
    let mut pair = Pair::new();
    let flags = ConnectFlags::GRANT | ConnectFlags::BRW_SIZE;
    pair.import.args.offer.flags |= flags;
    (pair.import.args.offer.grant, pair.import.args.offer.brw_size) = (1 << 27, 1 << 26);
    pair.server.grants.flags |= flags;
    pair.server.grants.brw_size = 4 << 20;
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    for (claim, asked) in [(0, 8 << 20), (28_672, 28_672)] {
        pair.import.set_grant_claim(claim);
        pair.import.disconnected(pair.now, &mut pair.xids);
        pair.run();
        assert_eq!(pair.import.state(), ImportState::Full);
        let (_, message) = pair.sent.last().expect("a connect");
        let message = Message::parse(message).expect("a message");
        let data = message.buffer(4).map(ConnectData::parse).expect("its data").expect("a value");
        assert_eq!(data.grant, asked);
    }
}

#[test]
fn peers_are_tried_in_turn() {
    let mut pair = Pair::with(ImportTunables::default(), &[1, 2]);
    pair.import.connect(pair.now, &mut pair.xids);
    pair.collect();
    for _ in 0..4 {
        pair.pass(Nanos::from_secs(6));
    }
    let peers: Vec<ProcessId> = pair.sent.iter().map(|(send, _)| send.peer).collect();
    // With a pause of 5 s after the round.
    assert_eq!(peers, [peer(1), peer(2), peer(1), peer(2)]);
    pair.run();
    assert_eq!(pair.import.state(), ImportState::Full);
    assert_eq!(pair.import.view().conn_cnt, 4);
}

#[test]
fn pings_keep_the_export_and_learn_what_is_committed() {
    let mut pair = Pair::connected();
    pair.submit(1, true);
    pair.run();
    pair.server.committed = 1;
    pair.forget();
    pair.pass(Nanos::from_secs(5));
    pair.run();
    assert_eq!((pair.sent.len(), pair.body(0).opcode), (1, Opcode::OBD_PING));
    assert_eq!((pair.released.clone(), pair.import.view().kept), (vec![1], 0));
    pair.pass(Nanos::from_secs(24));
    assert_eq!(pair.sent.len(), 1);
    pair.pass(Nanos::from_secs(1));
    assert_eq!(pair.sent.len(), 2);
}

/// A ping that is lost may be awaited for minutes, after services that were slow; a server evicts a
/// client of which it hears nothing for 150 s.
#[test]
fn a_ping_that_is_not_answered_is_followed_by_another() {
    let at = AtTunables { at_min: 200, ..AtTunables::default() };
    let tunables = ImportTunables { at, idle_timeout: None, ..ImportTunables::default() };
    let mut pair = Pair::with(tunables, &[1]);
    pair.import.connect(pair.now, &mut pair.xids);
    pair.run();
    pair.forget();
    for count in 1..=3 {
        pair.pass(Nanos::from_secs(25));
        assert_eq!(pair.sent.len(), count);
        assert_eq!(pair.body(count - 1).opcode, Opcode::OBD_PING);
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Change,
    Question,
    /// The next message in this direction is lost.
    LoseRequest,
    LoseReply,
    /// What was executed until now is on stable storage.
    Commit,
    Crash,
    Wait(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => Just(Happening::Change),
        2 => Just(Happening::Question),
        2 => Just(Happening::LoseRequest),
        2 => Just(Happening::LoseReply),
        2 => Just(Happening::Commit),
        1 => Just(Happening::Crash),
        3 => (1u8..40).prop_map(Happening::Wait),
    ]
}

proptest! {
    /// Whatever is lost, and whenever the server restarts: each request is done once and released
    /// once, and the server has each change that was answered exactly once, in one order.
    #[test]
    fn changes_survive_losses_and_restarts(
            happenings in prop::collection::vec(happening(), 1..60)
        ) {
        let mut pair = Pair::connected();
        let (mut users, mut lose_request, mut lose_reply) = (0, 0, 0);
        let mut next = 0;
        let mut settle = |pair: &mut Pair, lose_request: &mut u32, lose_reply: &mut u32| {
            pair.collect();
            while next < pair.sent.len() {
                let (send, message) = pair.sent[next].clone();
                next += 1;
                if *lose_request > 0 {
                    *lose_request -= 1;
                    continue;
                }
                let Some(reply) = pair.server.answer(send.xid, &message) else { continue };
                if *lose_reply > 0 {
                    *lose_reply -= 1;
                    continue;
                }
                pair.reply(&send, &message, &reply);
                pair.collect();
            }
        };
        for happening in happenings {
            match happening {
                Happening::Change => { pair.submit(users, true); users += 1; }
                Happening::Question => { pair.submit(users, false); users += 1; }
                Happening::LoseRequest => lose_request += 1,
                Happening::LoseReply => lose_reply += 1,
                Happening::Commit => pair.server.committed = pair.server.next_transno - 1,
                Happening::Crash => pair.server.crash(),
                Happening::Wait(seconds) => pair.pass(Nanos::from_secs(u64::from(seconds))),
            }
            settle(&mut pair, &mut lose_request, &mut lose_reply);
        }
        (lose_request, lose_reply) = (0, 0);
        for _ in 0..100 {
            pair.pass(Nanos::from_secs(30));
            settle(&mut pair, &mut lose_request, &mut lose_reply);
        }
        prop_assert_eq!(pair.import.state(), ImportState::Full);
        prop_assert!(pair.evictions.is_empty());
        let mut done: Vec<u64> = pair.done.iter().map(|(user, _)| *user).collect();
        done.sort_unstable();
        prop_assert_eq!(done, (0..users).collect::<Vec<_>>());
        prop_assert!(pair.done.iter().all(|(_, result)| *result == Ok(0)));
        pair.server.committed = pair.server.next_transno - 1;
        pair.pass(Nanos::from_secs(30));
        settle(&mut pair, &mut lose_request, &mut lose_reply);
        let mut released = pair.released.clone();
        released.sort_unstable();
        prop_assert_eq!(released, (0..users).collect::<Vec<_>>());
        let mut transnos: Vec<u64> = pair.server.changes.values().copied().collect();
        let count = transnos.len();
        transnos.sort_unstable();
        transnos.dedup();
        prop_assert_eq!(transnos.len(), count);
        let changes = pair.done.len() - pair.server.changes.len();
        let questions = users as usize - pair.server.changes.len();
        prop_assert_eq!(changes, questions);
        prop_assert_eq!(pair.import.view().kept, 0);
    }
}
