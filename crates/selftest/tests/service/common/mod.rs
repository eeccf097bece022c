//! Nodes with a service, clients and raw LNet users, connected by `lnet_testing::Net`.

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::shard::Shard;
use lustrine_lnet::shard::{AckWanted, PutArgs};
use lustrine_lnet::time::{Nanos, Time, WallClock};
use lustrine_lnet::topology::{Identity, Topology};
use lustrine_lnet_testing::{Delivery, Net, test_nid, test_topology};
use lustrine_selftest::Tunables;
use lustrine_selftest::console::{Answer, Command, Console, Refusal};
use lustrine_selftest::{
    Client, ClientArgs, ClientSlot, ConsoleRpcs, Service, ServicePolicy, SessionMode,
};
use lustrine_wire::byte_order::ByteOrder;
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::srpc::{Body, MESSAGE_LEN, Message, Name, REPLY_PORTAL, VERSION};
use smallvec::smallvec;

/// Wall clock of every test: its low 16 bits lead all match bits.
pub(crate) const WALL: u64 = 0x6b00_ee7d;

/// The key of every session.
pub(crate) const KEY: u32 = 4242;

/// What runs on a node.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) service: Option<Service>,
    pub(crate) client: Option<Client>,
    pub(crate) harness: Option<ConsoleHarness>,
    /// The partition its service is.
    pub(crate) cpt: u16,
    /// Events of other owners.
    pub(crate) events: Vec<Event>,
    /// A dead node takes part in nothing.
    pub(crate) dead: bool,
    /// A stalled node does nothing until it goes on, and has lost nothing then.
    pub(crate) stalled: bool,
}

/// A console, what carries its orders out, and the answers it has given.
pub(crate) struct ConsoleHarness {
    pub(crate) console: Console,
    pub(crate) calls: ConsoleRpcs,
    pub(crate) answers: Vec<(u64, Result<Answer, Refusal>)>,
    tickets: u64,
}

/// All nodes, and the time.
pub(crate) struct World {
    pub(crate) net: Net,
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Time,
    pub(crate) tunables: Tunables,
    /// State of the generator behind [`World::random`].
    seed: u64,
    /// Of 1000 packets so many are lost without notice, and so many with.
    pub(crate) vanish: u64,
    pub(crate) fail: u64,
    /// Whether packets are delivered in random order.
    pub(crate) shuffle: bool,
    /// Most packets delivered per turn.
    pub(crate) width: usize,
    next_bits: u64,
}

impl World {
    /// `count` nodes with nothing on them.
    pub(crate) fn new(count: usize, tunables: Tunables) -> World {
        let net = Net::new(count, &Default::default());
        let nodes = (0..count).map(|_| Node::default()).collect();
        World {
            net,
            nodes,
            now: Time(1_000_000_000),
            tunables,
            seed: 1,
            vanish: 0,
            fail: 0,
            shuffle: false,
            width: usize::MAX,
            next_bits: 0x7000_0000_0000_0000,
        }
    }

    /// As [`World::new`] with NIDs of the caller's choice.
    pub(crate) fn with_nids(nids: &[Nid], tunables: Tunables) -> World {
        let mut world = World::new(0, tunables);
        for nid in nids {
            world.add_node(test_topology(*nid, Identity::Node, Default::default()));
        }
        world
    }

    /// Adds a node with nothing on it; its index.
    pub(crate) fn add_node(&mut self, topology: Topology) -> usize {
        self.nodes.push(Node::default());
        self.net.add(topology)
    }

    /// Node 0 is a client, node 1 a server.
    pub(crate) fn pair() -> World {
        World::pair_with(Tunables::default())
    }

    pub(crate) fn pair_with(tunables: Tunables) -> World {
        let mut world = World::new(2, tunables);
        world.add_client(0, 1, |_| {});
        world.add_service(1);
        world
    }

    pub(crate) fn seed(&mut self, seed: u64) {
        self.seed = seed.wrapping_mul(2).wrapping_add(1);
    }

    pub(crate) fn add_service(&mut self, node: usize) {
        self.nodes[node].service =
            Some(Service::new(Owner(1), 0, 1, &self.tunables, WallClock::from_secs(WALL)));
        self.set_policy(node, &ServicePolicy::full());
    }

    /// A service that is partition `cpt` of `cpts`.
    pub(crate) fn add_partition(&mut self, node: usize, cpt: u16, cpts: u16) {
        self.nodes[node].cpt = cpt;
        self.nodes[node].service =
            Some(Service::new(Owner(1), cpt, cpts, &self.tunables, WallClock::from_secs(WALL)));
        self.set_policy(node, &ServicePolicy::full());
    }

    /// Puts a policy into force; without it, added services obey every console.
    pub(crate) fn set_policy(&mut self, node: usize, policy: &ServicePolicy) {
        let place = &mut self.net.nodes[node];
        let service = self.nodes[node].service.as_mut().expect("the node has a service");
        service.set_policy(self.now, &mut place.shard, &mut place.memory, policy);
    }

    pub(crate) fn add_client(
        &mut self,
        node: usize,
        target: usize,
        edit: impl FnOnce(&mut ClientArgs),
    ) {
        let mut args = ClientArgs {
            target: ProcessId::lustre(test_nid(target)),
            local: None,
            console: test_nid(node),
            slot: ClientSlot(1),
            name: Name::new("test").unwrap(),
            session: SessionMode::IfFree,
            patience: Nanos::from_secs(60),
            wall: WallClock::from_secs(WALL),
        };
        edit(&mut args);
        self.nodes[node].client = Some(Client::new(Owner(1), self.now, args, &self.tunables));
    }

    /// A console on a node.
    pub(crate) fn add_console(&mut self, node: usize) {
        let console = Console::new(&self.net.nodes[node].nid, WALL);
        let calls = ConsoleRpcs::new(Owner(1), WALL);
        self.nodes[node].harness =
            Some(ConsoleHarness { console, calls, answers: Vec::new(), tickets: 0 });
    }

    pub(crate) fn console_at(&mut self, node: usize) -> &mut ConsoleHarness {
        self.nodes[node].harness.as_mut().expect("the node has a console")
    }

    /// Gives a console a command; its ticket.
    pub(crate) fn give(&mut self, node: usize, command: Command) -> u64 {
        let now = self.now;
        let harness = self.console_at(node);
        harness.tickets += 1;
        harness.console.command(now, harness.tickets, KEY, command);
        harness.tickets
    }

    /// Gives a console a command and waits for its answer, in steps of 10 ms.
    pub(crate) fn command(&mut self, node: usize, command: Command) -> Result<Answer, Refusal> {
        let ticket = self.give(node, command);
        for _ in 0..40_000 {
            let answers = &mut self.console_at(node).answers;
            if let Some(at) = answers.iter().position(|(of, _)| *of == ticket) {
                return answers.remove(at).1;
            }
            self.turn();
            self.now = self.now + Nanos::from_millis(10);
        }
        panic!("no answer within 400 s");
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        self.nodes[0].client.as_mut().expect("node 0 is a client")
    }

    pub(crate) fn service(&mut self, node: usize) -> &mut Service {
        self.nodes[node].service.as_mut().expect("the node serves")
    }

    pub(crate) fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    /// Lets every node work and delivers what is on its way, once.
    pub(crate) fn turn(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            let place = &mut self.net.nodes[index];
            if node.stalled {
                continue;
            }
            if node.dead {
                while place.shard.next_event().is_some() {}
                continue;
            }
            while let Some(event) = place.shard.next_event() {
                let (shard, memory) = (&mut place.shard, &mut place.memory);
                if event.owner == Owner(2) {
                    node.events.push(event);
                    continue;
                }
                if let Some(service) = &mut node.service {
                    service.handle(self.now, shard, memory, &event);
                }
                if let Some(client) = &mut node.client {
                    client.handle(self.now, shard, memory, &event);
                }
                if let Some(harness) = &mut node.harness {
                    harness.calls.handle(self.now, shard, memory, &event);
                }
            }
            if let Some(service) = &mut node.service {
                service.drive(self.now, &mut place.shard, &mut place.memory);
            }
            if let Some(client) = &mut node.client {
                client.drive(self.now, &mut place.shard, &mut place.memory);
            }
            if let Some(harness) = &mut node.harness {
                harness.work(self.now, &mut place.shard, &mut place.memory);
            }
        }
        self.cross();
        self.net.settle(self.now);
        for _ in 0..self.net.packets.len().min(self.width) {
            let at = match self.shuffle {
                true => (self.random() % self.net.packets.len() as u64) as usize,
                false => 0,
            };
            let dice = self.random() % 1000;
            let fate = match dice {
                _ if dice < self.vanish => Delivery::Lose,
                _ if dice < self.vanish + self.fail => Delivery::Fail,
                _ => Delivery::Deliver,
            };
            self.net.deliver(self.now, at, fate);
        }
        self.net.settle(self.now);
    }

    /// Carries values between the partitions of the one service that has several.
    fn cross(&mut self) {
        for index in 0..self.nodes.len() {
            let from = self.nodes[index].cpt;
            while let Some((cpt, cross)) =
                self.nodes[index].service.as_mut().and_then(Service::take_cpt_message)
            {
                assert_ne!(cpt, from);
                // Partitions stand side by side, in order.
                let other = index + usize::from(cpt) - usize::from(from);
                self.service(other).accept_cpt_message(cross);
            }
        }
    }

    /// Turns, each `step` later, until the condition holds.
    ///
    /// # Panics
    /// When it does not within `turns` turns.
    pub(crate) fn until(
        &mut self,
        step: Nanos,
        turns: u32,
        mut done: impl FnMut(&mut World) -> bool,
    ) {
        for _ in 0..turns {
            if done(self) {
                return;
            }
            self.turn();
            self.now = self.now + step;
        }
        panic!("not done after {turns} turns");
    }

    /// So many turns, each `step` later.
    pub(crate) fn turns(&mut self, step: Nanos, turns: u32) {
        for _ in 0..turns {
            self.turn();
            self.now = self.now + step;
        }
    }

    /// Replaces a node by a fresh one: another incarnation, no memory of anything.
    pub(crate) fn restart(&mut self, node: usize) {
        let mut topology = test_topology(test_nid(node), Identity::Node, Default::default());
        topology.incarnation ^= self.now.0;
        let mut fresh = Net::default();
        fresh.add(topology);
        let fresh = fresh.nodes.remove(0);
        let old = std::mem::replace(&mut self.net.nodes[node], fresh);
        // Messages of the old incarnation are gone with it.
        self.net.packets.retain(|packet| packet.header.src.nid != old.nid);
        self.nodes[node] = Node::default();
    }

    /// Sends a raw request from a node and returns the reply, if one comes within `seconds`.
    pub(crate) fn ask(
        &mut self,
        from: usize,
        to: usize,
        service: u64,
        message: &Message,
    ) -> Option<Body> {
        let mut raw = [0; MESSAGE_LEN];
        message.encode(&mut raw);
        let bits = raw_reply_bits(&raw, message.order);
        let portal = if (10..64).contains(&service) { 50 } else { 51 };
        self.ask_raw(from, to, portal, service, bits, &raw).map(|reply| reply.body)
    }

    /// As [`World::ask`] with bytes of any kind.
    pub(crate) fn ask_raw(
        &mut self,
        from: usize,
        to: usize,
        portal: u32,
        match_bits: u64,
        reply_bits: u64,
        bytes: &[u8],
    ) -> Option<Message> {
        let now = self.now;
        let target = ProcessId::lustre(self.net.nodes[to].nid);
        let place = &mut self.net.nodes[from];
        let sink = place.memory.alloc(MESSAGE_LEN as u32).unwrap();
        let md = Md {
            spans: smallvec![sink],
            threshold: Some(1),
            max_size: None,
            options: MdOptions::OP_PUT,
            owner: Owner(2),
            user: reply_bits,
        };
        let entry = MatchEntry {
            from: MatchId { nid: target.nid, pid: target.pid },
            match_bits: reply_bits,
            ignore_bits: 0,
            position: Position::After,
            unlink: Unlink::Auto,
        };
        let reply_md = place.shard.attach(now, REPLY_PORTAL, entry, md).unwrap();
        self.send_raw(from, to, portal, match_bits, bytes);
        for _ in 0..20 {
            self.turn();
            self.now = self.now + Nanos::from_millis(1);
        }
        let place = &mut self.net.nodes[from];
        place.shard.unlink(self.now, reply_md);
        let events = std::mem::take(&mut self.nodes[from].events);
        let put = events.iter().find(|event| event.md == reply_md && event.kind == EventKind::Put);
        put.map(|event| {
            assert_eq!(event.moved as usize, MESSAGE_LEN);
            let mut raw = [0; MESSAGE_LEN];
            place.memory.read(sink, &mut raw);
            Message::parse(&raw).expect("a selftest message")
        })
    }

    /// PUTs bytes.
    pub(crate) fn send_raw(
        &mut self,
        from: usize,
        to: usize,
        portal: u32,
        match_bits: u64,
        bytes: &[u8],
    ) {
        let target = ProcessId::lustre(self.net.nodes[to].nid);
        let place = &mut self.net.nodes[from];
        let span = place.memory.alloc(bytes.len() as u32).unwrap();
        place.memory.write(span, bytes);
        let md = Md {
            spans: smallvec![span],
            threshold: Some(1),
            max_size: None,
            options: MdOptions::empty(),
            owner: Owner(2),
            user: 0,
        };
        let md = place.shard.bind(md).unwrap();
        let args = PutArgs {
            md,
            local: None,
            target,
            portal,
            match_bits,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        place.shard.put(self.now, args).unwrap();
    }

    /// Offers memory at node `at` to one GET or PUT of node `to` on the reply portal; the answer
    /// is where to look for what was PUT there.
    pub(crate) fn offer(&mut self, at: usize, to: usize, match_bits: u64, bytes: &[u8]) -> Span {
        let peer = self.net.nodes[to].nid;
        let place = &mut self.net.nodes[at];
        let span = place.memory.alloc(bytes.len() as u32).unwrap();
        place.memory.write(span, bytes);
        let md = Md {
            spans: smallvec![span],
            threshold: Some(1),
            max_size: None,
            options: MdOptions::OP_GET | MdOptions::OP_PUT,
            owner: Owner(2),
            user: match_bits,
        };
        let entry = MatchEntry {
            from: MatchId { nid: peer, pid: PID_LUSTRE },
            match_bits,
            ignore_bits: 0,
            position: Position::After,
            unlink: Unlink::Auto,
        };
        place.shard.attach(self.now, REPLY_PORTAL, entry, md).unwrap();
        span
    }

    /// Fresh match bits for raw requests.
    pub(crate) fn bits(&mut self) -> u64 {
        self.next_bits += 1;
        self.next_bits
    }
}

impl ConsoleHarness {
    fn work(&mut self, now: Time, shard: &mut Shard, memory: &mut impl Memory) {
        self.calls.drive(now, shard, memory);
        while let Some(outcome) = self.calls.next_rpc_outcome() {
            self.console.completed(now, &outcome);
        }
        if now >= self.console.next_deadline() {
            self.console.tick(now);
        }
        while let Some(order) = self.console.next_rpc() {
            self.calls.take(order);
        }
        while let Some((order, _)) = self.console.next_canceled() {
            self.calls.cancel(order);
        }
        self.calls.drive(now, shard, memory);
        self.answers.extend(std::iter::from_fn(|| self.console.next_answer()));
    }
}

/// A request as a kernel of this architecture sends it.
pub(crate) fn message(features: u32, body: Body) -> Message {
    Message { order: ByteOrder::Little, version: VERSION, features, body }
}

fn raw_reply_bits(raw: &[u8; MESSAGE_LEN], order: ByteOrder) -> u64 {
    order.u64_at(raw, 24)
}

/// The NID of a test node as a session id has it.
pub(crate) fn short(node: usize) -> u64 {
    let nid: Nid = test_nid(node);
    nid.to_short().unwrap()
}
