use lustrine_scenario::{Fidelity, Samples};

use super::*;

fn load(test: &'static str, size: u32, value: f64) -> LoadOutcome {
    LoadOutcome {
        from: "clients".to_owned(),
        to: "servers".to_owned(),
        test: test.to_owned(),
        size,
        concurrency: 1024,
        pairs: 100_000,
        seconds: 1.4,
        window_s: Some((1.0, 2.4)),
        ops: 5000,
        mib_per_s: value,
        ops_per_s: value * 10.0,
        latency_us: Latency {
            p50: value,
            p90: value * 1.1,
            p99: value * 10.0,
            p999: Some(value * 100.0),
            max: value * 1e4,
        },
        errors: 12_345,
        error_kinds: vec![("no answer".to_owned(), 12_345)],
        formula_ops_per_s: Some(value * 10.5),
        formula_limit: Some("delay".to_owned()),
    }
}

fn outcome(loads: Vec<LoadOutcome>) -> Outcome {
    Outcome {
        seed: 1,
        fidelity: Fidelity::Stream,
        nodes: 46,
        trace_hash: "00ff".to_owned(),
        virtual_s: 12.5,
        messages: 1_000_000,
        window_s: Some((1.0, 2.0)),
        loads,
        shared_links: Vec::new(),
        links: vec![LinkOutcome {
            name: "east -> west, link 1".to_owned(),
            links: 1,
            bits_per_s: Some(50_000_000_000),
            share: Some(0.5),
            share_max: Some(0.625),
            bytes: 6 << 30,
            lost: 0,
            queue_max: 64 << 20,
        }],
        waits: vec![GroupWaits {
            group: "clients".to_owned(),
            peer_credits: 30.0,
            ni_credits: 0.0,
            driver: 6.0,
            zero_copy: 4.0,
            cpu: 0.25,
            messages_per_s: 1234.0,
        }],
        samples: Samples::default(),
        hints: vec!["beware".to_owned()],
        unquiet: vec!["node 3".to_owned()],
        interrupted: false,
    }
}

#[test]
fn loads_fit_eighty_columns_and_are_aligned() {
    let values = [0.9999, 9.996, 999.96, 88_888.8, 99_994.0];
    let mut loads: Vec<_> = values.iter().map(|value| load("read", 1 << 20, *value)).collect();
    loads.push(load("ping", 0, 5.0));
    let text = single("x.yaml", &outcome(loads), 2.0);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("1024 ")).collect();
    assert_eq!(rows.len(), 6);
    for row in &rows {
        assert!(row.len() <= 80, "{} columns: {row}", row.len());
        assert_eq!(row.split_whitespace().count(), 13, "{row}");
    }
    assert_eq!(HEAD.lines().last().unwrap().split_whitespace().count(), 13);
    for words in [
        "read clients -> servers: 12345 x no answer",
        "east -> west, link 1      1  50.0   50%   62%    6 GiB   0 B     64 MiB",
        "30.0 (75%)",
        "12.5 s of virtual time in 2.00 s: 1000000 messages, 500000 a second; trace 00ff",
        "note: beware",
        "check failed at the end: node 3",
    ] {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn a_sweep_has_a_line_for_each_combination() {
    let sweep = Sweep::parse(["concurrency=1,2"]).unwrap();
    let row = |value: &str| Row {
        values: vec![value.to_owned()],
        outcome: outcome(vec![load("read", 1 << 20, 100.0)]),
    };
    let text = super::sweep("x.yaml", &sweep, &[row("1"), row("2")]);
    assert!(
        text.starts_with("x.yaml: 2 runs, 46 nodes in the first\nconcurrency  MiB/s"),
        "{text}"
    );
    assert_eq!(text.matches("east -> west").count(), 2, "{text}");
    assert_eq!(text.matches("note: 1: beware").count(), 1, "{text}");
}

/// The rates of loads that run one after the other are no rate of any time.
#[test]
fn loads_at_different_times_are_not_added_up() {
    let sweep = Sweep::parse(["concurrency=1"]).unwrap();
    let text = |second: (f64, f64)| {
        let mut loads = vec![load("read", 1 << 20, 100.0), load("read", 1 << 20, 200.0)];
        loads[1].window_s = Some(second);
        let row = Row { values: vec!["1".to_owned()], outcome: outcome(loads) };
        super::sweep("x.yaml", &sweep, &[row])
    };
    let cells = |text: &str| {
        let row = text.lines().nth(2).expect("the first combination").split_whitespace();
        row.map(str::to_owned).collect::<Vec<_>>()
    };
    let (together, apart) = (text((1.0, 2.4)), text((3.0, 4.4)));
    assert_eq!(cells(&together)[1..3], ["300.0", "3000"], "{together}");
    assert_eq!(cells(&apart)[1..3], ["-", "-"], "{apart}");
    assert_eq!(cells(&apart)[8], "-", "of the formula: {apart}");
}
