//! The path to a peer: packet sizes, routes, receivers.

use lustrine_tune::rate_of;

use crate::code::{Code, Severity};
use crate::finding::{Finding, Words};
use crate::observed::{Carried, HostView, IcmpView, PeerView, RemoteView, RouteView, StreamView};

pub(crate) fn findings(host: &HostView, peer: &PeerView) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(black_hole(peer, peer.out, Code::BlackHoleOut));
    found.extend(black_hole(peer, peer.back, Code::BlackHoleIn));
    found.extend(unanswered(peer));
    found.extend(mtu_mismatch(host, peer));
    found.extend(asymmetry(peer));
    found.extend(slow_receiver(peer));
    found
}

fn black_hole(peer: &PeerView, carried: Option<Carried>, code: Code) -> Option<Finding> {
    let Some(Carried::Lost { segment, arrives, ms }) = carried else { return None };
    let options = peer.stream.map_or(0, |stream| stream.options);
    let headers = peer.header_bytes().saturating_add(options);
    let packet = |segment: u32| segment.saturating_add(headers);
    let (way, whose) = match code {
        Code::BlackHoleOut => ("to", "this host"),
        _ => ("from", "the peer"),
    };
    let passes = match arrives {
        Some(arrives) => format!("packets of {} bytes arrive", packet(arrives)),
        None => "no smaller size was found that arrives".to_owned(),
    };
    let mtu = arrives.map_or_else(|| "a smaller value".to_owned(), |one| packet(one).to_string());
    Some(Finding::new(
        code,
        Some(&peer.nid),
        Words {
            what: format!("large packets {way} {} disappear (MTU black hole)", peer.address),
            evidence: format!(
                "small messages are answered; packets of {} bytes {way} the peer were not \
                 acknowledged in {ms} ms, and no ICMP message came; {passes}",
                packet(segment)
            ),
            consequence: "pings work, but bulk data and long replies stall: 0 MB/s".to_owned(),
            remedy: format!(
                "correct the MTU on the way, or let ICMP \"fragmentation needed\" through; until \
                 then MTU {mtu} on the interface of {whose}, or net.ipv4.tcp_mtu_probing=1 there"
            ),
        },
    ))
    .map(|mut finding| {
        finding.rate = Some(crate::finding::Rate { carried: 0.0, of: None });
        finding
    })
}

/// Echoes in full packets are not answered, where pings are, and no connection has shown what
/// becomes of full packets.
fn unanswered(peer: &PeerView) -> Option<Finding> {
    let icmp = peer.icmp.as_ref()?;
    let full = icmp.full?;
    if peer.rtt_ns.is_none() || peer.shows_full_packets() {
        return None;
    }
    let words = Words {
        what: format!("large packets to {} or from it disappear (MTU black hole)", peer.address),
        evidence: format!(
            "{} of {} small ICMP echoes were answered, and none of {} with {} bytes, which no \
             router may fragment; no ICMP message came",
            icmp.answers, icmp.asked, full.asked, full.bytes
        ),
        consequence: "pings work, but bulk data and long replies may stall".to_owned(),
        remedy: "stop the node of this host and run this again: it then shows which direction and \
                 size; correct the MTU on the way, or let ICMP \"fragmentation needed\" through. A \
                 firewall that drops large echoes alone looks the same"
            .to_owned(),
    };
    Some(Finding::new(Code::BlackHole, Some(&peer.nid), words))
}

/// Bytes of a segment from which Linux may have chosen it by the peer's window and not by the MTU:
/// it sends no segments of more than half of the largest window so far. A first window is hardly
/// ever smaller than 32 KiB, and Ethernet has no such packets.
const HALF_WINDOW: u32 = 16 << 10;

/// With the view from both ends their interfaces are compared. Otherwise the segments to the peer
/// tell: it asks for those that its interface takes, unless something on the way clamps them.
fn mtu_mismatch(host: &HostView, peer: &PeerView) -> Option<Finding> {
    let here = peer.interface(host)?.mtu?;
    let far = peer.remote.as_ref().and_then(|remote| remote.interface()?.mtu);
    let (what, evidence) = match far {
        Some(there) if there == here => return None,
        Some(there) => {
            let both = "the interfaces by which packets leave, seen at both ends".to_owned();
            (format!("MTU {here} here, and {there} at the peer"), both)
        }
        None => {
            let StreamView { segment_out, segment_back, path_mtu, options, .. } = peer.stream?;
            let segment = segment_out.saturating_add(options);
            let there = segment.saturating_add(peer.header_bytes());
            // Smaller than the path for no reason that this host has found.
            let is_asked = there < path_mtu && there < here && segment_back > segment_out;
            (is_asked && segment < HALF_WINDOW).then_some(())?;
            let seen = format!(
                "the TCP MSS allows segments of {segment} bytes, as the peer announced it or as it \
                 was clamped on the way; this host's interface sends packets of {here} bytes, and \
                 no router has reported a path MTU below {path_mtu}"
            );
            (format!("MTU {here} here, and {there} at the peer or on the way"), seen)
        }
    };
    let hops = peer.icmp.as_ref().and_then(|icmp| icmp.hops_out);
    // A tunnel has no next router, and yet routers below it.
    let is_on_link = peer.route.as_ref().is_some_and(|route| route.on_link);
    let is_near = hops.map_or(is_on_link, |hops| hops == 1);
    let (consequence, remedy) = match is_near {
        true => (
            "no router is between them: what the end with the larger MTU sends outside of TCP is \
             lost",
            "give both interfaces, and the switches between them, the same MTU",
        ),
        // Routers cut, or say what is too long.
        false => (
            "packets are smaller than one end could send",
            "nothing has to be done; see both interfaces, and routers that clamp the MSS, if the \
             packets are to be larger",
        ),
    };
    let words = Words {
        what,
        evidence,
        consequence: format!("more packets and CPU time for the same data; {consequence}"),
        remedy: remedy.to_owned(),
    };
    let mut finding = Finding::new(Code::MtuMismatch, Some(&peer.nid), words);
    finding.severity = if is_near { Severity::Warning } else { Severity::Notice };
    Some(finding)
}

/// The hops out and back, with where each is from.
fn hops(icmp: &IcmpView, remote: Option<&RemoteView>) -> Option<(u8, u8, &'static str)> {
    let out = icmp.hops_out?;
    match remote.and_then(|remote| remote.icmp.as_ref()?.hops_out) {
        Some(back) => Some((out, back, "counted at both ends")),
        None => Some((out, icmp.hops_back?, "the way back from the TTL of the answers")),
    }
}

/// Whether packets leave from an address of the loopback or of a dummy: with routing to the host
/// the address of a node is on such a one, and packets may leave and arrive by any of the others.
fn is_routed_to_host(route: &RouteView) -> bool {
    let is_inner = |name: &String| name == "lo" || name.starts_with("dummy");
    route.address_on.as_ref().or(route.interface.as_ref()).is_some_and(is_inner)
}

fn asymmetry(peer: &PeerView) -> Option<Finding> {
    let icmp = peer.icmp.as_ref()?;
    let mut seen: Vec<String> = Vec::new();
    let mut ends = vec![("this host", peer.route.as_ref(), icmp.arrived_at.as_deref())];
    if let Some(remote) = &peer.remote {
        let arrived = remote.icmp.as_ref().and_then(|icmp| icmp.arrived_at.as_deref());
        ends.push(("the peer", remote.route.as_ref(), arrived));
    }
    for (whose, route, arrived) in ends {
        if let (Some(route), Some(arrived)) = (route, arrived)
            && let Some(left) = route.interface.as_deref()
            && left != arrived
            && !is_routed_to_host(route)
        {
            seen.push(format!("packets of {whose} leave by {left}, answers arrive at {arrived}"));
        }
    }
    if let Some((out, back, how)) = hops(icmp, peer.remote.as_ref())
        && out != back
    {
        seen.push(format!("hops to the peer: {out}, back: {back} ({how})"));
    }
    if seen.is_empty() {
        return None;
    }
    Some(Finding::new(
        Code::AsymmetricRoute,
        Some(&peer.nid),
        Words {
            what: "packets return on another path (asymmetric routing)".to_owned(),
            evidence: seen.join("; "),
            consequence: "the two ways may differ in rate, delay and MTU; firewalls that track \
                          connections, and rp_filter, drop packets of such paths"
                .to_owned(),
            remedy: "compare `ip route get` at both ends; with several interfaces in one subnet, \
                     set up source-based routing (`ip rule`)"
                .to_owned(),
        },
    ))
}

fn slow_receiver(peer: &PeerView) -> Option<Finding> {
    let Some(Carried::Unread { bytes, ms }) = peer.bulk else { return None };
    let words = Words {
        what: "the peer's node does not read what arrives".to_owned(),
        evidence: format!(
            "its host acknowledged {bytes} bytes, then closed the window for the rest of {ms} ms; \
             nothing was lost on the way"
        ),
        consequence: "messages to it wait; the rate at which it read the data of this test"
            .to_owned(),
        remedy: "the peer lacks CPU time, or is stopped: see its load, and `lustrine show stats` \
                 or `lnetctl stats show` there"
            .to_owned(),
    };
    let carried = rate_of(bytes, ms.saturating_mul(1_000_000));
    Some(Finding::new(Code::SlowReceiver, Some(&peer.nid), words).with_rate(carried, None))
}
