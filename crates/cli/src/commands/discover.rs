//! `lustrine discover`: LNet discovery of a node, in both directions.

use clap::Args;
use lustrine_control::{Answer, Request};

use super::show::peer_text;
use crate::access::{PeerArgs, WithNode};
use crate::output::{Failure, print, print_json};

/// Discover a NID: learn the peer's NIDs, and push this node's own to it.
#[derive(Args, Debug)]
pub(crate) struct DiscoverArgs {
    #[command(flatten)]
    peer: PeerArgs,
}

/// Runs the command.
pub(crate) fn run(args: &DiscoverArgs) -> Result<(), Failure> {
    let PeerArgs { nid, json, .. } = args.peer;
    let request = Request::Discover { nid, timeout_ms: args.peer.timeout_ms() };
    let mut link = args.peer.open()?;
    let (answer, used) = (link.ask(&request), link.used().clone());
    link.stop();
    match answer? {
        answer if json => print_json(&WithNode { result: &answer, node: &used }),
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
