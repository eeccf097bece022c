//! The result of a check about a file.

use std::fmt;

/// One violation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Line in the file, from 1; 0 is the file as a whole.
    pub(crate) line: usize,
    /// What is wrong, and what to do instead if that is not obvious.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(line: usize, what: impl Into<String>) -> Finding {
        Finding { line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// Fails the test with all findings of all files.
pub(crate) fn assert_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}: {} findings\n{}", findings.len(), findings.join("\n"));
}
