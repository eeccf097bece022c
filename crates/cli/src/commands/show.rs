//! `lustrine show net|peer|conn|stats|latency`: shows the state of a node.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use lustrine_control::{Answer, Messages, NetInfo, NetRow, PeerRow, Request};
use lustrine_wire::nid::Nid;

use crate::access;
use crate::common::{ControlOptions, NodeOptions, TemporaryNodeOptions};
use crate::output::{Failure, print, print_json};
use crate::values;

mod conn;
mod latency;

const STRING: &str = "a String takes all text";

/// Show a node's interfaces, peers, connections, counters or latencies.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// What to show
    #[arg(value_enum)]
    what: What,

    /// Print JSON, counters that are 0 included
    #[arg(long)]
    json: bool,

    /// Show counters that are 0 as well
    #[arg(long)]
    all: bool,

    /// Latencies of this NID only, of a peer or of the node itself; connections of this peer only
    #[arg(long, value_parser = values::nid)]
    nid: Option<Nid>,

    /// Configuration file of the node, which names its control socket
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Ignore parts of the configuration file that this release does not implement
    #[arg(long, requires = "config")]
    lenient: bool,

    #[command(flatten)]
    control: ControlOptions,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum What {
    /// Interfaces, identity, credits
    Net,
    /// Peers, their NIDs, credits and connections
    Peer,
    /// Open connections (BULK_IN: data that this node receives; BULK_OUT: data that it sends; ANY:
    /// everything), with TCP's statistics of each: MTU, round trips, retransmissions
    Conn,
    /// Counters of the core and the driver
    Stats,
    /// How long operations take, per peer and operation
    Latency,
}

/// Runs the command.
pub(crate) fn run(args: &ShowArgs) -> Result<(), Failure> {
    if args.nid.is_some() && !matches!(args.what, What::Latency | What::Conn) {
        return Err(Failure::Usage("--nid goes with latency and conn only".to_owned()));
    }
    let request = match args.what {
        What::Net => Request::ShowNet,
        What::Peer => Request::ShowPeer,
        What::Conn => Request::ShowConn { nid: args.nid },
        What::Stats => Request::ShowStats,
        What::Latency => Request::ShowLatency { nid: args.nid },
    };
    let (config, lenient) = (args.config.clone(), args.lenient);
    let basic = TemporaryNodeOptions { config, lenient, ..TemporaryNodeOptions::default() };
    match access::show(&NodeOptions::from(&basic), &args.control, &request)? {
        answer if args.json => print_json(&answer),
        answer => print(&text(&answer, args.all)),
    }
}

fn text(answer: &Answer, all: bool) -> String {
    let mut text = String::new();
    match answer {
        Answer::Net(NetInfo {
            identity,
            identity_reason,
            selftest,
            selftest_consoles,
            cpts,
            nets,
        }) => {
            writeln!(text, "identity: {identity} ({identity_reason})").expect(STRING);
            let consoles = match (selftest.as_str(), selftest_consoles.as_str()) {
                ("serve", "") => "any console, without client tests",
                ("full", "") => "any console, without --force",
                ("off", _) => "no console",
                (_, list) => list,
            };
            writeln!(text, "selftest: {selftest} ({consoles})").expect(STRING);
            for (index, cpus) in cpts.iter().enumerate() {
                let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
                writeln!(text, "cpt {index}: CPUs {}", list.join(",")).expect(STRING);
            }
            nets.iter().for_each(|net| text += &net_text(net));
        }
        Answer::Peer { peers } if peers.is_empty() => text += "no peers yet\n",
        Answer::Peer { peers } => peers.iter().for_each(|peer| text += &peer_text(peer)),
        Answer::Stats { stats } => {
            writeln!(text, "cpu: {:.2} s", stats.cpu_s.0).expect(STRING);
            writeln!(text, "connections: {}", stats.connections).expect(STRING);
            writeln!(text, "memory mapped: {} MiB", stats.memory_mapped >> 20).expect(STRING);
            text += &counters("lnet", &stats.lnet, all);
            for (driver, of_driver) in &stats.drivers {
                text += &counters(driver, of_driver, all);
            }
        }
        Answer::Conn { .. } => text += &conn::text(answer),
        answer => text += &latency::text(answer),
    }
    text
}

fn net_text(net: &NetRow) -> String {
    let mut text = format!("{}\n", net.nid);
    if let Some(interface) = &net.interface {
        writeln!(text, "    interface: {interface}").expect(STRING);
    }
    if let Some(down) = &net.down {
        writeln!(text, "    down: {down}").expect(STRING);
    }
    let listening = net.listening.map_or_else(|| "no".to_owned(), |addr| addr.to_string());
    writeln!(text, "    listening: {listening}").expect(STRING);
    writeln!(text, "    conns_per_peer: {}", net.conns_per_peer).expect(STRING);
    text += &credits_text(net.credits_available, net.credits, net.credits_min);
    text += &messages_text(&net.messages);
    text
}

fn credits_text(free: i64, all: u32, lowest: i64) -> String {
    format!("    credits: {free} of {all} free, lowest {lowest}\n")
}

fn messages_text(messages: &Messages) -> String {
    let Messages { sent, received, dropped, .. } = messages;
    format!("    messages: {sent} sent, {received} received, {dropped} dropped\n")
}

/// Counters by name; most are 0 most of the time, and the others deserve attention.
fn counters(whose: &str, counters: &BTreeMap<String, u64>, all: bool) -> String {
    let mut text = format!("{whose}:\n");
    let shown = counters.iter().filter(|(_, value)| all || **value > 0);
    for (name, value) in shown.clone() {
        writeln!(text, "    {name}: {value}").expect(STRING);
    }
    let hidden = counters.len() - shown.count();
    if hidden > 0 {
        writeln!(text, "    ({hidden} more are 0; --all shows them)").expect(STRING);
    }
    text
}

/// A peer, as text.
pub(crate) fn peer_text(peer: &PeerRow) -> String {
    let mut text = format!("{}\n    primary nid: {}\n", peer.nid, peer.identity.primary_nid);
    writeln!(text, "    state: {}", peer.state.name()).expect(STRING);
    if let Some(features) = peer.features {
        writeln!(text, "    features: {features:#04x}").expect(STRING);
    }
    for ni in &peer.identity.peer_ni {
        let state = if ni.up { "up" } else { "down" };
        writeln!(text, "    peer ni: {} {state}", ni.nid).expect(STRING);
    }
    if peer.userland > 0 {
        let count = peer.userland;
        writeln!(text, "    userland: {count} (dialled from source ports above 1023)")
            .expect(STRING);
    }
    text += &credits_text(peer.credits_available, peer.credits, peer.credits_min);
    if let (Some(window), Some(used)) = (peer.window_bytes, peer.window_used_bytes) {
        writeln!(text, "    window of selftest: {window} bytes, {used} in use").expect(STRING);
    }
    text += &messages_text(&peer.messages);
    let list: Vec<String> =
        peer.connections.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let version = peer.version.as_deref().unwrap_or("?");
    let connections = match list.is_empty() {
        true => "none".to_owned(),
        false => format!("{} ({version})", list.join(", ")),
    };
    writeln!(text, "    connections: {connections}").expect(STRING);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_are_zero_are_hidden_and_counted() {
        let some = [("a", 0), ("b", 7), ("c", 0)].map(|(name, value)| (name.to_owned(), value));
        let some = BTreeMap::from(some);
        let short = "lnet:\n    b: 7\n    (2 more are 0; --all shows them)\n";
        assert_eq!(counters("lnet", &some, false), short);
        assert_eq!(counters("lnet", &some, true), "lnet:\n    a: 0\n    b: 7\n    c: 0\n");
    }
}
