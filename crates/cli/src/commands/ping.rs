//! `lustrine ping`: checks whether a node answers, and prints its NIDs.

use clap::Args;
use lustrine_control::{Answer, PeerIdentity, Request};

use crate::access::{Link, PeerArgs, WithNode};
use crate::output::{Failure, print, print_json};

/// Ping a NID through the running node, or with a temporary node for this command.
#[derive(Args, Debug)]
pub(crate) struct PingArgs {
    /// Number of pings
    #[arg(long, short = 'c', default_value_t = 1, allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
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
    for _ in 0..args.count {
        match link.ask(request) {
            Ok(answer) if args.peer.json => {
                print_json(&WithNode { result: &answer, node: link.used() })?;
            }
            Ok(answer) => print(&text(&answer))?,
            Err(failure @ Failure::Failed(_)) => {
                failure.report();
                outcome = Err(Failure::Reported(failure.status()));
            }
            Err(failure) => return Err(failure),
        }
    }
    outcome
}

fn text(answer: &Answer) -> String {
    let Answer::Ping { identity, features, sequence, rtt_us } = answer else {
        return String::new();
    };
    let PeerIdentity { primary_nid, multi_rail, peer_ni } = identity;
    let mut text = format!(
        "{primary_nid}  {:.3} ms  features {features:#04x}  sequence {sequence}{}\n",
        rtt_us / 1e3,
        if *multi_rail { "  multi-rail" } else { "" }
    );
    for ni in peer_ni {
        text += &format!("    {}  {}\n", ni.nid, if ni.up { "up" } else { "down" });
    }
    text
}
