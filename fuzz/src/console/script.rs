//! Commands to a console, and results of its RPCs. There are few names and NIDs, so that they
//! match.

use arbitrary::Arbitrary;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Nanos;
use lustrine_selftest::console::{
    BatchSide, Command, ConsoleRpc, Distribution, NewTest, NodeState, RpcOutcome, SessionView,
    Target,
};
use lustrine_selftest::{LnetErrorKind, RpcError, Test};
use lustrine_wire::ByteOrder;
use lustrine_wire::nid::{Net, Nid};
use lustrine_wire::srpc::{
    BatchReply, Body, BrwCheck, ClientStats, ClientStatsReply, DebugReply, DebugRequest,
    EXTENSIONS_MAGIC, MakeSessionReply, Message, Name, RemoveSessionReply, Service, Sid, TestReply,
    VERSION,
};

use crate::speech::Selftest;

/// A script for a console.
#[derive(Arbitrary, Debug)]
pub struct Scenario {
    /// Whether there is no session at first; otherwise there is one with two groups.
    pub empty: bool,
    /// Whether that session has a test.
    pub tested: bool,
    /// The nodes of the second group.
    pub second: Nids,
    /// The wall clock at the start.
    pub wall_seconds: u32,
    /// The steps; only the first 64 are used.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Arbitrary, Clone, Debug)]
pub enum Step {
    /// A command.
    Tell {
        /// The key: usually the right one.
        key: u8,
        /// The command.
        ask: Ask,
    },
    /// An RPC ends.
    Answer {
        /// Its index.
        which: u8,
        /// Its result.
        end: End,
    },
    /// All RPCs end in the same way.
    AnswerAll {
        /// Their result.
        end: End,
    },
    /// All RPCs, and those that follow from them, succeed.
    AllIsWell,
    /// An RPC that has ended ends again.
    Again {
        /// Its index.
        which: u8,
        /// Its result.
        end: End,
    },
    /// An RPC ends that may not exist.
    Unknown {
        /// Its number.
        order: u64,
        /// Its result.
        end: End,
    },
    /// 2^n nanoseconds pass.
    Wait {
        /// n.
        power: u8,
    },
}

/// A command.
#[derive(Arbitrary, Clone, Debug)]
pub enum Ask {
    NewSession {
        name: Word,
        timeout: u8,
        force: bool,
        features: u8,
    },
    ShowSession,
    EndSession,
    AddGroup(Word),
    AddNodes(Word, Nids),
    DeleteGroup(Word),
    RefreshGroup(Word),
    CleanGroup(Word, u8),
    RemoveNodes(Word, Nids),
    ListGroups,
    ShowGroup(Word),
    AddBatch(Batch),
    ListBatches,
    ShowBatch(Batch),
    /// A command that the console accepts if its groups exist.
    AddGoodTest {
        batch: Batch,
        from: Word,
        to: Word,
        kind: u8,
        spread: (u8, u8),
        rate: u8,
    },
    AddTest {
        batch: Batch,
        from: Word,
        to: Word,
        test: AnyTest,
    },
    Run {
        batch: Batch,
        timeout: u8,
    },
    Stop {
        batch: Batch,
        force: bool,
    },
    Query {
        batch: Batch,
        test: u8,
        timeout: u16,
    },
    ClientStats {
        batch: Batch,
        test: u8,
        timeout: u8,
    },
    Ping {
        whom: Whom,
        timeout: u8,
    },
    Stat {
        whom: Whom,
        timeout: u8,
    },
}

/// The name of a group: usually one of two.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Word(u8);

/// The name of a batch: usually that of the batch which every session has.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Batch(u8);

/// Nodes.
#[derive(Arbitrary, Clone, Debug)]
pub enum Nids {
    /// Some of a few.
    Few(Vec<u8>),
    /// A few consecutive ones, or sometimes more than a test can have.
    Many(u16),
}

/// The nodes of a query.
#[derive(Arbitrary, Clone, Debug)]
pub enum Whom {
    Session,
    Group(Word),
    Clients(Batch),
    Servers(Batch),
    Nodes(Nids),
}

/// Any test.
#[derive(Arbitrary, Clone, Debug)]
pub struct AnyTest {
    kind: u8,
    len: u32,
    check: u8,
    offset: u16,
    loops: i8,
    concurrency: u16,
    clients: u32,
    servers: u32,
    stop_on_error: bool,
    rate: u32,
}

/// The result of an RPC.
#[derive(Arbitrary, Clone, Debug)]
pub enum End {
    /// A reply of the expected type.
    Reply {
        /// Usually it succeeds.
        status: u8,
        /// The session in the reply, usually the right one.
        session: u8,
        /// The session time-out in the reply.
        timeout: u8,
        /// Whether it identifies the node as a Lustrine node.
        marked: bool,
        /// Its features.
        features: u8,
        /// The number of active tests or units in it.
        active: u8,
        /// What the node put.
        put: Put,
    },
    /// Any message.
    Message(Selftest, Put),
    /// None.
    Failure(u8),
}

/// Bulk data that a node puts.
#[derive(Arbitrary, Clone, Debug)]
pub enum Put {
    /// Nothing.
    None,
    /// Client statistics, correctly encoded.
    ClientStats {
        /// Numbers in them.
        numbers: (u64, u32, u64, u64),
        /// Kinds of errors.
        failed: Vec<(i32, u64)>,
        /// Latencies.
        latencies: Vec<(u16, u64)>,
    },
    /// Any bytes.
    Bytes(Vec<u8>),
}

/// The number of different NIDs.
const FEW: u8 = 7;

/// The RPC to which the result of an unknown one belongs.
pub fn nobodys() -> ConsoleRpc {
    ConsoleRpc {
        id: 0,
        peer: nid(0),
        service: Service::Debug,
        features: 0,
        body: Body::DebugRequest(DebugRequest { reply_bits: 0, sid: Sid::NONE, flags: 0 }),
        list: Vec::new(),
        room: 0,
        timeout: Nanos::ZERO,
    }
}

fn nid(number: u8) -> Nid {
    match number % FEW {
        5 => Nid::ANY,
        6 => Nid::new6(Net::TCP, [0x20; 16]),
        number => Nid::new4(Net::TCP, 0x0a00_0100 + u32::from(number)),
    }
}

impl Nids {
    fn list(&self) -> Vec<Nid> {
        match self {
            Nids::Few(numbers) => numbers.iter().take(8).map(|number| nid(*number)).collect(),
            Nids::Many(count) => {
                let count = u32::from(if *count < 0xf000 { *count % 4 } else { *count % 400 });
                (0..count).map(|number| Nid::new4(Net::TCP, 0x0a00_0100 + number)).collect()
            }
        }
    }
}

impl Word {
    const A: Word = Word(0);
    const B: Word = Word(1);

    fn text(self) -> String {
        match self.0 {
            0xff => String::new(),
            0xfe => "x".repeat(32),
            0xfd => "a\0".to_owned(),
            0xf0.. => "c".to_owned(),
            other => if other % 2 == 0 { "a" } else { "b" }.to_owned(),
        }
    }
}

impl Batch {
    fn text(self) -> String {
        if self.0 < 0xe0 { "batch".to_owned() } else { Word(self.0).text() }
    }
}

impl Whom {
    fn target(&self) -> Target {
        match self {
            Whom::Session => Target::Session,
            Whom::Group(name) => Target::Group(name.text()),
            Whom::Clients(batch) => Target::Batch(batch.text(), BatchSide::Clients),
            Whom::Servers(batch) => Target::Batch(batch.text(), BatchSide::Servers),
            Whom::Nodes(nids) => Target::Nodes(nids.list()),
        }
    }

    fn named(&self) -> Vec<Nid> {
        if let Whom::Nodes(nids) = self { nids.list() } else { Vec::new() }
    }
}

impl Ask {
    /// The command.
    pub fn command(&self) -> Command {
        match self.clone() {
            Ask::NewSession { name, timeout, force, features } => Command::NewSession {
                name: name.text(),
                timeout: u32::from(timeout),
                force,
                features: self::features(features),
            },
            Ask::ShowSession => Command::ShowSession,
            Ask::EndSession => Command::EndSession,
            Ask::AddGroup(group) => Command::AddGroup { group: group.text() },
            Ask::AddNodes(group, nids) => {
                Command::AddNodes { group: group.text(), nids: nids.list() }
            }
            Ask::DeleteGroup(group) => Command::DeleteGroup { group: group.text() },
            Ask::RefreshGroup(group) => Command::RefreshGroup { group: group.text() },
            Ask::CleanGroup(group, bits) => {
                let all = [NodeState::Active, NodeState::Busy, NodeState::Down, NodeState::Unknown];
                let chosen = all.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
                let states = chosen.map(|(_, state)| state).collect();
                Command::CleanGroup { group: group.text(), states }
            }
            Ask::RemoveNodes(group, nids) => {
                Command::RemoveNodes { group: group.text(), nids: nids.list() }
            }
            Ask::ListGroups => Command::ListGroups,
            Ask::ShowGroup(group) => Command::ShowGroup { group: group.text() },
            Ask::AddBatch(batch) => Command::AddBatch { batch: batch.text() },
            Ask::ListBatches => Command::ListBatches,
            Ask::ShowBatch(batch) => Command::ShowBatch { batch: batch.text() },
            Ask::AddGoodTest { batch, from, to, kind, spread, rate } => {
                let test = AnyTest {
                    kind,
                    len: 4096,
                    check: kind,
                    offset: 0,
                    loops: 1,
                    concurrency: 1,
                    clients: u32::from(spread.0 % 8) + 1,
                    servers: u32::from(spread.1 % 8) + 1,
                    stop_on_error: false,
                    rate: u32::from(rate),
                };
                Command::AddTest(test.new_test(batch, [from, to]))
            }
            Ask::AddTest { batch, from, to, test } => {
                Command::AddTest(test.new_test(batch, [from, to]))
            }
            Ask::Run { batch, timeout } => {
                Command::Run { batch: batch.text(), timeout: u32::from(timeout) }
            }
            Ask::Stop { batch, force } => Command::Stop { batch: batch.text(), force },
            Ask::Query { batch, test, timeout } => Command::Query {
                batch: batch.text(),
                test: u32::from(test),
                timeout: u32::from(timeout),
            },
            Ask::ClientStats { batch, test, timeout } => Command::ClientStats {
                batch: batch.text(),
                test: u32::from(test),
                timeout: u32::from(timeout),
            },
            Ask::Ping { whom, timeout } => {
                Command::Ping { target: whom.target(), timeout: u32::from(timeout) }
            }
            Ask::Stat { whom, timeout } => {
                Command::Stat { target: whom.target(), timeout: u32::from(timeout) }
            }
        }
    }

    /// NIDs that it names, which are queried whether they are in the session or not.
    pub fn named(&self) -> Vec<Nid> {
        match self {
            Ask::Ping { whom, .. } | Ask::Stat { whom, .. } => whom.named(),
            _ => Vec::new(),
        }
    }
}

impl AnyTest {
    fn new_test(&self, batch: Batch, [from, to]: [Word; 2]) -> NewTest {
        let check = BrwCheck::from_number(u32::from(self.check % 4) + 1);
        let check = check.unwrap_or(BrwCheck::None);
        // Valid lengths, and some invalid ones.
        let len = self.len % ((1 << 20) + 64);
        NewTest {
            batch: batch.text(),
            from: from.text(),
            to: to.text(),
            test: match self.kind % 3 {
                0 => Test::Ping,
                1 => Test::Read { len, check },
                _ => Test::Write { len, check },
            },
            offset: u32::from(self.offset),
            loops: i32::from(self.loops),
            concurrency: u32::from(self.concurrency),
            spread: Distribution { clients: self.clients, servers: self.servers },
            stop_on_error: self.stop_on_error,
            rate: self.rate,
        }
    }
}

/// The session in a node's reply.
fn sid(number: u8, session: Option<&SessionView>) -> Sid {
    match number {
        0..0xd0 => session.map_or(Sid::NONE, SessionView::sid),
        0xd0..0xe0 => Sid { nid: 0, stamp: 0 },
        0xe0..0xf0 => Sid::NONE,
        0xf0.. => Sid { nid: 0x0002_0000_0a00_0900, stamp: 5 },
    }
}

/// The features, usually those of all present nodes.
fn features(number: u8) -> u32 {
    match number {
        0..0xd0 => 1,
        0xd0..0xf0 => 0,
        other => u32::from(other),
    }
}

impl Put {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Put::None => Vec::new(),
            Put::ClientStats { numbers: (age, active, ops, bytes), failed, latencies } => {
                let latencies = latencies.iter().map(|(bucket, n)| (u32::from(*bucket), *n));
                ClientStats {
                    age: *age,
                    active: *active,
                    ops: *ops,
                    bytes: *bytes,
                    failed: failed.clone(),
                    latencies: latencies.collect(),
                    details: None,
                }
                .encode()
            }
            Put::Bytes(bytes) => bytes.clone(),
        }
    }
}

impl Scenario {
    /// The state that nearly all steps need: a session with two groups of Lustrine nodes.
    pub fn prologue(&self) -> Vec<Step> {
        let name = Word::A;
        let mut asks = vec![
            Ask::NewSession { name, timeout: 0, force: false, features: 0 },
            Ask::AddGroup(Word::A),
            Ask::AddGroup(Word::B),
            Ask::AddNodes(Word::A, Nids::Few(vec![0, 1, 2])),
            Ask::AddNodes(Word::B, self.second.clone()),
            Ask::Ping { whom: Whom::Session, timeout: 0 },
        ];
        if self.tested {
            let (batch, from, to) = (Batch(0), Word::A, Word::B);
            let test = Ask::AddGoodTest { batch, from, to, kind: 1, spread: (0, 0), rate: 5 };
            asks.push(test);
        }
        let both = |ask| [Step::Tell { key: 0, ask }, Step::AllIsWell];
        let mut steps: Vec<Step> = asks.into_iter().flat_map(both).collect();
        if self.tested {
            // The clients' statistics are requested; the input determines the replies.
            let ask = Ask::ClientStats { batch: Batch(0), test: 1, timeout: 0 };
            steps.push(Step::Tell { key: 0, ask });
        }
        steps
    }
}

impl End {
    /// No answer.
    pub const SILENCE: End = End::Failure(0);
    /// The reply of a Lustrine node that carries out the request.
    pub const GOOD: End = End::Reply {
        status: 0,
        session: 0,
        timeout: 100,
        marked: true,
        features: 0,
        active: 0,
        put: Put::None,
    };

    /// What the console receives.
    pub fn outcome(&self, order: &ConsoleRpc, session: Option<SessionView>) -> RpcOutcome {
        let (reply, put) = match self {
            End::Reply { features, put, .. } => {
                let features = self::features(*features);
                let body = self.body(order, session.as_ref());
                let version = VERSION;
                (Ok(Message { order: ByteOrder::Little, version, features, body }), put.bytes())
            }
            End::Message(message, put) => {
                (Message::parse(&message.bytes()).map_err(|_| RpcError::BadReply), put.bytes())
            }
            End::Failure(kind) => (Err(failure(*kind)), Vec::new()),
        };
        RpcOutcome { rpc: order.id, reply, put }
    }

    fn body(&self, order: &ConsoleRpc, session: Option<&SessionView>) -> Body {
        let End::Reply { status, session: whose, timeout, marked, active, put, .. } = self else {
            return order.body;
        };
        let (status, sid) = (u32::from(status.saturating_sub(0xd0)), sid(*whose, session));
        let timeout = u32::from(*timeout);
        let name = Name([b'n'; 32]);
        match &order.body {
            Body::MakeSessionRequest(_) => {
                Body::MakeSessionReply(MakeSessionReply { status, sid, timeout, name })
            }
            Body::RemoveSessionRequest(_) => {
                Body::RemoveSessionReply(RemoveSessionReply { status, sid })
            }
            Body::DebugRequest(_) => {
                let batches = if *marked { EXTENSIONS_MAGIC } else { u32::from(*active) };
                Body::DebugReply(DebugReply { status, sid, timeout, batches, name })
            }
            Body::BatchRequest(_) => {
                let active = u32::from(*active);
                Body::BatchReply(BatchReply { status, sid, active, time: 0 })
            }
            Body::TestRequest(_) => Body::TestReply(TestReply { status, sid }),
            Body::ClientStatsRequest(_) => {
                let len = put.bytes().len() as u32;
                Body::ClientStatsReply(ClientStatsReply { status, sid, len })
            }
            // Counters with any values, as the bytes of the input.
            _ => {
                let kind = order.service.request().number() as u8 + 1;
                let words = (6..40u8).map(|at| (at, u32::from(*active) << (at % 25)));
                let words = words.chain([(6, status), (7, sid.nid as u32)]).collect();
                let message = Selftest { kind, reversed: false, version: None, features: 1, words };
                Message::parse(&message.bytes()).map_or(order.body, |message| message.body)
            }
        }
    }
}

fn failure(kind: u8) -> RpcError {
    match kind % 9 {
        0 => RpcError::TimedOut,
        1 => RpcError::Aborted,
        2 => RpcError::BadReply,
        3 => RpcError::Local(LnetErrorKind::Full),
        4 => RpcError::Local(LnetErrorKind::Rejected),
        5 => RpcError::Send(Status::Refused),
        6 => RpcError::Receive(Status::Corrupt),
        7 => RpcError::Bulk(Status::Canceled),
        _ => RpcError::PeerLost(Status::ConnectionLost),
    }
}
