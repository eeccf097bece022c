use lustrine_report::numbers::latency;

use super::super::report::Cpu;
use super::*;

const COLUMNS: usize = 80;

fn row(test: &'static str, size: u32, value: f64) -> RowResult {
    let at = |part: f64| value * part;
    RowResult {
        test,
        size,
        concurrency: 1024,
        seconds: 1.4,
        ops: 5000,
        mib_per_s: if size > 0 { value } else { 0.0 },
        ops_per_s: value * 10.0,
        latency_us: Latency {
            p50: at(1.0),
            p90: at(1.1),
            p99: at(10.0),
            p999: Some(at(100.0)),
            p9999: None,
            max: at(1e4),
        },
        errors: 0,
        error_kinds: Vec::new(),
        cpu_s: Cpu { client: 59.96, server: Some(1.0) },
        raw_tcp_mib_per_s: (size > 0).then_some(value / 1.5),
        raw_tcp_polling_mib_per_s: (size > 0).then_some(value / 2.85),
        lost: 0,
        lost_age_max_s: 0.0,
        unreachable_s: 0.0,
        window_bytes: None,
        cut_short: false,
    }
}

fn report(results: Vec<RowResult>) -> Report {
    Report { results, ..Report::empty() }
}

#[test]
fn the_table_fits_eighty_columns() {
    let mut rows = vec![row("ping", 0, 0.004)];
    // With any values, from one digit to rates that no network has.
    for value in [0.0, 0.9999, 9.996, 99.96, 999.96, 5777.8, 88_888.8, 99_994.0] {
        rows.extend([row("read", 4096, value), row("write", 1 << 20, value)]);
    }
    rows.push(RowResult { errors: 12_345, ..row("write", 1023 << 10, 1.0) });
    let text = table(&report(rows));
    for line in text.lines() {
        assert!(line.len() <= COLUMNS, "{} columns: {line}", line.len());
    }
    // Every cell is one word, and each row has as many as there are headings.
    let words = |line: &str| line.split_whitespace().count();
    let rows = text.lines().filter(|line| line.contains("1024 ")).map(words);
    assert_eq!(rows.collect::<Vec<_>>(), [14; 18]);
    assert_eq!(words(HEAD.lines().last().unwrap()), 14);
}

#[test]
fn numbers_have_three_digits_and_their_unit() {
    let cases = [
        (0.5, "0.50u"),
        (14.26, "14.3u"),
        (999.4, "999u"),
        (999.6, "1.00m"),
        (2906.1, "2.91m"),
        (57_966.6, "58.0m"),
        (999_499.0, "999m"),
        (999_600.0, "1.00s"),
        (60_000_000.0, "60.0s"),
    ];
    for (us, text) in cases {
        assert_eq!(latency(us), text);
    }
    let texts = [114.04, 5777.8, 0.2345, 999.96].map(rate);
    assert_eq!(texts, ["114.0", "5778", "0.23", "1000"]);
    assert_eq!([889_596.4, 1_234_567.0, 0.714].map(operations), ["889596", "1235k", "0.71"]);
    assert_eq!([7, 999, 1000, 12_345].map(count), ["7", "999", "1k", "12k"]);
}

#[test]
fn a_value_that_was_not_measured_is_a_dash() {
    let mut few = row("read", 4096, 10.0);
    few.latency_us.p999 = None;
    few.cpu_s.server = None;
    few.raw_tcp_mib_per_s = None;
    few.raw_tcp_polling_mib_per_s = None;
    let text = table(&report(vec![row("ping", 0, 10.0), few]));
    let words: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    let find = |test| words.iter().find(|line| line.first() == Some(&test)).unwrap().clone();
    assert_eq!((find("ping")[1], find("ping")[3], find("ping")[13]), ("-", "-", "-"));
    assert_eq!((find("read")[8], find("read")[12], find("read")[13]), ("-", "-", "-"));
    assert!(text.contains("plain TCP: not measured"), "{text}");
}

#[test]
fn plain_tcp_is_compared_with_the_same_way_of_waiting() {
    let rows = vec![row("read", 4096, 285.0), row("write", 4096, 2850.0)];
    let polling = table(&report(rows));
    assert!(polling.contains("plain sockets which poll, as this node\ndoes"), "{polling}");
    assert!(polling.contains(" 285%\n") && !polling.contains("150%"), "{polling}");
    assert!(polling.contains("  sleeping: read 190.0 to 190.0, write 1900 to 1900\n"), "{polling}");
    assert!(polling.contains("  polling: read 100.0 to 100.0, write 1000 to 1000\n"), "{polling}");
    let rows = vec![row("read", 4096, 285.0)];
    let sleeping = table(&Report { waiting: "sleeping", ..report(rows) });
    assert!(sleeping.contains("plain sockets which sleep, as this node\ndoes"), "{sleeping}");
    assert!(sleeping.contains(" 150%\n") && !sleeping.contains("285%"), "{sleeping}");
}

#[test]
fn results_before_a_failure_are_marked() {
    let lost = RowResult { lost: 8, lost_age_max_s: 30.04, cut_short: true, ..row("ping", 0, 1.0) };
    let text = table(&report(vec![lost]));
    let what = "ping, concurrency 1024: ";
    for note in [
        "the run failed after 1.4 s of this row",
        "8 never ended; the oldest was given up after 30.0 s",
    ] {
        assert!(text.contains(&format!("{what}{note}\n")), "{text}");
    }
}

/// The path drops large packets.
#[test]
fn a_row_without_an_operation_has_no_latency_and_names_the_doctor() {
    let latency_us = Latency { p999: None, ..row("read", 4096, 0.0).latency_us };
    let lost = RowResult { ops: 0, lost: 8, errors: 8, latency_us, ..row("read", 1 << 20, 0.0) };
    let text = table(&Report { to: "10.0.0.2@tcp".to_owned(), ..report(vec![lost]) });
    let cells: Vec<&str> = text.lines().nth(3).expect("a row").split_whitespace().collect();
    assert_eq!(cells[5..10], ["-"; 5], "{text}");
    assert!(text.contains("`lustrine doctor --to 10.0.0.2@tcp`"), "{text}");
}

#[test]
fn an_interrupted_row_did_not_fail() {
    let cut = RowResult { cut_short: true, ..row("ping", 0, 1.0) };
    let end = End::Interrupted { interrupted: true };
    let text = table(&Report { end, ..report(vec![cut]) });
    assert!(text.contains("the run was interrupted after 1.4 s of this row"), "{text}");
}
