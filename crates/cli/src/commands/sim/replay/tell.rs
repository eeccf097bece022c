//! Replays for people, in at most 100 columns.

use std::collections::BTreeMap;
use std::path::Path;

use lustrine_scenario::bytes_text;
use lustrine_scenario::figures::{latency, latency_text, percent};
use lustrine_scenario::replay::{Outcome, PhaseKind, Rpc, Trace};

use super::super::table::columns;
use super::Told;

/// Widest line.
const COLUMNS: usize = 100;

/// Kinds of RPCs in the table of phases: more do not fit.
const KINDS_MAX: usize = 6;

/// What there is in a trace; `failed` with how many of them are listed.
pub(super) fn summary(
    file: &Path,
    trace: &Trace,
    rpcs: &[&Rpc],
    slowest: &[&Rpc],
    (failed, listed): (&[&Rpc], usize),
) -> String {
    let head = &trace.head;
    let mut about = format!(
        "trace of {}, depth {}, seed {}: {} steps, {} RPCs",
        head.scenario,
        head.depth,
        head.seed,
        head.steps,
        rpcs.len()
    );
    if !head.changes.is_empty() {
        about += &format!("; with {}", head.changes.join(" "));
    }
    let mut out = wrapped("", &about);
    if head.gone > 0 {
        out += &wrapped(
            "",
            &format!(
                "{} older steps are not in it (--trace-limit): RPCs at its beginning lack messages",
                head.gone
            ),
        );
    }
    if rpcs.is_empty() {
        return out + "nothing is there, or nothing is of what was asked for\n";
    }
    let kinds = kinds(rpcs);
    out += &table_of_kinds(&kinds);
    out += &table_of_phases(trace, &kinds);
    if !slowest.is_empty() {
        out += "\nslowest";
        out += &list(trace, slowest);
    }
    if !failed.is_empty() {
        out += "\nfailed, or not over at the end of the trace";
        out += &list(trace, &failed[..listed.min(failed.len())]);
        let more = failed.len().saturating_sub(listed);
        if more > 0 {
            out += &format!("and {more} more: lustrine sim replay {} --failed\n", file.display());
        }
    }
    let example = failed.first().or(slowest.first()).map_or(rpcs[0].id, |rpc| rpc.id);
    out += &format!("\nstep by step: lustrine sim replay {} --rpc {example}\n", file.display());
    out
}

/// By kind and size, most frequent first.
fn kinds<'a>(rpcs: &[&'a Rpc]) -> Vec<(String, Vec<&'a Rpc>)> {
    let mut kinds: BTreeMap<String, Vec<&Rpc>> = BTreeMap::new();
    for rpc in rpcs {
        kinds.entry(kind_of(rpc)).or_default().push(rpc);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, rpcs)| std::cmp::Reverse(rpcs.len()));
    kinds
}

fn kind_of(rpc: &Rpc) -> String {
    match rpc.what.as_str() {
        "read" | "write" => format!("{} {}", rpc.what, bytes_text(u64::from(rpc.len))),
        what => what.to_owned(),
    }
}

fn table_of_kinds(kinds: &[(String, Vec<&Rpc>)]) -> String {
    let heads = ["RPCs", "number", "failed", "not over", "p50", "p99", "max"];
    let row = |(what, rpcs): &(String, Vec<&Rpc>)| {
        let good = rpcs.iter().filter(|rpc| rpc.outcome == Outcome::Ok);
        let mut times: Vec<u64> = good.filter_map(|rpc| rpc.took()).collect();
        times.sort_unstable();
        let part = |percent: usize| match times.len() {
            0 => "-".to_owned(),
            count => short(times[(count * percent).div_ceil(100).max(1) - 1]),
        };
        let failed = rpcs.iter().filter(|rpc| rpc.failed()).count();
        let open = rpcs.iter().filter(|rpc| rpc.outcome == Outcome::Unfinished).count();
        vec![
            what.clone(),
            rpcs.len().to_string(),
            failed.to_string(),
            open.to_string(),
            part(50),
            part(99),
            part(100),
        ]
    };
    columns(&heads, &kinds.iter().map(row).collect::<Vec<_>>())
        + "times of those that went well; in u, m, s: micro-, milli-, whole seconds\n"
}

/// Where the time of each kind went, as parts of its sum.
fn table_of_phases(trace: &Trace, kinds: &[(String, Vec<&Rpc>)]) -> String {
    let kinds = &kinds[..kinds.len().min(KINDS_MAX)];
    let sums: Vec<BTreeMap<PhaseKind, u64>> = kinds
        .iter()
        .map(|(_, rpcs)| {
            let mut sums = BTreeMap::new();
            for phase in rpcs.iter().flat_map(|rpc| rpc.phases(trace)) {
                *sums.entry(phase.kind).or_default() += phase.ns;
            }
            sums
        })
        .collect();
    let mut seen: Vec<PhaseKind> = sums.iter().flat_map(|sums| sums.keys().copied()).collect();
    seen.sort_unstable();
    seen.dedup();
    let heads: Vec<&str> =
        ["time in"].into_iter().chain(kinds.iter().map(|(what, _)| what.as_str())).collect();
    let rows: Vec<Vec<String>> = seen
        .iter()
        .map(|kind| {
            let cell = |sums: &BTreeMap<PhaseKind, u64>| {
                let all: u64 = sums.values().sum();
                let part = sums.get(kind).copied().unwrap_or(0);
                percent(part as f64 / all.max(1) as f64)
            };
            [kind.name().to_owned()].into_iter().chain(sums.iter().map(cell)).collect()
        })
        .collect();
    columns(&heads, &rows)
}

fn list(trace: &Trace, rpcs: &[&Rpc]) -> String {
    let heads = ["id", "RPC", "from", "to", "began", "took", "most of it"];
    let row = |rpc: &&Rpc| {
        let phases = rpc.phases(trace);
        let most = phases.iter().max_by_key(|phase| phase.ns);
        let all: u64 = phases.iter().map(|phase| phase.ns).sum();
        let most = most.map_or("-".to_owned(), |phase| {
            format!("{} {}", percent(phase.ns as f64 / all.max(1) as f64), phase.kind.name())
        });
        vec![
            rpc.id.to_string(),
            kind_of(rpc),
            rpc.from.to_string(),
            rpc.to.to_string(),
            format!("{:.6}s", rpc.began as f64 / 1e9),
            rpc.took().map_or("-".to_owned(), short),
            most,
        ]
    };
    columns(&heads, &rpcs.iter().map(row).collect::<Vec<_>>())
}

/// The time line of one RPC, and where its time went.
pub(super) fn one(told: &Told<'_>) -> String {
    let rpc = told.rpc;
    let ended = match &rpc.outcome {
        Outcome::Ok => "well".to_owned(),
        Outcome::Failed(why) => format!("failed: {why}"),
        Outcome::Unfinished => "not over when the trace ends".to_owned(),
    };
    let took = rpc.took().map_or(String::new(), |took| format!("took {}, ", long(took)));
    let began = rpc.began as f64 / 1e9;
    let head = format!(
        "RPC {}: {}, {} -> {}, began at {began:.6} s, {took}{ended}",
        rpc.id,
        kind_of(rpc),
        rpc.from,
        rpc.to
    );
    let mut out = wrapped("", &head);
    let nodes = told.moments.iter().map(|moment| moment.node.to_string().len());
    let width = nodes.max().unwrap_or(0).max(4);
    out += &format!("\n{:>12}  {:<width$}  what\n", "us", "node");
    for moment in &told.moments {
        let mut what = moment.what.clone();
        if let Some((waited, reason)) = moment.waited {
            what += &format!(" [{} us: {reason}]", micros(waited));
        }
        let front = format!("{:>12}  {:<width$}  ", micros(moment.at_ns), moment.node.to_string());
        out += &wrapped(&front, &what);
    }
    out += &format!("\n{:>12}  {:>5}  where the time went\n", "us", "part");
    let all: u64 = told.phases.iter().map(|phase| phase.ns).sum();
    for phase in &told.phases {
        let part = percent(phase.ns as f64 / all.max(1) as f64);
        out += &wrapped(&format!("{:>12}  {part:>5}  ", micros(phase.ns)), &phase.what);
    }
    out += &format!("{:>12}  {:>5}  in all\n", micros(all), "100%");
    if !told.stuck.is_empty() {
        out += "\nwhere it died\n";
        told.stuck.iter().for_each(|line| out += &wrapped("  ", line));
    }
    out
}

/// Words behind a front, on as many lines as it takes.
fn wrapped(front: &str, text: &str) -> String {
    let (mut out, mut line) = (String::new(), front.to_owned());
    let indent = front.chars().count();
    let mut empty = true;
    for word in text.split(' ') {
        if !empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            out += line.trim_end();
            out.push('\n');
            line = " ".repeat(indent.max(2));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    out + line.trim_end() + "\n"
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn short(ns: u64) -> String {
    latency(ns as f64 / 1e3)
}

fn long(ns: u64) -> String {
    latency_text(ns as f64 / 1e3)
}
