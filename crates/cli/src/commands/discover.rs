//! `lustrine discover`: learn about a node and tell it about us.

use std::process::ExitCode;

use clap::Args;
use lustrine_reactor::{Answer, Request};
use lustrine_wire::nid::Nid;

use super::ping::{millis, seconds};
use super::show::print_peer;
use crate::common::{ControlOptions, NodeOptions, ask, fail, print_json};

/// Discover a NID: ping it, and push our own information where that is due.
#[derive(Args, Debug)]
pub(crate) struct DiscoverArgs {
    /// The peer, such as 10.0.0.1@tcp
    nid: Nid,

    /// How long to wait, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    timeout: f64,

    /// TCP port of the peer, when stand-alone
    #[arg(long)]
    port: Option<u16>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeOptions,

    #[command(flatten)]
    control: ControlOptions,
}

/// Runs the command.
pub(crate) fn run(args: &DiscoverArgs) -> ExitCode {
    let request = Request::Discover { nid: args.nid.to_string(), timeout_ms: millis(args.timeout) };
    match ask(&args.node, &args.control, Some(&args.nid), args.port, &request) {
        Ok(answer) if args.json => print_json(&answer),
        Ok(Answer::Discover { peer }) => {
            print_peer(&peer);
            ExitCode::SUCCESS
        }
        Ok(_) => fail("the node answered another question"),
        Err(error) => fail(&error),
    }
}
