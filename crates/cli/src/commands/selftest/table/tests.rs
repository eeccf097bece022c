use super::super::report::Cpu;
use super::*;

const COLUMNS: usize = 80;

fn row(test: &'static str, size: u32, figure: f64) -> RowResult {
    let at = |part: f64| figure * part;
    RowResult {
        test,
        size,
        concurrency: 1024,
        seconds: 1.4,
        ops: 5000,
        mib_per_s: if size > 0 { figure } else { 0.0 },
        ops_per_s: figure * 10.0,
        latency_us: Latency {
            p50: at(1.0),
            p90: at(1.1),
            p99: at(10.0),
            p999: Some(at(100.0)),
            max: at(1e4),
        },
        errors: 0,
        error_kinds: Vec::new(),
        cpu_s: Cpu { client: 59.96, server: Some(1.0) },
        raw_tcp_mib_per_s: (size > 0).then_some(figure / 2.85),
    }
}

fn report(results: Vec<RowResult>) -> Report {
    Report { results, ..Report::empty() }
}

#[test]
fn it_fits_eighty_columns() {
    let mut rows = vec![row("ping", 0, 0.004)];
    // Whatever the figures are, from one digit to rates that no network has.
    for figure in [0.0, 0.9999, 9.996, 99.96, 999.96, 5777.8, 88_888.8, 99_994.0] {
        rows.extend([row("read", 4096, figure), row("write", 1 << 20, figure)]);
    }
    rows.push(RowResult { errors: 12_345, ..row("write", 1023 << 10, 1.0) });
    let text = table(&report(rows));
    for line in text.lines() {
        assert!(line.len() <= COLUMNS, "{} columns: {line}", line.len());
    }
    // Every cell is a word of its own, as many in each row as there are heads.
    let words = |line: &str| line.split_whitespace().count();
    let rows = text.lines().filter(|line| line.contains("1024 ")).map(words);
    assert_eq!(rows.collect::<Vec<_>>(), [14; 18]);
    assert_eq!(words(HEAD.lines().last().unwrap()), 14);
}

#[test]
fn figures_keep_three_digits_and_tell_their_unit() {
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
fn what_was_not_measured_is_a_dash() {
    let mut few = row("read", 4096, 10.0);
    few.latency_us.p999 = None;
    few.cpu_s.server = None;
    few.raw_tcp_mib_per_s = None;
    let text = table(&report(vec![row("ping", 0, 10.0), few]));
    let words: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    let find = |test| words.iter().find(|line| line.first() == Some(&test)).unwrap().clone();
    assert_eq!((find("ping")[1], find("ping")[3], find("ping")[13]), ("-", "-", "-"));
    assert_eq!((find("read")[8], find("read")[12], find("read")[13]), ("-", "-", "-"));
    assert!(text.contains("plain TCP: not measured"), "{text}");
}

#[test]
fn plain_tcp_is_told_with_its_figures() {
    let rows = vec![row("read", 4096, 285.0), row("write", 4096, 2850.0)];
    let text = table(&report(rows));
    assert!(text.contains(" row: read 100.0, write 1000 MiB/s:\nblocking"), "{text}");
    assert!(text.contains(" 285%\n"), "{text}");
}
