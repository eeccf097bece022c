//! The shard against small worlds; `Net` is a network of perfect wires.

use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::nid::{Net as NetId, Nid, PID_ANY, PID_LUSTRE, PID_USERLAND, ProcessId};
use proptest::prelude::*;
use slotmap::Key;

use super::messages::{RESPONSES_KEPT, RESPONSES_MAX, RESPONSES_WAITING_MAX};
use super::*;
use crate::event::EventKind;
use crate::lnd::{Action, Arrival, Core, HeaderViolation, LinkEvent, NiIndex, RxId, Verdict};
use crate::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
use crate::memory::{Memory, Span};
use crate::portal::{Laziness, MatchEntry};
use crate::testing::{Delivery, Net, test_nid, test_topology};
use crate::topology::Identity;
use crate::tunables::Tunables;

mod changing;
mod discovering;
mod effort;
mod journaling;
mod latencies;
mod link_loss;
mod matching;
mod merging;
mod operations;
mod overdue;
mod replies;
mod strangers;
mod trouble;

const NOW: Time = Time(1_000_000_000);

fn process(index: usize) -> ProcessId {
    ProcessId { nid: test_nid(index), pid: PID_LUSTRE }
}

fn md(span: Span, threshold: Option<u32>, options: MdOptions, user: u64) -> Md {
    let spans = [span].into_iter().collect();
    Md { spans, threshold, max_size: None, options, owner: Owner(1), user }
}

fn anybody(match_bits: u64, ignore_bits: u64) -> MatchEntry {
    MatchEntry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits,
        ignore_bits,
        position: Position::After,
        unlink: Unlink::Auto,
    }
}

fn put_args(md: MdKey, target: ProcessId, portal: u32, match_bits: u64) -> PutArgs {
    PutArgs {
        md,
        local: None,
        target,
        portal,
        match_bits,
        offset: 0,
        hdr_data: 0xdead,
        ack: AckWanted::No,
        timeout: None,
    }
}

fn get_args(md: MdKey, target: ProcessId, portal: u32, match_bits: u64) -> GetArgs {
    GetArgs { md, local: None, target, portal, match_bits, offset: 0, timeout: None }
}

impl Net {
    fn span(&mut self, node: usize, len: u32, fill: u8) -> Span {
        let memory = &mut self.nodes[node].memory;
        let span = memory.alloc(len).unwrap();
        memory.write(span, &vec![fill; len as usize]);
        span
    }

    fn bytes(&self, node: usize, span: Span) -> Vec<u8> {
        let mut out = vec![0; span.len as usize];
        self.nodes[node].memory.read(span, &mut out);
        out
    }

    fn bind(&mut self, node: usize, span: Span, threshold: u32, user: u64) -> MdKey {
        let md = md(span, Some(threshold), MdOptions::empty(), user);
        self.nodes[node].shard.bind(md).unwrap()
    }

    fn attach(&mut self, node: usize, portal: u32, entry: MatchEntry, md: Md) -> MdKey {
        self.nodes[node].shard.attach(NOW, portal, entry, md).unwrap()
    }

    fn put(&mut self, node: usize, args: PutArgs) {
        self.nodes[node].shard.put(NOW, args).unwrap();
    }

    fn get(&mut self, node: usize, args: GetArgs) {
        self.nodes[node].shard.get(NOW, args).unwrap();
    }

    /// Headers on their way, as (type name, portal).
    fn in_flight(&self) -> Vec<(&'static str, u32)> {
        self.packets
            .iter()
            .map(|packet| match packet.header.body {
                Body::Put { portal, .. } => ("PUT", portal),
                Body::Get { portal, .. } => ("GET", portal),
                Body::Reply { .. } => ("REPLY", 0),
                Body::Ack { .. } => ("ACK", 0),
                Body::Hello { .. } => ("HELLO", 0),
            })
            .collect()
    }

    /// Nothing is held anywhere: all credits are back, no message and no descriptor of a user's
    /// is left.
    fn assert_quiet(&self) {
        for node in &self.nodes {
            let shard = &node.shard;
            assert_eq!(shard.msgs.len(), 0, "{}", node.nid);
            assert_eq!((shard.answers.awaited(), shard.msgs.responses()), (0, 0));
            for state in &shard.nis {
                assert!(state.credits.idle());
            }
            for peer in shard.peers.nis.values() {
                assert!(peer.credits.idle());
                assert_eq!(peer.messages, 0);
                assert!(peer.awaiting.is_null());
            }
        }
    }
}
