//! Results as a page: plots of the varied values, of latencies, and of pairs.

mod matrix;

use std::collections::BTreeSet;

use lustrine_report::numbers::{latency_text, operations, percent, rate, size};
use lustrine_report::{Axis, Line, LineStyle, Page, Plot, Scale};
use lustrine_wire::nid::Nid;

use crate::compare::Comparison;
use crate::provenance;
use crate::results::{End, Latency, Results, Row};
use crate::table::{Cell, Combination, combinations, named};

/// Largest number of lines in one plot.
const LINES_MAX: usize = 16;

/// Largest number of nodes in a table.
const NODES_MAX: usize = 64;

/// A page about a run: one HTML file with everything in it.
pub fn page(results: &Results, table: &str) -> String {
    page_of_runs(&[results], &[table.to_owned()], &[])
}

/// A page about one run or several, of which the first comes first, with its table as text, and
/// comparisons of the others with it.
pub fn page_of_runs(runs: &[&Results], tables: &[String], comparisons: &[Comparison]) -> String {
    let titles: Vec<String> = runs.iter().map(|results| title(results)).collect();
    let mut distinct = titles.clone();
    distinct.dedup();
    let under = match runs {
        [only] => under_of(only),
        _ => format!("{} runs, the first is the base of comparisons", runs.len()),
    };
    let mut page = Page::new(&distinct.join(", "), &under);
    comparisons.iter().for_each(|comparison| comparison.show(&mut page));
    for (number, results) in runs.iter().enumerate() {
        if runs.len() > 1 {
            page.heading(&format!("Run {}: {}", number + 1, titles[number]));
            page.paragraph(&under_of(results));
        }
        run(&mut page, results, tables.get(number).map_or("", String::as_str));
    }
    let measured = runs.iter().map(|run| format!("lustrine {} from {}", run.version, run.host));
    let mut measured: Vec<String> = measured.collect();
    measured.dedup();
    page.end(&format!(
        "Measured by {}. Figures are those of the tests' own operations, at the clients; \
         docs/plans.md says how they are taken.",
        measured.join(", ")
    ))
}

/// What a run is called, as a title.
fn title(results: &Results) -> String {
    let name = results.title();
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

fn under_of(results: &Results) -> String {
    let groups: Vec<String> =
        results.groups.iter().map(|(name, nids)| format!("{} {name}", nids.len())).collect();
    let under = format!("{}; {}; {}", results.about, groups.join(", "), results.date);
    under.trim_start_matches("; ").to_owned()
}

fn run(page: &mut Page, results: &Results, table: &str) {
    let nodes: usize = results.groups.values().map(Vec::len).sum();
    match &results.end {
        End::Complete => {}
        End::Failed { error } => page.hints(&[format!("It ended early: {error}")]),
        End::Interrupted { .. } => page.hints(&["It was interrupted.".to_owned()]),
    }
    tiles(page, results, nodes);
    for (_, name, combinations) in combinations(results) {
        page.heading(&name);
        step(page, &combinations);
    }
    counters(page, results);
    let known = results.provenance.as_ref();
    let is_known =
        |nid: &&Nid| known.is_some_and(|known| known.nodes.iter().any(|n| n.nid == **nid));
    let all: BTreeSet<&Nid> = results.groups.values().flatten().collect();
    let others = all.iter().filter(|nid| !is_known(nid)).count();
    provenance::show(page, known, others);
    page.text("The same as text", table);
    if !results.source.is_empty() {
        page.text("The plan", &results.source);
    }
}

fn tiles(page: &mut Page, results: &Results, nodes: usize) {
    // As in the tables: of several repetitions, the median one.
    let steps = combinations(results);
    let cells = steps.iter().flat_map(|(.., combinations)| combinations);
    let cells: Vec<Cell<'_>> = cells.flat_map(Combination::cells).collect();
    let best = cells.iter().map(|cell| cell.middle().all.mib_per_s).fold(0.0, f64::max);
    let most = cells.iter().map(|cell| cell.middle().all.ops_per_s).fold(0.0, f64::max);
    let mut tiles = vec![
        (nodes.to_string(), "nodes".to_owned()),
        (results.points.len().to_string(), "points measured".to_owned()),
    ];
    if best > 0.0 {
        tiles.push((format!("{} MiB/s", rate(best)), "most of one test".to_owned()));
    }
    tiles.push((format!("{}/s", operations(most)), "most operations of one test".to_owned()));
    tiles.push((results.errors().to_string(), "errors".to_owned()));
    page.tiles(&tiles);
}

fn step(page: &mut Page, combinations: &[Combination<'_>]) {
    let mut cells = Vec::new();
    for combination in combinations {
        if combination.is_in_turns() {
            matrix::show(page, combination);
        } else {
            cells.extend(combination.cells().into_iter().map(|cell| (combination, cell)));
        }
    }
    if cells.is_empty() {
        return;
    }
    over_axis(page, combinations);
    distribution(page, &cells);
    let rows: Vec<_> = cells.iter().map(|(combination, cell)| row(combination, cell)).collect();
    page.table(
        &[
            "<varies", "<test", "from:to", "size", "conc", "MiB/s", "ops/s", "+-", "p50", "p90",
            "p99", "p99.9", "max", "errors",
        ],
        &rows,
    );
    for (combination, cell) in &cells {
        let lost: Vec<_> = cell.rows.iter().flat_map(|row| &row.lost).copied().collect();
        if !lost.is_empty() {
            page.hints(&[format!(
                "{}: without {}, which did not answer to the end",
                name_of(combination, cell.row, ""),
                named(&lost)
            )]);
        }
        notes(page, combination, cell);
        for kind in cell.rows.iter().flat_map(|row| &row.error_kinds) {
            page.paragraph(&format!("{}: {} x {}", cell.row.test.name(), kind.count, kind.what));
        }
    }
    clients(page, &cells);
}

/// What the table of a step does not have: latencies from when operations of a test with a rate
/// were sent, and operations that never ended.
fn notes(page: &mut Page, combination: &Combination<'_>, cell: &Cell<'_>) {
    let name = name_of(combination, cell.row, "");
    let row = cell.middle();
    if row.rate_limit > 0 {
        let mut text = format!(
            "{name}: {} operations per second and client; latencies are from when each was due.",
            row.rate_limit
        );
        if let Some(sent) = row.all.latency_sent_us {
            let [p50, p90, p99, max] = [sent.p50, sent.p90, sent.p99, sent.max].map(latency_text);
            text += &format!(
                " From when each was sent: p50 {p50}, p90 {p90}, p99 {p99}, longest {max}."
            );
        }
        page.paragraph(&text);
    }
    let lost: u64 = cell.rows.iter().map(|row| row.all.lost_ops).sum();
    if lost > 0 {
        let age = cell.rows.iter().map(|row| row.all.lost_age_max_s).fold(0.0, f64::max);
        page.paragraph(&format!(
            "{name}: {lost} operations never ended; the oldest was given up after {age:.1} s."
        ));
    }
}

fn row(combination: &Combination<'_>, cell: &Cell<'_>) -> Vec<String> {
    let row = cell.middle();
    let (latency, any_client) = (row.all.latency_us, !row.by_client.is_empty());
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let part = |of: fn(&Latency) -> f64| or_dash(latency.map(|l| latency_text(of(&l))));
    vec![
        combination.title(),
        row.test.name().to_owned(),
        format!("{}:{}", row.clients, row.servers),
        size(row.size),
        row.concurrency.to_string(),
        or_dash((row.size > 0 && any_client).then(|| rate(row.all.mib_per_s))),
        or_dash(any_client.then(|| operations(row.all.ops_per_s))),
        or_dash((cell.rows.len() > 1).then(|| percent(cell.spread()))),
        part(|l| l.p50),
        part(|l| l.p90),
        part(|l| l.p99),
        or_dash(latency.and_then(|l| l.p999).map(latency_text)),
        part(|l| l.max),
        cell.errors().to_string(),
    ]
}

/// Throughput and latency over the dimension with most values.
fn over_axis(page: &mut Page, combinations: &[Combination<'_>]) {
    let Some(axis) = longest_axis(combinations) else { return };
    let value = |combination: &Combination<'_>| {
        let (_, value) = combination.labels.iter().find(|(name, _)| *name == axis)?;
        bytes_of(value).or_else(|| value.parse().ok())
    };
    let mut rates: Vec<Line> = Vec::new();
    let mut halves: Vec<Line> = Vec::new();
    let bulk = combinations.iter().flat_map(|c| &c.points).flat_map(|p| &p.rows);
    let bulk = bulk.clone().all(|row| row.size > 0);
    for combination in combinations {
        let Some(x) = value(combination) else { continue };
        for cell in combination.cells() {
            let row = cell.middle();
            let name = name_of(combination, row, &axis);
            let y = if bulk { row.all.mib_per_s } else { row.all.ops_per_s };
            push(&mut rates, &name, LineStyle::Solid, (x, y));
            let of_row = |row: &&Row| if bulk { row.all.mib_per_s } else { row.all.ops_per_s };
            bar(&mut rates, &name, x, cell.rows.iter().map(of_row));
            if let Some(latency) = row.all.latency_us {
                let medians = cell.rows.iter().filter_map(|row| Some(row.all.latency_us?.p50));
                push(&mut halves, &name, LineStyle::Solid, (x, latency.p50));
                bar(&mut halves, &name, x, medians);
                push(&mut halves, &format!("{name}, p99"), LineStyle::Dashed, (x, latency.p99));
            }
        }
    }
    let x = || Axis::new(&axis, Scale::Doubling);
    let (title, unit) = match bulk {
        true => ("Throughput of all clients", "MiB/s"),
        false => ("Operations of all clients", "operations/s"),
    };
    // On a linear axis small sizes would be invisible next to large ones.
    let all = || rates.iter().flat_map(|line| &line.points).map(|point| point.1);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let scale = if low > 0.0 && high / low > 20.0 { Scale::Log } else { Scale::Linear };
    for (title, unit, scale, lines) in [
        (title, unit, scale, rates),
        ("Latency: median, and 99 % (dashed)", "us", Scale::Log, halves),
    ] {
        if lines.iter().all(|line| line.points.len() < 2) {
            continue;
        }
        let lines: Vec<Line> = lines.into_iter().take(2 * LINES_MAX).collect();
        let repeated = lines.iter().any(|line| !line.bars.is_empty());
        let unit =
            if repeated { format!("{unit}; bars: all repetitions") } else { unit.to_owned() };
        let y = Axis::new(&unit, scale);
        let plot = Plot { title: title.to_owned(), x: x(), y, key: String::new(), lines };
        page.figure(&plot.svg());
    }
}

/// Adds a point to the line of this name; pairs of names share a colour.
fn push(lines: &mut Vec<Line>, name: &str, stroke: LineStyle, point: (f64, f64)) {
    if let Some(line) = lines.iter_mut().find(|line| line.name == name) {
        line.points.push(point);
        return;
    }
    let solid = lines.iter().filter(|line| line.stroke == LineStyle::Solid).count();
    let colour = if stroke == LineStyle::Solid { solid } else { solid.saturating_sub(1) };
    lines.push(Line::new(name.to_owned(), vec![point], stroke, colour));
}

/// Adds an error bar of all repetitions to the line of this name, if there are several.
fn bar(lines: &mut [Line], name: &str, x: f64, values: impl Iterator<Item = f64> + Clone) {
    let Some(line) = lines.iter_mut().find(|line| line.name == name) else { return };
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if values.count() > 1 {
        line.bars.push((x, low, high));
    }
}

/// The distribution of latencies: the tests of up to this number of combinations.
fn distribution(page: &mut Page, cells: &[(&Combination<'_>, Cell<'_>)]) {
    let mut lines = Vec::new();
    let step = cells.len().div_ceil(LINES_MAX / 2).max(1);
    for (combination, cell) in cells.iter().step_by(step) {
        let row = cell.middle();
        let all: u64 = row.histogram.iter().map(|(_, count)| count).sum();
        let mut seen = 0;
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (us, count) in &row.histogram {
            seen += count;
            points.push((*us, seen as f64 / all.max(1) as f64 * 100.0));
        }
        if !points.is_empty() {
            let (name, colour) = (name_of(combination, row, ""), lines.len());
            lines.push(Line::new(name, points, LineStyle::Solid, colour));
        }
    }
    if lines.is_empty() {
        return;
    }
    let plot = Plot {
        title: "Latency distribution: operations that took no longer".to_owned(),
        x: Axis::new("us", Scale::Log),
        y: Axis::new("%", Scale::Linear),
        key: String::new(),
        lines,
    };
    page.figure(&plot.svg());
}

/// A comparison of the clients, if there are several.
fn clients(page: &mut Page, cells: &[(&Combination<'_>, Cell<'_>)]) {
    let mut rows = Vec::new();
    for (combination, cell) in cells {
        let row = cell.middle();
        if row.by_client.len() < 2 {
            continue;
        }
        let mut clients: Vec<_> = row.by_client.iter().collect();
        clients.sort_by(|one, two| one.counted.ops_per_s.total_cmp(&two.counted.ops_per_s));
        let value = |at: usize| {
            let counted = &clients[at].counted;
            match row.size {
                0 => format!("{}/s", operations(counted.ops_per_s)),
                _ => format!("{} MiB/s", rate(counted.mib_per_s)),
            }
        };
        rows.push(vec![
            name_of(combination, row, ""),
            clients.len().to_string(),
            value(0),
            clients[0].nid.to_string(),
            value((clients.len() - 1) / 2),
            value(clients.len() - 1),
            clients[clients.len() - 1].nid.to_string(),
        ]);
    }
    if !rows.is_empty() {
        page.paragraph("Comparison of the clients:");
        page.table(
            &["<test", "clients", "slowest", "<which", "middle", "fastest", "<which"],
            &rows,
        );
    }
}

/// The LNet counters of each node in the last point.
fn counters(page: &mut Page, results: &Results) {
    let Some(point) = results.points.last().filter(|point| !point.nodes.is_empty()) else {
        return;
    };
    page.heading("LNet of each node, in the last point");
    page.paragraph(
        "All messages of the nodes during the last point, those of others too; a read or write \
         is several messages.",
    );
    let row = |node: &crate::results::NodeCounters| {
        let lnet = &node.lnet;
        let bytes = lustrine_document::format_bytes;
        vec![
            node.nid.to_string(),
            lnet.send_count.to_string(),
            bytes(lnet.send_length),
            lnet.recv_count.to_string(),
            bytes(lnet.recv_length),
            lnet.drop_count.to_string(),
            lnet.errors.to_string(),
        ]
    };
    let rows: Vec<_> = point.nodes.iter().take(NODES_MAX).map(row).collect();
    let heads = ["<node", "sent", "bytes", "received", "bytes", "dropped", "errors"];
    page.table(&heads, &rows);
}

/// The label with the most different values that are numbers.
fn longest_axis(combinations: &[Combination<'_>]) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    let labels = &combinations.first()?.labels;
    for (name, _) in labels {
        let mut values: Vec<&str> = combinations
            .iter()
            .flat_map(|combination| &combination.labels)
            .filter(|(other, _)| other == name)
            .map(|(_, value)| value.as_str())
            .collect();
        values.sort_unstable();
        values.dedup();
        if values.len() > 1 && best.is_none_or(|(most, _)| values.len() > most) {
            best = Some((values.len(), name));
        }
    }
    best.map(|(_, name)| name.to_owned())
}

/// The name of a line: its test, and the varied values except that of the axis. If tests of a point
/// have the same name, their groups are added.
fn name_of(combination: &Combination<'_>, row: &Row, axis: &str) -> String {
    let rows = combination.points.first().map_or(&[][..], |point| &point.rows);
    let alike = rows.iter().filter(|other| (other.test, other.size) == (row.test, row.size));
    let mut words = vec![match (row.size, axis) {
        (0, _) | (_, "size") => row.test.name().to_owned(),
        (bytes, _) => format!("{} {}", row.test.name(), size(bytes)),
    }];
    if alike.count() > 1 {
        words.push(format!("{}>{}", row.from, row.to));
    }
    let others = combination.labels.iter().filter(|(name, _)| name != axis && name != "size");
    words.extend(others.map(|(name, value)| match name.as_str() {
        "concurrency" => format!("c{value}"),
        "rate" => format!("{value}/s"),
        name => format!("{value} {name}"),
    }));
    words.join(" ")
}

/// A size as labels show it, in bytes.
fn bytes_of(text: &str) -> Option<f64> {
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1024.0),
        None => (text.strip_suffix('M')?, 1_048_576.0),
    };
    digits.parse::<f64>().ok().map(|value| value * unit)
}
