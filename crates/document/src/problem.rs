//! What can be wrong with a document, and how that is said to people.
//!
//! Every message has the form `FILE:LINE:COLUMN: what is wrong; allowed: ...; for example ...`.

use std::fmt;
use std::rc::Rc;

use lustrine_yaml::{Position, clipped};

/// Most problems of one reading that are listed.
const LISTED_MAX: usize = 20;

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// In the file.
    File(Position),
    /// Not in the file, but in these words that change it, such as `--set delay=1`.
    Words(Rc<str>),
}

impl Location {
    /// Where a file begins; stands for the file as a whole.
    pub const START: Location = Location::File(Position::START);
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub at: Location,
    /// What is wrong, what is allowed, an example.
    pub what: String,
}

impl Problem {
    /// With what is wrong, what is allowed, and an example.
    pub fn new(at: &Location, what: impl Into<String>) -> Problem {
        Problem { at: at.clone(), what: what.into() }
    }

    /// A value that a key cannot have.
    pub fn value(at: &Location, key: &str, found: &str, allowed: &str, example: &str) -> Problem {
        let found = clipped(found);
        let what = format!("{key} cannot be {found:?}; allowed: {allowed}; for example {example}");
        Problem::new(at, what)
    }
}

/// Why a document was not taken: everything that was found wrong with it, in the order of the
/// file. Nothing of it was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems {
    source_name: String,
    problems: Vec<Problem>,
}

impl Problems {
    /// Names the file, and puts the problems in order.
    pub fn new(source_name: &str, mut problems: Vec<Problem>) -> Problems {
        problems.sort_by(|one, two| one.at.cmp(&two.at));
        problems.dedup();
        Problems { source_name: source_name.to_owned(), problems }
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Problem { at, what }) in self.problems.iter().take(LISTED_MAX).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            match at {
                Location::File(at) => write!(f, "{end}{}:{at}: {what}", self.source_name)?,
                Location::Words(words) => write!(f, "{end}{words}: {what}")?,
            }
        }
        match self.problems.len().saturating_sub(LISTED_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more errors"),
        }
    }
}

impl std::error::Error for Problems {}
