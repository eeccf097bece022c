//! Adds up the closing lines of `cargo test`.

use std::fmt;

/// How many tests there were, over all test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) programs: u64,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

impl Tally {
    /// Reads a line; only `test result: ...` counts.
    pub(crate) fn read(&mut self, line: &str) {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { return };
        self.programs += 1;
        for part in rest.split([';', '.']) {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(what)) = (words.next().map(str::parse::<u64>), words.next())
            else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { programs, passed, failed, ignored } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} ignored in {programs} programs")
    }
}

#[test]
fn closing_lines_are_added_up() {
    let mut tally = Tally::default();
    let out = "test a ... ok\n\
        test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
        finished in 0.37s\n\
        test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; \
        finished in 1.00s";
    out.lines().for_each(|line| tally.read(line));
    assert_eq!(tally, Tally { programs: 2, passed: 15, failed: 2, ignored: 1 });
}
