//! An environment whose answers the rest of the input determines; after its end, all answers
//! succeed.

use core::net::Ipv4Addr;
use core::time::Duration;
use std::collections::BTreeMap;

use arbitrary::Unstructured;
use lustrine_control::{
    ChangeReport, ChangeRequest, Messages, NetInfo, NetRow, PeerIdentity, PeerNiRow, PeerRow,
    SummaryRow,
};
use lustrine_selftest::Test;
use lustrine_selftest::console::{
    Answer, BatchView, Command, Detail, Distribution, NewTest, NodeReply, NodeState, NodeView,
    Refusal, Reply, SessionHolder, SessionView, TestView,
};
use lustrine_tools::lst::{self, ConsoleError, WaitOutcome};
use lustrine_tools::node::{self, ToolError};
use lustrine_tools::routerstat::Counters;
use lustrine_tools::shell::Terminal;
use lustrine_wire::nid::{Net, Nid};
use lustrine_wire::srpc::{self, BrwCheck, ClientStats, Message};

use crate::speech::Selftest;

/// The number of requests and waits after which the user interrupts the tool.
const PATIENCE: u32 = 200;

/// Largest number of bytes of output: a line for each NID that a command can name, and long ones,
/// for each line of a script.
const SCREEN_MAX: usize = 32 * 16_384 * 512;

/// Names that nodes and consoles may have.
const NAMES: [&str; 8] = ["a", "b", "batch", "eth0", "", "- x: {", "\u{fc}\t", "a\nb"];

/// The environment.
pub(super) struct World<'a> {
    answers: Unstructured<'a>,
    patience: u32,
    shown: usize,
}

impl<'a> World<'a> {
    pub(super) fn new(answers: &'a [u8]) -> World<'a> {
        World { answers: Unstructured::new(answers), patience: PATIENCE, shown: 0 }
    }

    /// The output of `routerstat` for two states of the counters.
    pub(super) fn look_at_rates(&mut self) {
        let [before, now] = [(), ()].map(|()| Counters::from_map(&self.values()));
        let time = Duration::from_millis(self.number() % 100_000);
        for line in [before.totals(), now.rates(&before, time)] {
            assert!(line.ends_with('\n') && line.lines().count() == 1, "{line:?}");
            assert!(!line.contains("inf") && !line.contains("NaN"), "{line:?}");
        }
    }

    fn byte(&mut self) -> u8 {
        self.answers.arbitrary().unwrap_or(0)
    }

    fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..0xf0 => u64::from(small),
            0xf0..0xf8 => u64::MAX,
            _ => self.answers.arbitrary().unwrap_or(0),
        }
    }

    fn name(&mut self) -> String {
        NAMES[usize::from(self.byte()) % NAMES.len()].to_owned()
    }

    fn nid(&mut self) -> Nid {
        match self.byte() {
            0xff => Nid::LO,
            0xfe => Nid::ANY,
            0xfd => Nid::new6(Net::TCP, [0x20; 16]),
            number => Nid::new4(Net::TCP, 0x0a00_0001 + u32::from(number % 8)),
        }
    }

    /// Up to three items.
    fn some<T>(&mut self, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = 3 - self.byte() % 4;
        (0..count).map(|_| one(self)).collect()
    }

    fn is_tired(&mut self) -> bool {
        self.patience = self.patience.saturating_sub(1);
        self.patience == 0
    }

    fn state(&mut self) -> NodeState {
        [NodeState::Active, NodeState::Busy, NodeState::Down, NodeState::Unknown]
            [usize::from(self.byte()) % 4]
    }

    fn node(&mut self) -> NodeView {
        NodeView { nid: self.nid(), state: self.state(), ours: self.byte() & 1 != 0 }
    }

    fn holder(&mut self) -> SessionHolder {
        SessionHolder { name: self.name(), console: self.nid() }
    }

    fn counters(&mut self) -> Detail {
        let words = (0..34).map(|at| (6 + at, self.number() as u32)).collect();
        // The reply to a request for counters.
        let raw = Selftest { kind: 7, reversed: false, version: None, features: 1, words };
        match Message::parse(&raw.bytes()).map(|message| message.body) {
            Ok(srpc::Body::StatReply(reply)) => Detail::Counters(Box::new(reply.counters)),
            _ => unreachable!("type 7 is the reply with counters"),
        }
    }

    fn client_stats(&mut self) -> Detail {
        let stats = ClientStats {
            age: self.number(),
            active: self.byte().into(),
            ops: self.number(),
            bytes: self.number(),
            failed: vec![(-5, self.number())],
            latencies: vec![(u32::from(self.byte()), self.number())],
            details: None,
        };
        Detail::ClientStats(Box::new(stats))
    }

    fn detail(&mut self, command: Option<&Command>) -> Detail {
        match command {
            Some(Command::Query { .. }) => Detail::Active(self.byte().into()),
            Some(Command::Stat { .. }) => self.counters(),
            Some(Command::ClientStats { .. }) => self.client_stats(),
            Some(Command::Ping { .. }) => Detail::Session(self.holder()),
            Some(_) => Detail::None,
            None => match self.byte() % 5 {
                0 => Detail::None,
                1 => Detail::Session(self.holder()),
                2 => Detail::Active(self.byte().into()),
                3 => self.counters(),
                _ => self.client_stats(),
            },
        }
    }

    fn said(&mut self, command: Option<&Command>) -> NodeReply {
        let (nid, state) = (self.nid(), self.state());
        let reply = match self.byte() {
            0..0xc0 => Reply::Good(self.detail(command)),
            0xc0..0xe0 => Reply::Refused(self.number() as u32),
            _ => Reply::None { errno: self.number() as i32, why: self.name(), status: None },
        };
        let holder = (self.byte() & 1 != 0).then(|| self.holder());
        NodeReply { nid, state, reply, holder }
    }

    fn session(&mut self) -> Answer {
        Answer::Session(SessionView {
            name: self.name(),
            console: self.number(),
            stamp: self.number() as i64,
            key: self.byte().into(),
            features: self.number() as u32,
            timeout: self.number() as u32,
            force: self.byte() & 1 != 0,
            nodes: self.number() as u32,
        })
    }

    fn test(&mut self) -> TestView {
        let check = BrwCheck::from_number(u32::from(self.byte() % 4) + 1);
        let (len, check) = (self.number() as u32, check.unwrap_or(BrwCheck::None));
        let test = match self.byte() % 3 {
            0 => Test::Ping,
            1 => Test::Read { len, check },
            _ => Test::Write { len, check },
        };
        let asked = NewTest {
            batch: self.name(),
            from: self.name(),
            to: self.name(),
            test,
            offset: self.number() as u32,
            loops: self.number() as i32,
            concurrency: self.number() as u32,
            spread: Distribution { clients: self.number() as u32, servers: self.number() as u32 },
            stop_on_error: self.byte() & 1 != 0,
            rate: self.number() as u32,
        };
        TestView { asked, clients: self.some(World::node), servers: self.some(World::node) }
    }

    fn batch(&mut self) -> Answer {
        Answer::Batch(BatchView {
            name: self.name(),
            running: self.byte() & 1 != 0,
            clients: self.some(World::node),
            servers: self.some(World::node),
            tests: self.some(World::test),
        })
    }

    /// The answer of a console to this command.
    fn due(&mut self, command: &Command) -> Answer {
        match command {
            Command::NewSession { .. } | Command::ShowSession => self.session(),
            Command::ListGroups | Command::ListBatches => Answer::Names(self.some(World::name)),
            Command::ShowGroup { .. } => Answer::Nodes(self.some(World::node)),
            Command::ShowBatch { .. } => self.batch(),
            Command::AddGroup { .. } | Command::AddBatch { .. } | Command::CleanGroup { .. } => {
                Answer::Done
            }
            command => Answer::Replies(self.some(|world| world.said(Some(command)))),
        }
    }

    /// An answer that a console of another version may give.
    fn anything(&mut self) -> Answer {
        match self.byte() % 6 {
            0 => Answer::Done,
            1 => self.session(),
            2 => Answer::Names(self.some(World::name)),
            3 => Answer::Nodes(self.some(World::node)),
            4 => self.batch(),
            _ => Answer::Replies(self.some(|world| world.said(None))),
        }
    }

    fn refusal(&mut self) -> Refusal {
        let name = self.name();
        match self.byte() % 10 {
            0 => Refusal::NoSession,
            1 => Refusal::OtherKey,
            2 => Refusal::SessionExists(name),
            3 => Refusal::NoGroup(name),
            4 => Refusal::GroupExists(name),
            5 => Refusal::GroupInUse(name),
            6 => Refusal::HarmfulTest(name),
            7 => Refusal::NotActive(vec![(self.nid(), self.state())]),
            8 => Refusal::NoTest { batch: name, test: 1, tests: 0 },
            _ => Refusal::Busy(64),
        }
    }

    fn values(&mut self) -> BTreeMap<String, u64> {
        let names = ["msgs_alloc", "errors", "send_count", "send_length", "drop_count", "a\nb"];
        names.into_iter().map(|name| (name.to_owned(), self.number())).collect()
    }

    fn identity(&mut self) -> PeerIdentity {
        PeerIdentity {
            primary_nid: self.nid(),
            multi_rail: self.byte() & 1 != 0,
            peer_ni: self.some(|world| PeerNiRow { nid: world.nid(), up: world.byte() & 1 != 0 }),
        }
    }

    fn messages(&mut self) -> Messages {
        let mut latency = BTreeMap::new();
        for operation in ["put_egress", "get_rtt", "put_ack"] {
            if self.byte() & 1 != 0 {
                let summary = SummaryRow {
                    samples: self.number(),
                    min_nsec: self.number(),
                    max_nsec: self.number(),
                    avg_nsec: self.number(),
                };
                latency.insert(operation.to_owned(), summary);
            }
        }
        let (sent, received, dropped) = (self.number(), self.number(), self.number());
        Messages { sent, received, dropped, latency }
    }

    /// A value, if the node exists.
    fn there<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> Result<T, ToolError> {
        let tired = self.is_tired();
        match self.byte() {
            0..0xe0 if !tired => Ok(what(self)),
            _ => Err(ToolError { errno: self.number() as i32, text: self.name() }),
        }
    }

    fn show(&mut self, text: &str) {
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?} is not a whole line");
        self.shown += text.len();
        assert!(self.shown <= SCREEN_MAX, "too much output, last {text:?}");
    }
}

impl Terminal for World<'_> {
    fn out(&mut self, text: &str) {
        self.show(text);
    }

    fn err(&mut self, text: &str) {
        assert!(!text.is_empty());
        self.show(text);
    }
}

impl lst::Env for World<'_> {
    fn ask(&mut self, _key: u32, command: Command) -> Result<Answer, ConsoleError> {
        if self.is_tired() {
            return Err(ConsoleError::Interrupted);
        }
        match self.byte() {
            0..0xc0 => Ok(self.due(&command)),
            0xc0..0xe0 => Ok(self.anything()),
            0xe0..0xf8 => Err(ConsoleError::Refused(self.refusal())),
            0xf8..0xfc => Err(ConsoleError::NoConsole),
            0xfc..0xff => Err(ConsoleError::Failed(self.name())),
            0xff => Err(ConsoleError::Interrupted),
        }
    }

    fn sleep(&mut self, _time: Duration) -> WaitOutcome {
        if self.is_tired() { WaitOutcome::Interrupted } else { WaitOutcome::Elapsed }
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        resolve(host)
    }
}

impl node::Env for World<'_> {
    fn nis(&mut self) -> Result<NetInfo, ToolError> {
        let ni = |world: &mut Self| NetRow {
            interface: (world.byte() & 1 != 0).then(|| world.name()),
            port: world.number() as u16,
            conns_per_peer: world.byte().into(),
            peer_credits: world.number() as u32,
            credits_configured: world.number() as u32,
            messages: world.messages(),
            ..NetRow::new(world.nid())
        };
        self.there(|world| NetInfo {
            cpts: vec![Vec::new(); world.byte().into()],
            nets: world.some(ni),
            ..NetInfo::default()
        })
    }

    fn peers(&mut self) -> Result<Vec<PeerRow>, ToolError> {
        let connections = |world: &mut Self| {
            let kinds = ["ANY", "CONTROL", "BULK_IN", "BULK_OUT", "other"];
            kinds.into_iter().map(|kind| (kind.to_owned(), world.number() as u32)).collect()
        };
        let peer = |world: &mut Self| PeerRow {
            cpt: world.byte().into(),
            credits: world.number() as u32,
            credits_available: world.number() as i64,
            credits_min: world.number() as i64,
            messages: world.messages(),
            connections: connections(world),
            ..PeerRow::new(world.nid(), world.identity())
        };
        self.there(|world| world.some(peer))
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, ToolError> {
        self.there(World::values)
    }

    fn tunables(&mut self) -> Result<BTreeMap<String, i64>, ToolError> {
        let signed = |values: BTreeMap<String, u64>| {
            values.into_iter().map(|(name, value)| (name, value as i64)).collect()
        };
        self.there(|world| signed(world.values()))
    }

    fn ping(&mut self, _nid: Nid, seconds: u32) -> Result<PeerIdentity, ToolError> {
        assert!((1..=3600).contains(&seconds), "{seconds} s");
        self.there(World::identity)
    }

    fn discover(&mut self, _nid: Nid) -> Result<PeerIdentity, ToolError> {
        self.there(World::identity)
    }

    fn change(&mut self, _wish: &ChangeRequest, _dry_run: bool) -> Result<ChangeReport, ToolError> {
        // Settings are documents of whole lines, and error messages have none.
        let lines = |world: &mut Self| {
            world.some(World::name).iter().map(|name| format!("{}\n", name.trim())).collect()
        };
        let word = |world: &mut Self| world.name().replace(['\n', '\t'], " ");
        self.there(|world| ChangeReport {
            steps: world.some(word),
            warnings: world.some(word),
            before: lines(world),
            after: lines(world),
        })
    }

    fn backup(&mut self) -> Result<String, ToolError> {
        self.there(|world| world.some(World::name).concat() + "\n")
    }

    fn read(&mut self, _path: Option<&str>) -> Result<String, String> {
        if self.byte() < 0xe0 { Ok(self.some(World::name).concat()) } else { Err(self.name()) }
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        resolve(host)
    }

    fn write(&mut self, _path: &str, text: &str) -> Result<(), String> {
        assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        self.show(text);
        if self.byte() < 0xe0 { Ok(()) } else { Err(self.name()) }
    }
}

fn resolve(host: &str) -> Result<Ipv4Addr, String> {
    match host.len() % 5 {
        0 => Err("it is not known".to_owned()),
        end => Ok(Ipv4Addr::new(10, 0, 0, end as u8)),
    }
}
