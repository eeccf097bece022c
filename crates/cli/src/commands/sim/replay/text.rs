//! The text output of `sim replay`, in at most 100 columns.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_report::numbers::{counted, latency, latency_text, percent};
use lustrine_trace::{Outcome, Phase, PhaseKind, Rpc, Trace, printable};
use lustrine_wire::nid::Nid;

use super::super::table::columns;
use super::ShownRpc;

/// Widest line.
const COLUMNS: usize = 100;

/// Kinds of RPCs in the table of phases; more do not fit.
const KINDS_MAX: usize = 6;

/// Largest number of nodes that are named when no RPC matches.
const NODES_MAX: usize = 8;

/// What was simulated, and the time that the trace covers.
pub(super) fn about(trace: &Trace, rpcs: &[Rpc]) -> String {
    let head = &trace.head;
    let mut about = format!(
        "trace of {}, fidelity {}, seed {}: {}, {}",
        head.scenario,
        head.fidelity,
        head.seed,
        counted(head.steps, "step"),
        counted(rpcs.len() as u64, "RPC")
    );
    if !head.changes.is_empty() {
        about += &format!("; with {}", head.changes.join(" "));
    }
    let mut out = wrapped("", &about);
    let [Some(first), Some(last)] = [trace.lines.first(), trace.lines.last()] else { return out };
    let mut covers = format!("it covers {} to {}", seconds(first.t), seconds(last.t));
    if head.dropped > 0 {
        let older = counted(head.dropped, "older step");
        covers += &format!("; {older} left out (--trace-limit)");
    }
    let incomplete = rpcs.iter().filter(|rpc| rpc.outcome == Outcome::Incomplete).count();
    if incomplete > 0 {
        let incomplete = counted(incomplete as u64, "RPC");
        covers +=
            &format!("; {incomplete} incomplete: begun before, with times that are not known");
    }
    out += &wrapped("", &covers);
    out
}

/// No RPC matches: lists the possible selections.
pub(super) fn nothing(rpcs: &[Rpc]) -> String {
    if rpcs.is_empty() {
        return "there are no RPCs in it\n".to_owned();
    }
    let all: Vec<&Rpc> = rpcs.iter().collect();
    let kinds = kinds(&all);
    let kinds: Vec<String> =
        kinds.iter().map(|(label, rpcs)| format!("{label} ({})", rpcs.len())).collect();
    let nodes: BTreeSet<Nid> = rpcs.iter().flat_map(|rpc| [rpc.from, rpc.to]).collect();
    let mut named: Vec<String> = nodes.iter().take(NODES_MAX).map(Nid::to_string).collect();
    if nodes.len() > NODES_MAX {
        named.push(format!("{} more", nodes.len() - NODES_MAX));
    }
    let mut out = "no RPC matches\n".to_owned();
    out += &wrapped("kinds in it: ", &kinds.join(", "));
    out += &wrapped("nodes in it: ", &named.join(", "));
    out
}

/// No RPC failed.
pub(super) fn none_failed(rpcs: &[&Rpc]) -> String {
    let incomplete = rpcs.iter().filter(|rpc| rpc.outcome == Outcome::Incomplete).count();
    let succeeded = rpcs.len() - incomplete;
    match incomplete {
        0 => format!("none failed: {succeeded} succeeded\n"),
        _ => format!("none failed: {succeeded} succeeded, {incomplete} are incomplete\n"),
    }
}

/// The selected RPCs; `failed` is how many failed ones are listed.
pub(super) fn summary(
    file: &str,
    trace: &Trace,
    rpcs: &[&Rpc],
    slowest: &[&Rpc],
    (failed, listed): (&[&Rpc], usize),
) -> String {
    let mut out = String::new();
    let kinds = kinds(rpcs);
    out += &table_of_kinds(&kinds);
    out += &table_of_phases(trace, &kinds);
    if !slowest.is_empty() {
        out += "\nslowest";
        out += &list(trace, slowest);
    }
    if !failed.is_empty() {
        out += "\nfailed, or unfinished at the end of the trace";
        out += &list(trace, &failed[..listed.min(failed.len())]);
        let more = failed.len().saturating_sub(listed);
        if more > 0 {
            out += &format!("and {more} more: lustrine sim replay {file} --failed\n");
        }
    }
    if let Some(example) = failed.first().or(slowest.first()) {
        out += &format!("\nstep by step: lustrine sim replay {file} --rpc {}\n", example.id);
    }
    out
}

/// By kind and size, the most frequent first.
fn kinds<'a>(rpcs: &[&'a Rpc]) -> Vec<(String, Vec<&'a Rpc>)> {
    let mut kinds: BTreeMap<String, Vec<&Rpc>> = BTreeMap::new();
    for rpc in rpcs {
        kinds.entry(rpc.label()).or_default().push(rpc);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, rpcs)| std::cmp::Reverse(rpcs.len()));
    kinds
}

fn table_of_kinds(kinds: &[(String, Vec<&Rpc>)]) -> String {
    let heads = ["RPCs", "number", "failed", "unfinished", "incomplete", "p50", "p99", "max"];
    let row = |(what, rpcs): &(String, Vec<&Rpc>)| {
        let good = rpcs.iter().filter(|rpc| rpc.outcome == Outcome::Ok);
        let mut times: Vec<u64> = good.filter_map(|rpc| rpc.duration()).collect();
        times.sort_unstable();
        let part = |percent: usize| match times.len() {
            0 => "-".to_owned(),
            count => short(times[(count * percent).div_ceil(100).max(1) - 1]),
        };
        let failed = rpcs.iter().filter(|rpc| rpc.failed()).count();
        let are = |outcome: Outcome| rpcs.iter().filter(|rpc| rpc.outcome == outcome).count();
        vec![
            what.clone(),
            rpcs.len().to_string(),
            failed.to_string(),
            are(Outcome::Unfinished).to_string(),
            are(Outcome::Incomplete).to_string(),
            part(50),
            part(99),
            part(100),
        ]
    };
    columns(&heads, &kinds.iter().map(row).collect::<Vec<_>>())
        + "times of RPCs that succeeded, in microseconds (u), milliseconds (m) or seconds (s)\n"
}

/// The time of each kind by phases, as parts of its sum.
fn table_of_phases(trace: &Trace, kinds: &[(String, Vec<&Rpc>)]) -> String {
    // The phases of incomplete RPCs are unknown.
    let known = |rpcs: &[&Rpc]| rpcs.iter().any(|rpc| rpc.outcome != Outcome::Incomplete);
    let kinds: Vec<_> = kinds.iter().filter(|(_, rpcs)| known(rpcs)).take(KINDS_MAX).collect();
    if kinds.is_empty() {
        return String::new();
    }
    let sums: Vec<BTreeMap<PhaseKind, u64>> =
        kinds.iter().map(|(_, rpcs)| sums_by_kind(trace, rpcs)).collect();
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

fn sums_by_kind(trace: &Trace, rpcs: &[&Rpc]) -> BTreeMap<PhaseKind, u64> {
    let mut sums = BTreeMap::new();
    for phase in rpcs.iter().flat_map(|rpc| rpc.phases(trace)) {
        *sums.entry(phase.kind).or_default() += phase.ns;
    }
    sums
}

fn list(trace: &Trace, rpcs: &[&Rpc]) -> String {
    let heads = ["id", "RPC", "from", "to", "began", "took", "most of it"];
    let row = |rpc: &&Rpc| {
        let sums = sums_by_kind(trace, &[*rpc]);
        let all: u64 = sums.values().sum();
        let most = sums.iter().max_by_key(|(_, ns)| **ns);
        let most = most.map_or("-".to_owned(), |(kind, ns)| {
            format!("{} {}", percent(*ns as f64 / all.max(1) as f64), kind.name())
        });
        vec![
            rpc.id.to_string(),
            rpc.label(),
            rpc.from.to_string(),
            rpc.to.to_string(),
            match rpc.outcome {
                Outcome::Incomplete => "-".to_owned(),
                _ => format!("{:.6}s", rpc.began as f64 / 1e9),
            },
            rpc.duration().map_or("-".to_owned(), short),
            most,
        ]
    };
    columns(&heads, &rpcs.iter().map(row).collect::<Vec<_>>())
}

/// The time line of one RPC, and the breakdown of its time.
pub(super) fn one(shown: &ShownRpc<'_>) -> String {
    let rpc = shown.rpc;
    let ended = match &rpc.outcome {
        Outcome::Ok => "succeeded".to_owned(),
        Outcome::Failed(why) => format!("failed: {why}"),
        Outcome::Unfinished => "not over when the trace ends".to_owned(),
        Outcome::Incomplete => "incomplete: it began before the trace".to_owned(),
    };
    let took = rpc.duration().map_or(String::new(), |took| format!("took {}, ", long(took)));
    let verb = if rpc.outcome == Outcome::Incomplete { "first seen" } else { "began" };
    let head = format!(
        "RPC {}: {}, {} -> {}, {verb} at {}, {took}{ended}",
        rpc.id,
        rpc.label(),
        rpc.from,
        rpc.to,
        seconds(rpc.began)
    );
    let mut out = wrapped("", &head);
    let moments = shown.timeline.as_deref().unwrap_or_default();
    let nodes = moments.iter().map(|moment| moment.node.to_string().len());
    let width = nodes.max().unwrap_or(0).max(4);
    out += &format!("\n{:>12}  {:<width$}  what\n", "us", "node");
    for moment in moments {
        let mut what = moment.what.clone();
        if let Some(waited) = moment.waited {
            what += &format!(" [{} us: {}]", micros(waited.ns), waited.what);
        }
        let front = format!("{:>12}  {:<width$}  ", micros(moment.at_ns), moment.node.to_string());
        out += &wrapped(&front, &what);
    }
    if !shown.phases.is_empty() {
        out += &where_it_went(&shown.phases);
    }
    if !shown.problems.is_empty() {
        let heading = match &rpc.outcome {
            Outcome::Unfinished => "where it is when the trace ends",
            Outcome::Failed(_) if !rpc.refused() => "where it failed",
            _ => "what failed",
        };
        out += &format!("\n{heading}\n");
        shown.problems.iter().for_each(|line| out += &wrapped("  ", line));
    }
    out
}

fn where_it_went(phases: &[Phase]) -> String {
    let mut out = format!("\n{:>12}  {:>5}  where the time went\n", "us", "part");
    let all: u64 = phases.iter().map(|phase| phase.ns).sum();
    for phase in phases {
        let part = percent(phase.ns as f64 / all.max(1) as f64);
        out += &wrapped(&format!("{:>12}  {part:>5}  ", micros(phase.ns)), &phase.what);
    }
    out += &format!("{:>12}  {:>5}  in total\n", micros(all), "100%");
    out
}

/// Words after a prefix, on as many lines as necessary; they may come from an untrusted file.
fn wrapped(front: &str, text: &str) -> String {
    let (mut out, mut line) = (String::new(), front.to_owned());
    let indent = front.chars().count();
    let mut empty = true;
    for word in printable(text).split(' ') {
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

fn seconds(ns: u64) -> String {
    format!("{:.6} s", ns as f64 / 1e9)
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
