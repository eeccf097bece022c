//! The history of paths as a page with plots, and as a table.

use lustrine_report::numbers::{grouped_count, latency};
use lustrine_report::{Axis, FinishedPage, Line, LineStyle, Page, Plot, Scale};

use crate::alarm::{Alarm, AlarmEnd};
use crate::thin::{HOUR_MS, Row};
use crate::words::{rate_text, span_text};

/// The history of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The peer's NID.
    pub peer: String,
    /// Rows for the table, ascending by time.
    pub rows: Vec<Row>,
    /// Rows of shorter periods for the plots, ascending by time.
    pub points: Vec<Row>,
    /// Alarms, in the order in which they were raised.
    pub alarms: Vec<Alarm>,
}

/// The headings of the table; words begin with `<`, as pages want it.
pub const HEADS: [&str; 12] = [
    "<time (UTC)",
    "samples",
    "pings",
    "lost",
    "min",
    "median",
    "p99",
    "max",
    "MTU to",
    "MTU from",
    "read",
    "write",
];

/// The cells of a row.
pub fn cells(row: &Row, time: &dyn Fn(u64) -> String) -> Vec<String> {
    let none = || "-".to_owned();
    let ns = |value: Option<u64>| value.map_or_else(none, |ns| latency(ns as f64 / 1e3));
    let bytes = |value: Option<u32>| value.map_or_else(none, |bytes| bytes.to_string());
    let rate = |value: Option<u64>| value.map_or_else(none, rate_text);
    vec![
        time(row.at_ms),
        grouped_count(row.samples),
        grouped_count(row.sent),
        grouped_count(row.lost),
        ns(row.rtt.map(|rtt| rtt.min_ns)),
        ns(row.rtt.map(|rtt| rtt.median_ns)),
        ns(row.rtt.map(|rtt| rtt.p99_ns)),
        ns(row.rtt.map(|rtt| rtt.max_ns)),
        bytes(row.mtu_out),
        bytes(row.mtu_back),
        rate(row.read),
        rate(row.write),
    ]
}

/// How an alarm ended, or that it lasts.
pub fn ending(alarm: &Alarm, time: &dyn Fn(u64) -> String) -> String {
    let Some((at_ms, end)) = alarm.over else { return "lasts".to_owned() };
    let how = match end {
        AlarmEnd::Back => "back",
        AlarmEnd::Changed => "changed again",
        AlarmEnd::Accepted => "accepted",
    };
    let lasted = span_text(at_ms.saturating_sub(alarm.since_ms));
    format!("{how} at {} ({lasted})", time(at_ms))
}

/// The page. `time`: milliseconds since 1970 as text in UTC.
pub fn page(all: &[Series], under: &str, time: &dyn Fn(u64) -> String) -> FinishedPage {
    let mut page = Page::new("Paths over time", under);
    for series in all {
        page.heading(&series.peer);
        let lasting = series.alarms.iter().filter(|alarm| alarm.over.is_none());
        let lasting: Vec<String> = lasting
            .map(|alarm| {
                format!("{}: {}, since {}", alarm.kind.name(), alarm.what, time(alarm.since_ms))
            })
            .collect();
        page.hints(&lasting);
        if let Some(first) = series.points.first() {
            plots(&mut page, series, first.at_ms, time);
        }
        if series.alarms.is_empty() {
            page.paragraph("No alarms.");
        } else {
            let rows: Vec<Vec<String>> =
                series.alarms.iter().rev().map(|alarm| row(alarm, time)).collect();
            page.table(&["<since (UTC)", "<kind", "<what", "<end", "<seen"], &rows);
        }
        let rows: Vec<Vec<String>> = series.rows.iter().map(|row| cells(row, time)).collect();
        page.table(&HEADS, &rows);
    }
    page.end("Written by `lustrine watch report`.")
}

fn row(alarm: &Alarm, time: &dyn Fn(u64) -> String) -> Vec<String> {
    vec![
        time(alarm.since_ms),
        alarm.kind.name().to_owned(),
        alarm.what.clone(),
        ending(alarm, time),
        alarm.evidence.clone(),
    ]
}

/// Beyond so many hours days are shown.
const HOURS_MAX: u64 = 72;

fn plots(page: &mut Page, series: &Series, first_ms: u64, time: &dyn Fn(u64) -> String) {
    let last_ms = series.points.last().map_or(first_ms, |row| row.at_ms);
    let (unit_ms, unit) = match last_ms.saturating_sub(first_ms) / HOUR_MS {
        ..=HOURS_MAX => (HOUR_MS, "hours"),
        _ => (24 * HOUR_MS, "days"),
    };
    let x = |row: &Row| row.at_ms.saturating_sub(first_ms) as f64 / unit_ms as f64;
    let axis = || Axis::new(&format!("{unit} since {} UTC", time(first_ms)), Scale::Linear);
    let line = |name: &str, colour: usize, value: &dyn Fn(&Row) -> Option<f64>| {
        let points = series.points.iter().filter_map(|row| Some((x(row), value(row)?)));
        Line::new(name.to_owned(), points.collect(), LineStyle::Solid, colour)
    };
    let ms = |value: fn(&crate::sample::Rtt) -> u64| {
        move |row: &Row| row.rtt.as_ref().map(|rtt| value(rtt) as f64 / 1e6)
    };
    let plot = |title: &str, label: &str, scale: Scale, lines: Vec<Line>| Plot {
        title: title.to_owned(),
        x: axis(),
        y: Axis::new(label, scale),
        key: String::new(),
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    };
    page.figure(&plot(
        "Round trips",
        "ms",
        Scale::Log,
        vec![
            line("min", 0, &ms(|rtt| rtt.min_ns)),
            line("median", 1, &ms(|rtt| rtt.median_ns)),
            line("p99", 2, &ms(|rtt| rtt.p99_ns)),
        ],
    ));
    let lost = |row: &Row| (row.sent > 0).then(|| row.lost as f64 * 100.0 / row.sent as f64);
    page.figure(&plot("Pings without an answer", "%", Scale::Linear, vec![line("lost", 3, &lost)]));
    page.figure(&plot(
        "Path MTU",
        "bytes",
        Scale::Linear,
        vec![
            line("to the peer", 0, &|row| row.mtu_out.map(f64::from)),
            line("from the peer", 1, &|row| row.mtu_back.map(f64::from)),
        ],
    ));
    page.figure(&plot(
        "Bandwidth",
        "Mb/s",
        Scale::Linear,
        vec![
            line("read", 0, &|row| row.read.map(|rate| rate as f64 / 1e6)),
            line("write", 1, &|row| row.write.map(|rate| rate as f64 / 1e6)),
        ],
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::AlarmKind;
    use crate::sample::Rtt;

    #[test]
    fn a_page_has_the_plots_that_have_values_and_the_alarms() {
        let point = |at: u64| Row {
            at_ms: at * HOUR_MS,
            samples: 1,
            sent: 10,
            rtt: Some(Rtt { min_ns: 1_000_000, median_ns: 2_000_000, p99_ns: 1, max_ns: 1 }),
            ..Row::default()
        };
        let alarm = Alarm {
            kind: AlarmKind::Rtt,
            part: String::new(),
            since_ms: HOUR_MS,
            raised_ms: HOUR_MS,
            what: "the <shortest> rose".to_owned(),
            before: "1 ms".to_owned(),
            after: "2 ms".to_owned(),
            evidence: "5 of 6".to_owned(),
            over: None,
        };
        let series = Series {
            peer: "10.0.0.2@tcp".to_owned(),
            rows: vec![point(1)],
            points: (0..100).map(point).collect(),
            alarms: vec![alarm.clone()],
        };
        let time = |ms: u64| format!("t{}", ms / HOUR_MS);
        let page = page(&[series], "two peers", &time);
        let names: Vec<&str> = page.figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(names.len(), 2, "no MTU and no bandwidth: {names:?}");
        for words in ["days since t0 UTC", "the &lt;shortest&gt; rose", ">lasts<", "10.0.0.2@tcp"] {
            assert!(page.html.contains(words), "{words}");
        }
        let over = Alarm { over: Some((3 * HOUR_MS, AlarmEnd::Back)), ..alarm };
        assert_eq!(ending(&over, &time), "back at t3 (2 h 0 min)");
    }
}
