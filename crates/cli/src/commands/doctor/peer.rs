//! What is seen of a peer: the route, the handshake, pings, full segments, ICMP, its own end.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, Request};
use lustrine_doctor::{
    Carried, Dial, DialOutcome, HostView, IcmpView, NodeView, PeerView, PortHolder, RouteView,
    Source,
};
use lustrine_node::{BriefClaim, KernelNid, conns_for_speed, kernel_has};
use lustrine_partition::tunables::Tunables;
use lustrine_sys::{Clock, Route};
use lustrine_tune::rate_text;
use lustrine_wire::nid::{Net, NetKind, Nid};
use lustrine_wire::ping::{NiStatus, PingInfo};

use super::DoctorArgs;
use super::budget::Budget;
use super::conversation::{Caller, Conversation, Idle};
use super::sizes::{Bulk, Line};
use super::{host, icmp, remote, sizes};
use crate::access::ask_running;
use crate::common::IdentityArg;
use crate::interrupt::Interrupt;
use crate::output::Failure;

/// Pings over one connection, one after the other.
pub(super) const PINGS: u32 = 16;
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(4);
/// Handshakes in all: two nodes that take turns are seen with three.
pub(super) const HANDSHAKES: usize = 3;
/// Attempts while the answer is "not now", and the wait between them.
const NOT_NOW: usize = 3;
const AGAIN: Duration = Duration::from_millis(1100);
/// Numbers of tcp networks that are tried where the peer does not have the NID.
pub(super) const NETS: u16 = 8;

/// What a look at a peer needs.
pub(super) struct Context<'a> {
    pub(super) args: &'a DoctorArgs,
    pub(super) host: &'a HostView,
    pub(super) node: Option<&'a NodeView>,
    pub(super) tunables: &'a Tunables,
    pub(super) interrupt: &'a Interrupt,
}

/// What is known while it goes on.
struct Look<'a> {
    context: &'a Context<'a>,
    budget: &'a mut Budget,
    unseen: &'a mut Vec<String>,
    view: PeerView,
    nid: Nid,
    to: SocketAddr,
    caller: Caller,
    /// The longest packet that TCP would send to the peer, in bytes, if that is known.
    packet: Option<u32>,
    /// Whether an LNet node of this host has the address, so that privileged ports are not used.
    address_taken: bool,
}

/// Looks at a peer.
///
/// # Errors
/// After a signal, and when the NID is not one of TCP.
pub(super) fn look(
    context: &Context<'_>,
    nid: &Nid,
    budget: &mut Budget,
    unseen: &mut Vec<String>,
) -> Result<PeerView, Failure> {
    let ip = nid.ip().filter(|_| nid.net().kind == NetKind::TCP).ok_or_else(|| {
        format!("{nid}: only peers on tcp networks can be looked at, such as 10.0.0.1@tcp")
    })?;
    let port = context.args.port.unwrap_or(context.tunables.socklnd.accept_port as u16);
    let mut view =
        PeerView { nid: nid.to_string(), address: ip.to_string(), port, ..PeerView::default() };
    let local = match local_towards(ip) {
        Ok(local) => local,
        Err(error) => {
            view.no_route = Some(error.to_string());
            return Ok(view);
        }
    };
    view.route = Some(route(context.host, local, ip));
    let caller =
        Caller { local, nid: Nid::from_ip(nid.net(), local), incarnation: Clock::Wall.now() };
    let own_port = u16::try_from(context.tunables.socklnd.accept_port).unwrap_or(port);
    let of_node = context.node.is_some_and(|node| has(node, &caller.nid));
    let is_node = |at| of_node || !host::is_other_program(at);
    let own = OwnAddress::claim(local, &[own_port, port], &is_node);
    let address_taken = own.is_taken() || kernel_may_have(&caller.nid) || of_node;
    let to = SocketAddr::new(ip, port);
    let mut look =
        Look { context, budget, unseen, view, nid: *nid, to, caller, packet: None, address_taken };
    look.settings();
    let outcome = look.all(own);
    let exceeded = look.budget.was_exceeded();
    let mut view = look.view;
    outcome?;
    if exceeded {
        view.left_out = left_out(&view);
    }
    if !view.left_out.is_empty() {
        let list = view.left_out.join(", ");
        unseen.push(format!("{nid}: what was not seen before the budget ended: {list}"));
    }
    Ok(view)
}

/// What a budget that has ended left out of a look.
fn left_out(view: &PeerView) -> Vec<String> {
    let is_hello = |dial: &&Dial| matches!(dial.outcome, DialOutcome::Hello { .. });
    let not_made = |dial: &&Dial| matches!(dial.outcome, DialOutcome::NotMade { .. });
    let handshakes = view.dials.iter().filter(is_hello).count();
    let attempts = view.dials.iter().filter(|dial| !not_made(dial)).count();
    let decided = |carried| !matches!(carried, None | Some(Carried::Unknown));
    let counts =
        |icmp: &IcmpView| icmp.answers > 0 && icmp.hops_out.is_some() && icmp.clock_ms.is_some();
    let parts = [
        ("the handshake", attempts > 0),
        ("pings", view.rtt_ns.is_some()),
        ("full segments to it", decided(view.out)),
        ("full segments from it", decided(view.back)),
        ("whether it reads many bytes", decided(view.bulk)),
        ("whether two nodes answer in turn", handshakes >= HANDSHAKES),
        ("routes and the clock", view.icmp.as_ref().is_some_and(counts)),
    ];
    let left_out = parts.into_iter().filter(|(_, is_seen)| !is_seen);
    left_out.map(|(what, _)| what.to_owned()).collect()
}

/// An address of this host, which no node can take meanwhile. Two nodes with one NID would end each
/// other's connections.
#[derive(Debug)]
pub(super) enum OwnAddress {
    /// No LNet node of this host has it, as far as is known.
    Free { _claims: Vec<BriefClaim> },
    /// One has it.
    Taken,
}

impl OwnAddress {
    /// Takes it at these ports. A node has its port, whether it listens or not; a kernel that does
    /// not listen says it in another way, or not at all. `is_node` says whether what uses such a
    /// port is a node.
    pub(super) fn claim(
        local: IpAddr,
        ports: &[u16],
        is_node: &dyn Fn(SocketAddr) -> bool,
    ) -> OwnAddress {
        let mut claims: Vec<BriefClaim> = Vec::new();
        for (at, port) in ports.iter().enumerate() {
            if ports[..at].contains(port) {
                continue;
            }
            let at = SocketAddr::new(local, *port);
            match BriefClaim::bind(at) {
                Ok(claim) => claims.push(claim),
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                    if is_node(at) {
                        return OwnAddress::Taken;
                    }
                    // No node can have the address beside it.
                }
                // A port that may not be claimed, as without privileges, is no sign of a node.
                Err(_) => {}
            }
        }
        OwnAddress::Free { _claims: claims }
    }

    pub(super) fn is_taken(&self) -> bool {
        matches!(self, OwnAddress::Taken)
    }
}

/// Whether the kernel's LNet has a NID, or may have it without listening there.
pub(super) fn kernel_may_have(nid: &Nid) -> bool {
    kernel_has(nid) != KernelNid::HasNot
}

/// Whether a running node, or the kernel's LNet, has this NID. One that is userland has no NID that
/// another could have, too.
fn has(node: &NodeView, nid: &Nid) -> bool {
    let is = |ni: &str| ni.parse::<Nid>().is_ok_and(|ni| ni == *nid);
    node.identity != "userland" && node.nis.iter().any(|ni| is(&ni.nid))
}

/// The local address from which packets leave. Connecting a datagram socket sends nothing.
pub(super) fn local_towards(ip: IpAddr) -> std::io::Result<IpAddr> {
    let any: IpAddr = match ip {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((ip, super::host::PORT))?;
    Ok(socket.local_addr()?.ip())
}

/// How packets leave from an address of this host: as the kernel says, or by the interface with the
/// address where it says nothing.
pub(super) fn route(host: &HostView, local: IpAddr, ip: IpAddr) -> RouteView {
    let known = Route::to(ip, Some(local)).ok();
    let local = local.to_string();
    let device = host.interfaces.iter().find(|one| one.addresses.contains(&local));
    let all = lustrine_sys::interfaces::interfaces().unwrap_or_default();
    let mut addresses = all.iter().flat_map(|one| &one.addrs);
    let on_link = addresses.any(|addr| addr.ip.to_string() == local && addr.same_subnet(ip));
    let address_on = device.map(|device| device.name.clone());
    match known {
        Some(Route { interface: Some(interface), gateway, .. }) => {
            let gateway = gateway.map(|gateway| gateway.to_string());
            let on_link = gateway.is_none();
            RouteView { local, interface: Some(interface), address_on, gateway, on_link }
        }
        _ => {
            let interface = address_on.clone();
            RouteView { local, interface, address_on, gateway: None, on_link }
        }
    }
}

fn least_and_median(mut times: Vec<u64>) -> Option<[u64; 2]> {
    times.sort_unstable();
    Some([*times.first()?, *times.get(times.len() / 2)?])
}

impl Look<'_> {
    /// What the path is to carry, and the credits for it.
    fn settings(&mut self) {
        let Context { args, host, node, tunables, .. } = *self.context;
        let route = self.view.route.as_ref();
        let interface = route.and_then(|route| route.interface.as_deref());
        let speed = host
            .interfaces
            .iter()
            .find(|one| Some(one.name.as_str()) == interface)
            .and_then(|one| one.speed_mbps);
        (self.view.rate, self.view.rate_source) = match (args.rate, speed) {
            (Some(rate), _) => (Some(rate), format!("{} (--rate)", rate_text(rate))),
            (None, Some(speed)) => {
                let (rate, name) = (u64::from(speed) * 1_000_000, interface.unwrap_or("?"));
                (Some(rate), format!("{} (speed of {name})", rate_text(rate)))
            }
            (None, None) => {
                self.unseen.push(format!(
                    "whether buffers and credits are enough for {}: the interface has no known \
                     speed; give --rate",
                    self.nid
                ));
                (None, String::new())
            }
        };
        let own = self.caller.nid.to_string();
        let of_node = node.and_then(|node| node.nis.iter().find(|ni| ni.nid == own));
        let set = args.node.set.iter().any(|setting| setting.name == "peer_credits");
        self.view.peer_credits = Some(match of_node {
            Some(ni) if !set && args.node.config.is_none() => ni.peer_credits,
            _ => u32::try_from(tunables.lnet.peer_credits).unwrap_or(u32::MAX),
        });
        self.view.connections = Some(self.connections(of_node.and_then(|ni| ni.conns_per_peer)));
    }

    /// Bulk connections of this host's node to the peer in each direction: those of the running
    /// one, or what the options and the speed of the interface lead to. A userland node has one.
    fn connections(&self, of_node: Option<u16>) -> u16 {
        let Context { args, host, node, tunables, .. } = *self.context;
        let is_userland = match node {
            Some(node) => node.identity == "userland",
            None => !host.privileged || args.node.identity == Some(IdentityArg::Userland),
        };
        if is_userland {
            return 1;
        }
        let is_set = args.node.set.iter().any(|setting| setting.name == "conns_per_peer");
        let by_speed = || {
            let interface = self.view.route.as_ref().and_then(|route| route.address_on.as_ref());
            let device = host.interfaces.iter().find(|one| Some(&one.name) == interface);
            conns_for_speed(device.and_then(|device| device.speed_mbps))
        };
        match (of_node, u16::try_from(tunables.socklnd.conns_per_peer).unwrap_or(0)) {
            (Some(count), _) if !is_set && args.node.config.is_none() => count.max(1),
            (_, 0) => by_speed(),
            (_, set) => set,
        }
    }

    /// Looks at everything. The address is given back as soon as no connection of this look uses
    /// it: a node or a mount may be started meanwhile.
    fn all(&mut self, own: OwnAddress) -> Result<(), Failure> {
        let open = self.handshake();
        if let Some(DialOutcome::NotMade { why }) = self.last() {
            self.unseen.push(format!("{}: no connection could be made: {why}", self.nid));
        }
        self.context.interrupt.check()?;
        match open {
            Some((source, open)) => self.converse(source, open)?,
            None => self.ask_node(),
        }
        drop(own);
        self.context.interrupt.check()?;
        self.icmp();
        self.context.interrupt.check()?;
        self.remote()
    }

    /// The first source port, and the one to try after it.
    fn sources(&self) -> (Source, Option<Source>) {
        let may = self.context.host.privileged && !self.address_taken;
        let userland = self.context.args.node.identity == Some(IdentityArg::Userland);
        match (may, userland) {
            (true, false) => (Source::Privileged, None),
            // A kernel may crash when such a port dials it over IPv6 [USR-7].
            (true, true) if self.to.is_ipv6() => (Source::Privileged, None),
            (true, true) => (Source::Any, Some(Source::Privileged)),
            (false, _) => (Source::Any, None),
        }
    }

    fn dial(&mut self, source: Source, target: Nid) -> Option<Conversation> {
        let caller = Caller { nid: Nid::from_ip(target.net(), self.caller.local), ..self.caller };
        let (outcome, open) = caller.handshake(self.budget, self.to, target, source, None);
        self.view.dials.push(Dial { source, target: target.to_string(), outcome });
        open
    }

    fn last(&self) -> Option<&DialOutcome> {
        self.view.dials.last().map(|dial| &dial.outcome)
    }

    /// Connects to the peer, and finds out who refuses whom.
    fn handshake(&mut self) -> Option<(Source, Conversation)> {
        let (first, second) = self.sources();
        if first == Source::Any && self.to.is_ipv6() {
            let why = "IPv6 is not used from source ports above 1023: it crashes some kernels";
            self.unseen.push(format!("{}: {why}", self.nid));
            return None;
        }
        for source in [Some(first), second].into_iter().flatten() {
            for attempt in 0..NOT_NOW {
                if attempt > 0 {
                    thread::sleep(AGAIN);
                }
                if let Some(open) = self.dial(source, self.nid) {
                    return Some((source, open));
                }
                if self.last() != Some(&DialOutcome::NotNow) {
                    break;
                }
            }
            if self.last() != Some(&DialOutcome::Closed) {
                return None;
            }
        }
        if !self.context.host.privileged {
            return None;
        }
        let idle = self.caller.send_nothing(self.budget, self.to);
        self.view.closes_at_once = idle.map(|idle| idle == Idle::Closed);
        match idle {
            Some(Idle::Closed) => return None,
            Some(Idle::Open { packet }) => self.packet = packet,
            None => {}
        }
        let privileged = self.view.dials.last().map(|dial| dial.source) == Some(Source::Privileged);
        if privileged {
            self.search_nets();
        } else {
            self.say_refused();
            self.view.dials.clear();
        }
        None
    }

    /// That the peer takes privileged ports only, which are a node's of this host.
    fn say_refused(&mut self) {
        let Context { host, node, .. } = *self.context;
        let (who, it) = match host.port_holder {
            Some(PortHolder::Silent) => {
                ("a program of this host that may be a node has LNet's port", "program")
            }
            _ => ("an LNet node of this host has the address", "node"),
        };
        let pings = match node {
            Some(_) => "",
            None if kernel_may_have(&self.caller.nid) => "",
            None => ", or name its control socket with --control, for pings at least",
        };
        self.unseen.push(format!(
            "{}: whether the peer reads its data, whether two nodes have its NID, and in which \
             direction large packets disappear: the peer accepts these checks only from source \
             ports below 1024, and {who}; to run them, stop that {it}{pings}",
            self.nid
        ));
    }

    /// Asks for the same address on other networks.
    fn search_nets(&mut self) {
        for number in 0..=NETS {
            let net = Net::new(NetKind::TCP, number);
            let target = Nid::from_ip(net, self.to.ip());
            if net != self.nid.net()
                && let Some(open) = self.dial(Source::Privileged, target)
            {
                return open.close();
            }
        }
    }

    /// Pings and more over the first connection, then further handshakes.
    fn converse(&mut self, source: Source, mut open: Conversation) -> Result<(), Failure> {
        let (mut times, mut lost) = (Vec::new(), 0);
        while times.len() < PINGS as usize && self.budget.allows(Conversation::PING_BYTES) {
            let (begun, until) = (Instant::now(), self.budget.until(ANSWER));
            let sent = open.send_pings(self.budget, 1, until);
            let Some(answer) = sent.then(|| open.answer(self.budget, until)).flatten() else {
                // The budget may have ended first.
                lost += u32::from(!self.budget.was_exceeded());
                break;
            };
            times.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
            if let Ok(info) = PingInfo::parse(&answer) {
                let up = |status| status != NiStatus::Down;
                let nis = info.entries().map(|entry| (entry.nid.to_string(), up(entry.status)));
                self.view.nis = nis.collect();
            }
        }
        self.view.pings_lost = Some(lost);
        self.view.rtt_ns = least_and_median(times);
        self.context.interrupt.check()?;
        match self.view.rtt_ns {
            Some([_, median]) if lost == 0 => {
                let caller = self.caller;
                let (to, target) = (self.to, self.nid);
                let rtt = Duration::from_nanos(median);
                let line = Line { caller: &caller, to, target, source, rtt };
                let sizes = sizes::look(&line, self.budget, open, Bulk::Sent);
                self.view.stream = sizes.stream;
                (self.view.out, self.view.back, self.view.bulk) =
                    (sizes.out, sizes.back, sizes.bulk);
            }
            _ => open.abort(),
        }
        self.say_unknown_sizes();
        for _ in 1..HANDSHAKES {
            self.context.interrupt.check()?;
            self.handshake_again(source);
        }
        Ok(())
    }

    fn say_unknown_sizes(&mut self) {
        // What the budget left out is said with the rest of it.
        if self.budget.was_exceeded() {
            return;
        }
        let unknown = |carried| matches!(carried, None | Some(Carried::Unknown));
        let ways = [("to", self.view.out), ("from", self.view.back)];
        for (way, _) in ways.into_iter().filter(|(_, carried)| unknown(*carried)) {
            let why = "full segments were not sent, or the peer sent none";
            self.unseen.push(format!("{}: the path MTU {way} the peer: {why}", self.nid));
        }
    }

    /// One more handshake. The peer may still be ending the connection before.
    fn handshake_again(&mut self, source: Source) {
        for _ in 0..NOT_NOW {
            if let Some(open) = self.dial(source, self.nid) {
                return open.close();
            }
            if self.last() != Some(&DialOutcome::NotNow) {
                return;
            }
            self.view.dials.pop();
            thread::sleep(AGAIN / 4);
        }
    }

    /// Pings through the running node, where this command could not connect itself.
    fn ask_node(&mut self) {
        if !self.address_taken || self.context.node.is_none_or(|node| node.identity == "kernel") {
            return;
        }
        let mut times: Vec<u64> = Vec::new();
        for _ in 0..PINGS {
            let left = self.budget.until(ANSWER).saturating_duration_since(Instant::now());
            if self.budget.is_over() || left.is_zero() {
                break;
            }
            let timeout_ms = (left.as_millis() as u64).max(1);
            let request = Request::Ping { nid: self.nid, timeout_ms };
            match ask_running(&self.context.args.control, &request) {
                Ok(Answer::Ping { rtt_us, .. }) => times.push((rtt_us * 1e3) as u64),
                // It may have been the budget that ended.
                Ok(Answer::Error { .. }) | Err(_) if self.budget.is_over() => break,
                Ok(Answer::Error { message, .. }) | Err(message) => {
                    self.unseen.push(format!("{}: the running node: {message}", self.nid));
                    break;
                }
                Ok(_) => break,
            }
        }
        self.view.rtt_ns = least_and_median(times);
    }

    /// Bytes of a packet that fills the MTU of the interface towards the peer, or what the peer has
    /// asked for, if that is less: then its own interface takes less, and TCP sends no more.
    fn full_packet(&self) -> Option<u32> {
        let name = self.view.route.as_ref()?.interface.as_deref()?;
        let interfaces = &self.context.host.interfaces;
        let mtu = interfaces.iter().find(|interface| interface.name == name)?.mtu?;
        Some(self.packet.map_or(mtu, |packet| packet.min(mtu)))
    }

    fn icmp(&mut self) {
        let nid = self.nid;
        let IpAddr::V4(ip) = self.to.ip() else {
            self.unseen.push(format!("{nid}: routes and clocks: only over IPv4"));
            return;
        };
        // Where pings are answered and no connection showed what becomes of full packets.
        let is_wanted = self.view.rtt_ns.is_some() && !self.view.shows_full_packets();
        let bytes = if is_wanted { self.full_packet() } else { None };
        match icmp::look(self.budget, ip, bytes) {
            Ok(view) => {
                if view.answers == 0 && !self.budget.was_exceeded() {
                    self.unseen
                        .push(format!("{nid}: routes and the clock: no answer to ICMP echo"));
                } else if view.clock_ms.is_none() && !self.budget.was_exceeded() {
                    self.unseen.push(format!("{nid}: the clock: no answer to ICMP timestamp"));
                }
                self.view.icmp = Some(view);
            }
            Err(why) => {
                self.unseen.push(format!("{nid}: routes and the clock, by ICMP: {why}"));
            }
        }
    }

    fn remote(&mut self) -> Result<(), Failure> {
        let nid = self.nid;
        let Some(command) = &self.context.args.both_ends else {
            self.unseen.push(format!("{nid}: what only the other end sees (--both-ends)"));
            return Ok(());
        };
        let own = self.caller.nid;
        match remote::ask(command, &own, self.context.args, self.context.interrupt)? {
            Ok(view) => self.view.remote = Some(view),
            Err(why) => self.unseen.push(format!("{nid}: what the other end sees: {why}")),
        }
        Ok(())
    }
}
