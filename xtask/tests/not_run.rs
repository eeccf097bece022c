//! The last test program of the workspace: prints which tests did not run on this machine, and why.
//!
//! It has no test harness: its output is for people who ran `cargo test --workspace`, and for
//! `cargo xtask ci`, which reads the lines that begin with `not run:`. Cargo runs test programs in
//! the order of their packages' names, and `xtask` is the last.

use std::process::ExitCode;

use lustrine_testing::{Need, NotRun, collect};

fn main() -> ExitCode {
    // Tools that list tests call every test program with this option.
    if std::env::args().any(|argument| argument == "--list") {
        println!("0 tests, 0 benchmarks");
        return ExitCode::SUCCESS;
    }
    match collect() {
        Ok(entries) => {
            println!("\n{}", summary(&entries));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot read which tests did not run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn summary(entries: &[NotRun]) -> String {
    let mut tests: Vec<&str> = entries.iter().map(|entry| entry.test.as_str()).collect();
    tests.sort_unstable();
    tests.dedup();
    let mut text = match tests.len() {
        0 => "not run: 0 tests; this machine has all that they need\n".to_owned(),
        1 => "not run: 1 test did not run, or not all of it\n".to_owned(),
        count => format!("not run: {count} tests did not run, or not all of them\n"),
    };
    for need in Need::ALL {
        let of_kind: Vec<&NotRun> = entries.iter().filter(|entry| entry.need == need).collect();
        if of_kind.is_empty() {
            continue;
        }
        text += &format!("not run: {:>4} {need} ({})\n", of_kind.len(), need.remedy());
        for NotRun { test, place, why, .. } in of_kind {
            text += &format!("         {test}: {why} ({place})\n");
        }
    }
    text
}
