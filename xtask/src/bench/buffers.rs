//! `cargo xtask bench buffers`: throughput by the number of operations in flight.
//!
//! More operations in flight have more memory, of which less is in the CPU's caches. So beside them
//! one stream of plain TCP moves the same data from as many buffers into as many buffers.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::ours::{self, Measured, Programs};
use super::peers::{Direction, Placement, Waiting};
use super::results::{self, Conditions};
use super::statistics::Summary;

/// Throughput by the number of operations in flight.
#[derive(Args)]
pub(crate) struct BuffersArgs {
    /// Rounds; each measures everything once
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 2)]
    seconds: u32,

    /// Numbers of operations in flight, each of 1 MiB; the first is what others are compared with
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 16, 32, 64])]
    in_flight: Vec<u32>,

    /// Write the results here [default: bench/results/buffers-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One direction with one number of operations in flight.
#[derive(Debug, Serialize)]
struct Row {
    direction: &'static str,
    in_flight: u32,
    /// In MiB per second.
    lustrine: Summary,
    plain_tcp: Summary,
    /// Compared with the first number, round by round.
    lustrine_part: Summary,
    plain_tcp_part: Summary,
}

#[derive(Debug, Serialize)]
struct Buffers {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    seconds: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &BuffersArgs) -> Result<()> {
    let programs = Programs::build()?;
    let conditions = Conditions::here(&[]);
    let mut rows = Vec::new();
    for (direction, name) in [(Direction::Read, "read"), (Direction::Write, "write")] {
        eprintln!("{name}");
        rows.extend(measure(&programs, args, direction, name)?);
    }
    let (rounds, seconds) = (args.rounds, args.seconds);
    let buffers = Buffers { conditions, rounds, seconds, rows };
    let named = buffers.conditions.kept(&format!("buffers-{}.json", buffers.conditions.date));
    let file = args.json.clone().unwrap_or(named);
    results::write(Some(&file), &render(&buffers), &buffers)
}

fn measure(
    programs: &Programs,
    args: &BuffersArgs,
    direction: Direction,
    name: &'static str,
) -> Result<Vec<Row>> {
    let count = args.in_flight.len();
    let mut found: Vec<[Vec<f64>; 2]> = vec![Default::default(); count];
    let rate = |measured: &Measured| measured.mib_per_s();
    for round in 0..args.rounds as usize {
        // Another number begins each round, because the first one after a pause differs.
        for turn in 0..count {
            let which = (turn + round) % count;
            let (number, [ours, plain]) = (args.in_flight[which], &mut found[which]);
            let seconds = args.seconds;
            ours.push(rate(&ours::measure_bulk(programs, direction, number, seconds)?));
            let how = (Waiting::Polling, Placement::Apart);
            plain.push(rate(&ours::measure_tcp(programs, direction, number, how, seconds)?));
        }
    }
    let summary = |values: &[f64]| Summary::of(values).context("no rounds");
    let first = found.first().context("no number of operations")?.clone();
    let first = [summary(&first[0])?, summary(&first[1])?];
    let rows = args.in_flight.iter().zip(&found).map(|(in_flight, [ours, plain])| {
        let (lustrine, plain_tcp) = (summary(ours)?, summary(plain)?);
        let part = |all, first| Summary::ratio(all, first).context("no rounds");
        Ok(Row {
            direction: name,
            in_flight: *in_flight,
            lustrine_part: part(&lustrine, &first[0])?,
            plain_tcp_part: part(&plain_tcp, &first[1])?,
            lustrine,
            plain_tcp,
        })
    });
    rows.collect()
}

fn render(buffers: &Buffers) -> String {
    let run = format!("{} rounds of {} s", buffers.rounds, buffers.seconds);
    let mut out = buffers.conditions.heading(&run);
    let _ = writeln!(
        out,
        "\nMiB/s of 1 MiB each, median (min..max), and the part of the first row, round by round\n\
         {:6} {:>9} {:>22} {:>18} {:>22} {:>18}",
        "", "in flight", "Lustrine", "part", "plain TCP", "part"
    );
    for row in &buffers.rows {
        let rate = |Summary { median, min, max, .. }: &Summary| {
            format!("{median:.0} ({min:.0}..{max:.0})")
        };
        let part = |Summary { median, min, max, .. }: &Summary| {
            format!("{median:.2} ({min:.2}..{max:.2})")
        };
        let _ = writeln!(
            out,
            "{:6} {:>9} {:>22} {:>18} {:>22} {:>18}",
            row.direction,
            row.in_flight,
            rate(&row.lustrine),
            part(&row.lustrine_part),
            rate(&row.plain_tcp),
            part(&row.plain_tcp_part),
        );
    }
    out
}

#[test]
fn parts_are_of_the_same_column() {
    let one = |value: f64| Summary::of(&[value]).expect("a value");
    let row = |in_flight, rate: f64| Row {
        direction: "read",
        in_flight,
        lustrine: one(rate),
        plain_tcp: one(2.0 * rate),
        lustrine_part: one(rate / 9000.0),
        plain_tcp_part: one(1.0),
    };
    let buffers = Buffers {
        conditions: Conditions::without_versions(),
        rounds: 1,
        seconds: 1,
        rows: vec![row(1, 9000.0), row(64, 4500.0)],
    };
    let table = render(&buffers);
    let last = table.lines().last().expect("a row");
    let words: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(words[..4], ["read", "64", "4500", "(4500..4500)"], "{table}");
    assert_eq!(words[4..6], ["0.50", "(0.50..0.50)"], "{table}");
}
