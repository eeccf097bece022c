//! `lustrine show net|peer|stats`: what a node knows.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use lustrine_reactor::{Answer, PeerRow, Request};

use crate::common::{ControlOptions, NodeOptions, ask, fail, print_json};

/// Show a node's interfaces, peers or counters.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// What to show
    #[arg(value_enum)]
    what: What,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeOptions,

    #[command(flatten)]
    control: ControlOptions,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum What {
    /// Interfaces, identity, credits
    Net,
    /// Peers, their NIDs, credits and connections
    Peer,
    /// Counters of the core and the driver
    Stats,
}

/// Runs the command.
pub(crate) fn run(args: &ShowArgs) -> ExitCode {
    let request = match args.what {
        What::Net => Request::ShowNet,
        What::Peer => Request::ShowPeer,
        What::Stats => Request::ShowStats,
    };
    match ask(&args.node, &args.control, None, None, &request) {
        Ok(answer) if args.json => print_json(&answer),
        Ok(answer) => {
            print(&answer);
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

fn print(answer: &Answer) {
    match answer {
        Answer::Net { identity, identity_reason, cpts, nets } => {
            println!("identity: {identity} ({identity_reason})");
            for (index, cpus) in cpts.iter().enumerate() {
                let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
                println!("cpt {index}: CPUs {}", list.join(","));
            }
            for net in nets {
                println!("{}", net.nid);
                if let Some(interface) = &net.interface {
                    println!("    interface: {interface}");
                }
                println!("    listening: {}", net.listening.as_deref().unwrap_or("no"));
                println!("    conns_per_peer: {}", net.conns_per_peer);
                println!(
                    "    credits: {} of {} free, lowest {}",
                    net.credits_available, net.credits, net.credits_min
                );
                println!(
                    "    messages: {} sent, {} received, {} dropped",
                    net.sent, net.received, net.dropped
                );
            }
        }
        Answer::Peer { peers } if peers.is_empty() => println!("no peers yet"),
        Answer::Peer { peers } => peers.iter().for_each(print_peer),
        Answer::Stats { stats } => {
            println!("cpu: {:.2} s", stats.cpu_s.0);
            println!("connections: {}", stats.connections);
            println!("memory mapped: {} MiB", stats.memory_mapped >> 20);
            println!("lnet:");
            for (name, value) in &stats.lnet {
                println!("    {name}: {value}");
            }
            println!("socklnd:");
            for (name, value) in &stats.socklnd {
                println!("    {name}: {value}");
            }
        }
        _ => {}
    }
}

/// Prints a peer.
pub(crate) fn print_peer(peer: &PeerRow) {
    println!("{}", peer.nid);
    println!("    primary nid: {}", peer.primary_nid);
    println!("    state: {}", peer.state);
    if let Some(features) = peer.features {
        println!("    features: {features:#04x}");
    }
    for (nid, up) in &peer.peer_ni {
        println!("    peer ni: {nid} {}", if *up { "up" } else { "down" });
    }
    println!(
        "    credits: {} of {} free, lowest {}",
        peer.credits_available, peer.credits, peer.credits_min
    );
    println!(
        "    messages: {} sent, {} received, {} dropped",
        peer.sent, peer.received, peer.dropped
    );
    if peer.connections.is_empty() {
        println!("    connections: none");
    } else {
        let list: Vec<String> =
            peer.connections.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let version = peer.version.as_deref().unwrap_or("?");
        println!("    connections: {} ({version})", list.join(", "));
    }
}
