//! The node that runs, as `lnetctl`, `lctl` and `routerstat` ask it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::net::Ipv4Addr;

use clap::Args;
use lustrine_lnet::latency::Operation;
use lustrine_node as node;
use lustrine_node::config::FILE_MAX;
use lustrine_node::{Answer, NetRow, PeerNiRow, PeerRow, Request, SummaryRow};
use lustrine_tools::lnetctl::Settings;
use lustrine_tools::node::{
    ChangeReport, ChangeRequest, Connections, Env, ImportMode, Latency, LocalNis, Messages, NewNet,
    Ni, NiSelector, PeerIdentity, PeerNi, ToolError,
};
use lustrine_tools::shell::Terminal;
use lustrine_wire::nid::Nid;

use super::{CompatArg, StdTerminal, resolve};
use crate::common::{ControlOptions, ask_running};
use crate::output::Failure;

/// Errnos of a node that is not there, and of one that says what makes no sense.
const NETWORK_DOWN: i32 = -100;
const PROTOCOL: i32 = -71;

/// How long discovery may take, in milliseconds.
const DISCOVERY_MS: u64 = 10_000;

/// Feature bit of a node whose NIDs are one peer.
const MULTI_RAIL: u32 = 8;

/// Which node `lnetctl` and `lctl` ask, and in whose manner they tell.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    /// Whose habits it has [env: LUSTRINE_COMPAT]
    #[arg(long, value_enum)]
    compat: Option<CompatArg>,

    #[command(flatten)]
    control: ControlOptions,
}

impl TargetArgs {
    /// The node, of which nothing is asked yet, and the tool's settings.
    ///
    /// # Errors
    /// When the environment names habits that nobody has.
    pub(crate) fn connect(&self) -> Result<(RunningNode, Settings), Failure> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let settings = Settings { compat: super::compat(self.compat)?, version };
        Ok((RunningNode::at(&self.control), settings))
    }
}

/// A node that runs, and a terminal.
pub(crate) struct RunningNode {
    pub(crate) control: ControlOptions,
    pub(crate) terminal: StdTerminal,
}

impl RunningNode {
    /// The node that this leads to; nothing is asked yet.
    pub(crate) fn at(control: &ControlOptions) -> RunningNode {
        RunningNode { control: control.clone(), terminal: StdTerminal::default() }
    }

    fn ask(&self, request: &Request) -> Result<Answer, ToolError> {
        match ask_running(&self.control, request) {
            // What failed with which NID the tools say themselves.
            Ok(Answer::Error { errno, hint, .. }) if is_about_nid(request) => {
                Err(ToolError { errno, text: hint })
            }
            Ok(Answer::Error { errno, message, .. }) => Err(ToolError { errno, text: message }),
            Ok(answer) => Ok(answer),
            Err(text) => Err(ToolError { errno: NETWORK_DOWN, text }),
        }
    }
}

impl Terminal for RunningNode {
    fn out(&mut self, text: &str) {
        self.terminal.out(text);
    }

    fn err(&mut self, text: &str) {
        self.terminal.err(text);
    }
}

impl Env for RunningNode {
    fn nis(&mut self) -> Result<LocalNis, ToolError> {
        match self.ask(&Request::ShowNet)? {
            Answer::Net { cpts, nets, .. } => {
                let nis = nets.iter().map(ni).collect::<Result<_, _>>()?;
                Ok(LocalNis { cpts: cpts.len() as u32, nis })
            }
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn peers(&mut self) -> Result<Vec<PeerNi>, ToolError> {
        match self.ask(&Request::ShowPeer)? {
            Answer::Peer { peers } => peers.iter().map(peer_ni).collect(),
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, ToolError> {
        match self.ask(&Request::ShowStats)? {
            Answer::Stats { stats } => Ok(stats.lnet),
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn tunables(&mut self) -> Result<BTreeMap<String, i64>, ToolError> {
        match self.ask(&Request::ShowTunables)? {
            Answer::Tunables { mut values, lnd_timeout } => {
                values.insert("lnd_timeout".to_owned(), lnd_timeout);
                Ok(values)
            }
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn ping(&mut self, nid: Nid, seconds: u32) -> Result<PeerIdentity, ToolError> {
        let timeout_ms = u64::from(seconds) * 1000;
        match self.ask(&Request::Ping { nid: nid.to_string(), timeout_ms })? {
            Answer::Ping { primary_nid, multi_rail, peer_ni, .. } => {
                told(&primary_nid, multi_rail, &peer_ni)
            }
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn discover(&mut self, nid: Nid) -> Result<PeerIdentity, ToolError> {
        let request = Request::Discover { nid: nid.to_string(), timeout_ms: DISCOVERY_MS };
        match self.ask(&request)? {
            Answer::Discover { peer } => Ok(peer_ni(&peer)?.node),
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn change(&mut self, change: &ChangeRequest, dry_run: bool) -> Result<ChangeReport, ToolError> {
        let request = Request::Change { change: Box::new(asked(change)), dry_run };
        match self.ask(&request)? {
            Answer::Changed { changed } => {
                let node::ChangeReport { steps, warnings, before, after } = changed;
                Ok(ChangeReport { steps, warnings, before, after })
            }
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn backup(&mut self) -> Result<String, ToolError> {
        match self.ask(&Request::ShowConfig)? {
            Answer::Config { text } => Ok(text),
            _ => Err(nonsense("another question was answered")),
        }
    }

    fn read(&mut self, path: Option<&str>) -> Result<String, String> {
        let mut bytes = Vec::new();
        let read = match path {
            Some(path) => fs::File::open(path).and_then(|file| take(file, &mut bytes)),
            None => take(io::stdin().lock(), &mut bytes),
        };
        read.map_err(|error| error.to_string())?;
        if bytes.len() > FILE_MAX {
            return Err(format!("it has more than {FILE_MAX} bytes"));
        }
        String::from_utf8(bytes).map_err(|_| "it is no text in UTF-8".to_owned())
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        resolve(host)
    }

    fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        fs::write(path, text).map_err(|error| error.to_string())
    }
}

/// No more than a node would read.
fn take(from: impl Read, bytes: &mut Vec<u8>) -> io::Result<usize> {
    from.take(FILE_MAX as u64 + 1).read_to_end(bytes)
}

/// A wish in the words of the control socket.
fn asked(change: &ChangeRequest) -> node::ChangeRequest {
    match change.clone() {
        ChangeRequest::Set { name, value } => node::ChangeRequest::Set { name, value },
        ChangeRequest::SetNet { which, conns_per_peer, lnd_timeout } => {
            node::ChangeRequest::SetNet { which: these(which), conns_per_peer, lnd_timeout }
        }
        ChangeRequest::AddNet(new) => {
            let NewNet { net, interfaces, nid, peer_credits, credits, conns_per_peer, tos } = new;
            node::ChangeRequest::AddNet(Box::new(node::NewNet {
                net,
                interfaces,
                nid,
                peer_credits,
                credits,
                conns_per_peer,
                tos,
            }))
        }
        ChangeRequest::DelNet { which, interfaces } => {
            node::ChangeRequest::DelNet { which: these(which), interfaces }
        }
        ChangeRequest::AddPeer { nids, multi_rail, locked } => {
            node::ChangeRequest::AddPeer { nids, multi_rail, locked }
        }
        ChangeRequest::DelPeer { primary, nids, force } => {
            node::ChangeRequest::DelPeer { primary, nids, force }
        }
        ChangeRequest::ResetStats => node::ChangeRequest::ResetStats,
        ChangeRequest::Import { text, source_name, manner, lenient } => {
            let manner = match manner {
                ImportMode::Add => node::config::ImportMode::Add,
                ImportMode::Del => node::config::ImportMode::Del,
                ImportMode::Exact => node::config::ImportMode::Exact,
            };
            node::ChangeRequest::Import { text, source_name, manner, lenient }
        }
    }
}

fn these(which: NiSelector) -> node::NiSelector {
    match which {
        NiSelector::All => node::NiSelector::All,
        NiSelector::Nid(nid) => node::NiSelector::Nid(nid),
        NiSelector::Net(net) => node::NiSelector::Net(net),
    }
}

fn is_about_nid(request: &Request) -> bool {
    matches!(request, Request::Ping { .. } | Request::Discover { .. })
}

fn ni(row: &NetRow) -> Result<Ni, ToolError> {
    Ok(Ni {
        nid: nid(&row.nid)?,
        interface: row.interface.clone(),
        port: row.port,
        conns_per_peer: row.conns_per_peer,
        peer_credits: row.peer_credits,
        credits: row.credits_configured,
        messages: Messages {
            sent: row.sent,
            received: row.received,
            dropped: row.dropped,
            latency: latency(&row.latency),
        },
    })
}

fn peer_ni(row: &PeerRow) -> Result<PeerNi, ToolError> {
    let says_so = row.features.is_some_and(|features| features & MULTI_RAIL != 0);
    let multi_rail = row.configured.unwrap_or(says_so);
    let connections = |name: &str| row.connections.get(name).copied().unwrap_or(0);
    Ok(PeerNi {
        nid: nid(&row.nid)?,
        node: told(&row.primary_nid, multi_rail, &row.peer_ni)?,
        cpt: row.cpt,
        credits: row.credits,
        credits_available: row.credits_available,
        credits_min: row.credits_min,
        messages: Messages {
            sent: row.sent,
            received: row.received,
            dropped: row.dropped,
            latency: latency(&row.latency),
        },
        connections: Connections {
            any: connections("ANY"),
            control: connections("CONTROL"),
            bulk_in: connections("BULK_IN"),
            bulk_out: connections("BULK_OUT"),
        },
    })
}

fn latency(rows: &BTreeMap<String, SummaryRow>) -> Option<[Latency; 3]> {
    let told = |operation: Operation| {
        let operation = operation.name();
        let SummaryRow { samples, min_nsec, max_nsec, avg_nsec } = *rows.get(operation)?;
        Some(Latency { operation, samples, min_nsec, max_nsec, avg_nsec })
    };
    let [one, two, three] = Operation::ALL.map(told);
    Some([one?, two?, three?])
}

fn told(primary: &str, multi_rail: bool, nis: &[PeerNiRow]) -> Result<PeerIdentity, ToolError> {
    let nids = nis.iter().map(|ni| Ok((nid(&ni.nid)?, ni.up))).collect::<Result<_, ToolError>>()?;
    Ok(PeerIdentity { primary: nid(primary)?, multi_rail, nids })
}

fn nid(text: &str) -> Result<Nid, ToolError> {
    text.parse().map_err(|why| nonsense(&format!("{text:?} is no NID: {why}")))
}

fn nonsense(what: &str) -> ToolError {
    ToolError {
        errno: PROTOCOL,
        text: format!("the node's answer makes no sense ({what}): is it of this release?"),
    }
}
