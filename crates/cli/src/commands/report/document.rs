//! JSON documents of `lustrine selftest`, with and without a plan, as results of one kind; and of
//! `lustrine sim`.

use std::collections::BTreeMap;

use lustrine_plan::{
    ClientResult, End, ErrorCount, Latency, OpCounts, PointResult, Provenance, Results, Row,
    TestKind,
};
use lustrine_report::numbers::size;
use lustrine_wire::nid::Nid;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;

use crate::commands::sim::saved::Saved;

/// The keys that distinguish the documents.
#[derive(Deserialize)]
struct Outline {
    points: Option<IgnoredAny>,
    results: Option<IgnoredAny>,
    scenario: Option<IgnoredAny>,
    runs: Option<IgnoredAny>,
    axes: Option<IgnoredAny>,
    loads: Option<IgnoredAny>,
}

/// A run without a plan.
#[derive(Deserialize)]
struct Selftest {
    version: String,
    date: String,
    host: String,
    from: Nid,
    to: Nid,
    identity: String,
    check: String,
    /// `polling` or `sleeping`.
    waiting: String,
    #[serde(default)]
    provenance: Option<Provenance>,
    results: Vec<SelftestRow>,
    #[serde(flatten)]
    end: End,
}

#[derive(Deserialize)]
struct SelftestRow {
    test: TestKind,
    size: u32,
    concurrency: u32,
    seconds: f64,
    ops: u64,
    mib_per_s: f64,
    ops_per_s: f64,
    latency_us: Latency,
    errors: u64,
    #[serde(default)]
    error_kinds: Vec<(String, u64)>,
    raw_tcp_mib_per_s: Option<f64>,
    raw_tcp_polling_mib_per_s: Option<f64>,
    lost: u64,
    lost_age_max_s: f64,
    #[serde(default)]
    unreachable_s: f64,
    #[serde(default)]
    cut_short: bool,
}

/// A document of either kind.
pub(super) enum Read {
    Selftest(Box<Results>),
    Sim(Saved),
}

/// Reads a document of `lustrine selftest` or `lustrine sim`.
///
/// # Errors
/// What is wrong, after its line and column.
pub(super) fn read_any(text: &str) -> Result<Read, String> {
    let outline: Outline =
        serde_json::from_str(text).map_err(|error| described(&error, SELFTEST))?;
    let saved = match outline {
        Outline { scenario: Some(_), runs: Some(_), axes: None, .. } => {
            return Err("1:1: this sweep of lustrine sim was written by an earlier release: run \
                        `lustrine sim sweep` again, with --json, --report or --plots"
                .to_owned());
        }
        Outline { scenario: Some(_), runs: Some(_), .. } => Saved::sweep(text),
        Outline { scenario: Some(_), loads: Some(_), .. } => Saved::run(text),
        _ => return read(text).map(|results| Read::Selftest(Box::new(results))),
    };
    saved.map(Read::Sim).map_err(|error| described(&error, "lustrine sim"))
}

/// Reads a document of `lustrine selftest`.
///
/// # Errors
/// What is wrong, after its line and column.
pub(in crate::commands) fn read(text: &str) -> Result<Results, String> {
    let described = |error: serde_json::Error| described(&error, SELFTEST);
    let outline: Outline = serde_json::from_str(text).map_err(described)?;
    match outline {
        Outline { points: Some(_), .. } => serde_json::from_str(text).map_err(described),
        Outline { results: Some(_), scenario: None, .. } => {
            serde_json::from_str(text).map(results).map_err(described)
        }
        Outline { .. } => Err("1:1: this JSON has no results: those of `lustrine selftest` are \
                               under \"points\" with a plan and \"results\" without, and those \
                               of `lustrine sim run` and `sim sweep` have \"scenario\""
            .to_owned()),
    }
}

const SELFTEST: &str = "lustrine selftest";

/// Line, column and error.
fn described(error: &serde_json::Error, command: &str) -> String {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let what = match error.classify() {
        Category::Eof => "it ends too early",
        Category::Syntax => "it is not JSON",
        Category::Io | Category::Data => {
            text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text)
        }
    };
    // At the end of a line the column is 0.
    format!("{line}:{}: not written by `{command} --json`: {what}", column.max(1))
}

/// A run without a plan as one with a step for each test and size.
fn results(run: Selftest) -> Results {
    let Selftest { version, date, host, from, to, identity, check, waiting, .. } = run;
    let mut steps: Vec<String> = Vec::new();
    let mut points = Vec::new();
    for row in run.results {
        let name = match row.size {
            0 => row.test.name().to_owned(),
            bytes => format!("{} {}", row.test.name(), size(bytes)),
        };
        let known = steps.iter().position(|step| *step == name);
        let step = known.unwrap_or_else(|| {
            steps.push(name.clone());
            steps.len() - 1
        });
        points.push(PointResult {
            step,
            name,
            labels: vec![("concurrency".to_owned(), row.concurrency.to_string())],
            repeat: 0,
            rows: vec![row_of(row, (from, to), &check, &waiting)],
            nodes: Vec::new(),
        });
    }
    // Rows of one test need not follow each other; its step is shown once.
    points.sort_by_key(|point| point.step);
    Results {
        version,
        date,
        host,
        plan: String::new(),
        about: format!("{from} -> {to}, {identity} identity, check {check}"),
        source: String::new(),
        groups: BTreeMap::from([
            ("client".to_owned(), vec![from]),
            ("server".to_owned(), vec![to]),
        ]),
        start: None,
        provenance: run.provenance,
        points,
        end: run.end,
    }
}

fn row_of(row: SelftestRow, (from, to): (Nid, Nid), check: &str, waiting: &str) -> Row {
    let all = OpCounts {
        seconds: row.seconds,
        ops: row.ops,
        ops_per_s: row.ops_per_s,
        mib_per_s: row.mib_per_s,
        latency_us: (row.ops > 0).then_some(row.latency_us),
        latency_sent_us: None,
        errors: row.errors,
        lost_ops: row.lost,
        lost_age_max_s: row.lost_age_max_s,
    };
    // Such a run names its errors only by their meaning.
    let kinds =
        row.error_kinds.into_iter().map(|(what, count)| ErrorCount { errno: 0, what, count });
    let plain_tcp = match waiting {
        "sleeping" => row.raw_tcp_mib_per_s,
        _ => row.raw_tcp_polling_mib_per_s,
    };
    Row {
        test: row.test,
        from: "client".to_owned(),
        to: "server".to_owned(),
        clients: 1,
        servers: 1,
        size: row.size,
        concurrency: row.concurrency,
        rate_limit: 0,
        check: (row.size > 0).then(|| check.to_owned()),
        error_kinds: kinds.collect(),
        silent: 0,
        lost: Vec::new(),
        cut_short: row.cut_short,
        unreachable_s: row.unreachable_s,
        plain_tcp_mib_per_s: plain_tcp.filter(|rate| *rate > 0.0),
        histogram: Vec::new(),
        by_client: vec![ClientResult { nid: from, server: Some(to), counted: all.clone() }],
        all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"{"test":"read","size":4096,"concurrency":8,"seconds":1.0,"ops":500,
        "mib_per_s":2.0,"ops_per_s":500.0,"latency_us":{"p50":1.0,"p90":2.0,"p99":3.0,
        "p999":null,"max":4.0},"errors":1,"error_kinds":[["no answer",1]],"cpu_s":{"client":0.1,
        "server":null},"raw_tcp_mib_per_s":5.0,"raw_tcp_polling_mib_per_s":6.0,"lost":0,
        "lost_age_max_s":0.0,"unreachable_s":0.0,"cut_short":false}"#;

    fn document(rows: &str, end: &str) -> String {
        format!(
            r#"{{"version":"0.1.0","date":"d","host":"h","from":"127.0.0.1@tcp",
            "to":"127.0.0.2@tcp","identity":"node","check":"simple","waiting":"polling",
            "results":[{rows}]{end}}}"#
        )
    }

    #[test]
    fn a_run_without_a_plan_becomes_results() {
        let results = read(&document(ROW, r#","error":"the node died""#)).unwrap();
        assert_eq!(results.end, End::Failed { error: "the node died".to_owned() });
        let row = &results.points[0].rows[0];
        assert_eq!((row.test, row.size, row.concurrency), (TestKind::Read, 4096, 8));
        assert_eq!((row.all.errors, row.plain_tcp_mib_per_s), (1, Some(6.0)));
        assert_eq!(row.error_kinds[0].what, "no answer");
        let cut = ROW.replace("\"cut_short\":false", "\"cut_short\":true");
        let cut = read(&document(&cut.replace("_s\":0.0,\"cut", "_s\":0.5,\"cut"), "")).unwrap();
        let page = lustrine_plan::page(&cut, "").html;
        for said in ["read 4k c8: the run ended during this row", "not reachable for 0.5 s"] {
            assert!(page.contains(said), "{said}");
        }
        assert_eq!(read(&document("", "")).unwrap().end, End::Complete);
    }

    #[test]
    fn the_place_of_an_error_is_named() {
        for (text, said) in [
            ("{\n  \"points\": [", "2:13: not written by `lustrine selftest --json`: it ends too"),
            ("{\n  \"points\": [\n", "3:1: not written by"),
            ("net: []", "1:2: not written by `lustrine selftest --json`: it is not JSON"),
            ("[]", "1:"),
            ("{}", "1:1: this JSON has no results"),
            (&document(&ROW.replace("read", "erase"), ""), "unknown variant `erase`, expected"),
            (&document(&ROW.replace("\"ops\":500", "\"ops\":-1"), ""), "3:88: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{said}: {error}");
        }
    }
}
