use super::*;
use crate::latencies::LATENCY_MAX;

fn measuring() -> StepStats {
    let mut stats = StepStats::new();
    stats.measured_from = Some(Time(1000));
    stats
}

#[test]
fn outside_the_measured_time_only_failures_count() {
    let mut stats = StepStats::new();
    stats.success(Time(10), Nanos(5), 10);
    stats.failure(TestError::Corrupt);
    stats.measured_from = Some(Time(1000));
    stats.success(Time(1100), Nanos(7), 10);
    stats.measured_to = Some(Time(3000));
    stats.success(Time(3009), Nanos(9), 10);
    stats.failure(TestError::Short);
    assert_eq!((stats.ops, stats.bytes, stats.ended()), (1, 10, 1));
    assert_eq!(stats.errors, [(TestError::Corrupt, 1), (TestError::Short, 1)]);
    assert_eq!(stats.latencies.count(), 1);
    assert_eq!(stats.longest, Nanos(9), "but it shows how long an RPC takes here");
    assert_eq!(stats.elapsed(Time(9000)), Nanos(2000));
}

#[test]
fn a_latency_counts_if_the_rpc_was_in_flight_in_the_measured_time() {
    let mut stats = measuring();
    // It began before, and ended within.
    stats.success(Time(1001), Nanos(100), 0);
    stats.measured_to = Some(Time(3000));
    // It began within, and ended after.
    stats.success(Time(9000), Nanos(6001), 0);
    stats.success(Time(9000), Nanos(6000), 0);
    assert_eq!(stats.latencies.count(), 2);
    assert!(stats.latencies.max().0.abs_diff(6001) <= 6, "{:?}", stats.latencies.max());
    stats.never_ended(Time(9000), Nanos(7000));
    stats.never_ended(Time(9000), Nanos(6001));
    stats.never_ended(Time(9000), Nanos(5999));
    assert_eq!((stats.lost, stats.lost_age_max), (2, Nanos(7000)));
}

#[test]
fn quantiles_are_exact_to_three_digits() {
    let mut stats = measuring();
    for nanos in 1..=1000 {
        stats.success(Time(2000), Nanos(nanos), 0);
    }
    let latencies = &stats.latencies;
    assert_eq!((latencies.quantile(0.5), latencies.quantile(0.99)), (Nanos(500), Nanos(990)));
    assert_eq!((latencies.min(), latencies.max()), (Nanos(1), Nanos(1000)));
    assert_eq!(latencies.mean(), Nanos(500));
    assert_eq!(latencies.buckets().map(|(_, count)| count).sum::<u64>(), 1000);
    stats.success(Time(2000), Nanos(2_000_000_000), 0);
    let longest = stats.latencies.max().0;
    assert!(longest.abs_diff(2_000_000_000) <= 2_000_000, "{longest}");
}

#[test]
fn no_latency_is_zero_and_a_huge_one_the_limit() {
    let mut stats = measuring();
    assert_eq!(stats.latencies.quantile(0.99), Nanos(0));
    assert_eq!((stats.latencies.min(), stats.latencies.max()), (Nanos(0), Nanos(0)));
    stats.success(Time(2000), Nanos(u64::MAX), 0);
    assert!(stats.latencies.quantile(1.0).0 >= LATENCY_MAX);
}

#[test]
fn errors_are_counted_by_kind_and_kinds_are_limited() {
    let mut stats = measuring();
    for status in 0..100 {
        stats.failure(TestError::Remote(status));
        stats.failure(TestError::Remote(0));
    }
    assert_eq!(stats.errors.len(), ERROR_KINDS_MAX);
    assert_eq!(stats.errors[0], (TestError::Remote(0), 101));
    assert_eq!(stats.ended(), 200);
    stats.clear();
    assert_eq!((stats.errors.len(), stats.ended(), stats.measured_from), (0, 0, None));
}

#[test]
fn only_trouble_on_the_way_is_an_outage() {
    use lustrine_lnet::status::Status;
    for failure in [RpcError::TimedOut, RpcError::Send(Status::Refused)] {
        assert!(is_outage(TestError::Rpc(failure)));
    }
    let others = [
        TestError::Corrupt,
        TestError::Remote(22),
        TestError::Echo,
        TestError::Rpc(RpcError::Aborted),
        TestError::Rpc(RpcError::BadReply),
    ];
    assert!(!others.into_iter().any(is_outage));
}
