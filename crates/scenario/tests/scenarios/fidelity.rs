//! Compares the two fidelities of the simulator.

use std::ops::ControlFlow;

use lustrine_scenario::{Outcome, Override, ScenarioFile, run, simulation};

const TEXT: &str = "\
sites: [east, west]
links: [{between: [east, west], bandwidth: 40 Gb/s, delay: 1 ms, queue: 1 GiB}]
groups:
  clients: {site: east, delay: 5 us, cost: {message: 1 us, MiB: 50 us}}
  servers: {site: west, delay: 5 us, cost: {message: 1 us, MiB: 50 us}}
tunables: {selftest_memory: 2048}
tcp: {congestion: fixed, send_buffer: 256 MiB, receive_buffer: 256 MiB, segment: 8948 B}
loads:
  - {from: clients, to: servers, test: read, size: 1 MiB, concurrency: 1, warm_up: 1 s, time: 2 s}
";

fn outcome(changes: &str, fidelity: &str) -> Outcome {
    let text = match changes.contains("test=ping") {
        true => TEXT.replace("size: 1 MiB, ", ""),
        false => TEXT.to_owned(),
    };
    let file = ScenarioFile::parse(&text, "fidelities.yaml")
        .unwrap_or_else(|problems| panic!("{problems}"));
    let changes: Vec<Override> = changes
        .split_whitespace()
        .chain([format!("fidelity={fidelity}").as_str()])
        .map(|change| Override::parse("--set", &change.replace('~', " ")).unwrap())
        .collect();
    let scenario = file.scenario(&changes).unwrap_or_else(|problems| panic!("{problems}"));
    let outcome = run(&scenario, &mut *simulation(&scenario), &mut |_| ControlFlow::Continue(()));
    assert_eq!((outcome.errors(), outcome.unquiet.len()), (0, 0), "{changes:?} {outcome:#?}");
    outcome
}

/// The difference between the fidelities, for rates and median latencies: the greater value over
/// the smaller one, less one.
fn differences(changes: &str) -> (f64, f64) {
    let [streams, messages] = ["stream", "message"].map(|fidelity| outcome(changes, fidelity));
    let (one, two) = (&streams.loads[0], &messages.loads[0]);
    let apart = |one: f64, two: f64| one.max(two) / one.min(two) - 1.0;
    let found =
        (apart(one.ops_per_s, two.ops_per_s), apart(one.latency_us.p50, two.latency_us.p50));
    eprintln!("{changes}: {:.0} and {:.0} per s, {found:.3?}", one.ops_per_s, two.ops_per_s);
    found
}

/// [docs/simulator.md](../../../docs/simulator.md) states these tolerances.
#[test]
fn the_fidelities_agree_within_eight_percent_where_credits_are_not_short() {
    for changes in [
        "test=ping",
        "test=ping concurrency=8",
        "delay=10~us",
        "delay=10~us concurrency=8",
        "concurrency=1",
        "concurrency=8",
        "concurrency=8 test=write",
        "concurrency=8 test=write zero_copy=1",
        "concurrency=32 peer_credits=64 credits=1024",
        "concurrency=32 peer_credits=64 credits=1024 test=write zero_copy=1",
        "concurrency=4 size=64~KiB",
        "delay=25~ms concurrency=16 peer_credits=64 zero_copy=1 warm_up=5~s",
        "clients.count=8 concurrency=4 peer_credits=64 credits=1024",
    ] {
        let (rate, latency) = differences(changes);
        assert!(rate < 0.08 && latency < 0.08, "{changes}");
    }
}

/// With few credits, messages form convoys whose order depends on a microsecond.
#[test]
fn the_fidelities_agree_within_a_quarter_where_credits_are_short() {
    for changes in [
        "delay=25~ms concurrency=16 zero_copy=1 test=write warm_up=5~s time=5~s",
        "delay=25~ms concurrency=32 zero_copy=1 test=write warm_up=5~s time=5~s",
        "delay=25~ms concurrency=32 zero_copy=1 test=read warm_up=5~s time=5~s",
        "delay=25~ms concurrency=64 zero_copy=1 test=read peer_credits=16 warm_up=5~s time=5~s",
    ] {
        let (rate, latency) = differences(changes);
        assert!(rate < 0.25 && latency < 0.25, "{changes}");
    }
}

/// A burst of the stream fidelity is lost as a whole, and a small message that is lost alone waits
/// for a time-out at both.
#[test]
fn the_fidelities_agree_within_a_quarter_with_losses() {
    for changes in ["concurrency=8 loss=0.01~%", "concurrency=8 loss=0.1~%"] {
        let (rate, _) = differences(changes);
        assert!(rate < 0.25, "{changes}");
    }
}
