//! Two cores, connected by a driver that costs almost nothing.

use std::hint::black_box;

use lustrine_lnet::event::EventKind;
use lustrine_lnet::lnd::{Action, Arrival, Core, NiIndex, RxId, Verdict};
use lustrine_lnet::md::{MatchId, Md, MdKey, MdOptions, Owner, Position, Unlink};
use lustrine_lnet::memory::{Memory, Span, Spans};
use lustrine_lnet::portal::MatchEntry;
use lustrine_lnet::shard::{AckWanted, GetArgs, PutArgs};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_lnet_testing::{Net, test_nid};
use lustrine_partition::tunables::Tunables;
use lustrine_wire::nid::{Nid, PID_ANY, ProcessId};

pub(crate) const NOW: Time = Time(1_000_000_000);
pub(crate) const PORTAL: u32 = 30;
pub(crate) const MATCH_BITS: u64 = 0x11;
pub(crate) const BYTES: u32 = 160;

/// A descriptor with this number of operations.
pub(crate) fn md(span: Span, threshold: Option<u32>, options: MdOptions) -> Md {
    let spans = Spans::from_slice(&[span]);
    Md { spans, threshold, max_size: None, options, owner: Owner(1), user: 7 }
}

/// An entry that accepts everything with [`MATCH_BITS`].
pub(crate) fn entry() -> MatchEntry {
    MatchEntry {
        from: MatchId { nid: Nid::ANY, pid: PID_ANY },
        match_bits: MATCH_BITS,
        ignore_bits: 0,
        position: Position::After,
        unlink: Unlink::Retain,
    }
}

pub(crate) fn put_args(md: MdKey, target: ProcessId, ack: AckWanted) -> PutArgs {
    PutArgs {
        md,
        local: None,
        target,
        portal: PORTAL,
        match_bits: MATCH_BITS,
        offset: 0,
        hdr_data: 0,
        ack,
        timeout: None,
    }
}

struct Pair {
    net: Net,
    source: Span,
    next_rx: u64,
}

impl Pair {
    /// Two nodes that have discovered each other; the second accepts everything.
    fn new(tunables: &Tunables) -> Pair {
        let mut net = Net::new(2, &tunables.lnet);
        let mut span = |node: usize| net.nodes[node].memory.alloc(BYTES).expect("no limit");
        let (source, sink) = (span(0), span(1));
        let options = MdOptions::OP_PUT | MdOptions::OP_GET | MdOptions::MANAGE_REMOTE;
        let target = md(sink, None, options);
        net.nodes[1].shard.attach(NOW, PORTAL, entry(), target).expect("a free portal");
        let mut pair = Pair { net, source, next_rx: 0 };
        pair.start_put(AckWanted::No);
        // Discovery, and then the message.
        pair.net.run(NOW);
        assert_eq!(pair.net.events(1).len(), 1);
        pair.net.events(0);
        pair
    }

    fn start_put(&mut self, ack: AckWanted) {
        let shard = &mut self.net.nodes[0].shard;
        let threshold = if ack == AckWanted::Yes { 2 } else { 1 };
        let bound = md(self.source, Some(threshold), MdOptions::empty());
        let bound = shard.bind(bound).expect("short enough");
        let target = ProcessId::lustre(test_nid(1));
        shard.put(NOW, put_args(bound, target, ack)).expect("room for one");
    }

    fn start_get(&mut self) {
        let shard = &mut self.net.nodes[0].shard;
        let bound = md(self.source, Some(2), MdOptions::empty());
        let bound = shard.bind(bound).expect("short enough");
        let args = GetArgs {
            md: bound,
            local: None,
            target: ProcessId::lustre(test_nid(1)),
            portal: PORTAL,
            match_bits: MATCH_BITS,
            offset: 0,
            timeout: None,
        };
        shard.get(NOW, args).expect("room for one");
    }

    /// Moves headers until both cores are idle. Payload is not moved: the cores never see it.
    fn pump(&mut self) {
        loop {
            let mut moved = false;
            for from in 0..2 {
                while let Some(action) = self.net.nodes[from].shard.next_action() {
                    let Action::Send(send) = action else { panic!("{action:?}") };
                    moved = true;
                    self.next_rx += 1;
                    let arrival = Arrival {
                        ni: NiIndex(0),
                        from: ProcessId::lustre(test_nid(from)),
                        rx: RxId(self.next_rx),
                    };
                    let target = &mut self.net.nodes[1 - from].shard;
                    match target.recv_header(NOW, arrival, &send.header) {
                        Verdict::Into { op, .. } => target.done(NOW, op, Status::Ok),
                        Verdict::Done => {}
                        other => panic!("{other:?}"),
                    }
                    self.net.nodes[from].shard.done(NOW, send.op, Status::Ok);
                }
            }
            if !moved {
                return;
            }
        }
    }

    /// Takes all events; they must be these.
    fn expect(&mut self, ours: &[EventKind], theirs: EventKind) {
        let [one, two] = &mut self.net.nodes[..] else { panic!("two nodes") };
        for kind in ours {
            assert_eq!(one.shard.next_event().map(|event| event.kind), Some(*kind));
        }
        assert_eq!(two.shard.next_event().map(|event| event.kind), Some(theirs));
        black_box((one, two));
    }
}

pub(crate) fn put(tunables: &Tunables, count: u64) {
    let mut pair = Pair::new(tunables);
    for _ in 0..count {
        pair.start_put(AckWanted::No);
        pair.pump();
        pair.expect(&[EventKind::Send], EventKind::Put);
    }
}

pub(crate) fn put_ack(tunables: &Tunables, count: u64) {
    let mut pair = Pair::new(tunables);
    for _ in 0..count {
        pair.start_put(AckWanted::Yes);
        pair.pump();
        pair.expect(&[EventKind::Send, EventKind::Ack], EventKind::Put);
    }
}

pub(crate) fn get(tunables: &Tunables, count: u64) {
    let mut pair = Pair::new(tunables);
    for _ in 0..count {
        pair.start_get();
        pair.pump();
        pair.expect(&[EventKind::Send, EventKind::Reply], EventKind::Get);
    }
}
