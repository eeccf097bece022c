//! Documents that people write: YAML with places, read by tables of known keys, with quantities
//! that have units; and everything that is wrong with one, said at once.
#![forbid(unsafe_code)]

mod hint;
mod problem;
mod quantity;
mod reader;
mod section;

use lustrine_yaml::YamlError;

pub use lustrine_yaml::{Limits, Position, Shape, clipped};

pub use hint::{nearest, unknown_key};
pub use problem::{Location, Problem, Problems};
pub use quantity::{
    BANDWIDTH, BYTES, DURATION, Decimal, FRACTION, Quantity, QuantityError, format_bytes,
    format_duration, parse_duration, range,
};
pub use reader::{Entry, Fields, Reader, Strictness, decimal, items, word};
pub use section::{Key, Role, Section, read_keys};

/// A value of a document, and where it stands.
pub type Node = lustrine_yaml::Node<Location>;
/// A key and its value.
pub type Pair = lustrine_yaml::Pair<Location>;
/// What a value is.
pub type Content = lustrine_yaml::Content<Location>;

/// What is to be said of a kind of document, and how large one may be.
#[derive(Clone, Copy, Debug)]
pub struct DocumentFormat {
    /// What a document may have at most.
    pub limits: Limits,
    /// A line as such documents have it; it has 3 levels.
    pub example: &'static str,
    /// A key as such documents have it, with its colon.
    pub key: &'static str,
    /// How a document becomes smaller.
    pub smaller: &'static str,
}

impl From<Position> for Location {
    fn from(at: Position) -> Location {
        Location::File(at)
    }
}

/// Reads one document.
///
/// # Errors
/// When it is not YAML, or larger than its format allows.
pub fn load(text: &str, format: &DocumentFormat) -> Result<Node, Problem> {
    match lustrine_yaml::load::<Location>(text, &format.limits) {
        Ok(root) => Ok((*root).clone()),
        Err((at, fault)) => Err(problem(&at.into(), &fault, format)),
    }
}

fn problem(at: &Location, fault: &YamlError, format: &DocumentFormat) -> Problem {
    let DocumentFormat {
        limits: Limits { bytes: bytes_max, depth, values },
        example,
        key,
        smaller,
    } = format;
    let what = match fault {
        YamlError::TooLarge { bytes } => format!(
            "{bytes} bytes are too many; allowed: at most {bytes_max}; for example {smaller}"
        ),
        YamlError::NotYaml { why } => format!(
            "not YAML: {why}; allowed: blanks for indentation, one \"key: value\" or \"- item\" \
             per line; for example \"{example}\""
        ),
        YamlError::TooDeep => {
            format!("nested too deeply; allowed: {depth} levels; for example \"{example}\" has 3")
        }
        YamlError::TooManyValues => format!(
            "too many values; allowed: {values}, aliases (*name) expanded; for example {smaller}"
        ),
        YamlError::SecondDocument => "a second YAML document begins; allowed: one in a file; for \
                                      example remove this \"---\""
            .to_owned(),
        YamlError::NonScalarKey => format!(
            "a key that is a list, a mapping or an alias; allowed: words with or without quotes; \
             for example \"{key}\""
        ),
        YamlError::DuplicateKey { key, first } => {
            return Problem::given_twice(at, key, &Location::File(*first));
        }
    };
    Problem::new(at, what)
}
