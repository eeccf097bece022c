//! What is to be said about configuration files.
//!
//! Every error has the form `FILE:LINE:COLUMN: what is wrong; allowed: ...; for example ...`.

use std::fmt;

use lustrine_document::{DocumentFormat, Limits, Location, Problem};

/// Largest configuration file in bytes: enough for the backup of a node with as many configured
/// peers and interfaces as it can have.
pub const FILE_MAX: usize = 4 << 20;

/// Configuration files as documents.
pub(super) const FORMAT: DocumentFormat = DocumentFormat {
    limits: Limits { bytes: FILE_MAX, depth: 32, values: 1 << 18 },
    example: "net: [{net type: tcp}]",
    key: "net:",
    smaller: "\"lnetctl export --backup\" instead of a kernel's whole \"lnetctl export\" with \
              thousands of peers",
};

/// Something in a configuration file that was read and has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file, as the caller called it.
    pub source_name: String,
    /// Where in it, and what has no effect.
    pub problem: Problem,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { at, what } = &self.problem;
        write!(f, "{}:{at}: ignored: {what}", self.source_name)
    }
}

/// Warnings of a file, of which so many more are not listed.
pub(super) fn warnings(source_name: &str, mut problems: Vec<Problem>, more: usize) -> Vec<Warning> {
    if more > 0 {
        let at = problems.last().map_or(Location::START, |last| last.at.clone());
        let noun = if more == 1 { "warning is" } else { "warnings are" };
        problems.push(Problem::new(&at, format!("{more} more {noun} not listed")));
    }
    let warning = |problem| Warning { source_name: source_name.to_owned(), problem };
    problems.into_iter().map(warning).collect()
}
