//! `lustrine watch report`: what a file has, as tables, JSON or a page.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use lustrine_sys::Clock;
use lustrine_watch::{Alarm, HEADS, HOUR_MS, Row, Series, by_period, cells, ending, page};
use lustrine_watch_store::{PeerHistory, StoreError, read};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use crate::output::{Failure, print, print_json};
use crate::report_file::{ReportFile, check_distinct};
use crate::values::{self, duration, utc};

/// Most points of a plot.
const POINTS: u64 = 300;

/// Show what a file of `lustrine watch` has, also while it is being written.
#[derive(Args, Debug)]
pub(super) struct ReportArgs {
    /// The file
    #[arg(long, value_name = "FILE")]
    db: PathBuf,

    /// Only these peers [default: all]
    #[arg(long, value_name = "NID", value_parser = values::nid, value_delimiter = ',')]
    #[arg(num_args = 1..)]
    to: Vec<Nid>,

    /// From this time on, in UTC: 2026-11-25, 2026-11-25T13:00, or how long ago, such as 24h
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<u64>,

    /// Until this time, in the same form
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<u64>,

    /// Time that one row covers
    #[arg(long, value_enum, default_value_t = By::Auto)]
    by: By,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Write a page with plots, as one HTML file; replaces FILE.html
    #[arg(long, value_name = "FILE.html")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    /// Hours, or days where there are more than 48
    Auto,
    /// Hours
    Hour,
    /// Days
    Day,
}

/// A time as milliseconds since 1970.
fn time(text: &str) -> Result<u64, String> {
    let now_ms = Clock::Wall.now() / 1_000_000;
    if let Ok(ago) = duration(text) {
        let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
        return Ok(now_ms.saturating_sub(ago));
    }
    let utc = |time: DateTime| Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let found = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| utc(text.parse::<DateTime>().ok()?))
        .or_else(|| utc(text.parse::<Date>().ok()?.to_datetime(jiff::civil::Time::midnight())));
    let ms = found.and_then(|found| u64::try_from(found.as_millisecond()).ok());
    ms.ok_or_else(|| {
        "expected a time in UTC, such as 2026-11-25 or 2026-11-25T13:00, or how long ago, such as \
         24h"
        .to_owned()
    })
}

fn text_of(ms: u64) -> String {
    utc(i64::try_from(ms / 1000).unwrap_or(i64::MAX))
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Document {
    peers: Vec<PeerDocument>,
}

#[derive(Serialize)]
struct PeerDocument {
    nid: String,
    /// Milliseconds that a row is of.
    row_ms: u64,
    rows: Vec<RowDocument>,
    alarms: Vec<Alarm>,
}

/// A row with names that say what they are.
#[derive(Serialize)]
struct RowDocument {
    at_ms: u64,
    samples: u64,
    answered: u64,
    pings_sent: u64,
    pings_lost: u64,
    rtt_min_ns: Option<u64>,
    rtt_median_ns: Option<u64>,
    rtt_p99_ns: Option<u64>,
    rtt_max_ns: Option<u64>,
    mtu_out: Option<u32>,
    mtu_back: Option<u32>,
    hops_out: Option<u8>,
    hops_back: Option<u8>,
    read_bits_per_s: Option<u64>,
    write_bits_per_s: Option<u64>,
}

impl From<Row> for RowDocument {
    fn from(row: Row) -> RowDocument {
        RowDocument {
            at_ms: row.at_ms,
            samples: row.samples,
            answered: row.answered,
            pings_sent: row.sent,
            pings_lost: row.lost,
            rtt_min_ns: row.rtt.map(|rtt| rtt.min_ns),
            rtt_median_ns: row.rtt.map(|rtt| rtt.median_ns),
            rtt_p99_ns: row.rtt.map(|rtt| rtt.p99_ns),
            rtt_max_ns: row.rtt.map(|rtt| rtt.max_ns),
            mtu_out: row.mtu_out,
            mtu_back: row.mtu_back,
            hops_out: row.hops_out,
            hops_back: row.hops_back,
            read_bits_per_s: row.read,
            write_bits_per_s: row.write,
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &ReportArgs) -> Result<(), Failure> {
    if args.html.as_deref() == Some(Path::new("-")) {
        let words = "--html writes a page for a browser to a file";
        return Err(Failure::Usage(words.to_owned()));
    }
    let html = args.html.as_deref().map(ReportFile::open).transpose()?;
    check_distinct(&args.db, &[&html])?;
    let histories = read(&args.db).map_err(|error| match error {
        StoreError::Busy { .. } => Failure::Failed(error.to_string()),
        _ => Failure::Input(error.to_string()),
    })?;
    let wanted: Vec<String> = args.to.iter().map(Nid::to_string).collect();
    for nid in &wanted {
        if histories.iter().all(|history| history.nid != *nid) {
            let db = args.db.display();
            return Err(Failure::Usage(format!("{db} has nothing of {nid}")));
        }
    }
    let histories =
        histories.into_iter().filter(|one| wanted.is_empty() || wanted.contains(&one.nid));
    let all: Vec<(u64, Series)> = histories.map(|history| series(args, history)).collect();
    if let Some(file) = html {
        let from = args.from.map(|ms| format!("from {} ", text_of(ms))).unwrap_or_default();
        let until = args.until.map(|ms| format!("until {} ", text_of(ms))).unwrap_or_default();
        let under = format!("{} {from}{until}(UTC)", args.db.display());
        let series: Vec<Series> = all.iter().map(|(_, series)| series.clone()).collect();
        file.write(&page(&series, &under, &text_of).html)?;
    }
    match args.json {
        true => print_json(&document(all)),
        false => print(&text(&args.db, &all)),
    }
}

/// The rows of a peer in the wanted time, and the milliseconds that each is of.
fn series(args: &ReportArgs, history: PeerHistory) -> (u64, Series) {
    let (from, until) = (args.from.unwrap_or(0), args.until.unwrap_or(u64::MAX));
    let PeerHistory { nid, samples, hours, alarms } = history;
    let all = hours.into_iter().chain(samples.iter().map(Row::from));
    let rows: Vec<Row> = all.filter(|row| (from..until).contains(&row.at_ms)).collect();
    let first = rows.iter().map(|row| row.at_ms).min().unwrap_or(0);
    let last = rows.iter().map(|row| row.at_ms).max().unwrap_or(0);
    let span = last.saturating_sub(first);
    let row_ms = match args.by {
        By::Hour => HOUR_MS,
        By::Auto if span <= 48 * HOUR_MS => HOUR_MS,
        By::Auto | By::Day => 24 * HOUR_MS,
    };
    let point_ms = Duration::from_millis(span / POINTS).as_secs().max(1) * 1000;
    let ended = |alarm: &Alarm| alarm.over.map_or(u64::MAX, |(at_ms, _)| at_ms);
    let alarms = alarms.into_iter().filter(|one| one.since_ms < until && ended(one) >= from);
    let series = Series {
        peer: nid,
        rows: by_period(rows.clone(), row_ms),
        points: by_period(rows, point_ms),
        alarms: alarms.collect(),
    };
    (row_ms, series)
}

fn document(all: Vec<(u64, Series)>) -> Document {
    let peers = all.into_iter().map(|(row_ms, series)| PeerDocument {
        nid: series.peer,
        row_ms,
        rows: series.rows.into_iter().map(RowDocument::from).collect(),
        alarms: series.alarms,
    });
    Document { peers: peers.collect() }
}

/// The units of times.
const LEGEND: &str = "times in microseconds (u), milliseconds (m) or seconds (s)\n";

fn text(db: &Path, all: &[(u64, Series)]) -> String {
    let mut text = String::new();
    for (row_ms, series) in all {
        if series.rows.is_empty() && series.alarms.is_empty() {
            text += &format!("{}: no samples and no alarms in this time\n\n", series.peer);
            continue;
        }
        let of = if *row_ms > HOUR_MS { "days" } else { "hours" };
        text += &format!("{}, {of}\n", series.peer);
        let heads = HEADS.iter().map(|head| head.trim_start_matches('<').to_owned()).collect();
        let rows = series.rows.iter().map(|row| cells(row, &text_of));
        text += &aligned(std::iter::once(heads).chain(rows).collect());
        text += LEGEND;
        for alarm in &series.alarms {
            text += &format!(
                "{} {}: {}; {}\n  seen: {}\n",
                text_of(alarm.since_ms),
                alarm.kind.name(),
                alarm.what,
                ending(alarm, &text_of),
                alarm.evidence
            );
        }
        if series.alarms.is_empty() {
            text += "no alarms\n";
        }
        text.push('\n');
    }
    if all.is_empty() {
        let db = db.display();
        text += &format!("{db} has no samples: `lustrine watch` has not stored any in it yet\n");
    }
    text
}

/// Columns of equal width: the first to the left, the others to the right. Columns without any
/// value are left out.
fn aligned(rows: Vec<Vec<String>>) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let is_used = |at: &usize| *at == 0 || rows.iter().skip(1).any(|row| row[*at] != "-");
    let used: Vec<usize> = (0..columns).filter(is_used).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let cells = used.iter().map(|at| match at {
            0 => format!("{:<1$}", row[0], width(0)),
            at => format!("{:>1$}", row[*at], width(*at)),
        });
        text += &cells.collect::<Vec<_>>().join("  ");
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_or_a_while_ago() {
        assert_eq!(time("2026-11-25"), Ok(1_795_564_800_000));
        assert_eq!(time("2026-11-25T13:00"), Ok(1_795_564_800_000 + 13 * HOUR_MS));
        assert_eq!(time("2026-11-25T13:00:00+01:00"), Ok(1_795_564_800_000 + 12 * HOUR_MS));
        let now = Clock::Wall.now() / 1_000_000;
        let ago = time("24h").expect("a time");
        assert!(now.abs_diff(ago + 24 * HOUR_MS) < 60_000, "{ago}");
        for wrong in ["", "yesterday", "25.11.2026", "1969-01-01"] {
            assert!(time(wrong).is_err_and(|why| why.contains("UTC")), "{wrong}");
        }
    }

    #[test]
    fn it_says_that_there_are_no_samples() {
        let empty = text(Path::new("x.db"), &[]);
        assert_eq!(empty, "x.db has no samples: `lustrine watch` has not stored any in it yet\n");
        let peer = "10.0.0.1@tcp".to_owned();
        let none = Series { peer, rows: Vec::new(), points: Vec::new(), alarms: Vec::new() };
        let text = text(Path::new("x.db"), &[(HOUR_MS, none)]);
        assert_eq!(text, "10.0.0.1@tcp: no samples and no alarms in this time\n\n");
    }

    #[test]
    fn columns_without_values_are_left_out() {
        let row = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let table = aligned(vec![row(&["a", "bb", "c"]), row(&["xx", "-", "1"])]);
        assert_eq!(table, "a   c\nxx  1\n");
    }
}
