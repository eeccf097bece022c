//! `lustrine discover`: LNet discovery of a node, in both directions.

use clap::Args;
use lustrine_control::{Answer, Request};
use lustrine_wire::nid::Nid;

use super::show::peer_text;
use crate::access::{Link, NodeChoice, WithNode};
use crate::common::TemporaryNodeOptions;
use crate::output::{Failure, print, print_json};
use crate::values::{self, PORTS, millis, seconds};

/// Discover a NID: learn the peer's NIDs, and push this node's own to it.
#[derive(Args, Debug)]
pub(crate) struct DiscoverArgs {
    /// NID of the peer, such as 10.0.0.1@tcp
    #[arg(value_parser = values::nid)]
    nid: Nid,

    /// Time to wait, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,

    /// TCP port of the peer; implies a temporary node for this command
    #[arg(long, value_parser = clap::value_parser!(u16).range(PORTS))]
    port: Option<u16>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: TemporaryNodeOptions,

    #[command(flatten)]
    choice: NodeChoice,
}

/// Runs the command.
pub(crate) fn run(args: &DiscoverArgs) -> Result<(), Failure> {
    let request = Request::Discover { nid: args.nid, timeout_ms: millis(args.timeout) };
    let mut link = Link::open(&(&args.node).into(), &args.choice, &args.nid, args.port)?;
    let (answer, used) = (link.ask(&request), link.used().clone());
    link.stop();
    match answer? {
        answer if args.json => print_json(&WithNode { result: &answer, node: &used }),
        Answer::Discover { peer } => {
            let mut text = peer_text(&peer);
            if peer.features.is_none() {
                text += "    its NIDs: unknown; it accepted the push of this node, which is enough \
                         for userland, and did not answer a ping\n";
            }
            print(&text)
        }
        _ => Err("unexpected reply from the node; the versions may differ".to_owned().into()),
    }
}
