use super::*;
use crate::latencies::LATENCY_MAX;

fn measuring() -> Figures {
    let mut figures = Figures::new();
    figures.measured_from = Some(Time(1000));
    figures
}

#[test]
fn outside_the_measured_time_only_failures_count() {
    let mut figures = Figures::new();
    figures.success(Time(10), Nanos(5), 10);
    figures.failure(TestError::Corrupt);
    figures.measured_from = Some(Time(1000));
    figures.success(Time(1100), Nanos(7), 10);
    figures.measured_to = Some(Time(3000));
    figures.success(Time(3009), Nanos(9), 10);
    figures.failure(TestError::Short);
    assert_eq!((figures.ops, figures.bytes, figures.ended()), (1, 10, 1));
    assert_eq!(figures.errors, [(TestError::Corrupt, 1), (TestError::Short, 1)]);
    assert_eq!(figures.latencies.count(), 1);
    assert_eq!(figures.longest, Nanos(9), "but it tells how long an RPC takes here");
    assert_eq!(figures.elapsed(Time(9000)), Nanos(2000));
}

#[test]
fn a_latency_counts_if_the_rpc_was_under_way_in_the_measured_time() {
    let mut figures = measuring();
    // It began before, and ended within.
    figures.success(Time(1001), Nanos(100), 0);
    figures.measured_to = Some(Time(3000));
    // It began within, and ended after.
    figures.success(Time(9000), Nanos(6001), 0);
    figures.success(Time(9000), Nanos(6000), 0);
    assert_eq!(figures.latencies.count(), 2);
    assert!(figures.latencies.max().0.abs_diff(6001) <= 6, "{:?}", figures.latencies.max());
    figures.never_ended(Time(9000), Nanos(7000));
    figures.never_ended(Time(9000), Nanos(6001));
    figures.never_ended(Time(9000), Nanos(5999));
    assert_eq!((figures.lost, figures.lost_age_max), (2, Nanos(7000)));
}

#[test]
fn quantiles_are_exact_to_three_digits() {
    let mut figures = measuring();
    for nanos in 1..=1000 {
        figures.success(Time(2000), Nanos(nanos), 0);
    }
    let latencies = &figures.latencies;
    assert_eq!((latencies.quantile(0.5), latencies.quantile(0.99)), (Nanos(500), Nanos(990)));
    assert_eq!((latencies.min(), latencies.max()), (Nanos(1), Nanos(1000)));
    assert_eq!(latencies.mean(), Nanos(500));
    assert_eq!(latencies.buckets().map(|(_, count)| count).sum::<u64>(), 1000);
    figures.success(Time(2000), Nanos(2_000_000_000), 0);
    let longest = figures.latencies.max().0;
    assert!(longest.abs_diff(2_000_000_000) <= 2_000_000, "{longest}");
}

#[test]
fn no_latency_is_zero_and_a_huge_one_the_limit() {
    let mut figures = measuring();
    assert_eq!(figures.latencies.quantile(0.99), Nanos(0));
    assert_eq!((figures.latencies.min(), figures.latencies.max()), (Nanos(0), Nanos(0)));
    figures.success(Time(2000), Nanos(u64::MAX), 0);
    assert!(figures.latencies.quantile(1.0).0 >= LATENCY_MAX);
}

#[test]
fn errors_are_counted_by_kind_and_kinds_are_limited() {
    let mut figures = measuring();
    for status in 0..100 {
        figures.failure(TestError::Remote(status));
        figures.failure(TestError::Remote(0));
    }
    assert_eq!(figures.errors.len(), ERROR_KINDS_MAX);
    assert_eq!(figures.errors[0], (TestError::Remote(0), 101));
    assert_eq!(figures.ended(), 200);
    figures.clear();
    assert_eq!((figures.errors.len(), figures.ended(), figures.measured_from), (0, 0, None));
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
