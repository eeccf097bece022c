//! What can be wrong with a document, and how that is said to people.
//!
//! Every message has the form `FILE:LINE:COLUMN: what is wrong; allowed: ...; for example ...`.

use std::fmt;
use std::rc::Rc;

use lustrine_yaml::{Position, clipped};

use crate::Node;

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

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(at) => at.fmt(f),
            Location::Words(words) => f.write_str(words),
        }
    }
}

impl Location {
    /// Where a file begins; stands for the file as a whole.
    pub const START: Location = Location::File(Position::START);
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place of the problem.
    pub at: Location,
    /// What is wrong, what is allowed, an example.
    pub what: String,
}

impl Problem {
    /// With what is wrong, what is allowed, and an example.
    pub fn new(at: &Location, what: impl Into<String>) -> Problem {
        Problem { at: at.clone(), what: what.into() }
    }

    /// A list where a mapping belongs, and the like.
    pub fn wrong_shape(node: &Node, what: &str, want: impl fmt::Display, example: &str) -> Problem {
        let found = node.shape();
        let what = format!("{what} is {found}; allowed: {want}; for example {example}");
        Problem::new(&node.at, what)
    }

    /// A key that must be there is not.
    pub fn missing(at: &Location, within: &str, key: &str, example: &str) -> Problem {
        Problem::new(
            at,
            format!("the required key {key:?} of {within} is missing; for example {example}"),
        )
    }

    /// The same key twice in one mapping, two spellings of it, or two settings of one value.
    pub fn given_twice(at: &Location, key: &str, first: &Location) -> Problem {
        let key = clipped(key);
        let what =
            format!("{key:?} is given twice; the first one is at {first}; remove one of them");
        Problem::new(at, what)
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
    /// How many more there are.
    more: usize,
    /// Whether `--lenient` leaves out some of them.
    lenient: bool,
}

impl Problems {
    /// Names the file, and puts the problems in order.
    pub fn new(source_name: &str, problems: Vec<Problem>) -> Problems {
        Problems::with_more(source_name, problems, 0)
    }

    /// The same of a file with so many more.
    pub(crate) fn with_more(
        source_name: &str,
        mut problems: Vec<Problem>,
        more: usize,
    ) -> Problems {
        problems.sort_by(|one, two| one.at.cmp(&two.at));
        problems.dedup();
        Problems { source_name: source_name.to_owned(), problems, more, lenient: false }
    }

    /// Notes whether `--lenient` leaves out some of them.
    pub(crate) fn with_lenient(mut self, lenient: bool) -> Problems {
        self.lenient = lenient;
        self
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
        match self.problems.len().saturating_sub(LISTED_MAX) + self.more {
            0 => {}
            1 => f.write_str("\nand 1 more error")?,
            more => write!(f, "\nand {more} more errors")?,
        }
        match self.lenient {
            true => f.write_str("\n--lenient leaves out what is not implemented yet"),
            false => Ok(()),
        }
    }
}

impl std::error::Error for Problems {}
