//! A look at the path to a peer alone, for `lustrine watch`: the longest packets that arrive both
//! ways, and the route. It is what `lustrine doctor` does, without what judges the peer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lustrine_doctor::{
    Carried, DialOutcome, IcmpView, RouteView, Source, StreamView, header_bytes,
};
use lustrine_sys::privileged_ports_usable;
use lustrine_wire::nid::Nid;

use super::budget::Budget;
use super::conversation::{Caller, Conversation};
use super::peer::OwnAddress;
use super::sizes::{Bulk, Line};
use super::{host, icmp, peer, sizes};

/// The most bytes of a look, sent and received.
pub(in crate::commands) const BYTES_MAX: u64 = 1 << 20;
/// The most time that it takes, in seconds.
const SECONDS: f64 = 30.0;
/// How long the answer to a ping may take.
const ANSWER: Duration = Duration::from_secs(4);
/// Handshake attempts while the peer still ends the connections of the node before, and the wait
/// between them.
const ATTEMPTS: u32 = 8;
const AGAIN: Duration = Duration::from_millis(300);
/// Bytes of a connection with its HELLOs.
const HANDSHAKE: u64 = 512;

/// Bytes of a ping with its answer, of a peer with one interface.
pub(in crate::commands) const PING_BYTES: u64 = Conversation::PING_BYTES;

/// Bytes and messages of a look at a path to this address where all packets arrive.
pub(in crate::commands) fn usual_cost(to: IpAddr) -> (u64, u64) {
    let local = peer::local_towards(to).ok().map(|local| local.to_string());
    let host = host::look_at_interfaces();
    let has = |addresses: &[String]| local.as_ref().is_some_and(|local| addresses.contains(local));
    let device = host.interfaces.iter().find(|device| has(&device.addresses));
    let mtu = device.and_then(|device| device.mtu).unwrap_or(1500);
    let bytes = HANDSHAKE + PING_BYTES + sizes::bytes_of_look(mtu) + icmp::BYTES_OF_LOOK;
    let pings = sizes::bytes_of_look(mtu).saturating_sub(4 * u64::from(mtu)) / PING_BYTES;
    (bytes, icmp::MESSAGES + 2 * (pings + 1))
}

/// Whose path is looked at.
#[derive(Clone, Copy, Debug)]
pub(in crate::commands) struct PathWanted {
    /// The peer.
    pub(in crate::commands) nid: Nid,
    /// Its address and port.
    pub(in crate::commands) to: SocketAddr,
    /// The address of this host to use; `None`: the one that packets to the peer leave from.
    pub(in crate::commands) local: Option<IpAddr>,
    /// Whether that address was chosen by the route of the time: then the route of now is shown,
    /// which may lead over another address.
    pub(in crate::commands) follows_route: bool,
    /// The incarnation that the peer sees.
    pub(in crate::commands) incarnation: u64,
}

/// How a look connects to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Handshake {
    /// From this kind of port.
    From(Source),
    /// Not at all: the peer refused it a short time ago. The route and ICMP do not need it.
    LeftOut,
}

/// The addresses and ports of this host that looks use, taken before they begin: where a node or a
/// kernel has one, high ports are used, as in `doctor`. Looks behind one address share its claim,
/// so that they do not take each other for a node.
#[derive(Debug, Default)]
pub(in crate::commands) struct Claims(BTreeMap<SocketAddr, Arc<OwnAddress>>);

/// Keeps the claim of a look: it is to be dropped as soon as the look ends, so that a node or a
/// mount can be started.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct ClaimOfLook {
    _own: Option<Arc<OwnAddress>>,
}

impl Claims {
    /// How a look at this path connects.
    pub(in crate::commands) fn handshake(
        &mut self,
        wanted: &PathWanted,
    ) -> (Handshake, ClaimOfLook) {
        let local = wanted.local.map_or_else(|| peer::local_towards(wanted.to.ip()), Ok).ok();
        // Where there is no route the look itself says so.
        let own = local.map(|local| self.own(local, wanted.to.port()));
        let of_kernel = |local| peer::kernel_may_have(&Nid::from_ip(wanted.nid.net(), local));
        let is_free = own.as_ref().is_some_and(|own| !own.is_taken())
            && local.is_some_and(|local| !of_kernel(local));
        let source = match privileged_ports_usable(None).unwrap_or(false) && is_free {
            true => Source::Privileged,
            false => Source::Any,
        };
        (Handshake::From(source), ClaimOfLook { _own: own })
    }

    fn own(&mut self, local: IpAddr, port: u16) -> Arc<OwnAddress> {
        let at = SocketAddr::new(local, port);
        let claim = || Arc::new(OwnAddress::claim(local, &[port], &|_| true));
        Arc::clone(self.0.entry(at).or_insert_with(claim))
    }
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub(in crate::commands) struct PathSeen {
    /// The longest IP packet that arrived at the peer, in bytes.
    pub(in crate::commands) mtu_out: Option<u32>,
    /// The same from the peer.
    pub(in crate::commands) mtu_back: Option<u32>,
    /// How packets leave.
    pub(in crate::commands) route: Option<RouteView>,
    /// What ICMP shows.
    pub(in crate::commands) icmp: Option<IcmpView>,
    /// Whether the peer refuses connections of this process, because of its port or its NID. A
    /// kernel writes a line to its log each time.
    pub(in crate::commands) is_refused: bool,
    /// What could not be seen, and why.
    pub(in crate::commands) unseen: Vec<String>,
}

/// Looks at the path to a peer. No node of this program may have the address meanwhile; others
/// have it again when nothing is connected any more.
pub(in crate::commands) fn look(
    wanted: &PathWanted,
    handshake: Handshake,
    claim: ClaimOfLook,
    stopped: &dyn Fn() -> bool,
) -> PathSeen {
    let mut seen = PathSeen::default();
    let ip = wanted.to.ip();
    let local = match wanted.local.map_or_else(|| peer::local_towards(ip), Ok) {
        Ok(local) => local,
        Err(error) => {
            seen.unseen.push(format!("the path: no route: {error}"));
            return seen;
        }
    };
    // Of several addresses of IPv6 the system takes another one now and then.
    let leaves_from = match wanted.follows_route && ip.is_ipv4() {
        true => peer::local_towards(ip).unwrap_or(local),
        false => local,
    };
    seen.route = Some(peer::route(&host::look_at_interfaces(), leaves_from, ip));
    let mut budget = Budget::new(BYTES_MAX);
    budget.begin(SECONDS);
    let caller = Caller {
        local,
        nid: Nid::from_ip(wanted.nid.net(), local),
        incarnation: wanted.incarnation,
    };
    if let Handshake::From(source) = handshake
        && let Some(open) = shake_hands(wanted, &caller, source, &mut budget, &mut seen, stopped)
    {
        segments(wanted, &caller, source, &mut budget, open, &mut seen);
    }
    drop(claim);
    match ip {
        _ if stopped() => {}
        IpAddr::V4(ip) => match icmp::look(&mut budget, ip, None) {
            Ok(view) => seen.icmp = Some(view),
            Err(why) => seen.unseen.push(format!("hops, by ICMP: {why}")),
        },
        IpAddr::V6(_) => seen.unseen.push("hops: only over IPv4".to_owned()),
    }
    seen
}

fn shake_hands(
    wanted: &PathWanted,
    caller: &Caller,
    source: Source,
    budget: &mut Budget,
    seen: &mut PathSeen,
    stopped: &dyn Fn() -> bool,
) -> Option<Conversation> {
    let mut no_mtu = |why: String| seen.unseen.push(format!("the path MTU: {why}"));
    if source == Source::Any && wanted.to.is_ipv6() {
        no_mtu("IPv6 is not used from source ports above 1023: it crashes some kernels".to_owned());
        seen.is_refused = true;
        return None;
    }
    for attempt in 1..=ATTEMPTS {
        let (outcome, open) = caller.handshake(budget, wanted.to, wanted.nid, source, None);
        match (outcome, open) {
            (_, Some(open)) => return Some(open),
            (DialOutcome::NotNow | DialOutcome::Closed, None)
                if attempt < ATTEMPTS && !stopped() =>
            {
                // A high port that is refused stays so.
                if source == Source::Any && attempt > 1 {
                    break;
                }
                thread::sleep(AGAIN);
            }
            (DialOutcome::Closed, None) => break,
            // The samples say that it is not reachable.
            (DialOutcome::NotMade { why }, None) => {
                no_mtu(why);
                return None;
            }
            _ => return None,
        }
    }
    no_mtu(match source {
        Source::Any => {
            "the peer takes connections from ports below 1024 alone, which this process may not \
             use, or which the node at this address uses"
        }
        Source::Privileged => "the peer closes connections of this NID",
    }
    .to_owned());
    seen.is_refused = true;
    None
}

fn segments(
    wanted: &PathWanted,
    caller: &Caller,
    source: Source,
    budget: &mut Budget,
    mut open: Conversation,
    seen: &mut PathSeen,
) {
    let (begun, until) = (Instant::now(), budget.until(ANSWER));
    if !open.send_pings(budget, 1, until) || open.answer(budget, until).is_none() {
        return open.abort();
    }
    let line = Line { caller, to: wanted.to, target: wanted.nid, source, rtt: begun.elapsed() };
    let found = sizes::look(&line, budget, open, Bulk::LeftOut);
    let headers = header_bytes(wanted.to.is_ipv6());
    let size = |carried: Option<Carried>, whole: fn(&StreamView) -> u32| {
        let stream = found.stream.as_ref()?;
        let segment = match carried? {
            Carried::Yes { .. } => whole(stream),
            Carried::Lost { arrives, .. } => arrives?,
            Carried::Unread { .. } | Carried::Unknown => return None,
        };
        Some(segment.saturating_add(stream.options).saturating_add(headers))
    };
    seen.mtu_out = size(found.out, |stream| stream.segment_out);
    seen.mtu_back = size(found.back, StreamView::arrived);
    if !budget.was_exceeded() && seen.mtu_out.is_none() && found.out.is_none() {
        seen.unseen.push("the path MTU: the protocol of the peer has no keepalives".into());
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn looks_behind_one_address_are_no_node_to_each_other() {
        let local = IpAddr::V4(Ipv4Addr::new(127, 0, 77, 9));
        let node = TcpListener::bind((local, 0)).expect("the loopback");
        let port = node.local_addr().expect("it is bound").port();
        let is_free = || !OwnAddress::claim(local, &[port], &|_| true).is_taken();
        assert!(!is_free(), "a node has it");
        drop(node);
        let mut claims = Claims::default();
        let [one, two] = [claims.own(local, port), claims.own(local, port)];
        assert!(!one.is_taken() && !two.is_taken(), "two peers, one local address");
        drop((claims, one));
        assert!(!is_free(), "a look goes on");
        drop(two);
        assert!(is_free(), "all looks behind it have ended");
    }
}
