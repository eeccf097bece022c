//! Results as a page: plots of the varied values, of latencies, and of pairs.

mod matrix;
mod percentiles;
mod tiles;
mod verdict;

use std::collections::BTreeSet;

use lustrine_report::numbers::{counted, grouped, grouped_count, latency_text, percent, size};
use lustrine_report::{Axis, FinishedPage, Line, LineStyle, Page, Plot, Scale, coinciding};
use lustrine_wire::nid::Nid;

use crate::combination::{Cell, Combination, combinations};
use crate::compare::Comparison;
use crate::lines::median;
use crate::provenance;
use crate::results::{End, Latency, OpCounts, Results, Row, named};

/// Largest number of lines in one plot.
const LINES_MAX: usize = 16;

/// Largest number of nodes in a table.
const NODES_MAX: usize = 64;

/// A page about a run: one HTML file with everything in it, and its plots.
pub fn page(results: &Results, table: &str) -> FinishedPage {
    page_of_runs(&[results], &[table.to_owned()], &[])
}

/// A page about one run or several, of which the first comes first, with its table as text, and
/// comparisons of the others with it.
pub fn page_of_runs(
    runs: &[&Results],
    tables: &[String],
    comparisons: &[Comparison],
) -> FinishedPage {
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
            page.origin(&under_of(results));
        }
        run(&mut page, results, tables.get(number).map_or("", String::as_str));
    }
    let measured = runs.iter().map(|run| format!("lustrine {} from {}", run.version, run.host));
    let mut measured: Vec<String> = measured.collect();
    measured.dedup();
    page.end(&format!(
        "Measured by {}. Results are those of the tests' own operations, at the clients; \
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
        results.groups.iter().map(|(name, nids)| format!("{name}: {}", nids.len())).collect();
    let under = format!("{}; {}; {}", results.about, groups.join(", "), results.date);
    under.trim_start_matches("; ").to_owned()
}

fn run(page: &mut Page, results: &Results, table: &str) {
    match &results.end {
        End::Complete => {}
        End::Failed { error } => page.hints(&[format!("It ended early: {error}")]),
        End::Interrupted { .. } => page.hints(&["It was interrupted.".to_owned()]),
    }
    if let Some(verdict) = verdict::verdict(results) {
        page.verdict(&verdict);
    }
    if let Some(start) = results.start.as_ref().filter(|start| !start.missing.is_empty()) {
        let (count, of) = (start.missing.len(), start.missing.len() + start.hosts.len());
        let title = format!("{count} of {of} hosts were not started and are not in the results");
        page.text(&title, &start.missing_lines());
    }
    page.tiles(&tiles::tiles(results));
    for (_, name, combinations) in combinations(results) {
        page.heading(&name);
        step(page, results, &combinations);
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

fn step(page: &mut Page, results: &Results, combinations: &[Combination<'_>]) {
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
    over_axis(page, results, combinations);
    percentiles::distribution(page, &cells);
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
    if cell.rows.iter().any(|row| row.cut_short) {
        let seconds = row.all.seconds;
        page.hints(&[format!(
            "{name}: the run ended during this row; its numbers are those of {seconds:.1} s"
        )]);
    }
    let away = cell.rows.iter().map(|row| row.unreachable_s).fold(0.0, f64::max);
    if away > 0.0 {
        page.hints(&[format!("{name}: the node was not reachable for {away:.1} s of the row")]);
    }
    let lost = cell.rows.iter().fold(0, |all: u64, row| all.saturating_add(row.all.lost_ops));
    if lost > 0 {
        let age = cell.rows.iter().map(|row| row.all.lost_age_max_s).fold(0.0, f64::max);
        page.paragraph(&format!(
            "{name}: {} never ended; the oldest was given up after {age:.1} s.",
            counted(lost, "operation")
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
        or_dash((row.size > 0 && any_client).then(|| grouped(row.all.mib_per_s))),
        or_dash(any_client.then(|| grouped(row.all.ops_per_s))),
        or_dash((cell.rows.len() > 1).then(|| percent(cell.spread()))),
        part(|l| l.p50),
        part(|l| l.p90),
        part(|l| l.p99),
        or_dash(latency.and_then(|l| l.p999).map(latency_text)),
        part(|l| l.max),
        grouped_count(cell.errors()),
    ]
}

/// The position of a combination on an axis, and its label there.
fn value_on<'c>(combination: &'c Combination<'_>, axis: &str) -> Option<(f64, &'c str)> {
    let (_, label) = combination.labels.iter().find(|(name, _)| name == axis)?;
    Some((bytes_of(label).or_else(|| label.parse().ok())?, label))
}

/// Throughput and latency over the dimension with most values. Each size has plots of its own,
/// because small ones would be invisible beside large ones.
fn over_axis(page: &mut Page, results: &Results, combinations: &[Combination<'_>]) {
    let Some(axis) = longest_axis(combinations) else { return };
    let rows = combinations.iter().flat_map(|c| &c.points).flat_map(|p| &p.rows);
    let mut sizes: Vec<u32> = rows.map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if axis == "size" {
        return plots_over(page, results, combinations, (&axis, &|row| row.size > 0), "");
    }
    for bytes in &sizes {
        let title = if *bytes > 0 { format!(", {}", size(*bytes)) } else { ", pings".to_owned() };
        let title = if sizes.len() > 1 { title.as_str() } else { "" };
        plots_over(page, results, combinations, (&axis, &|row| row.size == *bytes), title);
    }
}

/// Two plots of the rows that `shown` selects.
fn plots_over(
    page: &mut Page,
    results: &Results,
    combinations: &[Combination<'_>],
    (axis, shown): (&str, &dyn Fn(&Row) -> bool),
    title: &str,
) {
    let mut rates: Vec<Line> = Vec::new();
    let mut halves: Vec<Line> = Vec::new();
    let mut references: Vec<Line> = Vec::new();
    let mut bulk = false;
    for combination in combinations {
        let Some((x, _)) = value_on(combination, axis) else { continue };
        for cell in combination.cells().iter().filter(|cell| shown(cell.row)) {
            let row = cell.middle();
            bulk = row.size > 0;
            let name = name_of(combination, row, axis);
            let y = if bulk { row.all.mib_per_s } else { row.all.ops_per_s };
            push(&mut rates, &name, LineStyle::Solid, (x, y));
            let of_row = |row: &&Row| if bulk { row.all.mib_per_s } else { row.all.ops_per_s };
            bar(&mut rates, &name, x, cell.rows.iter().map(of_row));
            if let Some(rate) = row.plain_tcp_mib_per_s {
                push(&mut references, &format!("plain TCP, {name}"), LineStyle::Dashed, (x, rate));
            }
            if let (true, Some(rate)) = (bulk, line_rate(results, row)) {
                push(&mut references, &format!("line rate, {name}"), LineStyle::Dashed, (x, rate));
            }
            if let Some(latency) = row.all.latency_us {
                let medians = cell.rows.iter().filter_map(|row| Some(row.all.latency_us?.p50));
                push(&mut halves, &name, LineStyle::Solid, (x, latency.p50));
                bar(&mut halves, &name, x, medians);
                push(&mut halves, &format!("{name}, p99"), LineStyle::Dashed, (x, latency.p99));
            }
        }
    }
    // Values may be given, and run, in any order.
    for line in [&mut rates, &mut halves, &mut references].into_iter().flatten() {
        line.points.sort_by(|one, two| one.0.total_cmp(&two.0));
    }
    let alike = coinciding(&rates);
    rates.extend(references);
    let (what, unit) = match bulk {
        true => ("Throughput of all clients", "MiB/s"),
        false => ("Operations of all clients", "operations/s"),
    };
    let time = in_time_unit(&mut halves);
    // The title says what dashes are; a second name for each line would fill the legend.
    let dashed = halves.iter_mut().filter(|line| line.stroke == LineStyle::Dashed);
    dashed.for_each(|line| line.name.clear());
    // Lines of one size can still be far apart.
    let all = || rates.iter().flat_map(|line| &line.points).map(|point| point.1);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let scale = if low > 0.0 && high / low > 20.0 { Scale::Log } else { Scale::Linear };
    for (what, unit, scale, lines) in [
        (what, unit, scale, rates),
        ("Latency: median, and 99 % (dashed)", time, Scale::Log, halves),
    ] {
        if lines.iter().all(|line| line.points.len() < 2) {
            continue;
        }
        if lines.len() > 2 * LINES_MAX {
            let left_out = lines.len() - 2 * LINES_MAX;
            page.paragraph(&format!("{what}; in the table only: {left_out} more."));
        }
        let lines: Vec<Line> = lines.into_iter().take(2 * LINES_MAX).collect();
        let repeated = lines.iter().any(|line| !line.bars.is_empty());
        let unit =
            if repeated { format!("{unit}; bars: all repetitions") } else { unit.to_owned() };
        let (x, y) = (Axis::new(axis, Scale::Doubling), Axis::new(&unit, scale));
        let title = format!("{what}{title}");
        page.figure(&Plot { title, x, y, key: String::new(), lines });
    }
    if let Some(alike) = alike {
        page.paragraph(&alike);
    }
}

/// MiB/s that the devices of the clients or of the servers can carry at most, whichever is less;
/// `None` unless all devices of one side are known.
fn line_rate(results: &Results, row: &Row) -> Option<f64> {
    let provenance = results.provenance.as_ref()?;
    let side = |group: &str, count: u32| {
        let nids = results.groups.get(group)?.iter().take(count as usize);
        let speeds = nids.map(|nid| provenance.speed_mbit_s(*nid).map(u64::from));
        speeds.sum::<Option<u64>>().filter(|sum| *sum > 0)
    };
    // One known side is an upper limit too.
    let sides = [side(&row.from, row.clients), side(&row.to, row.servers)];
    let least = sides.into_iter().flatten().min()?;
    Some(least as f64 * 125_000.0 / 1_048_576.0)
}

/// Turns lines of microseconds into the unit that suits their largest value.
fn in_time_unit(lines: &mut [Line]) -> &'static str {
    let most = lines.iter().flat_map(|line| &line.points).map(|p| p.1).fold(0.0, f64::max);
    let (unit, us) = match most {
        ..2e3 => ("us", 1.0),
        ..2e6 => ("ms", 1e3),
        _ => ("s", 1e6),
    };
    for line in lines {
        line.points.iter_mut().for_each(|point| point.1 /= us);
        line.bars.iter_mut().for_each(|bar| (bar.1, bar.2) = (bar.1 / us, bar.2 / us));
    }
    unit
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
        let rate = |counted: &OpCounts| match row.size {
            0 => counted.ops_per_s,
            _ => counted.mib_per_s,
        };
        let rates: Vec<f64> = clients.iter().map(|client| rate(&client.counted)).collect();
        let unit = if row.size == 0 { "/s" } else { " MiB/s" };
        let text = |rate: f64| format!("{}{unit}", grouped(rate));
        let (Some(slowest), Some(fastest)) = (rates.first(), rates.last()) else { continue };
        rows.push(vec![
            name_of(combination, row, ""),
            clients.len().to_string(),
            text(*slowest),
            clients[0].nid.to_string(),
            text(median(&rates).unwrap_or(0.0)),
            text(*fastest),
            clients[clients.len() - 1].nid.to_string(),
        ]);
    }
    if !rows.is_empty() {
        page.paragraph("Comparison of the clients:");
        page.table(
            &["<test", "clients", "slowest", "<which", "median", "fastest", "<which"],
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
            grouped_count(lnet.send_count.into()),
            bytes(lnet.send_length),
            grouped_count(lnet.recv_count.into()),
            bytes(lnet.recv_length),
            grouped_count(lnet.drop_count.into()),
            grouped_count(lnet.errors.into()),
        ]
    };
    let rows: Vec<_> = point.nodes.iter().take(NODES_MAX).map(row).collect();
    let heads = ["<node", "sent", "bytes", "received", "bytes", "dropped", "errors"];
    page.table(&heads, &rows);
    if point.nodes.len() > NODES_MAX {
        let left_out = point.nodes.len() - NODES_MAX;
        page.paragraph(&format!("In the JSON only: {left_out} more."));
    }
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
        name => format!("{name} {value}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_have_the_unit_of_their_largest_value() {
        for (us, wanted, shown) in
            [(1500.0, "us", 1500.0), (200_000.0, "ms", 200.0), (9e6, "s", 9.0)]
        {
            let mut lines = [Line::new(String::new(), vec![(1.0, us)], LineStyle::Solid, 0)];
            assert_eq!(in_time_unit(&mut lines), wanted);
            assert_eq!(lines[0].points, [(1.0, shown)]);
        }
    }

    #[test]
    fn a_line_rate_needs_all_devices_of_a_side() {
        let mut results = crate::compare::tests::run(&[(1, &[100.0])]);
        let nid = |text: &str| text.parse::<Nid>().expect("a NID");
        let (one, two) = (nid("10.0.0.1@tcp"), nid("10.0.0.2@tcp"));
        results.groups.insert("clients".to_owned(), vec![one]);
        results.groups.insert("servers".to_owned(), vec![two]);
        let row = results.points[0].rows[0].clone();
        assert_eq!(line_rate(&results, &row), None);
        let device = crate::NetDevice { speed_mbit_s: Some(8389), ..crate::NetDevice::default() };
        let node = crate::NodeSettings {
            nid: one,
            version: None,
            devices: vec![device],
            changed_tunables: None,
        };
        results.provenance = Some(crate::Provenance { nodes: vec![node], ..Default::default() });
        let rate = line_rate(&results, &row).expect("the client's device is known");
        assert!((rate - 1000.0).abs() < 0.1, "{rate}");
        let row = Row { clients: 2, ..row };
        results.groups.insert("clients".to_owned(), vec![one, two]);
        assert_eq!(line_rate(&results, &row), None);
    }
}
