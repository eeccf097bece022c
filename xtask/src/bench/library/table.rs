//! The results for people.

use std::fmt::Write;

use super::{Library, Row};
use crate::bench::ladder::Goal;
use crate::bench::statistics::{ratio, shown};

pub(super) fn render(library: &Library) -> String {
    let Library { rounds, seconds, files, kept, .. } = library;
    let run = format!("{rounds} rounds of {seconds} s; {files} files, {kept} kept or open");
    let mut out = library.conditions.heading(&run);
    let _ = writeln!(
        out,
        "\n{:24} {:6} {:>26} {:>26}  {:>17} {:>8} {:>14}",
        "row", "unit", "library (min..max)", "selftest (min..max)", "ratio", "goal", "us CPU (c+s)"
    );
    library.rows.iter().for_each(|row| render_row(&mut out, row));
    out
}

fn render_row(out: &mut String, row: &Row) {
    let goal = match row.goal {
        Goal::AtLeast(least) => format!(">= {least}"),
        Goal::AtMost(most) => format!("<= {most}"),
        Goal::None => "-".to_owned(),
    };
    let verdict = match row.reached {
        Some(true) => "  reached",
        Some(false) => "  MISSED",
        None => "",
    };
    let cpu = match (row.cpu_us_client, row.cpu_us_servers) {
        (Some(client), Some(servers)) => format!("{client:.1}+{servers:.1}"),
        _ => "-".to_owned(),
    };
    let absent = row.absent.as_ref().map(|why| format!("  ({why})")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{:24} {:6} {:>26} {:>26}  {:>17} {goal:>8} {cpu:>14}{verdict}{absent}",
        row.name,
        row.unit,
        shown(row.ours.as_ref(), number),
        shown(row.selftest.as_ref(), number),
        shown(row.ratio.as_ref(), ratio),
    );
}

/// Digits as far as they mean something.
fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

#[test]
fn numbers_are_short() {
    let summary =
        crate::bench::statistics::Summary::of(&[121_607.2, 122_000.4, 0.4567]).expect("values");
    assert_eq!(shown(Some(&summary), number), "121607 (0.457..122000)");
    assert_eq!(shown(None, ratio), "-");
}
