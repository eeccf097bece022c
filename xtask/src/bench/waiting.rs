//! `cargo xtask bench waiting`: what each way to wait costs and brings.
//!
//! Tunable `spin_us` says how long a loop polls before it sleeps: 0 sleeps at once, -1 never.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::ours::{self, Checks, Load, Measured, Programs};
use super::peers::Direction;
use super::results::{self, Conditions};
use super::statistics::Summary;

/// The ways to wait, compared.
#[derive(Args)]
pub(crate) struct WaitingArgs {
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 2)]
    seconds: u32,

    /// Values of spin_us
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true,
          default_values_t = [0, 20, 50, 200, -1])]
    spin_us: Vec<i64>,

    /// Write the results here [default: bench/results/waiting-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One way to wait under one load.
#[derive(Debug, Serialize)]
struct Row {
    load: &'static str,
    unit: &'static str,
    spin_us: i64,
    value: Summary,
    /// CPU time of both ends per operation, in microseconds.
    cpu_us_per_op: Summary,
}

#[derive(Debug, Serialize)]
struct Waiting {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    seconds: u32,
    rows: Vec<Row>,
}

const LOADS: [(&str, &str, Load); 4] = [
    ("ping latency", "us", Load::PingLatency),
    ("ping rate, 64 in flight", "RPC/s", Load::PingRate),
    (
        "read 1 MiB, 8 in flight",
        "MiB/s",
        Load::Bulk { direction: Direction::Read, checks: Checks::Off },
    ),
    (
        "write 1 MiB, 8 in flight",
        "MiB/s",
        Load::Bulk { direction: Direction::Write, checks: Checks::Off },
    ),
];

pub(crate) fn run(args: &WaitingArgs) -> Result<()> {
    let programs = Programs::build()?;
    let conditions = Conditions::here(&[]);
    let mut rows = Vec::new();
    for (name, unit, load) in LOADS {
        eprintln!("{name}");
        let mut measured: Vec<Vec<Measured>> = args.spin_us.iter().map(|_| Vec::new()).collect();
        for round in 0..args.rounds as usize {
            // Another one begins each round, because the first one after a pause has an advantage
            // or a disadvantage.
            for turn in 0..args.spin_us.len() {
                let which = (turn + round) % args.spin_us.len();
                let setting = format!("spin_us={}", args.spin_us[which]);
                let found = ours::measure_with(&programs, load, args.seconds, &[&setting], "apart");
                measured[which].push(found.with_context(|| setting.clone())?);
            }
        }
        for (spin_us, found) in args.spin_us.iter().zip(measured) {
            let summary = |value: &dyn Fn(&Measured) -> f64| {
                let values: Vec<f64> = found.iter().map(value).collect();
                Summary::of(&values).context("no rounds")
            };
            rows.push(Row {
                load: name,
                unit,
                spin_us: *spin_us,
                value: summary(&|one| one.value(load))?,
                cpu_us_per_op: summary(&Measured::cpu_us_per_op)?,
            });
        }
    }
    let (rounds, seconds) = (args.rounds, args.seconds);
    let waiting = Waiting { conditions, rounds, seconds, rows };
    let table = render(&waiting);
    let named = waiting.conditions.kept(&format!("waiting-{}.json", waiting.conditions.date));
    let file = args.json.clone().unwrap_or(named);
    results::write(Some(&file), &table, &waiting)
}

fn render(waiting: &Waiting) -> String {
    let run = format!("{} rounds of {} s", waiting.rounds, waiting.seconds);
    let mut out = waiting.conditions.heading(&run);
    let _ = writeln!(
        out,
        "\n{:24} {:>7} {:>6} {:>28} {:>26}",
        "load", "spin_us", "unit", "value (min..max)", "us CPU per operation"
    );
    for row in &waiting.rows {
        let spread = |summary: &Summary| {
            let Summary { median, min, max, .. } = summary;
            let digits = usize::from(*median < 1000.0);
            format!("{median:.digits$} ({min:.digits$}..{max:.digits$})")
        };
        let (value, cpu) = (spread(&row.value), spread(&row.cpu_us_per_op));
        let Row { load, spin_us, unit, .. } = row;
        let _ = writeln!(out, "{load:24} {spin_us:>7} {unit:>6} {value:>28} {cpu:>26}");
    }
    out
}

#[test]
fn the_table_has_a_row_for_each() {
    let one = |value: f64| Summary::of(&[value]).expect("a value");
    let row = |spin_us| Row {
        load: "ping latency",
        unit: "us",
        spin_us,
        value: one(9.8),
        cpu_us_per_op: one(2000.0),
    };
    let waiting = Waiting {
        conditions: Conditions::without_versions(),
        rounds: 1,
        seconds: 1,
        rows: vec![row(0), row(-1)],
    };
    let table = render(&waiting);
    assert_eq!(table.lines().count(), 5, "{table}");
    assert!(table.contains("-1     us               9.8 (9.8..9.8)          2000 (2000..2000)"));
}
