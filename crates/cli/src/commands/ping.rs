//! `lustrine ping`: checks whether a node answers, and prints its NIDs.

use clap::Args;
use lustrine_control::{Answer, PeerIdentity, Request};
use serde::Serialize;

use crate::access::{Link, PeerArgs, UsedKind, WithNode};
use crate::output::{Failure, print, print_json};
use crate::values;

/// Ping a NID through the running node, or with a temporary node for this command
///
/// The time is from the request to the answer. The first ping of a node that has no connection to
/// the peer also waits for the connection (TCP and HELLO), which a temporary node always has to
/// make; with `-c 3` the later ones are round trips alone.
#[derive(Args, Debug)]
pub(crate) struct PingArgs {
    /// Number of pings
    #[arg(long, short = 'c', default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = values::whole::<u32>(1..=1_000_000))]
    count: u32,

    #[command(flatten)]
    peer: PeerArgs,
}

/// Runs the command. The remaining pings are tried after one fails.
pub(crate) fn run(args: &PingArgs) -> Result<(), Failure> {
    let request = Request::Ping { nid: args.peer.nid, timeout_ms: args.peer.timeout_ms() };
    let mut link = args.peer.open()?;
    let outcome = pings(args, &request, &mut link);
    link.stop();
    outcome
}

fn pings(args: &PingArgs, request: &Request, link: &mut Link) -> Result<(), Failure> {
    let mut outcome = Ok(());
    let mut connects = match link.used().kind {
        UsedKind::Temporary => Connects::First,
        UsedKind::Running => Connects::No,
    };
    for _ in 0..args.count {
        match link.ask(request) {
            Ok(answer) if args.peer.json => {
                let answer = WithNode { result: &answer, node: link.used() };
                print_json(&Pinged { answer, with_connecting: connects == Connects::First })?;
                connects = Connects::No;
            }
            Ok(answer) => {
                print(&text(&answer, connects))?;
                connects = Connects::No;
            }
            Err(failure @ Failure::Failed(_)) => {
                failure.report();
                outcome = Err(Failure::Reported(failure.status()));
            }
            Err(failure) => return Err(failure),
        }
    }
    outcome
}

/// An answer in JSON.
#[derive(Serialize)]
struct Pinged<'a> {
    #[serde(flatten)]
    answer: WithNode<'a, Answer>,
    /// Whether the time has that of the connection in it; left out unless that is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    with_connecting: bool,
}

/// Whether the time of a ping has that of the connection in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connects {
    /// It has: the node was just started.
    First,
    /// It has not, as far as is known.
    No,
}

/// An answer as text; whether the connection was made for it is said.
fn text(answer: &Answer, connects: Connects) -> String {
    let Answer::Ping { identity, features, sequence, rtt_us } = answer else {
        return String::new();
    };
    let PeerIdentity { primary_nid, multi_rail, peer_ni } = identity;
    let mut text = format!(
        "{primary_nid}  {:.3} ms{}  features {features:#04x}  sequence {sequence}{}\n",
        rtt_us / 1e3,
        match connects {
            Connects::First => " with connecting",
            Connects::No => "",
        },
        if *multi_rail { "  multi-rail" } else { "" }
    );
    for ni in peer_ni {
        text += &format!("    {}  {}\n", ni.nid, if ni.up { "up" } else { "down" });
    }
    text
}
