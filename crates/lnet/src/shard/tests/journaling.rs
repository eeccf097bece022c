//! The journal's records of messages.

use super::*;
use crate::journal::{DropReason, ENTRIES_MAX, HeaderOutcome, Step, Wait};
use crate::time::Nanos;

/// Nodes that know each other and start their journals now.
fn acquainted(count: usize, tunables: &Tunables) -> Net {
    let mut net = Net::new(count, tunables);
    for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
        if from != to {
            let span = net.span(from, 8, 1);
            let md = net.bind(from, span, 1, 0);
            net.put(from, put_args(md, process(to), 30, 0));
            net.run(NOW);
        }
    }
    net.nodes.iter_mut().for_each(|node| node.shard.enable_journal());
    net
}

/// The steps of a node.
fn steps(net: &mut Net, node: usize) -> Vec<String> {
    let mut recorded = Vec::new();
    let mut known = Vec::new();
    while let Some(entry) = net.nodes[node].shard.next_journal_entry() {
        let word = match entry.step {
            Step::TxCreated(created) => {
                if matches!(
                    created.header.body,
                    Body::Put { portal: 0, .. } | Body::Get { portal: 0, .. }
                ) {
                    continue;
                }
                known.push(created.msg);
                format!("tx_created {}", created.header.body.kind().name())
            }
            Step::TxQueued { msg, wait } if known.contains(&msg) => format!("tx_queued {wait:?}"),
            Step::TxSubmitted { msg } if known.contains(&msg) => "tx_submitted".to_owned(),
            Step::Completed { msg, status } if known.contains(&msg) => {
                format!("completed {status}")
            }
            Step::RxHeader(received) => match received.outcome {
                HeaderOutcome::Into { msg, .. } if received.header.payload_len == 8 => {
                    known.push(msg);
                    format!("rx_header {}", received.header.body.kind().name())
                }
                HeaderOutcome::Dropped(reason) => format!("dropped {reason:?}"),
                HeaderOutcome::Parked { .. } => "parked".to_owned(),
                _ => continue,
            },
            Step::RxResumed { outcome: HeaderOutcome::Into { msg, .. }, .. } => {
                known.push(msg);
                "resumed".to_owned()
            }
            Step::RxResumed { outcome, .. } => format!("resumed: {outcome:?}"),
            Step::MdUnlinked { status, .. } => format!("md_unlinked {status}"),
            _ => continue,
        };
        recorded.push(word);
    }
    recorded
}

#[test]
fn waits_and_ends_are_recorded_in_order() {
    let mut net = acquainted(2, &Tunables { peer_credits: 1, ..Tunables::default() });
    let sink = net.span(1, 64, 0);
    net.attach(1, 30, anybody(7, 0), md(sink, None, MdOptions::OP_PUT, 1));
    for _ in 0..2 {
        let span = net.span(0, 8, 1);
        let md = net.bind(0, span, 1, 0);
        net.put(0, put_args(md, process(1), 30, 7));
    }
    net.run(NOW);
    assert_eq!(
        steps(&mut net, 0),
        [
            "tx_created PUT",
            "tx_submitted",
            "tx_created PUT",
            "tx_queued PeerCredit",
            "completed ok",
            "tx_submitted",
            "completed ok"
        ]
    );
    assert_eq!(
        steps(&mut net, 1),
        ["rx_header PUT", "completed ok", "rx_header PUT", "completed ok"]
    );
}

#[test]
fn waits_for_the_interface_and_for_discovery_are_recorded() {
    let tight = Tunables { credits: 1, peer_credits: 1, ..Tunables::default() };
    let mut net = acquainted(3, &tight);
    for target in [1, 2] {
        let span = net.span(0, 8, 1);
        let md = net.bind(0, span, 1, 0);
        net.put(0, put_args(md, process(target), 30, 7));
    }
    let recorded = steps(&mut net, 0);
    assert_eq!(
        recorded,
        ["tx_created PUT", "tx_submitted", "tx_created PUT", "tx_queued NiCredit"]
    );
    let mut net = Net::new(2, &Tunables::default());
    net.nodes[0].shard.enable_journal();
    let span = net.span(0, 8, 1);
    let md = net.bind(0, span, 1, 0);
    net.put(0, put_args(md, process(1), 30, 7));
    net.run(NOW);
    let mut recorded = steps(&mut net, 0);
    recorded.retain(|word| word != "tx_created GET" && word != "completed ok");
    assert_eq!(
        recorded[..3],
        ["tx_created PUT", "tx_queued Discovery", "tx_submitted"],
        "{recorded:?}"
    );
}

#[test]
fn parked_dropped_and_unanswered_messages_are_recorded() {
    let mut net = acquainted(2, &Tunables::default());
    net.nodes[1].shard.set_lazy(50, Laziness::Lazy).unwrap();
    for (portal, bits) in [(50, 1), (50, 2), (30, 1)] {
        let span = net.span(0, 8, 1);
        let md = net.bind(0, span, 1, 0);
        net.put(0, put_args(md, process(1), portal, bits));
    }
    let sink = net.span(0, 8, 0);
    let asked = net.bind(0, sink, 2, 0);
    net.get(0, GetArgs { timeout: Some(Nanos(1)), ..get_args(asked, process(1), 30, 9) });
    net.run(NOW);
    let sink = net.span(1, 64, 0);
    net.attach(1, 50, anybody(2, 0), md(sink, None, MdOptions::OP_PUT, 1));
    net.run(NOW);
    net.nodes[1].shard.forget(NiIndex(0), RxId(u64::MAX));
    net.nodes[1].shard.set_lazy(50, Laziness::Strict).unwrap();
    net.run(NOW);
    assert_eq!(
        steps(&mut net, 1),
        [
            "parked",
            "parked",
            "dropped NoMatch",
            "dropped NoMatch",
            "resumed",
            "completed ok",
            "resumed: Dropped(NoMatch)",
        ]
    );
    net.run(NOW + Nanos::from_secs(60));
    assert_eq!(steps(&mut net, 0).last().unwrap(), "md_unlinked timed out");
}

#[test]
fn an_unexpected_reply_is_recorded_with_its_reason() {
    let mut net = acquainted(2, &Tunables::default());
    let source = net.span(1, 8, 0);
    net.attach(1, 30, anybody(7, 0), md(source, None, MdOptions::OP_GET, 1));
    let sink = net.span(0, 8, 0);
    let asked = net.bind(0, sink, 2, 0);
    net.get(0, get_args(asked, process(1), 30, 7));
    net.settle(NOW);
    while net.in_flight() != [("REPLY", 0)] {
        net.deliver(NOW, 0, Delivery::Deliver);
        net.settle(NOW);
    }
    net.nodes[0].shard.unlink(NOW, asked);
    net.run(NOW);
    assert_eq!(
        steps(&mut net, 0).last().unwrap(),
        &format!("dropped {:?}", DropReason::NotAwaited)
    );
}

#[test]
fn without_an_owner_the_journal_is_bounded() {
    let mut net = acquainted(2, &Tunables::default());
    let shard = &mut net.nodes[0].shard;
    let step = || Step::TxQueued { msg: crate::journal::JournalId(1), wait: Wait::NiCredit };
    (0..ENTRIES_MAX + 5).for_each(|_| shard.note(NOW, step()));
    assert_eq!((shard.take_journal_overflow(), shard.take_journal_overflow()), (5, 0));
    assert_eq!(core::iter::from_fn(|| shard.next_journal_entry()).count(), ENTRIES_MAX);
    assert!(!Net::new(1, &Tunables::default()).nodes[0].shard.journal_enabled());
}
