//! A node, well-behaved peers that use it at the same time, and a rogue.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lustrine_control::{Answer, Request};
use lustrine_node::control;
use lustrine_wire::hello::{ConnType, Hello};
use lustrine_wire::nid::{Net, Nid};

use super::line::Line;
use super::words::{Words, greeting};
use crate::common::{Node, Usage, eventually, eventually_equal, finish, loopback, may_be_node};

/// The interval at which the friend pings.
const PING_EVERY: Duration = Duration::from_millis(20);

/// The time-out of one of its pings, for a machine under heavy load.
const PING_TIMEOUT_MS: u64 = 20_000;

/// Connections that the clients may have in addition to those counted at the beginning.
const CLIENTS: u64 = 16;

/// The largest increase of a node's memory for messages and in total, in bytes.
const MORE_MAPPED: u64 = 32 << 20;
const MORE_RESIDENT: u64 = 64 << 20;

/// The part of the increase that may remain at the end.
const LEFT_RESIDENT: u64 = 32 << 20;

/// A node and its well-behaved peers: one that pings it over permanent connections, and clients
/// that connect, measure it with all data checked, and disconnect.
pub(crate) struct Scene {
    pub(crate) node: Arc<Node>,
    friend: Arc<Node>,
    before: Usage,
    /// Mapped memory and connections when only the friend was connected.
    mapped: u64,
    connections: u64,
    neighbours: Vec<Neighbour>,
    /// The largest increase of resident memory that may remain.
    left: u64,
    /// Connections to the friend that were opened for a test, and closed.
    calls: AtomicU64,
}

impl Scene {
    /// Starts a node with these settings, and its neighbours.
    pub(crate) fn new(settings: &[&str]) -> Scene {
        let mut scene = Scene::with_friend_only(settings);
        let node = Arc::clone(&scene.node);
        scene.neighbours.push(Neighbour::start(move || measure(&node)));
        scene
    }

    /// The same without short-lived clients.
    pub(crate) fn with_friend_only(settings: &[&str]) -> Scene {
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let args: Vec<&str> = ["--accept", "all"].into_iter().chain(settings).collect();
        let node = Arc::new(Node::start(&args));
        let friend = Arc::new(node.beside(&["--accept", "all"]));
        // Memory that is mapped once and stays is mapped from the beginning.
        measure(&node).expect("the first client");
        ping(&friend, &node.nid()).expect("the first ping");
        eventually_equal("only the friend's connections", || {
            (node.stats().connections, friend.stats().connections)
        });
        let stats = node.stats();
        let mut scene = Scene {
            before: node.usage(),
            mapped: stats.memory_mapped,
            connections: stats.connections,
            neighbours: Vec::new(),
            left: LEFT_RESIDENT,
            calls: AtomicU64::new(0),
            friend: Arc::clone(&friend),
            node,
        };
        let nid = scene.node.nid();
        scene.neighbours.push(Neighbour::start(move || {
            thread::sleep(PING_EVERY);
            ping(&friend, &nid)
        }));
        scene
    }

    /// Permits a larger increase of resident memory at the end than usual.
    pub(crate) fn may_keep(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// A rogue with its own address.
    pub(crate) fn rogue(&self) -> Rogue {
        Rogue::at(loopback(), &self.node)
    }

    /// The NID of the peer that is always connected.
    pub(crate) fn friend_nid(&self) -> Nid {
        self.friend.nid().parse().expect("a NID")
    }

    /// The incarnation in the answers of the peer that is always connected.
    pub(crate) fn incarnation_of_the_friend(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut caller = Rogue::at(loopback(), &self.friend);
        let hello = caller.words.hello(ConnType::Control);
        caller.befriend_as(&hello).1.src_incarnation
    }

    /// A counter of the driver or of the core.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let stats = self.node.stats();
        let counter = stats.drivers["socklnd"].get(name).or_else(|| stats.lnet.get(name));
        *counter.unwrap_or_else(|| panic!("no counter {name}"))
    }

    /// Asserts that the node has refused no connection for want of room. If it has, the other
    /// counters say what it was doing.
    #[track_caller]
    pub(crate) fn require_no_refusals(&self) {
        let stats = self.node.stats();
        let mut counters = stats.drivers["socklnd"].clone();
        counters.retain(|_, count| *count != 0);
        let connections = stats.connections;
        assert_eq!(self.count("refused_full"), 0, "{connections} connections, {counters:?}");
    }

    /// The number of peers that the node has.
    pub(crate) fn peers(&self) -> usize {
        match control::ask(&self.node.control(), &Request::ShowPeer) {
            Ok(Answer::Peer { peers }) => peers.len(),
            other => panic!("the node does not return its peers: {other:?}"),
        }
    }

    /// Waits until a counter has risen by this amount; `whom` is for messages.
    #[track_caller]
    pub(crate) fn wait_for(&self, whom: &str, name: &str, from: u64, by: u64) {
        eventually(&format!("{whom}: {name} from {from} up by {by}"), || {
            (self.count(name) >= from + by).then_some(())
        });
    }

    /// Asserts that the node has stayed within its limits, and that its neighbours were not
    /// disturbed.
    pub(crate) fn check(&self, name: &str) {
        for neighbour in &self.neighbours {
            assert!(!neighbour.has_failed(), "{name}: a neighbour has complained");
        }
        let (usage, mapped) = (self.node.usage(), self.node.stats().memory_mapped);
        assert!(mapped <= self.mapped + MORE_MAPPED, "{name}: {mapped} bytes are mapped");
        let resident = usage.resident;
        assert!(resident <= self.before.resident + MORE_RESIDENT, "{name}: {resident} resident");
        // No connection of the rogue is left.
        eventually(&format!("few connections after: {name}"), || {
            let connections = self.node.stats().connections;
            let descriptors = self.node.usage().descriptors as u64;
            let few = |count: u64, before: u64| count <= before + CLIENTS;
            let left = few(connections, self.connections);
            (left && few(descriptors, self.before.descriptors as u64)).then_some(())
        });
    }

    /// Ends the neighbours' work, none of which may have failed, and asserts that everything is as
    /// in the beginning.
    pub(crate) fn end(mut self) {
        for neighbour in &mut self.neighbours {
            let rounds = neighbour.end();
            assert!(rounds > 0, "a neighbour has had no time to do anything");
        }
        let node = &self.node;
        // On a busy machine the friend may have dialled some of its connections later.
        eventually_equal("only the friend's connections", || {
            (node.stats().connections, self.friend.stats().connections)
        });
        let friends = self.friend.stats().connections;
        let more = usize::try_from(friends.saturating_sub(self.connections)).expect("a few");
        eventually("no messages", || (node.stats().lnet["msgs_alloc"] == 0).then_some(()));
        eventually("descriptors as in the beginning", || {
            // A caller's socket is closed when the next one calls.
            node.stats();
            (node.usage().descriptors <= self.before.descriptors + more).then_some(())
        });
        let stats = self.friend.stats();
        assert_eq!(
            (stats.drivers["socklnd"]["closed"], stats.lnet["errors"]),
            (self.calls.load(Ordering::Relaxed), 0),
            "{stats:#?}"
        );
        let resident = node.usage().resident;
        assert!(resident <= self.before.resident + self.left, "{resident} bytes stay resident");
        ping(&self.friend, &node.nid()).expect("the node answers still");
        let node = Arc::into_inner(self.node).expect("its neighbours have ended");
        node.stop().ok();
    }
}

/// A ping through a running node.
pub(crate) fn ping(from: &Node, nid: &str) -> Result<(), String> {
    let request = Request::Ping { nid: nid.parse().expect("a NID"), timeout_ms: PING_TIMEOUT_MS };
    match control::ask(&from.control(), &request) {
        Ok(Answer::Ping { .. }) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

/// A client with its own address measures a node and checks every word.
fn measure(node: &Node) -> Result<(), String> {
    let mut client = node.client("selftest");
    client.args(["--test", "ping,read,write", "--size", "64k", "--concurrency", "4"]);
    client.args(["--time", "0.3", "--check", "full"]);
    let done = finish(&mut client);
    if done.code == Some(0) { Ok(()) } else { Err(format!("{done:#?}")) }
}

/// A thread that repeats an action until it fails or is stopped.
struct Neighbour {
    over: Arc<AtomicBool>,
    work: Option<JoinHandle<u64>>,
}

impl Neighbour {
    fn start(mut once: impl FnMut() -> Result<(), String> + Send + 'static) -> Neighbour {
        let over = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&over);
        let work = thread::spawn(move || {
            let mut rounds = 0;
            while !stopped.load(Ordering::Relaxed) {
                once().unwrap_or_else(|error| panic!("a neighbour, round {rounds}: {error}"));
                rounds += 1;
            }
            rounds
        });
        Neighbour { over, work: Some(work) }
    }

    fn has_failed(&self) -> bool {
        self.work.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread, and returns how often it has repeated its action.
    fn end(&mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        let work = self.work.take().expect("it ends once");
        work.join().expect("a neighbour has something to complain about")
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A peer that breaks the protocol; it has its own address and NID.
pub(crate) struct Rogue {
    ip: Ipv4Addr,
    node: SocketAddrV4,
    next_port: u16,
    pub(crate) words: Words,
}

impl Rogue {
    fn at(ip: Ipv4Addr, node: &Node) -> Rogue {
        let nid = |ip: Ipv4Addr| Nid::from_ip(Net::TCP, ip.into());
        Rogue {
            ip,
            node: SocketAddrV4::new(node.ip(), node.port()),
            next_port: 1023,
            words: Words { from: nid(ip), to: nid(node.ip()) },
        }
    }

    pub(crate) fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// Dials as a kernel does if this process may: the NID of a peer with a privileged port is
    /// accepted.
    pub(crate) fn dial(&mut self) -> Line {
        self.dial_reading(None)
    }

    /// The same with a buffer for about `window` unread bytes.
    pub(crate) fn dial_reading(&mut self, window: Option<usize>) -> Line {
        if !may_be_node() {
            return self.dial_unprivileged_reading(window);
        }
        loop {
            let from = SocketAddrV4::new(self.ip, self.next_port);
            self.next_port -= 1;
            assert!(self.next_port >= 512, "a rogue dials too often");
            if let Some(line) = Line::dial(from, self.node, window) {
                return line;
            }
        }
    }

    /// Dials from any other port; then the node never dials the rogue.
    pub(crate) fn dial_unprivileged(&self) -> Line {
        self.dial_unprivileged_reading(None)
    }

    /// The same with a buffer for about `window` unread bytes.
    pub(crate) fn dial_unprivileged_reading(&self, window: Option<usize>) -> Line {
        let from = SocketAddrV4::new(self.ip, 0);
        Line::dial(from, self.node, window).expect("some port is free")
    }

    /// Dials, sends a HELLO and reads the answer.
    pub(crate) fn befriend(&mut self, kind: ConnType) -> Line {
        self.befriend_as(&self.words.hello(kind)).0
    }

    /// The same with any HELLO; returns the answer as well.
    pub(crate) fn befriend_as(&mut self, hello: &Hello) -> (Line, Hello) {
        let mut line = self.dial();
        line.say(&greeting(&self.words, hello));
        let answer = line.hear_hello().expect("the node answers a good HELLO");
        (line, answer)
    }
}
