//! Findings about this host, its node and its configuration.

use crate::code::{Code, Severity};
use crate::defects::{self, Release};
use crate::finding::{Finding, Words};
use crate::observed::{ConfigView, HostView, NodeView, Observed, PortHolder};

pub(crate) fn findings(observed: &Observed) -> Vec<Finding> {
    let Observed { host, node, config, .. } = observed;
    let mut found = Vec::new();
    if let Some(config) = config {
        found.extend(of_config(config));
    }
    if let Some(node) = node {
        found.extend(of_node(node));
    }
    found.extend(port_taken(host, node.as_ref()));
    found.extend(unread(host));
    found.extend(defects_of(host, None));
    found
}

fn of_config(config: &ConfigView) -> Vec<Finding> {
    let source = &config.source;
    let mut found = Vec::new();
    found.extend(config.problem.as_ref().map(|problem| {
        Finding::new(
            Code::ConfigInvalid,
            None,
            Words {
                what: format!("a node would not start with {source}"),
                evidence: problem.clone(),
                consequence: "no node with this configuration".to_owned(),
                remedy: "correct the file where the message says".to_owned(),
            },
        )
    }));
    for ni in config.nis.iter().filter(|ni| !ni.running) {
        let state = match ni.address {
            Some(_) => "down, or its link is",
            None => "not there, or has no address",
        };
        found.push(Finding::new(
            Code::InterfaceDown,
            None,
            Words {
                what: format!("{} of net {} is {state}", ni.place, ni.net),
                evidence: format!(
                    "{source} names it; the system lists its interfaces without it \
                                   being up"
                ),
                consequence: format!("no messages over {} of this host", ni.net),
                remedy: format!("ip link set {} up, or correct the name", ni.place),
            },
        ));
    }
    for (at, ni) in config.nis.iter().enumerate() {
        let same = config.nis[..at].iter().find(|other| {
            other.net == ni.net && ni.address.is_some() && other.address == ni.address
        });
        let Some((other, address)) = same.zip(ni.address.as_ref()) else { continue };
        found.push(Finding::new(
            Code::NidTwice,
            None,
            Words {
                what: format!("{} and {} stand for the same NID", other.place, ni.place),
                evidence: format!("both have the address {address} on net {} ({source})", ni.net),
                consequence: "a node refuses to start: peers could not tell its two interfaces \
                              apart"
                    .to_owned(),
                remedy: "name each interface once per net".to_owned(),
            },
        ));
    }
    found
}

fn of_node(node: &NodeView) -> Vec<Finding> {
    let mut waited: Vec<String> = Vec::new();
    for ni in node.nis.iter().filter(|ni| ni.credits_min < 0) {
        let most = ni.credits_min.unsigned_abs();
        waited.push(format!("{most} at once for the credits of {} ({})", ni.nid, ni.credits));
    }
    for peer in node.peers.iter().filter(|peer| peer.min < 0) {
        let (most, now) = (peer.min.unsigned_abs(), peer.available.min(0).unsigned_abs());
        waited.push(format!(
            "{most} at once for the peer_credits of {} ({}); {now} now",
            peer.credits, peer.nid
        ));
    }
    if waited.is_empty() {
        return Vec::new();
    }
    let left_out = waited.len().saturating_sub(5);
    waited.truncate(5);
    let more = if left_out > 0 { format!("; {left_out} more") } else { String::new() };
    let mut finding = Finding::new(
        Code::CreditsExhausted,
        None,
        Words {
            what: "messages of this host's node have waited for credits".to_owned(),
            evidence: format!("most messages that waited: {}{more}", waited.join("; ")),
            consequence: "what waits adds to the latency, and over a long path the rate is limited"
                .to_owned(),
            remedy: "`lustrine tune --to NID` computes peer_credits and credits for the path; the \
                     lowest values count since the node's start"
                .to_owned(),
        },
    );
    if node.peers.iter().any(|peer| peer.available < 0) {
        finding.severity = Severity::Warning;
    }
    vec![finding]
}

fn port_taken(host: &HostView, node: Option<&NodeView>) -> Option<Finding> {
    let taken = host.port_holder == Some(PortHolder::Other) && node.is_none();
    taken.then(|| {
        Finding::new(
            Code::PortTaken,
            None,
            Words {
                what: "a program that is no LNet node listens at TCP port 988 of this host"
                    .to_owned(),
                evidence: "a program listens on the port, but does not answer as LNet does"
                    .to_owned(),
                consequence: "no node and no kernel's LNet can be started; peers cannot connect"
                    .to_owned(),
                remedy: "`ss -ltnp sport = 988` names the program; reserve the port with \
                         net.ipv4.ip_local_reserved_ports=988 (portmap's programs take such ports)"
                    .to_owned(),
            },
        )
    })
}

/// Fewer bytes are under way in every healthy node.
const UNREAD: u64 = 16 << 10;

fn unread(host: &HostView) -> Vec<Finding> {
    let stuck = host.unread.iter().filter(|one| one.bytes.into_iter().all(|count| count >= UNREAD));
    let mut stuck = stuck.filter(|one| one.bytes[1] >= one.bytes[0]).peekable();
    if stuck.peek().is_none() {
        return Vec::new();
    }
    let lines = stuck.take(5).map(|one| {
        let [first, second] = one.bytes;
        format!(
            "{} from {}: {first} bytes, {} ms later {second}",
            one.local, one.remote, one.apart_ms
        )
    });
    let evidence = lines.collect::<Vec<_>>().join("; ");
    vec![Finding::new(
        Code::UnreadData,
        None,
        Words {
            what: "data of LNet wait in this host and are not read".to_owned(),
            evidence,
            consequence: "the peers' windows close, and their messages time out".to_owned(),
            remedy: "see whether the node is stopped, or has no CPU: top, `lustrine show stats`"
                .to_owned(),
        },
    )]
}

/// Known defects of a host, this one or a peer's.
pub(crate) fn defects_of(host: &HostView, peer: Option<&str>) -> Vec<Finding> {
    let Some(version) = &host.lustre_modules else { return Vec::new() };
    let Some(release) = Release::parse(version) else { return Vec::new() };
    let finding = |defect: &defects::Defect| {
        Finding::new(
            Code::KnownDefect,
            peer,
            Words {
                what: format!("Lustre {} has a known defect", version.trim()),
                evidence: format!("loaded modules: {}; {}", version.trim(), defect.source),
                consequence: defect.what.to_owned(),
                remedy: defect.remedy.to_owned(),
            },
        )
    };
    defects::of(release).map(finding).collect()
}
