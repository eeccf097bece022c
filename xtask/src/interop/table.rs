//! The table of results, in Markdown.

use std::fmt;
use std::fmt::Write;

/// What came of a check.
#[derive(Debug)]
pub(super) enum Outcome {
    /// What was seen.
    AsExpected(String),
    /// What was seen instead.
    Different(String),
    /// Why it was not made.
    NotRun(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::AsExpected(seen) => write!(f, "as expected: {seen}"),
            Outcome::Different(seen) => write!(f, "DIFFERENT: {seen}"),
            Outcome::NotRun(why) => write!(f, "NOT RUN: {why}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) area: &'static str,
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) struct Table {
    date: String,
    commit: String,
    /// The kernel nodes' own words.
    pub(super) kernel: String,
    pub(super) rows: Vec<Row>,
}

impl Table {
    pub(super) fn new(date: String, commit: String) -> Table {
        Table { date, commit, kernel: String::new(), rows: Vec::new() }
    }

    pub(super) fn different(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row.outcome, Outcome::Different(_))).count()
    }

    pub(super) fn not_run(&self) -> usize {
        self.rows.iter().filter(|row| matches!(row.outcome, Outcome::NotRun(_))).count()
    }

    pub(super) fn markdown(&self) -> String {
        let Table { date, commit, kernel, rows } = self;
        let good = rows.len() - self.different() - self.not_run();
        let not_run = match self.not_run() {
            0 => String::new(),
            1 => " One was not run.".to_owned(),
            count => format!(" {count} were not run."),
        };
        let mut text = format!(
            "# Interoperation with kernel nodes

`cargo xtask interop` wrote this page on {date}. It tested Lustrine at `{commit}` against
{kernel}. {good} of {} checks went as expected.{not_run}

| area | check | expected | seen |
|---|---|---|---|
",
            rows.len(),
        );
        for Row { area, name, expected, outcome } in rows {
            let seen = match outcome {
                Outcome::AsExpected(seen) => cell(seen),
                Outcome::Different(seen) => format!("**different**: {}", cell(seen)),
                Outcome::NotRun(why) => format!("**not run**: {}", cell(why)),
            };
            let _ = writeln!(text, "| {area} | {} | {} | {seen} |", cell(name), cell(expected));
        }
        text
    }
}

/// A text on one line in which nothing ends a cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[test]
fn rows_are_counted_and_stay_in_their_cells() {
    let mut table = Table::new("2026-01-31".to_owned(), "abc".to_owned());
    table.kernel = "Lustre 2.17.0".to_owned();
    let row = |outcome| Row { area: "ping", name: "a | b", expected: "an answer", outcome };
    table.rows.push(row(Outcome::AsExpected("answered\nin 1 ms".to_owned())));
    table.rows.push(row(Outcome::Different("nothing".to_owned())));
    let text = table.markdown();
    assert_eq!(table.different(), 1);
    assert!(text.contains("against\nLustre 2.17.0. 1 of 2 checks"), "{text}");
    assert!(text.contains("| ping | a \\| b | an answer | answered in 1 ms |\n"), "{text}");
    assert!(text.ends_with("| **different**: nothing |\n"), "{text}");
    table.rows.push(row(Outcome::NotRun("x is not installed on this host".to_owned())));
    let text = table.markdown();
    assert_eq!((table.different(), table.not_run()), (1, 1));
    assert!(text.contains(" 1 of 3 checks went as expected. One was not run.\n"), "{text}");
    assert!(text.ends_with("| **not run**: x is not installed on this host |\n"), "{text}");
}
