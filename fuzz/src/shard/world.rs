//! The network: shards, the messages between them, and drivers that complete operations late.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::lnd::{
    Action, Arrival, Core, LinkEvent, NiIndex, OpKey, RxId, SendAction, Verdict,
};
use lustrine_lnet::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::VecMemory;
use lustrine_lnet::memory::{Memory, Span, Spans, total_len};
use lustrine_lnet::portal::{Laziness, MatchEntry};
use lustrine_lnet::shard::{AckWanted, GetArgs, PING_BITS, PutArgs, Shard};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::{Identity, Ni};
use lustrine_lnet::tunables::Tunables;
use lustrine_lnet_testing::{test_nid, test_topology};
use lustrine_wire::header::{Body, Header, MdHandle, PAYLOAD_MAX};
use lustrine_wire::nid::{Net, Nid, PID_ANY, PID_LUSTRE, PID_USERLAND, ProcessId};
use lustrine_wire::ping::{Features, NiStatus, PingEntry, PingInfo};

use super::ledger::Ledger;
use super::steps::{self, Fate, Handle, Payload, Setup, Step, Who};

const NODES: usize = 3;
/// Largest number of turns until all cores are idle; more means an infinite loop.
const TURNS_MAX: usize = 100_000;
/// Largest number of bytes of a descriptor.
const MEMORY_MAX: u32 = 8192;

/// A message that its core passed to the driver.
#[derive(Debug)]
struct Packet {
    from: usize,
    send: SendAction,
}

/// A message whose header the core has seen.
#[derive(Debug)]
struct Incoming {
    hop: ProcessId,
    /// The length in the header; a forged message has fewer `bytes`.
    payload_len: u32,
    bytes: Vec<u8>,
}

/// A payload that is being stored.
#[derive(Debug)]
struct Storing {
    op: OpKey,
    spans: Spans,
    bytes: Vec<u8>,
    hop: ProcessId,
}

struct Node {
    shard: Shard,
    memory: VecMemory,
    /// Spans that the core itself holds when idle.
    memory_of_core: usize,
    ledger: Ledger,
    identity: Identity,
    /// Arrived at the target, not yet reported to the sender.
    arrived: Vec<SendAction>,
    storing: Vec<Storing>,
    parked: BTreeMap<u64, Incoming>,
    /// Messages that were parked when their connection ended. The core may have decided earlier.
    forgotten: BTreeSet<u64>,
    /// Peers with open connections, per interface.
    linked: BTreeSet<(NiIndex, ProcessId)>,
}

pub(super) struct World {
    now: Time,
    nodes: Vec<Node>,
    flying: Vec<Packet>,
    /// Headers seen on the wire, with their target, to be repeated and altered.
    seen: Vec<(usize, NiIndex, ProcessId, Header, Vec<u8>)>,
    next_rx: u64,
    multi_rail: bool,
}

fn second_net() -> Net {
    Net { number: 1, ..Net::TCP }
}

fn lustre(nid: Nid) -> ProcessId {
    ProcessId { nid, pid: PID_LUSTRE }
}

impl World {
    pub(super) fn new(setup: &Setup) -> World {
        let tunables = Tunables {
            credits: i64::from(setup.credits % 16) + 1,
            peer_credits: i64::from(setup.peer_credits % 8) + 1,
            discovery: i64::from(setup.discovery),
            peers_max: if setup.few_peers { 16 } else { 1024 },
            ..Tunables::default()
        };
        let mut nodes = Vec::new();
        for index in 0..NODES {
            let last = index == NODES - 1;
            let identity = if last && setup.userland { Identity::Userland } else { Identity::Node };
            let nid = test_nid(index);
            let mut topology = test_topology(nid, identity, tunables.clone());
            if setup.multi_rail {
                let Ni { credits, peer_credits, .. } = topology.nis[NiIndex(0)];
                let nid = Nid::new4(second_net(), nid.addr4().unwrap_or(0));
                topology.nis.push(Ni { nid, credits, peer_credits });
            }
            let mut memory = VecMemory::default();
            let shard = Shard::new(topology, &mut memory);
            nodes.push(Node {
                shard,
                memory_of_core: memory.live,
                memory,
                ledger: Ledger::default(),
                identity,
                arrived: Vec::new(),
                storing: Vec::new(),
                parked: BTreeMap::new(),
                forgotten: BTreeSet::new(),
                linked: BTreeSet::new(),
            });
        }
        let (flying, seen) = (Vec::new(), Vec::new());
        let multi_rail = setup.multi_rail;
        World { now: Time(1_000_000_000), nodes, flying, seen, next_rx: 0, multi_rail }
    }

    pub(super) fn take(&mut self, step: &Step) {
        match *step {
            Step::Attach { node, place, ignore, from, memory, options, retain, in_front } => {
                let entry = MatchEntry {
                    from: match self.nid(from) {
                        nid if nid.is_any() => MatchId { nid, pid: PID_ANY },
                        nid => MatchId { nid, pid: PID_LUSTRE },
                    },
                    match_bits: u64::from(place.match_bits),
                    ignore_bits: if ignore { u64::MAX } else { 0 },
                    position: if in_front { Position::Before } else { Position::After },
                    unlink: if retain { Unlink::Retain } else { Unlink::Auto },
                };
                self.attach(index(node), portal(place.portal), entry, memory, options);
            }
            Step::Bind { node, memory } => self.bind(index(node), memory),
            Step::Put { node, md, to, place, ack, local, patience } => {
                self.put(index(node), md, to, place, ack, local, patience);
            }
            Step::Get { node, md, to, place, local, patience } => {
                self.get(index(node), md, to, place, local, patience);
            }
            Step::Unlink { node, md } => {
                let (node, now) = (&mut self.nodes[index(node)], self.now);
                if let Some(key) = node.ledger.key(md) {
                    node.shard.unlink(now, key);
                }
            }
            Step::Lazy { node, portal: number, lazy } => {
                let laziness = if lazy { Laziness::Lazy } else { Laziness::Strict };
                // Portal 0 is the core's own.
                let number = portal(number).max(1);
                let _ = self.nodes[index(node)].shard.set_lazy(number, laziness);
            }
            Step::Discover { node, whom } => {
                let nid = self.nid(whom);
                if !nid.is_any() && !nid.is_lo() {
                    let _ = self.nodes[index(node)].shard.discover(self.now, &nid);
                }
            }
            Step::Deliver { which, fate } => self.deliver(which, fate),
            Step::Stored { node, which, well } => self.stored(index(node), which, well),
            Step::Sent { node, which } => self.sent(index(node), which),
            Step::Forge { node, hop, src, dst, body, handle, place, payload } => {
                let (hop, src, dst) = (self.nid(hop), self.nid(src), self.nid(dst));
                let (payload_len, bytes) = self.payload(src, payload);
                let body = self.body(body, handle, place);
                let header = Header { dst: lustre(dst), src: lustre(src), payload_len, body };
                if !hop.is_any() && !hop.is_lo() {
                    let ni = self.ni_towards(index(node), &dst);
                    self.arrive(index(node), ni, lustre(hop), header, bytes);
                }
            }
            Step::Repeat { which } => {
                if let Some(at) = pick(&self.seen, which) {
                    let (node, ni, hop, header, bytes) = self.seen[at].clone();
                    self.arrive(node, ni, hop, header, bytes);
                }
            }
            Step::LinkUp { node, peer } => {
                let peer = self.target(index(node), peer);
                if !peer.nid.is_any() && !peer.nid.is_lo() {
                    let ni = self.ni_towards(index(node), &peer.nid);
                    self.nodes[index(node)].link_up(self.now, ni, peer);
                }
            }
            Step::LinkDown { node, peer } => {
                let peer = self.target(index(node), peer);
                self.break_link(index(node), peer, Status::ConnectionLost);
            }
            Step::Restarted { node, peer } => {
                let peer = self.target(index(node), peer);
                if !peer.nid.is_any() && !peer.nid.is_lo() {
                    let ni = self.ni_towards(index(node), &peer.nid);
                    let shard = &mut self.nodes[index(node)].shard;
                    shard.link(self.now, ni, peer, LinkEvent::Restarted);
                    self.break_link(index(node), peer, Status::PeerRestarted);
                }
            }
            Step::Settle => self.settle(),
            Step::Wait { power } => {
                self.now = self.now + Nanos::from_millis(1 << (power % 20));
                self.settle();
            }
        }
        self.nodes.iter_mut().for_each(Node::book_events);
    }

    fn nid(&self, who: Who) -> Nid {
        match who {
            Who::Node { index: node, second } => {
                let nid = test_nid(index(node));
                let net = if second && self.multi_rail { second_net() } else { Net::TCP };
                Nid::new4(net, nid.addr4().unwrap_or(0))
            }
            Who::Stranger(number) => Nid::new4(Net::TCP, 0x0b00_0000 + u32::from(number)),
            Who::Elsewhere => Nid::new4(Net { number: 9, ..Net::TCP }, 0x0a00_0001),
            Who::Loopback => Nid::LO,
            Who::Any => Nid::ANY,
            Who::Long => Nid::new6(Net::TCP, [0x20; 16]),
        }
    }

    /// The interface on a NID's net, else the first.
    fn ni_towards(&self, node: usize, nid: &Nid) -> NiIndex {
        let nis = &self.nodes[node].shard.topology().nis;
        let at = nis.places().iter().position(|ni| ni.nid.net() == nid.net()).unwrap_or(0);
        NiIndex(at as u16)
    }

    fn spans(&mut self, node: usize, memory: steps::Memory) -> Vec<Span> {
        let fragments = u32::from(memory.fragments % 4) + 1;
        let len = u32::from(memory.len) % MEMORY_MAX;
        let each = |at: u32| len / fragments + u32::from(at < len % fragments);
        let owner = &mut self.nodes[node].memory;
        (0..fragments).filter_map(|at| owner.alloc(each(at))).collect()
    }

    fn md(&self, node: usize, spans: &[Span], memory: steps::Memory, options: MdOptions) -> Md {
        Md {
            spans: Spans::from_slice(spans),
            threshold: memory.threshold.map(u32::from),
            max_size: memory.max_size.map(u32::from),
            options,
            owner: Owner(1),
            user: self.nodes[node].ledger.next_mark(),
        }
    }

    fn attach(
        &mut self,
        node: usize,
        portal: u32,
        entry: MatchEntry,
        memory: steps::Memory,
        options: u8,
    ) {
        let spans = self.spans(node, memory);
        let md = self.md(node, &spans, memory, MdOptions::from_bits_truncate(u32::from(options)));
        let owner = &mut self.nodes[node];
        // Portal 0 is the core's own.
        match owner.shard.attach(self.now, portal.max(1), entry, md) {
            Ok(key) => owner.ledger.open(key, spans, true),
            Err(_) => spans.into_iter().for_each(|span| owner.memory.free(span)),
        }
    }

    fn bind(&mut self, node: usize, memory: steps::Memory) {
        let spans = self.spans(node, memory);
        let md = self.md(node, &spans, memory, MdOptions::empty());
        let owner = &mut self.nodes[node];
        let key = owner.shard.bind(md).expect("small enough to send from");
        owner.ledger.open(key, spans, false);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of the step")]
    fn put(
        &mut self,
        node: usize,
        md: u8,
        to: Who,
        place: steps::Place,
        ack: bool,
        local: Option<Who>,
        patience: u8,
    ) {
        let (target, local) = (self.target(node, to), local.map(|who| self.nid(who)));
        let owner = &mut self.nodes[node];
        let Some(md) = owner.ledger.key(md) else { return };
        let args = PutArgs {
            md,
            local,
            target,
            portal: portal(place.portal),
            match_bits: match_bits(place),
            offset: u32::from(place.offset),
            hdr_data: 0,
            ack: if ack { AckWanted::Yes } else { AckWanted::No },
            timeout: timeout(patience),
        };
        if owner.shard.put(self.now, args).is_ok() {
            owner.ledger.put_started(md, ack);
        }
    }

    fn get(
        &mut self,
        node: usize,
        md: u8,
        to: Who,
        place: steps::Place,
        local: Option<Who>,
        patience: u8,
    ) {
        let (target, local) = (self.target(node, to), local.map(|who| self.nid(who)));
        let owner = &mut self.nodes[node];
        let Some(md) = owner.ledger.key(md) else { return };
        let args = GetArgs {
            md,
            local,
            target,
            portal: portal(place.portal),
            match_bits: match_bits(place),
            offset: u32::from(place.offset),
            timeout: timeout(patience),
        };
        if owner.shard.get(self.now, args).is_ok() {
            owner.ledger.get_started(md);
        }
    }

    /// A target as a user of `node` would name it: a userland peer by the pid that it was given.
    fn target(&self, node: usize, to: Who) -> ProcessId {
        let nid = self.nid(to);
        ProcessId { nid, pid: self.pid_seen_by(node, &nid) }
    }

    fn pid_seen_by(&self, node: usize, nid: &Nid) -> u32 {
        let owner = self.owner_of(nid);
        match owner.map(|owner| (owner, self.nodes[owner].identity)) {
            Some((owner, Identity::Userland)) if owner != node => PID_USERLAND | 2000,
            _ => PID_LUSTRE,
        }
    }

    fn owner_of(&self, nid: &Nid) -> Option<usize> {
        self.nodes.iter().position(|node| node.shard.topology().ni_of(nid).is_some())
    }

    fn payload(&self, src: Nid, payload: Payload) -> (u32, Vec<u8>) {
        match payload {
            Payload::Short(len) => (u32::from(len), vec![0x77; usize::from(len)]),
            Payload::Long(len) => (u32::from(len), vec![0x77; usize::from(len)]),
            // Only the length matters: no descriptor has room for it.
            Payload::Huge(more) => (PAYLOAD_MAX - 8 + u32::from(more), Vec::new()),
            Payload::PingInfo { interfaces, features, cut } => {
                let status = NiStatus::Up;
                let mut entries = vec![PingEntry { nid: src, status }];
                entries.extend(
                    (1..interfaces)
                        .map(|number| PingEntry { nid: self.nid(Who::Stranger(number)), status }),
                );
                let features = Features::from_bits_retain(u32::from(features));
                let mut bytes = Vec::new();
                PingInfo::build(features, PID_LUSTRE, 7, &entries, &mut bytes);
                bytes.truncate(bytes.len().saturating_sub(usize::from(cut)));
                (bytes.len() as u32, bytes)
            }
        }
    }

    fn body(&self, body: steps::Body, handle: Handle, place: steps::Place) -> Body {
        let handle = self.handle(handle);
        let (portal, offset) = (portal(place.portal), u32::from(place.offset));
        let match_bits = match_bits(place);
        match body {
            steps::Body::Put { ack } => {
                let ack_md = if ack { handle } else { MdHandle::NONE };
                Body::Put { ack_md, match_bits, hdr_data: 0, portal, offset }
            }
            steps::Body::Get { sink_len } => {
                let sink_len = u32::from(sink_len);
                Body::Get { return_md: handle, match_bits, portal, offset, sink_len }
            }
            steps::Body::Reply => Body::Reply { md: handle },
            steps::Body::Ack { mlength } => {
                Body::Ack { md: handle, match_bits, mlength: u32::from(mlength) }
            }
            steps::Body::Hello => Body::Hello { incarnation: 1, kind: 1 },
        }
    }

    fn handle(&self, handle: Handle) -> MdHandle {
        let seen = |which| {
            let at = pick(&self.seen, which)?;
            match self.seen[at].3.body {
                Body::Put { ack_md, .. } => Some(ack_md),
                Body::Get { return_md, .. } => Some(return_md),
                Body::Reply { md } | Body::Ack { md, .. } => Some(md),
                Body::Hello { .. } => None,
            }
        };
        match handle {
            Handle::None => MdHandle::NONE,
            Handle::Seen(which) => seen(which).unwrap_or(MdHandle::NONE),
            Handle::Altered(which, bit) => {
                let handle = seen(which).unwrap_or(MdHandle::NONE);
                MdHandle { object: handle.object ^ (1 << (bit % 64)), ..handle }
            }
        }
    }

    fn deliver(&mut self, which: u8, fate: Fate) {
        let Some(at) = pick(&self.flying, which) else { return };
        let Packet { from, send } = self.flying.remove(at);
        if matches!(fate, Fate::Arrives | Fate::ArrivesEarly) {
            self.transmit(from, &send);
        }
        match fate {
            Fate::Fails => self.finish_send(from, &send, Status::ConnectionLost),
            Fate::ArrivesEarly => self.nodes[from].arrived.push(send),
            Fate::Arrives | Fate::Vanishes => self.finish_send(from, &send, Status::Ok),
        }
    }

    /// Reads the payload once more, as a driver may up to this moment, then reports completion.
    fn finish_send(&mut self, from: usize, send: &SendAction, status: Status) {
        let node = &mut self.nodes[from];
        let _ = gather(&node.memory, &send.payload);
        node.shard.done(self.now, send.op, status);
    }

    fn transmit(&mut self, from: usize, send: &SendAction) {
        let Some(to) = self.owner_of(&send.to.nid) else { return };
        self.nodes[from].link_up(self.now, send.ni, send.to);
        let bytes = gather(&self.nodes[from].memory, &send.payload);
        let ni = self.ni_towards(to, &send.to.nid);
        // A receiver renames a userland peer by its address and port.
        let mut header = send.header;
        let local = self.nodes[from].shard.topology().ni(send.ni).nid;
        let hop = ProcessId { nid: local, pid: self.pid_seen_by(to, &local) };
        if hop.pid != PID_LUSTRE {
            header.src = hop;
        }
        self.seen.push((to, ni, hop, header, bytes.clone()));
        self.arrive(to, ni, hop, header, bytes);
    }

    fn arrive(&mut self, to: usize, ni: NiIndex, hop: ProcessId, header: Header, bytes: Vec<u8>) {
        self.next_rx += 1;
        self.nodes[to].link_up(self.now, ni, hop);
        let arrival = Arrival { ni, from: hop, rx: RxId(self.next_rx) };
        let verdict = self.nodes[to].shard.recv_header(self.now, arrival, &header);
        let incoming = Incoming { hop, payload_len: header.payload_len, bytes };
        self.obey(to, arrival.rx, incoming, verdict);
    }

    fn obey(&mut self, node: usize, rx: RxId, incoming: Incoming, verdict: Verdict) {
        match verdict {
            Verdict::Into { op, spans } => {
                let Incoming { hop, payload_len, bytes } = incoming;
                assert!(total_len(&spans) <= payload_len, "more than the payload");
                self.nodes[node].storing.push(Storing { op, spans, bytes, hop });
            }
            Verdict::Park => {
                self.nodes[node].parked.insert(rx.0, incoming);
            }
            Verdict::Refuse(_) => self.break_link(node, incoming.hop, Status::Protocol),
            Verdict::Done | Verdict::Drop => {}
        }
    }

    fn stored(&mut self, node: usize, which: u8, well: bool) {
        let owner = &mut self.nodes[node];
        let Some(at) = pick(&owner.storing, which) else { return };
        let storing = owner.storing.remove(at);
        scatter(&mut owner.memory, &storing.spans, &storing.bytes);
        let status = if well { Status::Ok } else { Status::Corrupt };
        owner.shard.done(self.now, storing.op, status);
    }

    fn sent(&mut self, node: usize, which: u8) {
        if let Some(at) = pick(&self.nodes[node].arrived, which) {
            let send = self.nodes[node].arrived.remove(at);
            self.finish_send(node, &send, Status::Ok);
        }
    }

    /// As a driver closes the connections to a peer: everything in flight fails first.
    fn break_link(&mut self, node: usize, peer: ProcessId, status: Status) {
        if peer.nid.is_any() || peer.nid.is_lo() {
            return;
        }
        let owner = &mut self.nodes[node];
        let mut failed: Vec<SendAction> =
            owner.arrived.extract_if(.., |send| send.to == peer).collect();
        let lost = |packet: &mut Packet| packet.from == node && packet.send.to == peer;
        failed.extend(self.flying.extract_if(.., lost).map(|packet| packet.send));
        for send in failed {
            self.finish_send(node, &send, status);
        }
        let owner = &mut self.nodes[node];
        for storing in owner.storing.extract_if(.., |storing| storing.hop == peer) {
            owner.shard.done(self.now, storing.op, status);
        }
        let of_peer = |(_, incoming): &(&u64, &Incoming)| incoming.hop == peer;
        let gone: Vec<u64> = owner.parked.iter().filter(of_peer).map(|(rx, _)| *rx).collect();
        for rx in gone {
            owner.parked.remove(&rx);
            owner.forgotten.insert(rx);
            owner.shard.forget(NiIndex(0), RxId(rx));
        }
        let links: Vec<(NiIndex, ProcessId)> =
            owner.linked.iter().filter(|(_, linked)| *linked == peer).copied().collect();
        for (ni, peer) in links {
            owner.linked.remove(&(ni, peer));
            owner.shard.link(self.now, ni, peer, LinkEvent::Down { status });
        }
    }

    /// Lets every core work until all are idle.
    fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut busy = false;
            for node in 0..self.nodes.len() {
                let owner = &mut self.nodes[node];
                owner.shard.drive(self.now, &mut owner.memory);
                while let Some(action) = self.nodes[node].shard.next_action() {
                    busy = true;
                    self.act(node, action);
                }
                let owner = &mut self.nodes[node];
                owner.book_events();
                busy |= owner.shard.has_work();
            }
            if !busy {
                return;
            }
        }
        panic!("the cores never become idle");
    }

    fn act(&mut self, node: usize, action: Action) {
        match action {
            Action::Send(send) => {
                assert_eq!(total_len(&send.payload), send.header.payload_len);
                assert!(send.header.payload_len <= PAYLOAD_MAX);
                self.flying.push(Packet { from: node, send });
            }
            Action::Resume { rx, verdict, .. } => {
                assert_ne!(verdict, Verdict::Park, "parked again");
                let owner = &mut self.nodes[node];
                if owner.forgotten.remove(&rx.0) {
                    if let Verdict::Into { op, .. } = verdict {
                        owner.shard.done(self.now, op, Status::ConnectionLost);
                    }
                    return;
                }
                let parked = owner.parked.remove(&rx.0);
                let incoming = parked.expect("only what is parked is resumed, and once");
                self.obey(node, rx, incoming, verdict);
            }
            Action::Close { peer, status, .. } => self.break_link(node, peer, status),
        }
    }

    /// Everything in flight arrives and is reported, until nothing moves.
    fn run_dry(&mut self) {
        self.settle();
        for _ in 0..TURNS_MAX {
            let flying = !self.flying.is_empty();
            self.deliver(0, Fate::Arrives);
            let mut late = false;
            for node in 0..self.nodes.len() {
                let owner = &self.nodes[node];
                late |= !(owner.arrived.is_empty() && owner.storing.is_empty());
                self.sent(node, 0);
                self.stored(node, 0, true);
            }
            self.settle();
            if !(flying || late) {
                return;
            }
        }
        panic!("the network never becomes idle");
    }

    /// No more faults: everything must end, and nothing may be held.
    pub(super) fn come_to_rest(mut self) {
        self.run_dry();
        for node in &mut self.nodes {
            for portal in 1..64 {
                node.shard.set_lazy(portal, Laziness::Strict).expect("the portal exists");
            }
        }
        self.run_dry();
        // Lost messages time out; discovery may then send more.
        for _ in 0..20 {
            self.now = self.now + Nanos::from_secs(200);
            self.run_dry();
        }
        for node in &mut self.nodes {
            for key in node.ledger.open_keys() {
                node.shard.unlink(self.now, key);
            }
        }
        self.run_dry();
        for node in &self.nodes {
            node.assert_quiet();
        }
    }
}

impl Node {
    /// Connections come before messages.
    fn link_up(&mut self, now: Time, ni: NiIndex, peer: ProcessId) {
        if self.linked.insert((ni, peer)) {
            self.shard.link(now, ni, peer, LinkEvent::Up);
        }
    }

    fn book_events(&mut self) {
        while let Some(event) = self.shard.next_event() {
            self.ledger.book(&event, &mut self.memory);
        }
        while self.shard.next_lost_peer().is_some() {}
    }

    fn assert_quiet(&self) {
        self.ledger.assert_settled();
        assert_eq!(self.shard.stats().msgs_alloc, 0, "messages are left");
        assert_eq!(self.shard.next_deadline(), Time::NEVER, "answers are awaited");
        for at in 0..self.shard.topology().nis.places().len() {
            let ni = self.shard.ni_info(NiIndex(at as u16));
            assert_eq!(ni.credits_available, i64::from(ni.credits), "{ni:?}");
        }
        for peer in self.shard.peers() {
            assert_eq!(peer.credits_available, i64::from(peer.credits), "{peer:?}");
        }
        assert!(self.parked.is_empty(), "parked on portals that are not lazy: {:?}", self.parked);
        assert_eq!(self.memory.live, self.memory_of_core, "memory was lost");
    }
}

fn index(node: u8) -> usize {
    usize::from(node) % NODES
}

/// Few portals, so that operations match; one of them does not exist.
fn portal(number: u8) -> u32 {
    [0, 30, 31, 50, 63, 64][usize::from(number) % 6]
}

fn match_bits(place: steps::Place) -> u64 {
    if portal(place.portal) == 0 { PING_BITS } else { u64::from(place.match_bits) }
}

fn timeout(patience: u8) -> Option<Nanos> {
    (patience != 0).then(|| Nanos::from_millis(u64::from(patience) * 100))
}

fn pick<T>(list: &[T], which: u8) -> Option<usize> {
    (!list.is_empty()).then(|| usize::from(which) % list.len())
}

fn gather(memory: &VecMemory, spans: &[Span]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for span in spans {
        let start = bytes.len();
        bytes.resize(start + span.len as usize, 0);
        memory.read(*span, &mut bytes[start..]);
    }
    bytes
}

/// Stores the available payload; a forged one may be shorter than its header says.
fn scatter(memory: &mut VecMemory, spans: &[Span], mut bytes: &[u8]) {
    for span in spans {
        let (now, later) = bytes.split_at((span.len as usize).min(bytes.len()));
        memory.write(*span, now);
        bytes = later;
    }
}
