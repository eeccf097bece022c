//! Whether a peer can be reached, and who refuses whom.

use crate::code::Code;
use crate::finding::{Finding, Words};
use crate::observed::{Dial, DialOutcome, HostView, Observed, PeerView, PortHolder, Source};

pub(crate) fn findings(observed: &Observed, peer: &PeerView) -> Vec<Finding> {
    let host = &observed.host;
    if let Some(why) = &peer.no_route {
        return vec![no_route(peer, why)];
    }
    if let Some(finding) = node_net(observed, peer) {
        return vec![finding];
    }
    if let Some(finding) = refused(host, peer) {
        return vec![finding];
    }
    let mut found = Vec::new();
    let nid = Some(peer.nid.as_str());
    found.extend(peer.hellos().find(|(said, ..)| *said != peer.nid).map(|(said, ..)| {
        Finding::new(
            Code::OtherNid,
            nid,
            Words {
                what: format!("the node at {} calls itself {said}", peer.address),
                evidence: format!("its HELLO is from {said}, and {} was asked for", peer.nid),
                consequence: "messages to this NID reach another node, or are refused".to_owned(),
                remedy: "compare with `lctl list_nids` there; look for address translation on the \
                         way"
                .to_owned(),
            },
        )
    }));
    if peer.rtt_ns.is_none()
        && let Some(lost) = peer.pings_lost.filter(|lost| *lost > 0)
    {
        found.push(Finding::new(
            Code::PingSilent,
            nid,
            Words {
                what: "the peer answers the HELLO, and nothing after it".to_owned(),
                evidence: format!("HELLO exchanged; pings of 96 bytes without an answer: {lost}"),
                consequence: "every message to it times out".to_owned(),
                remedy: "the peer's LNet is overloaded or stuck: see its log, `lustrine show \
                         stats` or `lnetctl stats show` there"
                    .to_owned(),
            },
        ));
    }
    found
}

/// A node reaches no peer on a network on which it has no interface: Lustrine's nodes have no
/// routes of LNet.
fn node_net(observed: &Observed, peer: &PeerView) -> Option<Finding> {
    let is_kernel = observed.node.as_ref().is_some_and(|node| node.identity == "kernel");
    let config =
        observed.config.as_ref().filter(|config| config.problem.is_none() && !is_kernel)?;
    let (_, wanted) = peer.nid.rsplit_once('@')?;
    if config.nis.is_empty() || config.nis.iter().any(|ni| ni.net == wanted) {
        return None;
    }
    let own: Vec<String> =
        config.nis.iter().map(|ni| format!("{} ({})", ni.net, ni.place)).collect();
    let words = Words {
        what: format!("{} has no interface on {wanted}", config.source),
        evidence: format!("its interfaces: {}", own.join(", ")),
        consequence: format!("it reaches no peer on {wanted}"),
        remedy: format!(
            "name the peer by its NID on a network of the node, or give the node an interface \
             there: `lnetctl net add --net {wanted} --if NAME`"
        ),
    };
    Some(Finding::new(Code::NodeNet, Some(&peer.nid), words))
}

fn no_route(peer: &PeerView, why: &str) -> Finding {
    let words = Words {
        what: format!("this host has no route to {}", peer.address),
        evidence: why.to_owned(),
        consequence: "nothing reaches the peer".to_owned(),
        remedy: "see `ip route get` for the address, and whether the interface is up".to_owned(),
    };
    Finding::new(Code::NoRoute, Some(&peer.nid), words)
}

/// Why no attempt to reach the NID succeeded; `None` if one did, or none was made.
fn refused(host: &HostView, peer: &PeerView) -> Option<Finding> {
    let asked = || peer.dials.iter().filter(|dial| dial.target == peer.nid);
    let is_hello = |dial: &&Dial| matches!(dial.outcome, DialOutcome::Hello { .. });
    let hello = asked().find(is_hello);
    let closed_high =
        asked().find(|dial| dial.source == Source::Any && dial.outcome == DialOutcome::Closed);
    if let (Some(closed), Some(hello)) = (closed_high, hello)
        && hello.source == Source::Privileged
        && asked().position(|dial| dial == closed) < asked().position(|dial| dial == hello)
    {
        return Some(userland_refused(peer));
    }
    if hello.is_some() {
        return None;
    }
    // The last attempt knows most: earlier ones were from other ports.
    let last = asked().next_back()?;
    let at = format!("{}, TCP port {}", peer.address, peer.port);
    let answers = peer.icmp.as_ref().is_some_and(|icmp| icmp.answers > 0);
    let make = |code, what: String, evidence: String, consequence: &str, remedy: String| {
        let words = Words { what, evidence, consequence: consequence.to_owned(), remedy };
        Some(Finding::new(code, Some(&peer.nid), words))
    };
    let nothing = "no message reaches the peer";
    match &last.outcome {
        DialOutcome::Hello { .. } | DialOutcome::NotMade { .. } => None,
        DialOutcome::Refused => make(
            Code::PortClosed,
            format!("nothing listens at {at}, or a firewall answers with a reset in its place"),
            "the TCP connection was refused with a reset".to_owned(),
            nothing,
            "on a kernel node: `lctl network up`, `lnetctl net show`; a node may use another \
             port: --port; if a node listens there, permit the port in the firewalls there and on \
             the way"
                .to_owned(),
        ),
        DialOutcome::Rejected { by, why } => {
            let who = match by {
                Some(by) if *by == peer.address => format!("a firewall of {by}"),
                Some(by) if peer.route.as_ref().is_some_and(|route| route.local == *by) => {
                    "a firewall of this host".to_owned()
                }
                Some(by) => format!("the router or firewall {by}"),
                None => "a rule of this host".to_owned(),
            };
            make(
                Code::FirewallRejects,
                format!("{who} refuses packets to {at}"),
                format!("the TCP connection request: {why}"),
                nothing,
                format!("permit TCP port {} there", peer.port),
            )
        }
        DialOutcome::TimedOut { ms } if answers => make(
            Code::FirewallSwallows,
            format!("a firewall silently drops packets to or from TCP port {}", peer.port),
            format!(
                "{} answers ICMP echo; the TCP connection request got no answer in {ms} ms, \
                 not even a refusal",
                peer.address
            ),
            "every attempt to connect waits until it times out",
            format!(
                "permit TCP port {} in both directions, on both hosts and between them; the \
                 peer's host may also have too many half-open connections",
                peer.port
            ),
        ),
        DialOutcome::Unreachable { why } if answers => make(
            Code::FirewallRejects,
            format!("packets to {at} are refused on the way"),
            format!("{} answers ICMP echo; the TCP connection request: {why}", peer.address),
            nothing,
            format!("permit TCP port {} in the router or firewall that refuses it", peer.port),
        ),
        DialOutcome::TimedOut { .. } | DialOutcome::Unreachable { .. } => {
            let echo = match &peer.icmp {
                Some(icmp) => format!("{} ICMP echo requests without an answer", icmp.asked),
                None => {
                    "ICMP echo could not be tried, so a firewall is possible as well".to_owned()
                }
            };
            let tcp = match &last.outcome {
                DialOutcome::Unreachable { why } => why.clone(),
                DialOutcome::TimedOut { ms } => format!("no answer in {ms} ms"),
                _ => String::new(),
            };
            make(
                Code::HostSilent,
                format!("nothing at {} answers", peer.address),
                format!("TCP port {}: {tcp}; {echo}", peer.port),
                nothing,
                "check that the host is up, the address is right, and replies can reach this host"
                    .to_owned(),
            )
        }
        DialOutcome::NotLnet { begins } => make(
            Code::NotLnet,
            format!("the program at {at} does not speak LNet"),
            format!("it answered {begins:?}"),
            nothing,
            "see which service has the port there; a node may use another one: --port".to_owned(),
        ),
        DialOutcome::Silent { ms } => make(
            Code::HelloSilent,
            format!("{at} takes the connection and says nothing"),
            format!("connected; no answer to the HELLO in {ms} ms"),
            "every attempt to connect waits until it times out",
            "the peer is stopped or overloaded, or another service has the port; a middlebox may \
             accept connections in its place"
                .to_owned(),
        ),
        DialOutcome::NotNow => make(
            Code::NotNow,
            "the peer refuses each connection for now".to_owned(),
            format!(
                "{} HELLOs of type NONE",
                asked().filter(|dial| dial.outcome == DialOutcome::NotNow).count()
            ),
            "no new connection; messages wait or time out",
            "either it is connecting to this host itself and its packets do not arrive (a \
             one-way firewall), or it still has old connections of this host: try again after a \
             minute"
                .to_owned(),
        ),
        DialOutcome::Closed => closed(host, peer, last, &make),
    }
}

/// Makes a finding: code, what, evidence, consequence, remedy.
type Make<'a> = dyn Fn(Code, String, String, &str, String) -> Option<Finding> + 'a;

/// Connections were closed before a HELLO, the last one too.
fn closed(host: &HostView, peer: &PeerView, last: &Dial, make: &Make<'_>) -> Option<Finding> {
    if peer.closes_at_once == Some(true) {
        // The running node of this host has a connection from before: it is a node without room.
        if peer.rtt_ns.is_some() {
            return None;
        }
        return make(
            Code::NotLnet,
            format!(
                "the program at {}, TCP port {}, closes each connection at once",
                peer.address, peer.port
            ),
            "it closed a connection from a privileged port over which nothing was sent; a node \
             waits for the first bytes"
                .to_owned(),
            "no message reaches the peer",
            "see which service has the port there, or what closes connections on the way; a \
             Lustrine node does so only while it has no room for handshakes"
                .to_owned(),
        );
    }
    let elsewhere = peer
        .dials
        .iter()
        .find(|dial| dial.target != peer.nid && matches!(dial.outcome, DialOutcome::Hello { .. }));
    if let Some(other) = elsewhere {
        return make(
            Code::WrongNet,
            format!("the peer is {}, not {}", other.target, peer.nid),
            format!(
                "it closed the connection for {} and answered the HELLO for {}",
                peer.nid, other.target
            ),
            "every connection for this NID is closed without a word",
            format!("use {}, or give both hosts the same net", other.target),
        );
    }
    if last.source == Source::Any {
        let here = match (host.privileged, host.port_holder) {
            (true, Some(PortHolder::Silent)) => {
                "a program of this host that may be a node has LNet's port, so no other port was \
                 tried"
            }
            (true, _) => "an LNet node of this host has the address, so no other port was tried",
            (false, _) => "this process may not use ports below 1024",
        };
        return make(
            Code::PrivilegeOrNid,
            "the peer closes the connection before its HELLO".to_owned(),
            format!("the source port was above 1023; {here}"),
            "no message of this user reaches the peer",
            "run this as root, or with CAP_NET_BIND_SERVICE: the result then shows whether it is \
             `accept=secure`, or a NID that the peer does not have"
                .to_owned(),
        );
    }
    let tried: Vec<&str> = peer
        .dials
        .iter()
        .filter(|dial| dial.target != peer.nid && dial.outcome == DialOutcome::Closed)
        .map(|dial| dial.target.as_str())
        .collect();
    let also = match tried.as_slice() {
        [] => String::new(),
        tried => format!(", and for {}", tried.join(", ")),
    };
    make(
        Code::NidRefused,
        format!("the node at {} does not have the NID {}", peer.address, peer.nid),
        format!("it closed the connection from a privileged port before its HELLO{also}"),
        "every connection for this NID is closed without a word",
        "compare with `lctl list_nids` there; if the NID is right, its log says why (a Lustrine \
         node also closes while it has no room for handshakes)"
            .to_owned(),
    )
}

fn userland_refused(peer: &PeerView) -> Finding {
    let words = Words {
        what: "the peer refuses source ports above 1023 (accept=secure)".to_owned(),
        evidence:
            "it closed a connection from a high port before its HELLO, and sent its HELLO to \
                   one from a privileged port"
                .to_owned(),
        consequence: "users without privilege cannot reach it; root can".to_owned(),
        remedy: "run as root or with CAP_NET_BIND_SERVICE; accept=all on the peer lets every user \
                 of every host in (docs/security.md)"
            .to_owned(),
    };
    Finding::new(Code::UserlandRefused, Some(&peer.nid), words)
}
