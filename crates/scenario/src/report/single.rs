//! The page about one run.

use super::footer;
use crate::outcome::{LoadOutcome, Outcome};
use lustrine_document::format_bytes;
use lustrine_report::Scale;
use lustrine_report::numbers::{
    counted, grouped, grouped_count, latency_text, percent, size, three_digits,
};
use lustrine_report::{Axis, Line, LineStyle, Plot};
use lustrine_report::{FinishedPage, Page};

/// Largest number of queues that are drawn; the longest ones are chosen.
const QUEUES_MAX: usize = 8;

/// The content of a page.
#[derive(Clone, Copy, Debug)]
pub struct RunReport<'a> {
    /// The file, as messages call it.
    pub source_name: &'a str,
    /// The text of the file; empty if it is not known.
    pub source: &'a str,
    /// Changes to the file, such as `--set peer_credits=32`.
    pub changes: &'a [String],
    /// The release.
    pub version: &'a str,
    /// The results.
    pub outcome: &'a Outcome,
}

/// Writes the page.
pub fn run_page(single: &RunReport<'_>) -> FinishedPage {
    let RunReport { source_name, outcome, .. } = *single;
    let mut under = format!(
        "{} at fidelity {}, {} s of virtual time, seed {}, trace {}",
        counted(outcome.nodes, "node"),
        outcome.fidelity.name(),
        three_digits(outcome.virtual_s),
        outcome.seed,
        outcome.trace_hash
    );
    for change in single.changes {
        under += &format!(", {change}");
    }
    let mut page = Page::new(source_name, &under);
    page.verdict(&verdict(outcome));
    page.tiles(&tiles(outcome));
    page.hints(&hints(outcome));
    for plot in [throughput(outcome), queues(outcome), latencies(outcome)] {
        page.figure(&plot);
    }
    page.heading("Loads");
    loads(&mut page, outcome);
    page.heading("Links");
    links(&mut page, outcome);
    page.heading("Where messages waited");
    waits(&mut page, outcome);
    if !single.source.is_empty() {
        page.text("The scenario", single.source);
    }
    page.end(&footer(source_name, single.version))
}

/// The loads of one test: their rates have one meaning, and those of others are not added.
struct Kind<'a> {
    test: &'a str,
    /// MiB a second, or operations a second of a test without data; `None` if its loads were not
    /// measured at the same time.
    rate: Option<f64>,
    moved: bool,
    /// The part of what the formula allows, if it says something of all of them.
    share: Option<f64>,
}

impl Kind<'_> {
    fn rate(&self) -> String {
        let unit = if self.moved { "MiB/s" } else { "operations/s" };
        match self.rate {
            Some(rate) => format!("{} {unit}", grouped(rate)),
            None => "loads at different times, each with its own rate below".to_owned(),
        }
    }
}

/// The kinds of loads, in the order of the scenario.
fn kinds(outcome: &Outcome) -> Vec<Kind<'_>> {
    let mut tests: Vec<&str> = Vec::new();
    for load in &outcome.loads {
        if !tests.contains(&load.test.as_str()) {
            tests.push(&load.test);
        }
    }
    let kind = |test| {
        let loads: Vec<_> = outcome.loads.iter().filter(|load| load.test == test).collect();
        let moved = loads.iter().any(|load| load.size > 0);
        let sum = outcome.those_together(|load| load.test == test);
        let rate = sum.map(|sum| if moved { sum.mib_per_s } else { sum.ops_per_s });
        let allowed =
            sum.and_then(|sum| if moved { sum.formula_mib_per_s } else { sum.formula_ops_per_s });
        let share = allowed.filter(|allowed| *allowed > 0.0);
        let share = share.and_then(|allowed| Some(rate? / allowed));
        Kind { test, rate, moved, share }
    };
    tests.into_iter().map(kind).collect()
}

/// The result in a sentence, with the formula and the first hint.
fn verdict(outcome: &Outcome) -> String {
    let kinds = kinds(outcome);
    let each = kinds.iter().map(|kind| {
        let name = if kinds.len() > 1 { format!("{} ", kind.test) } else { String::new() };
        let share = kind.share.map_or_else(String::new, |share| {
            format!(", {} of what the formula allows", percent(share))
        });
        format!("{name}{}{share}", kind.rate())
    });
    let mut words = each.collect::<Vec<_>>().join("; ");
    if outcome.errors() > 0 {
        let noun = if outcome.errors() == 1 { "operation" } else { "operations" };
        words += &format!("; {} {noun} failed", grouped_count(outcome.errors()));
    }
    if let Some(hint) = outcome.hints.first() {
        words += &format!("; {hint}");
    }
    words + "."
}

fn tiles(outcome: &Outcome) -> Vec<(String, String)> {
    let mut tiles = Vec::new();
    let kinds = kinds(outcome);
    for kind in &kinds {
        let of = if kinds.len() > 1 { format!(", {}", kind.test) } else { String::new() };
        if kind.rate.is_some() {
            tiles.push((kind.rate(), format!("throughput{of}")));
        }
        if let Some(share) = kind.share {
            tiles.push((percent(share), format!("of what the formula allows{of}")));
        }
    }
    if let [kind] = &kinds[..]
        && kind.moved
        && let Some(sum) = outcome.together()
    {
        tiles.push((grouped(sum.ops_per_s), "operations per second".to_owned()));
    }
    let worst = outcome.loads.iter().map(|load| load.latency_us.p99).fold(0.0, f64::max);
    tiles.push((latency_text(worst), "p99 latency, of the slowest load".to_owned()));
    tiles.push((grouped_count(outcome.errors()), "errors".to_owned()));
    tiles
}

fn hints(outcome: &Outcome) -> Vec<String> {
    let odd = outcome.unquiet.iter().map(|what| format!("not in order at the end: {what}"));
    let early = outcome.interrupted.then(|| "the run was ended early".to_owned());
    // The first one is in the sentence above.
    early.into_iter().chain(outcome.hints.iter().skip(1).cloned()).chain(odd).collect()
}

fn load_name(load: &LoadOutcome) -> String {
    format!("{} {} to {}", load.test, load.from, load.to)
}

fn throughput(outcome: &Outcome) -> Plot {
    let moved = outcome.loads.iter().any(|load| load.size > 0);
    let at = &outcome.samples.at_s;
    let mut lines = Vec::new();
    for (colour, (load, samples)) in outcome.loads.iter().zip(&outcome.samples.loads).enumerate() {
        if moved && load.size == 0 {
            continue;
        }
        let values = if moved { &samples.mib_per_s } else { &samples.ops_per_s };
        let points = at.iter().copied().zip(values.iter().copied()).collect();
        lines.push(Line::new(load_name(load), points, LineStyle::Solid, colour));
        let formula = if moved { load.formula_mib_per_s() } else { load.formula_ops_per_s };
        if let (Some(formula), Some(first), Some(last)) = (formula, at.first(), at.last()) {
            let name = format!("formula: {}", load.formula_limit.as_deref().unwrap_or("delay"));
            let points = vec![(*first, formula), (*last, formula)];
            let colour = if outcome.loads.len() == 1 { 7 } else { colour };
            lines.push(Line::new(name, points, LineStyle::Dashed, colour));
        }
    }
    Plot {
        title: "Throughput over time".to_owned(),
        x: Axis::new("seconds of virtual time", Scale::Linear),
        y: Axis::new(
            if moved { "MiB/s in the measured time" } else { "operations per second, measured" },
            Scale::Linear,
        ),
        key: String::new(),
        lines,
    }
}

fn queues(outcome: &Outcome) -> Plot {
    let samples = &outcome.samples;
    let mut longest: Vec<_> = samples.queues.iter().enumerate().collect();
    let most = |bytes: &Vec<u64>| bytes.iter().copied().max().unwrap_or(0);
    longest.retain(|(_, queue)| most(&queue.bytes) > 0);
    longest.sort_by_key(|(_, queue)| core::cmp::Reverse(most(&queue.bytes)));
    let title = match longest.len().saturating_sub(QUEUES_MAX) {
        0 => "Queues over time".to_owned(),
        shorter => format!("Queues over time, without {shorter} shorter ones"),
    };
    longest.truncate(QUEUES_MAX);
    longest.sort_by_key(|(index, _)| *index);
    let top = longest.iter().map(|(_, queue)| most(&queue.bytes)).max().unwrap_or(0);
    let (unit, scale) = match top {
        0..0x4000 => ("bytes", 1.0),
        0x4000..0x80_0000 => ("KiB", 1024.0),
        _ => ("MiB", 1_048_576.0),
    };
    let lines = longest.iter().enumerate().map(|(colour, (_, queue))| {
        let bytes = queue.bytes.iter().map(|bytes| *bytes as f64 / scale);
        let points = samples.at_s.iter().copied().zip(bytes).collect();
        Line::new(queue.name.clone(), points, LineStyle::Solid, colour)
    });
    Plot {
        title,
        x: Axis::new("seconds of virtual time", Scale::Linear),
        y: Axis::new(&format!("{unit} that wait, at the longest queue"), Scale::Linear),
        key: String::new(),
        lines: lines.collect(),
    }
}

fn latencies(outcome: &Outcome) -> Plot {
    let loads = outcome.loads.iter().enumerate().filter(|(_, load)| load.ops > 0);
    let lines = loads.map(|(colour, load)| {
        let all = load.latency_us;
        let at = [Some(all.p50), Some(all.p90), Some(all.p99), all.p999, Some(all.max)];
        let points = at.iter().enumerate().filter_map(|(x, us)| Some((x as f64, (*us)? / 1e3)));
        Line::new(load_name(load), points.collect(), LineStyle::Solid, colour)
    });
    let names = ["p50", "p90", "p99", "p99.9", "max"];
    let mut x = Axis::new("part of the operations", Scale::Linear);
    x.names = names.iter().enumerate().map(|(x, name)| (x as f64, (*name).to_owned())).collect();
    Plot {
        title: "Latency".to_owned(),
        x,
        y: Axis::new("ms", Scale::Log),
        key: String::new(),
        lines: lines.collect(),
    }
}

fn loads(page: &mut Page, outcome: &Outcome) {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let rows = outcome.loads.iter().map(|load| {
        let at = load.latency_us;
        let share = load.formula_ops_per_s.filter(|f| *f > 0.0).map(|f| load.ops_per_s / f);
        vec![
            load_name(load),
            load.pairs.to_string(),
            size(load.size),
            load.concurrency.to_string(),
            or_dash((load.size > 0).then(|| grouped(load.mib_per_s))),
            grouped(load.ops_per_s),
            latency_text(at.p50),
            latency_text(at.p90),
            latency_text(at.p99),
            or_dash(at.p999.map(latency_text)),
            latency_text(at.max),
            grouped_count(load.errors),
            or_dash(share.map(percent)),
        ]
    });
    let rows: Vec<_> = rows.collect();
    page.table(
        &[
            "<load", "pairs", "size", "conc", "MiB/s", "ops/s", "p50", "p90", "p99", "p99.9",
            "max", "errors", "formula",
        ],
        &rows,
    );
    for load in &outcome.loads {
        for (kind, count) in &load.error_kinds {
            page.paragraph(&format!("{}: {count} x {kind}", load_name(load)));
        }
    }
    let limits: Vec<_> = outcome
        .loads
        .iter()
        .filter_map(|load| Some(format!("{}: {}", load_name(load), load.formula_limit.as_ref()?)))
        .collect();
    if !limits.is_empty() {
        page.paragraph(&format!(
            "The formula is RPCs in flight x size / (2 x round trip; 1 x for ping), and no more \
             than the links carry. What limits it here: {}.",
            limits.join("; ")
        ));
    }
}

fn links(page: &mut Page, outcome: &Outcome) {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let row = |link: &crate::outcome::LinkOutcome| {
        let of = link.bits_per_s.map(|bits| format!("{} Gb/s", three_digits(bits as f64 / 1e9)));
        vec![
            link.name.clone(),
            link.links.to_string(),
            or_dash(of),
            or_dash(link.share.map(percent)),
            or_dash(link.share_max.map(percent)),
            format_bytes(link.bytes),
            format_bytes(link.lost),
            format_bytes(link.queue_max),
        ]
    };
    let rows: Vec<_> = outcome.links.iter().map(row).collect();
    let heads =
        ["<link", "links", "of each", "used", "most used", "carried", "lost", "longest queue"];
    page.table(&heads, &rows);
}

fn waits(page: &mut Page, outcome: &Outcome) {
    let row = |group: &crate::outcome::GroupWaits| {
        let [name, peer, ni, driver, zero_copy, cpu, _] = group.row();
        vec![name, peer, ni, driver, zero_copy, cpu, grouped(group.messages_per_s)]
    };
    let rows: Vec<_> = outcome.waits.iter().map(row).collect();
    let heads = [
        "<group",
        "for peer credits",
        "for NI credits",
        "in the driver",
        "for zero-copy acks",
        "CPU",
        "messages/s",
    ];
    page.table(&heads, &rows);
    page.paragraph(
        "Mean numbers of messages that waited at one node in the measured time, and their part of \
         all that waited.",
    );
}
