//! The ladder for people.

use std::fmt::Write;

use super::{Goal, Ladder, Row};
use crate::bench::statistics::{ratio, shown};

pub(super) fn render(ladder: &Ladder) -> String {
    let run = format!("{} rounds of {} s", ladder.rounds, ladder.seconds);
    let mut out = ladder.conditions.heading(&run);
    let _ = writeln!(
        out,
        "\n{:24} {:8} {:6} {:>24}  {:28} {:>24}  {:>17}  {:>8}  {:>7}",
        "rung",
        "we wait",
        "unit",
        "ours (min..max)",
        "against",
        "theirs (min..max)",
        "ratio",
        "goal",
        "us CPU",
    );
    for row in &ladder.rows {
        render_row(&mut out, row);
    }
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
    let cpu = row.cpu_us_per_op.map_or("-".to_owned(), |us| format!("{us:.2}"));
    let absent = row.absent.as_ref().map(|why| format!("  ({why})")).unwrap_or_default();
    let _ = writeln!(
        out,
        "{:24} {:8} {:6} {:>24}  {:28} {:>24}  {:>17}  {goal:>8}  {cpu:>7}{verdict}{absent}",
        row.name,
        row.waiting.to_string(),
        row.unit,
        shown(row.ours.as_ref(), number),
        row.against,
        shown(row.theirs.as_ref(), number),
        shown(row.ratio.as_ref(), ratio),
    );
}

/// Digits as far as they mean something.
fn number(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[test]
fn numbers_are_short() {
    let summary =
        crate::bench::statistics::Summary::of(&[121_607.0, 122_000.4, 99.96]).expect("values");
    assert_eq!(shown(Some(&summary), number), "121607 (100.0..122000)");
    assert_eq!(shown(None, ratio), "-");
}
