//! Adds up the summary lines of `cargo test`, and the tests that did not run.

use std::collections::BTreeMap;
use std::fmt;

use lustrine_testing::Need;

/// Number of tests over all test programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) programs: u64,
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    /// Whether the summary of tests that did not run was printed.
    summarised: bool,
    /// Tests, or parts of tests, that did not run, by what they needed.
    not_run: BTreeMap<&'static str, u64>,
}

/// How many tests may not run, by what they need, when the user is root. If another test cannot
/// run, CI fails until it is counted here. A machine that lacks something lacks it for all tests of
/// that kind, so each number is 0 or the number of all these tests.
const MAY_NOT_RUN: [(Need, u64); 12] = [
    (Need::Root, 0),
    (Need::PrivilegedPorts, 0),
    (Need::OrdinaryUser, 0),
    (Need::Namespaces, 0),
    (Need::Fuse, 8),
    (Need::Netem, 2),
    (Need::Ipv6, 3),
    (Need::ZeroCopy, 2),
    (Need::TwoCpus, 0),
    (Need::Resources, 3),
    (Need::Program, 6),
    (Need::Long, 2),
];

impl Tally {
    /// Reads a line; only `test result: ...` and `not run: ...` are used.
    pub(crate) fn read(&mut self, line: &str) {
        let line = line.trim_start();
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.read_result(rest);
        } else if let Some(rest) = line.strip_prefix("not run: ") {
            self.read_not_run(rest);
        }
    }

    fn read_result(&mut self, rest: &str) {
        self.programs += 1;
        for part in rest.split([';', '.']) {
            let Some((count, what)) = number_and_word(part) else { continue };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.ignored += count,
                _ => {}
            }
        }
    }

    fn read_not_run(&mut self, rest: &str) {
        let Some((count, word)) = number_and_word(rest) else { return };
        match Need::ALL.into_iter().find(|need| need.name() == word) {
            Some(need) => *self.not_run.entry(need.name()).or_default() += count,
            // The line before those of the kinds.
            None => self.summarised = true,
        }
    }

    /// Unexpected tests that did not run; only root is expected to run nearly all.
    pub(crate) fn unexpected(&self, is_root: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        if !self.summarised {
            wrong.push("the summary of tests that did not run is missing".to_owned());
        }
        for (need, allowed) in MAY_NOT_RUN {
            let count = self.not_run.get(need.name()).copied().unwrap_or(0);
            if is_root && count > allowed {
                wrong.push(format!(
                    "{count} tests did not run because they need {need}, {allowed} expected ({})",
                    need.remedy()
                ));
            }
        }
        wrong
    }
}

fn number_and_word(text: &str) -> Option<(u64, &str)> {
    let mut words = text.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?))
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { programs, passed, failed, ignored, not_run, .. } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} ignored in {programs} programs")?;
        if not_run.is_empty() {
            return write!(f, "; all of them ran");
        }
        let kinds: Vec<String> =
            not_run.iter().map(|(need, count)| format!("{count} {need}")).collect();
        write!(f, "; did not run because they need: {}", kinds.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &str) -> Tally {
        let mut tally = Tally::default();
        lines.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn summary_lines_are_added_up() {
        let tally = tally(
            "test a ... ok\n\
             test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
             finished in 0.37s\n\
             test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 4 filtered out; \
             finished in 1.00s\n\
             not run: 0 tests; this machine has all that they need\n",
        );
        let counts = (tally.programs, tally.passed, tally.failed, tally.ignored);
        assert_eq!(counts, (2, 15, 2, 1));
        assert!(tally.to_string().ends_with("all of them ran"));
        assert_eq!(tally.unexpected(true), [""; 0]);
    }

    #[test]
    fn a_test_that_newly_does_not_run_is_found() {
        let lines = "not run: 3 tests did not run, or not all of them\n\
                     not run:    1 root (run the tests as root)\n\
                     \x20        processes node::control: another user is needed (node.rs:164)\n\
                     not run:    2 netem (load the kernel modules)\n";
        let some = tally(lines);
        assert!(some.to_string().ends_with("because they need: 2 netem, 1 root"), "{some}");
        assert_eq!(some.unexpected(false), [""; 0]);
        let wrong = some.unexpected(true);
        assert!(wrong.len() == 1 && wrong[0].starts_with("1 tests"), "{wrong:?}");
        // A run that ended before its summary must not pass as a complete one.
        assert_eq!(tally("test result: ok. 1 passed; 0 failed;").unexpected(false).len(), 1);
    }

    #[test]
    fn every_kind_has_an_expected_number() {
        assert_eq!(MAY_NOT_RUN.map(|(need, _)| need), Need::ALL);
    }
}
