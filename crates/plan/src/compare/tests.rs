use super::*;
use crate::model::TestKind;
use crate::results::{ClientResult, End, Latency, OpCounts, PointResult, Row};

/// Reads of 4 KiB: concurrency, and MiB/s of each repetition.
pub(crate) fn run(lines: &[(u32, &[f64])]) -> Results {
    let point = |(concurrency, rate, repeat): (u32, f64, u32)| {
        let latency = Latency {
            mean: None,
            p50: 500.0,
            p90: 900.0,
            p99: 1000.0,
            p999: None,
            p9999: None,
            max: 1500.0,
        };
        let all = OpCounts {
            seconds: 1.0,
            ops: 100,
            ops_per_s: rate * 256.0,
            mib_per_s: rate,
            latency_us: Some(latency),
            ..OpCounts::default()
        };
        let nid = "10.0.0.1@tcp".parse().expect("a NID");
        let row = Row {
            test: TestKind::Read,
            from: "clients".to_owned(),
            to: "servers".to_owned(),
            clients: 1,
            servers: 1,
            size: 4096,
            concurrency,
            rate_limit: 0,
            check: Some("simple".to_owned()),
            by_client: vec![ClientResult { nid, server: None, counted: all.clone() }],
            all,
            error_kinds: Vec::new(),
            silent: 0,
            lost: Vec::new(),
            cut_short: false,
            unreachable_s: 0.0,
            plain_tcp_mib_per_s: None,
            histogram: Vec::new(),
        };
        PointResult {
            step: 0,
            name: "read 4k".to_owned(),
            labels: vec![("concurrency".to_owned(), concurrency.to_string())],
            repeat,
            rows: vec![row],
            nodes: Vec::new(),
        }
    };
    let points = lines.iter().flat_map(|(concurrency, rates)| {
        (0..).zip(rates.iter()).map(|(repeat, rate)| point((*concurrency, *rate, repeat)))
    });
    Results {
        version: "1".to_owned(),
        date: "today".to_owned(),
        host: "here".to_owned(),
        plan: "p".to_owned(),
        about: String::new(),
        source: String::new(),
        groups: BTreeMap::new(),
        start: None,
        provenance: None,
        points: points.collect(),
        end: End::Complete,
    }
}

fn rate_verdicts(base: &Results, other: &Results) -> Vec<Verdict> {
    let values = compare(("a", base), ("b", other)).values;
    let rates = values.iter().filter(|value| value.metric == Metric::MibPerS);
    rates.map(|value| value.verdict).collect()
}

#[test]
fn a_repeated_value_is_shown_as_its_median_and_two_as_their_mean() {
    let (two, three) = (run(&[(1, &[60.0, 50.0])]), run(&[(1, &[110.0, 55.0, 80.0])]));
    let compared = compare(("a", &two), ("b", &three));
    let rate =
        compared.values.iter().find(|value| value.metric == Metric::MibPerS).expect("a rate");
    assert_eq!((rate.base.median, rate.other.median), (55.0, 80.0));
    let text = compared.text();
    assert!(text.contains("median") && !text.contains("middle"), "{text}");
    assert!(text.contains("55.0 MiB/s") && text.contains("+45.5%"), "{text}");
}

#[test]
fn a_change_is_judged_by_the_ranges_of_the_repetitions() {
    let base = run(&[(1, &[100.0, 104.0, 108.0]), (8, &[900.0]), (64, &[50.0, 60.0])]);
    let other = run(&[(1, &[109.0, 110.0, 120.0]), (8, &[9.0]), (64, &[60.0, 70.0])]);
    let wanted = [Verdict::BeyondSpread, Verdict::OneSample, Verdict::WithinSpread];
    assert_eq!(rate_verdicts(&base, &other), wanted);
    assert_eq!(rate_verdicts(&other, &base), wanted, "downwards as upwards");
    let comparison = compare(("a", &base), ("b", &other));
    // Three values of each line; 2 of 20 orders of 3 and 3 samples, 2 of 6 of 2 and 2.
    assert!((comparison.expected_by_chance - 3.0 * (0.1 + 1.0 / 3.0)).abs() < 1e-9);
    let text = comparison.text();
    for there in [
        "1 of 6 values are beyond the spread; about 1.3 would be if nothing differed.",
        "3 values have one sample in a run: the noise",
        "read 4k c8",
        "-99.0% one sample, noise unknown",
    ] {
        assert!(text.contains(there), "{there}: {text}");
    }
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
}

#[test]
fn lines_and_circumstances_that_differ_are_named() {
    let mut base = run(&[(1, &[100.0]), (2, &[100.0])]);
    let mut other = run(&[(1, &[100.0]), (4, &[100.0])]);
    let sysctls = |value: &str| [("net.core.rmem_max".to_owned(), value.to_owned())].into();
    let with = |value| crate::Provenance {
        machine: crate::Machine { sysctls: sysctls(value), ..crate::Machine::default() },
        nodes: Vec::new(),
    };
    (base.provenance, other.provenance) = (Some(with("1")), Some(with("2")));
    other.host = "there".to_owned();
    let comparison = compare(("a", &base), ("b", &other));
    assert_eq!(comparison.only_in_base, ["read 4k c2"]);
    assert_eq!(comparison.only_in_other, ["read 4k c4"]);
    assert_eq!(comparison.differs, ["host: here | there", "net.core.rmem_max: 1 | 2"]);
    let nothing = compare(("a", &run(&[])), ("b", &other));
    assert!(nothing.verdict().contains("no line in common"), "{}", nothing.verdict());
}

/// The rate of two clients is no improvement over the rate of one.
#[test]
fn lines_of_other_nodes_are_marked_and_what_is_missing_is_named() {
    let mut base = run(&[(1, &[100.0, 101.0]), (8, &[100.0, 101.0])]);
    let mut other = run(&[(1, &[200.0, 201.0]), (8, &[100.0, 101.0])]);
    let nids = |count: usize| vec!["10.0.0.1@tcp".parse().expect("a NID"); count];
    base.groups = [("c".to_owned(), nids(1))].into();
    other.groups = [("c".to_owned(), nids(2))].into();
    for point in &mut other.points {
        let row = &mut point.rows[0];
        match row.concurrency {
            1 => row.clients = 2,
            _ => {
                (row.lost, row.silent, row.all.errors) = (nids(1), 3, 5);
                row.check = Some("full".to_owned());
            }
        }
    }
    let missing =
        crate::MissingHost { host: "c07".to_owned(), step: "copy".to_owned(), why: String::new() };
    let (method, hosts) = ("ssh".to_owned(), Vec::new());
    other.start = Some(crate::Started { method, hosts, missing: vec![missing] });
    let wanted = [Verdict::OtherNodes, Verdict::WithinSpread];
    assert_eq!(rate_verdicts(&base, &other), wanted);
    let comparison = compare(("a", &base), ("b", &other));
    let differs = [
        "hosts without a node: none | c07",
        "nodes of group c: 1 | 2",
        "nodes of read 4k c1: 1 client, 1 server | 2 clients, 1 server",
        "check of read 4k c8: simple | full",
        "clients without answer of read 4k c8: none | 10.0.0.1@tcp",
        "clients without statistics of read 4k c8: 0 | 3",
        "errors of read 4k c8: 0 | 10",
    ];
    assert_eq!(comparison.differs, differs);
    let text = comparison.text();
    assert!(text.contains("3 values are from different numbers of clients or servers"), "{text}");
    assert!(text.contains("0 of 3 values are beyond the spread"), "{text}");
}
