use lustrine_control::{CpuSeconds, NetInfo, NetRow, PeerIdentity, PeerRow, SummaryRow};
use proptest::prelude::*;

use super::*;
use crate::sample::Sample;
use crate::view::View;

fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// A node with one interface and one peer, whose counters all have this value.
fn node(value: u64, cpu_s: f64) -> NodeSample {
    let counted =
        Messages { sent: value, received: 2 * value, dropped: value / 10, ..Messages::default() };
    let own = nid("10.0.0.1@tcp");
    let net = NetRow {
        interface: Some("eth0".to_owned()),
        credits: 256,
        credits_available: 250,
        credits_min: 12,
        messages: counted.clone(),
        ..NetRow::new(own)
    };
    let there = nid("10.0.0.2@tcp");
    let identity = PeerIdentity { primary_nid: there, multi_rail: false, peer_ni: Vec::new() };
    let peer = PeerRow {
        credits: 8,
        credits_available: -3,
        credits_min: -7,
        window_bytes: Some(5 << 20),
        window_used_bytes: Some(4 << 20),
        messages: counted,
        ..PeerRow::new(there, identity)
    };
    let names = ["send_count", "recv_count", "send_length", "recv_length", "drop_count", "errors"];
    let mut lnet: BTreeMap<String, u64> = names.map(|name| (name.to_owned(), value)).into();
    lnet.insert("errors".to_owned(), 0);
    NodeSample {
        start: "a".to_owned(),
        net: NetInfo { identity: "node".to_owned(), nets: vec![net], ..NetInfo::default() },
        peers: vec![peer],
        stats: StatsRow { lnet, cpu_s: CpuSeconds(cpu_s), ..StatsRow::default() },
        latencies: Vec::new(),
    }
}

fn between(then: Option<NodeSample>, now: NodeSample) -> NodeView {
    let sample = |at_ns, node| Sample { at_ns, node, ..Sample::default() };
    let view = View::between(&sample(0, then), &sample(2_000_000_000, Some(now)));
    assert_eq!(view.interval_s, 2.0);
    view.node.unwrap()
}

#[test]
fn rates_are_growth_per_second() {
    let view = between(Some(node(100, 1.0)), node(300, 1.5));
    assert_eq!(view.cpu_percent, Some(25.0));
    assert_eq!((view.sent_per_s, view.received_bytes_per_s), (Some(100.0), Some(100.0)));
    assert_eq!(view.new_errors, [("drop_count".to_owned(), 200)].into());
    assert_eq!(view.errors, [("drop_count".to_owned(), 300)].into());
    let peer = &view.peers[0];
    assert_eq!((peer.sent_per_s, peer.received_per_s), (Some(100.0), Some(200.0)));
    assert_eq!((peer.dropped_per_s, peer.dropped), (Some(10.0), 30));
    assert_eq!(
        (peer.credits, peer.credits_available, peer.credits_min, peer.queued),
        (8, -3, -7, 3)
    );
    assert_eq!((peer.window_bytes, peer.window_used_bytes), (Some(5 << 20), Some(4 << 20)));
    let net = &view.nets[0];
    assert_eq!((net.credits_available, net.credits_min, net.queued), (250, 12, 0));
    assert_eq!((net.sent_per_s, net.interface.as_deref()), (Some(100.0), Some("eth0")));
    assert_eq!((net.state.as_deref(), peer.interface.as_deref()), (None, None));
}

#[test]
fn a_node_that_was_started_again_has_no_rates() {
    // Its counters may already be higher; its CPU time is lower.
    let view = between(Some(node(100, 9.0)), node(300, 0.5));
    assert!(view.restarted);
    assert_eq!((view.cpu_percent, view.sent_per_s, view.peers[0].sent_per_s), (None, None, None));
    assert_eq!((view.new_errors.len(), view.peers[0].queued), (0, 3));
}

#[test]
fn a_new_start_is_seen_though_all_counters_are_higher() {
    let now = NodeSample { start: "b".to_owned(), ..node(300, 1.5) };
    let view = between(Some(node(100, 1.0)), now);
    assert!(view.restarted);
    assert_eq!((view.cpu_percent, view.sent_per_s, view.peers[0].sent_per_s), (None, None, None));
    assert!(view.new_errors.is_empty());
}

#[test]
fn counters_that_were_reset_have_no_rates() {
    let view = between(Some(node(300, 1.0)), node(100, 1.5));
    assert!(!view.restarted);
    assert_eq!((view.cpu_percent, view.sent_per_s), (Some(25.0), None));
    assert_eq!(view.nets[0].received_per_s, None);
}

#[test]
fn what_was_not_there_before_has_no_rates() {
    let view = between(None, node(300, 1.0));
    assert_eq!(
        (view.sent_per_s, view.cpu_percent, view.peers[0].received_per_s),
        (None, None, None)
    );
    let mut before = node(100, 1.0);
    before.peers.clear();
    let view = between(Some(before), node(300, 1.0));
    assert_eq!((view.sent_per_s, view.peers[0].received_per_s), (Some(100.0), None));
}

/// A histogram with so many samples in the buckets that begin at these nanoseconds.
fn histogram(buckets: &[(u64, u64)]) -> OperationLatency {
    let samples = buckets.iter().map(|(_, samples)| samples).sum();
    OperationLatency {
        summary: SummaryRow { samples, min_nsec: 1, max_nsec: 2, avg_nsec: 1 },
        p50_nsec: 50_000,
        p90_nsec: 90_000,
        p99_nsec: 99_000,
        p999_nsec: 99_900,
        buckets: buckets
            .iter()
            .map(|(from, samples)| BucketRow {
                from_nsec: *from,
                below_nsec: Some(from + 1000),
                samples: *samples,
            })
            .collect(),
    }
}

fn with_round_trips(value: u64, name: &str, buckets: &[(u64, u64)]) -> NodeSample {
    let operations = [(name.to_owned(), histogram(buckets))].into();
    let row = LatencyRow { nid: nid("10.0.0.2@tcp"), operations };
    NodeSample { latencies: vec![row], ..node(value, 1.0) }
}

#[test]
fn round_trips_are_those_since_the_sample_before() {
    let then = with_round_trips(1, "get_rtt", &[(1_000, 1_000)]);
    let now = with_round_trips(2, "get_rtt", &[(1_000, 1_000), (5_000, 98), (9_000, 2)]);
    let trip = between(Some(then), now).peers[0].round_trip.clone().unwrap();
    assert_eq!((trip.operation.as_str(), trip.recent, trip.samples), ("get_rtt", true, 100));
    assert_eq!((trip.p50_us, trip.p99_us), (6.0, 10.0));
}

#[test]
fn recent_round_trips_come_before_the_preferred_ones() {
    let both = |acks: u64| {
        let mut sample = with_round_trips(1, "get_rtt", &[(1_000, 1)]);
        let acks = histogram(&[(3_000, acks)]);
        sample.latencies[0].operations.insert("put_ack".to_owned(), acks);
        sample
    };
    let trip = between(Some(both(5)), both(7)).peers[0].round_trip.clone().unwrap();
    assert_eq!((trip.operation.as_str(), trip.recent, trip.samples), ("put_ack", true, 2));
    let trip = between(Some(both(7)), both(7)).peers[0].round_trip.clone().unwrap();
    assert_eq!((trip.operation.as_str(), trip.recent), ("get_rtt", false));
}

#[test]
fn without_recent_round_trips_all_are_shown() {
    let all = with_round_trips(1, "put_ack", &[(1_000, 7)]);
    for then in [None, Some(all.clone()), Some(with_round_trips(1, "put_ack", &[(1_000, 9)]))] {
        let trip = between(then, all.clone()).peers[0].round_trip.clone().unwrap();
        assert_eq!((trip.operation.as_str(), trip.recent, trip.samples), ("put_ack", false, 7));
        assert_eq!((trip.p50_us, trip.p99_us), (50.0, 99.0));
    }
    assert_eq!(between(None, node(1, 1.0)).peers[0].round_trip, None);
}

proptest! {
    /// No counter of a node, whatever it says, ends the program.
    #[test]
    fn any_two_samples_make_a_view(
        then in any::<(u32, f64)>(), now in any::<(u32, f64)>(),
        old in prop::collection::vec((0..5_u64, any::<u64>()), 0..5),
        new in prop::collection::vec((0..5_u64, any::<u64>()), 0..5),
        available in any::<i64>(),
    ) {
        let made = |(value, cpu): (u32, f64), buckets: &[(u64, u64)]| {
            let mut sample = node(value.into(), cpu);
            let mut all = histogram(&[]);
            all.buckets = buckets
                .iter()
                .map(|(from, samples)| (*from, *samples))
                .map(|(from_nsec, samples)| BucketRow { from_nsec, below_nsec: None, samples })
                .collect();
            all.summary.samples = 1;
            let operations = [("get_rtt".to_owned(), all)].into();
            sample.latencies = vec![LatencyRow { nid: sample.peers[0].nid, operations }];
            sample.peers[0].credits_available = available;
            sample
        };
        let view = between(Some(made(then, &old)), made(now, &new));
        prop_assert_eq!(view.peers.len(), 1);
        prop_assert!(view.sent_per_s.is_none_or(|rate| rate >= 0.0));
    }
}
