use super::*;
use crate::model::Fidelity;
use crate::outcome::{Latency, Samples};

const MIB: f64 = 1_048_576.0;

fn load(size: u32, ops_per_s: f64, formula: f64, window_s: Option<(f64, f64)>) -> LoadOutcome {
    LoadOutcome {
        from: "clients".to_owned(),
        to: "servers".to_owned(),
        test: "read".to_owned(),
        size,
        concurrency: 1,
        pairs: 1,
        seconds: 1.0,
        window_s,
        ops: 100,
        mib_per_s: ops_per_s * f64::from(size) / MIB,
        ops_per_s,
        latency_us: Latency::default(),
        errors: 0,
        error_kinds: Vec::new(),
        formula_ops_per_s: Some(formula),
        formula_limit: None,
    }
}

fn outcome(loads: Vec<LoadOutcome>, shared_links: Vec<SharedLinks>) -> Outcome {
    Outcome {
        seed: 1,
        fidelity: Fidelity::Stream,
        nodes: 2,
        trace_hash: String::new(),
        virtual_s: 30.0,
        messages: 0,
        window_s: None,
        loads,
        shared_links,
        links: Vec::new(),
        waits: Vec::new(),
        samples: Samples::default(),
        hints: Vec::new(),
        unquiet: Vec::new(),
        interrupted: false,
    }
}

#[test]
fn rates_of_different_times_are_not_added() {
    let sum = |one, two| {
        let loads = vec![load(1 << 20, 10.0, 20.0, one), load(1 << 20, 30.0, 40.0, two)];
        outcome(loads, Vec::new()).together().map(|sum| sum.ops_per_s)
    };
    assert_eq!(sum(Some((1.0, 11.0)), Some((1.5, 11.5))), Some(40.0));
    assert_eq!(sum(Some((1.0, 11.0)), Some((4.0, 6.0))), Some(40.0), "within the other one");
    assert_eq!(sum(Some((1.0, 11.0)), Some((12.0, 22.0))), None, "one after the other");
    assert_eq!(sum(Some((1.0, 11.0)), Some((10.0, 20.0))), None, "hardly together");
    assert_eq!(sum(Some((1.0, 11.0)), None), None, "not known");
    let mut silent = load(1 << 20, 0.0, 40.0, None);
    silent.ops = 0;
    let loads = vec![load(1 << 20, 10.0, 20.0, None), silent];
    assert_eq!(outcome(loads, Vec::new()).together().map(|sum| sum.ops_per_s), Some(10.0));
    assert_eq!(outcome(Vec::new(), Vec::new()).together(), None);
}

/// Two loads that each could fill a link of 100 MiB/s, and a third one that uses another one.
#[test]
fn links_that_loads_share_count_once() {
    let window = Some((1.0, 11.0));
    let loads = vec![
        load(1 << 20, 50.0, 100.0, window),
        load(1 << 19, 100.0, 120.0, window),
        load(1 << 20, 10.0, 10.0, window),
        load(0, 1000.0, 2000.0, window),
    ];
    let shared = vec![SharedLinks { loads: vec![0, 1], bytes_per_s: 100.0 * MIB }];
    let all = outcome(loads, shared);
    let sum = all.together().expect("at the same time");
    assert_eq!(sum.formula_mib_per_s, Some(110.0));
    // 120 operations of half a MiB leave room for 40 of a MiB.
    assert_eq!(sum.formula_ops_per_s, Some(120.0 + 40.0 + 10.0 + 2000.0));
    let some = all.those_together(|load| load.size == 1 << 20).expect("at the same time");
    assert_eq!((some.mib_per_s, some.formula_mib_per_s), (60.0, Some(110.0)));
    let pings = all.those_together(|load| load.size == 0).expect("one");
    assert_eq!((pings.formula_mib_per_s, pings.formula_ops_per_s), (None, Some(2000.0)));
}
