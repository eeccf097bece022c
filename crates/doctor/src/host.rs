//! Findings about a host, its node and its configuration: this host, and with the view from both
//! ends those of the peers.

use crate::code::{Code, Severity};
use crate::defects::{self, Concern, Release};
use crate::finding::{Finding, Words};
use crate::observed::{
    ConfigView, DialOutcome, HostView, NiView, NodeView, Observed, PeerView, PortHolder,
    SilentNode, Source, pings_at_once,
};

/// What is known of a host.
#[derive(Clone, Copy, Debug)]
struct Seen<'a> {
    host: &'a HostView,
    node: Option<&'a NodeView>,
    config: Option<&'a ConfigView>,
    /// The peers that were looked at from it.
    peers: &'a [PeerView],
    /// The NID by which it is named; `None`: this host.
    named: Option<&'a str>,
}

pub(crate) fn findings(observed: &Observed) -> Vec<Finding> {
    let Observed { host, node, silent_node, config, peers } = observed;
    let (node, config) = (node.as_ref(), config.as_ref());
    let mut found: Vec<Finding> = silent_node.iter().map(silent).collect();
    found.extend(Seen { host, node, config, peers, named: None }.findings());
    found
}

/// The same of a peer's host, as far as its own end was asked.
pub(crate) fn findings_of(peer: &PeerView) -> Vec<Finding> {
    let Some(remote) = &peer.remote else { return Vec::new() };
    let (node, config) = (remote.node.as_ref(), remote.config.as_ref());
    let named = Some(peer.nid.as_str());
    Seen { host: &remote.host, node, config, peers: &[], named }.findings()
}

impl Seen<'_> {
    fn findings(self) -> Vec<Finding> {
        let mut found = Vec::new();
        if let Some(config) = self.config {
            found.extend(of_config(config, self.named));
        }
        if let Some(node) = self.node {
            found.extend(of_node(self.host, node, self.named));
        }
        found.extend(port_taken(self.host, self.node, self.named));
        found.extend(unread(self.host, self.named));
        found.extend(self.defects());
        found
    }

    /// Known defects.
    fn defects(self) -> Vec<Finding> {
        let Some(version) = &self.host.lustre_modules else { return Vec::new() };
        let Some(release) = Release::parse(version) else { return Vec::new() };
        let finding = |defect: &defects::Defect| {
            let severity = self.severity(defect.concern)?;
            let words = Words {
                what: format!("Lustre {} has a known defect", version.trim()),
                evidence: format!("loaded modules: {}; {}", version.trim(), defect.source),
                consequence: defect.what.to_owned(),
                remedy: defect.remedy.to_owned(),
            };
            Some(Finding { severity, ..Finding::new(Code::KnownDefect, self.named, words) })
        };
        defects::of(release).filter_map(finding).collect()
    }

    /// How bad a defect is here: a warning only where it shows. `None`: it cannot show.
    fn severity(self, concern: Concern) -> Option<Severity> {
        let shows = match concern {
            Concern::Use => false,
            Concern::Refusals => self.peers.iter().any(is_refused),
            Concern::Ipv6 => {
                if !self.host.interfaces.iter().any(|one| one.addresses.iter().any(is_ipv6)) {
                    return None;
                }
                let of_node = self.node.iter().flat_map(|node| &node.nis).map(|ni| &ni.nid);
                let of_config = self.config.iter().flat_map(|config| &config.nis);
                let mut nids = of_node
                    .chain(of_config.filter_map(|ni| ni.address.as_ref()))
                    .chain(self.peers.iter().map(|peer| &peer.nid))
                    .chain(self.peers.iter().flat_map(|peer| &peer.nis).map(|(nid, _)| nid));
                nids.any(|nid| nid.contains(':'))
            }
        };
        Some(if shows { Severity::Warning } else { Severity::Notice })
    }
}

/// Whether the peer has refused a connection as it would one of the kernel's LNet, which has source
/// ports below 1024.
fn is_refused(peer: &PeerView) -> bool {
    peer.dials.iter().any(|dial| match dial.outcome {
        DialOutcome::Refused | DialOutcome::Rejected { .. } => true,
        DialOutcome::Closed | DialOutcome::NotNow => dial.source == Source::Privileged,
        _ => false,
    })
}

/// Whether it is an address of IPv6 that other hosts can reach.
fn is_ipv6(address: &String) -> bool {
    address.contains(':') && address != "::1" && !address.to_lowercase().starts_with("fe80:")
}

fn silent(node: &SilentNode) -> Finding {
    let SilentNode { socket, is_running, why } = node;
    let (what, remedy) = match is_running {
        true => (
            format!("the node at {socket} does not answer"),
            "see whether it is stopped or has no CPU: `ps`, `top`; its log",
        ),
        false => (
            format!("no node runs at {socket}"),
            "see why it ended: its log, `systemctl status` if it is a service; start it again, or \
             correct --control",
        ),
    };
    let words = Words {
        what,
        evidence: format!("its control socket: {why}"),
        consequence: "peers get no answer from this host, unless another node runs here; credits \
                      and counters were not looked at"
            .to_owned(),
        remedy: remedy.to_owned(),
    };
    Finding::new(Code::NodeSilent, None, words)
}

/// Whose it is, for a sentence.
fn whose(named: Option<&str>) -> &'static str {
    if named.is_some() { "the peer's host" } else { "this host" }
}

fn of_config(config: &ConfigView, named: Option<&str>) -> Vec<Finding> {
    let source = &config.source;
    let mut found = Vec::new();
    found.extend(config.problem.as_ref().map(|problem| {
        Finding::new(
            Code::ConfigInvalid,
            named,
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
            named,
            Words {
                what: format!("{} of net {} is {state}", ni.place, ni.net),
                evidence: format!(
                    "{source} names it; among the interfaces of this host there is none of this \
                     name or address that is up"
                ),
                consequence: format!("no messages over {} of {}", ni.net, whose(named)),
                remedy: format!(
                    "correct the name (`ip -br link` lists the interfaces), or ip link set {} up",
                    ni.place
                ),
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
            named,
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

/// The longest packets on the ways to a peer, in bytes, as far as the interfaces tell that the node
/// has on its network, or else all of the host's.
fn longest_packet(host: &HostView, node: &NodeView, nid: &str) -> u32 {
    let (address, net) = nid.split_once('@').unwrap_or_default();
    let is_own = host.interfaces.iter().any(|one| one.addresses.iter().any(|own| own == address));
    let on_net = |ni: &&NiView| ni.nid.split_once('@').is_some_and(|(_, its)| its == net);
    let names: Vec<&str> =
        node.nis.iter().filter(on_net).filter_map(|ni| ni.interface.as_deref()).collect();
    let is_used = |name: &str| names.is_empty() && name != "lo" || names.contains(&name);
    let used = host.interfaces.iter().filter(|one| is_own || is_used(&one.name));
    used.filter_map(|one| one.mtu).max().unwrap_or(1500)
}

/// Whether no more messages have waited at once than the answers to one look of `doctor` or `watch`
/// from that peer: such a look is no load, and the lowest values count since the node's start.
fn is_by_looks(longest_packet: u32, credits: u32, lowest: i64) -> bool {
    let answers = u64::from(pings_at_once(longest_packet));
    lowest.min(0).unsigned_abs() <= answers.saturating_sub(u64::from(credits))
}

fn of_node(host: &HostView, node: &NodeView, named: Option<&str>) -> Vec<Finding> {
    let mut waited: Vec<String> = Vec::new();
    for ni in &node.nis {
        // Its own address is one of this host: looks of this host count, too.
        let longest = longest_packet(host, node, &ni.nid);
        if is_by_looks(longest, ni.credits, ni.credits_min) {
            continue;
        }
        let most = ni.credits_min.unsigned_abs();
        waited.push(format!("{most} at once for the credits of {} ({})", ni.nid, ni.credits));
    }
    for peer in &node.peers {
        let waits = peer.available < 0;
        let longest = longest_packet(host, node, &peer.nid);
        if !waits && is_by_looks(longest, peer.credits, peer.min) {
            continue;
        }
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
        named,
        Words {
            what: format!("messages of the node of {} have waited for credits", whose(named)),
            evidence: format!(
                "most messages that waited since the node's start: {}{more}",
                waited.join("; ")
            ),
            consequence: "what waits adds to the latency, and over a long path the rate is limited"
                .to_owned(),
            remedy: "`lustrine tune --to NID` computes peer_credits and credits for the path"
                .to_owned(),
        },
    );
    if node.peers.iter().any(|peer| peer.available < 0) {
        finding.severity = Severity::Warning;
    }
    vec![finding]
}

fn port_taken(host: &HostView, node: Option<&NodeView>, named: Option<&str>) -> Option<Finding> {
    let (program, answer) = match host.port_holder? {
        PortHolder::Free | PortHolder::Lnet => return None,
        PortHolder::Silent => {
            ("another program, or a stopped node,", "accepts a connection and sends nothing")
        }
        PortHolder::Other => ("another program", "does not speak LNet"),
    };
    node.is_none().then(|| {
        Finding::new(
            Code::PortTaken,
            named,
            Words {
                what: format!("{program} listens on TCP port 988 of {}", whose(named)),
                evidence: format!("the program at the port {answer}"),
                consequence: "no node and no kernel's LNet can be started; peers cannot connect"
                    .to_owned(),
                remedy: "`ss -ltnp sport = 988` names the program; reserve the port with \
                         net.ipv4.ip_local_reserved_ports=988 (portmap's programs take such ports)"
                    .to_owned(),
            },
        )
    })
}

/// Fewer bytes are in flight in every healthy node.
const UNREAD: u64 = 16 << 10;

fn unread(host: &HostView, named: Option<&str>) -> Vec<Finding> {
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
        named,
        Words {
            what: format!("data of LNet wait in {} and are not read", whose(named)),
            evidence,
            consequence: "the peers' windows close, and their messages time out".to_owned(),
            remedy: "see whether the node is stopped, or has no CPU: top, `lustrine show stats`"
                .to_owned(),
        },
    )]
}
