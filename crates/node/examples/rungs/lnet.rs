//! The layer "lnet": the whole core on the driver, with PUTs to match entries.

use lustrine_lnet::event::EventKind;
use lustrine_lnet::lnd::Action;
use lustrine_lnet::md::{MatchId, Md, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::{Span, Spans};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::shard::{AckWanted, PutArgs, Shard};
use lustrine_lnet::time::Time;
use lustrine_lnet::topology::{Identity, Ni, Topology};
use lustrine_lnet::tunables::Tunables;
use lustrine_node::loop_io::LoopIo;
use lustrine_sys::Clock;
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};

use crate::layer::{Arrived, Buffers, Layer, PORTAL};

/// A core and its small user.
pub(crate) struct Lnet {
    shard: Shard,
    buffers: Buffers,
    errors: u64,
}

fn md(span: Span, threshold: Option<u32>, options: MdOptions, slot: u64) -> Md {
    let spans = Spans::from_slice(&[span]);
    Md { spans, threshold, max_size: None, options, owner: Owner(1), user: slot }
}

impl Layer for Lnet {
    type Core = Shard;

    fn new(own: Nid, identity: Identity, buffers: Buffers, io: &mut LoopIo) -> Lnet {
        let tunables = Tunables::default();
        let topology = Topology {
            nis: [Ni {
                nid: own,
                credits: tunables.credits as u32,
                // One for each message in flight: the measurement is about cost, not about credits.
                peer_credits: (tunables.peer_credits as u32).max(64),
            }]
            .into_iter()
            .collect(),
            identity,
            incarnation: Clock::Wall.now(),
            hash_seed: Clock::Monotonic.now(),
            cpt: 0,
            cpts: 1,
            tunables,
        };
        let mut shard = Shard::new(topology, io);
        for (slot, span) in buffers.all_incoming() {
            let entry = MatchEntry {
                from: MatchId { nid: Nid::ANY, pid: PID_ANY },
                match_bits: slot,
                ignore_bits: 0,
                position: Position::After,
                unlink: Unlink::Retain,
            };
            let options = MdOptions::OP_PUT | MdOptions::MANAGE_REMOTE;
            let taken = shard.attach(Time::ZERO, PORTAL, entry, md(span, None, options, slot));
            taken.expect("an empty portal");
        }
        Lnet { shard, buffers, errors: 0 }
    }

    fn core(&mut self) -> &mut Shard {
        &mut self.shard
    }

    fn send(&mut self, now: Time, to: ProcessId, slot: u64) {
        let bound = md(self.buffers.outgoing(slot), Some(1), MdOptions::empty(), slot);
        let bound = self.shard.bind(bound).expect("not longer than a message");
        let args = PutArgs {
            md: bound,
            local: None,
            target: to,
            portal: PORTAL,
            match_bits: slot,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::No,
            timeout: None,
        };
        self.shard.put(now, args).expect("room for one more message");
    }

    fn drive(&mut self, now: Time, io: &mut LoopIo) {
        self.shard.drive(now, io);
        while self.shard.next_lost_peer().is_some() {}
    }

    fn next_action(&mut self) -> Option<Action> {
        self.shard.next_action()
    }

    fn next_arrived(&mut self) -> Option<Arrived> {
        while let Some(event) = self.shard.next_event() {
            if !event.status.is_ok() {
                self.errors += 1;
            } else if event.kind == EventKind::Put {
                return Some(Arrived { from: event.peer, slot: event.user });
            }
        }
        None
    }

    fn errors(&self) -> u64 {
        self.errors
    }

    fn next_deadline(&self) -> Time {
        self.shard.next_deadline()
    }
}
