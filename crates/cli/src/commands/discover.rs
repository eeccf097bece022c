//! `lustrine discover`: learn about a node and tell it about us.

use clap::Args;
use lustrine_node::{Answer, Request};
use lustrine_wire::nid::Nid;

use super::show::peer_text;
use crate::common::{ControlOptions, NodeOptions, ask};
use crate::output::{Failure, print, print_json};
use crate::values::{self, PORTS, millis, seconds};

/// Discover a NID: ping it, and push our own information where that is due.
#[derive(Args, Debug)]
pub(crate) struct DiscoverArgs {
    /// The peer, such as 10.0.0.1@tcp
    #[arg(value_parser = values::nid)]
    nid: Nid,

    /// How long to wait, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,

    /// TCP port of the peer, when stand-alone
    #[arg(long, value_parser = clap::value_parser!(u16).range(PORTS))]
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
pub(crate) fn run(args: &DiscoverArgs) -> Result<(), Failure> {
    let request = Request::Discover { nid: args.nid.to_string(), timeout_ms: millis(args.timeout) };
    match ask(&args.node, &args.control, Some(&args.nid), args.port, &request)? {
        answer if args.json => print_json(&answer),
        Answer::Discover { peer } => {
            let mut text = peer_text(&peer);
            if peer.features.is_none() {
                text += "    its own information: none; it took ours, which is all that userland \
                         needs, and did not answer a ping\n";
            }
            print(&text)
        }
        _ => Err("the node answered another question".to_owned().into()),
    }
}
