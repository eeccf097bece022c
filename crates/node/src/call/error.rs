//! Why a request failed: what happened, where, and what to do next.

use lustrine_lnet::driver_report::DialPhase;
use lustrine_lnet::status::Status;
use lustrine_lnet::topology::Identity;
use lustrine_selftest::console::{NodeReply, Reply};
use lustrine_wire::nid::Nid;

use crate::error::CallError;
use crate::handle::NodeHandle;
use crate::node::NID_IN_USE;
use crate::snapshot::LoopReport;

/// The call that needs more than the answer to a ping.
pub(super) const DISCOVER: &str = "discover";

/// How far a connection to a peer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// The driver does not know, or never tried.
    Unknown,
    /// TCP did not connect.
    Nothing,
    /// TCP connected, and the HELLO was not answered.
    Tcp,
    /// The HELLO was answered: no connection now.
    Refusal,
    /// The attempt before failed for this reason, and the next one was not due.
    Failed(Status),
    /// A connection is open.
    Node,
}

/// What was tried.
struct Call {
    what: &'static str,
    /// The target.
    nid: Nid,
    /// This node's identity, and its NID on the target's net.
    identity: Identity,
    ours: Option<Nid>,
    /// Whether it is userland because another node of this machine has its address.
    address_taken: bool,
}

impl NodeHandle {
    /// The error of a request that ended with this status.
    pub(super) fn failed(&self, what: &'static str, nid: Nid, status: Status) -> CallError {
        let reports = self.reports().unwrap_or_default();
        let (status, reached) = cause(status, &nid, &reports);
        let hint = hint(&self.attempt(what, nid), self.port_towards(nid), status, reached);
        CallError::Failed { what, nid, status, hint }
    }

    /// Adds to the replies of a console what `lustrine ping` says of the same failures.
    pub(crate) fn explain(&self, replies: &mut [NodeReply]) {
        if replies.iter().all(|said| status_of(said).is_none()) {
            return;
        }
        let reports = self.reports().unwrap_or_default();
        for said in replies {
            let Some(status) = status_of(said) else { continue };
            let (status, reached) = cause(status, &said.nid, &reports);
            // A node that is connected and does not answer may only have no selftest service.
            if status == Status::TimedOut && matches!(reached, Reached::Node | Reached::Unknown) {
                continue;
            }
            let call = self.attempt("selftest", said.nid);
            let hint = hint(&call, self.port_towards(said.nid), status, reached);
            if let Reply::None { why, .. } = &mut said.reply {
                why.push_str(&hint);
            }
        }
    }

    fn attempt(&self, what: &'static str, nid: Nid) -> Call {
        let info = self.info();
        let ours = info.nids.iter().find(|ours| ours.net() == nid.net()).copied();
        let address_taken = info.identity_reason == NID_IN_USE;
        Call { what, nid, identity: info.identity, ours, address_taken }
    }

    /// The TCP port at which a NID is dialled; `None` if no interface is on its net.
    fn port_towards(&self, nid: Nid) -> Option<u16> {
        let info = self.info();
        let ours = info.nids.iter().position(|ours| ours.net() == nid.net())?;
        info.ports.get(ours).copied()
    }
}

fn status_of(said: &NodeReply) -> Option<Status> {
    match &said.reply {
        Reply::None { status, .. } => *status,
        Reply::Refused(_) | Reply::Good(_) => None,
    }
}

/// The status that a failure has for a user, and how far a connection to the peer got.
fn cause(status: Status, nid: &Nid, reports: &[LoopReport]) -> (Status, Reached) {
    let (status, reached) = match status {
        Status::TimedOut => match reached(nid, reports) {
            Reached::Failed(before) => (before, Reached::Unknown),
            reached => (status, reached),
        },
        status => (status, Reached::Unknown),
    };
    match status {
        // A host that does not answer ARP is silent at first, and unreachable after some seconds:
        // it is the same to the user, whenever a command asks.
        Status::HostUnreachable => (Status::TimedOut, Reached::Nothing),
        status => (status, reached),
    }
}

fn reached(nid: &Nid, reports: &[LoopReport]) -> Reached {
    let links = reports.iter().flat_map(|report| &report.links);
    links.filter(|link| link.id.nid == *nid).fold(Reached::Unknown, |reached, link| {
        match link.dialling {
            _ if link.open() > 0 || reached == Reached::Node => Reached::Node,
            Some(DialPhase::AwaitingPeer) => Reached::Tcp,
            Some(DialPhase::Refused) => Reached::Refusal,
            Some(DialPhase::Connecting) => Reached::Nothing,
            Some(DialPhase::Failed(status)) => Reached::Failed(status),
            None => reached,
        }
    })
}

/// Why a command of root is userland, and what to do.
const BESIDE_ANOTHER: &str = ". This command is userland because another node of this \
    machine has its address (a kernel's LNet, `lustrine node`, a mount, the console of an `lst` \
    session, or another command; `ss -ltnp` shows it): give this command another address with \
    --net, or stop that node";

/// What to do next.
fn hint(call: &Call, port: Option<u16>, status: Status, reached: Reached) -> String {
    let userland = call.identity == Identity::Userland;
    let port = port.map_or_else(|| "its TCP port".to_owned(), |port| format!("TCP port {port}"));
    match status {
        Status::Refused => format!(
            "; nothing listens on {port} there: is LNet up on that host, and is the port right?"
        ),
        Status::Unreachable if userland && call.nid.ip().is_some_and(|ip| ip.is_ipv6()) => {
            let remedy = if call.address_taken { BESIDE_ANOTHER } else { ": run as root" };
            format!(
                "; userland nodes do not dial IPv6 addresses, since that crashes some \
                 kernels{remedy}"
            )
        }
        Status::Unreachable => {
            "; no interface of this node is on that net, or the host has no route to it".to_owned()
        }
        Status::Rejected if userland && call.address_taken => {
            format!("; the node at {port} accepts only source ports below 1024{BESIDE_ANOTHER}")
        }
        Status::Rejected if userland => format!(
            "; the node at {port} accepts only source ports below 1024: run as root, or set \
             accept=all there. If it does, too many others are opening connections: see its log"
        ),
        Status::Rejected => format!(
            "; the node at {port} does not have this NID, is not configured for that net, or \
             dropped the connection because too many others are opening one: its log says which"
        ),
        Status::Busy => format!("; {}", refused(&port)),
        Status::TimedOut => timed_out(call, &port, reached),
        Status::ConnectionLost => {
            failed_before(call).map(|cause| format!("; {cause}")).unwrap_or_default()
        }
        Status::Protocol => {
            format!("; the program at {port} there does not speak LNet: is the port right?")
        }
        _ => String::new(),
    }
}

/// Why a node refuses connections for a while.
fn refused(port: &str) -> String {
    format!(
        "the node at {port} refuses new connections at present. It may be trying to connect to \
         this node without success (is a firewall in the way?), still have old connections of this \
         node, or have reached its limit"
    )
}

/// What a kernel node may have stored of a userland node, and how to remove it ([USR-6]). It
/// answers pings all the same.
fn failed_before(call: &Call) -> Option<String> {
    let ours = call.ours.filter(|_| call.identity == Identity::Userland)?;
    let nid = call.nid;
    (call.what == DISCOVER).then(|| {
        format!(
            "if the peer is a kernel node, it may have tried to discover {ours} before and failed: \
             then run `lustrine discover {nid}` here with node identity (as root), or `lnetctl \
             peer del --prim_nid {ours}` there"
        )
    })
}

fn timed_out(call: &Call, port: &str, reached: Reached) -> String {
    match reached {
        Reached::Nothing => format!(
            "; {port} there does not accept a connection: the host is down, or a firewall drops \
             the packets"
        ),
        Reached::Tcp => format!(
            "; {port} there accepts the connection but does not answer as LNet: is the port \
             right? If it is, that node is stopped or overloaded"
        ),
        Reached::Refusal => format!("; {}", refused(port)),
        Reached::Node => {
            let other = failed_before(call).map(|cause| format!("; {cause}")).unwrap_or_default();
            format!(
                "; {port} there is connected, but no answer comes: that node or its host is \
                 stopped or overloaded, or the path there is cut{other}"
            )
        }
        Reached::Unknown | Reached::Failed(_) => format!(
            "; {port} there gave no answer: the host is down, a firewall drops the packets, or \
             the program there is stopped"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The node's own NID.
    const OURS: &str = "10.0.0.7@tcp";

    const IDENTITIES: [Identity; 2] = [Identity::Node, Identity::Userland];

    fn call(what: &'static str, nid: Nid, identity: Identity) -> Call {
        let ours = Some(OURS.parse().unwrap());
        Call { what, nid, identity, ours, address_taken: false }
    }

    /// A ping is answered whatever a kernel has stored, and a node is not marked.
    #[test]
    fn only_a_discovery_of_a_userland_node_is_explained_by_an_earlier_one() {
        let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
        for (what, identity) in
            ["ping", DISCOVER].into_iter().flat_map(|what| IDENTITIES.map(|one| (what, one)))
        {
            for (status, reached) in [
                (Status::ConnectionLost, Reached::Unknown),
                (Status::TimedOut, Reached::Node),
                (Status::TimedOut, Reached::Nothing),
            ] {
                let said = hint(&call(what, nid, identity), None, status, reached);
                let explained = what == DISCOVER
                    && identity == Identity::Userland
                    && reached != Reached::Nothing;
                assert_eq!(said.contains("lnetctl peer del"), explained, "{what}: {said}");
            }
        }
    }

    /// A connection outlives a power cut and a cut cable for a while: seen with a live kernel.
    #[test]
    fn silence_on_a_connection_may_be_the_path() {
        let call = call("ping", "10.0.0.1@tcp".parse().unwrap(), Identity::Node);
        let said = hint(&call, None, Status::TimedOut, Reached::Node);
        assert!(said.contains("the path there is cut"), "{said}");
    }

    /// What `lustrine ping` prints when a handshake fails, and its row in the documentation.
    #[test]
    fn hints_of_failed_handshakes() {
        let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
        let shown = |status, identity| {
            let hint = hint(&call("ping", nid, identity), Some(9988), status, Reached::Unknown);
            CallError::Failed { what: "ping", nid, status, hint }.to_string()
        };
        assert_eq!(
            shown(Status::Rejected, Identity::Node),
            "ping 10.0.0.1@tcp: the peer closed the connection before its HELLO; the node at TCP \
             port 9988 does not have this NID, is not configured for that net, or dropped the \
             connection because too many others are opening one: its log says which"
        );
        assert_eq!(
            shown(Status::Rejected, Identity::Userland),
            "ping 10.0.0.1@tcp: the peer closed the connection before its HELLO; the node at TCP \
             port 9988 accepts only source ports below 1024: run as root, or set accept=all \
             there. If it does, too many others are opening connections: see its log"
        );
        // Root, beside a node that has the address: root would not help.
        let beside = Call { address_taken: true, ..call("ping", nid, Identity::Userland) };
        for status in [Status::Rejected, Status::Unreachable] {
            let nid = match status {
                Status::Rejected => nid,
                _ => "2001:db8::1@tcp".parse().unwrap(),
            };
            let said = hint(&Call { nid, ..beside }, Some(9988), status, Reached::Unknown);
            assert!(said.contains("another node of this machine"), "{said}");
            assert!(said.contains("--net") && !said.contains("run as root"), "{said}");
        }
        for identity in [Identity::Node, Identity::Userland] {
            assert_eq!(
                shown(Status::Busy, identity),
                "ping 10.0.0.1@tcp: the peer accepts no connection at present; the node at TCP \
                 port 9988 refuses new connections at present. It may be trying to connect to this \
                 node without success (is a firewall in the way?), still have old connections of \
                 this node, or have reached its limit"
            );
        }
    }

    /// The first words of every message of docs/troubleshooting.md about reaching a peer.
    #[test]
    fn the_documented_messages_are_those_that_are_printed() {
        let page = include_str!("../../../../docs/troubleshooting.md");
        let (_, section) = page.split_once("## Reaching a peer").expect("the section");
        let (section, _) = section.split_once("\n## ").expect("another section follows");
        let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
        let v6: Nid = "2001:db8::1@tcp".parse().unwrap();
        let statuses = [
            Status::Refused,
            Status::Unreachable,
            Status::Rejected,
            Status::Busy,
            Status::TimedOut,
            Status::Protocol,
            Status::ConnectionLost,
            Status::PeerRestarted,
        ];
        let mut printed = Vec::new();
        for (nid, status) in [nid, v6].into_iter().flat_map(|nid| statuses.map(|one| (nid, one))) {
            for (what, identity) in
                ["ping", DISCOVER].into_iter().flat_map(|what| IDENTITIES.map(|one| (what, one)))
            {
                use Reached::{Node, Nothing, Refusal, Tcp, Unknown};
                for (reached, address_taken) in [Unknown, Nothing, Tcp, Refusal, Node]
                    .into_iter()
                    .flat_map(|reached| [false, true].map(|taken| (reached, taken)))
                {
                    let call = Call { address_taken, ..call(what, nid, identity) };
                    let hint = hint(&call, Some(9988), status, reached);
                    let hint = hint.replace("9988", "PORT").replace(OURS, "YOUR_NID");
                    printed.push(format!("{status}{hint}"));
                }
            }
        }
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        let rows: Vec<&str> = rows.map(|(message, _)| message).collect();
        for row in &rows {
            let begins = row.trim_end_matches("...").trim_end();
            assert!(printed.iter().any(|one| one.starts_with(begins)), "not printed: {row}");
        }
        for one in &printed {
            let begins = |row: &&str| one.starts_with(row.trim_end_matches("...").trim_end());
            assert!(rows.iter().any(begins), "not documented: {one}");
        }
    }

    #[test]
    fn a_host_that_took_the_connection_is_not_called_down() {
        let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
        let say = |identity, reached| {
            hint(&call(DISCOVER, nid, identity), Some(9988), Status::TimedOut, reached)
        };
        for identity in IDENTITIES {
            use Reached::{Node, Nothing, Refusal, Tcp, Unknown};
            for reached in [Unknown, Nothing, Tcp, Refusal, Node] {
                let said = say(identity, reached);
                assert!(said.contains("TCP port 9988"), "{said}");
                let connected = matches!(reached, Tcp | Refusal | Node);
                assert_eq!(said.contains("host is down"), !connected, "{said}");
            }
        }
    }
}
