//! Documents that people write: YAML with places, read by tables of known keys, with figures that
//! have units; and everything that is wrong with one, said at once.
#![forbid(unsafe_code)]

mod problem;
mod quantity;
mod reader;

use lustrine_yaml::{Limits, Position, YamlError};

pub use problem::{Location, Problem, Problems};
pub use quantity::{
    BANDWIDTH, BYTES, DURATION, Decimal, FRACTION, Quantity, QuantityError, format_bytes,
    format_duration, parse_duration, range,
};
pub use reader::{Fields, Reader, Section, decimal, nearest};

/// A value of a document, and where it stands.
pub type Node = lustrine_yaml::Node<Location>;
/// What a value is.
pub type Content = lustrine_yaml::Content<Location>;

const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 16, values: 1 << 16 };

impl From<Position> for Location {
    fn from(at: Position) -> Location {
        Location::File(at)
    }
}

/// Reads one document of at most 1 MiB, 16 levels and 65,536 values with every alias written out.
/// `example` is a line as such documents have it, for messages; it has 3 levels.
///
/// # Errors
/// When it is not YAML, or larger.
pub fn load(text: &str, example: &str) -> Result<Node, Problem> {
    match lustrine_yaml::load::<Location>(text, &LIMITS) {
        Ok(root) => Ok((*root).clone()),
        Err((at, fault)) => Err(Problem::new(&at.into(), said(&fault, example))),
    }
}

fn said(fault: &YamlError, example: &str) -> String {
    let Limits { bytes: bytes_max, depth, values } = LIMITS;
    match fault {
        YamlError::TooLarge { bytes } => format!(
            "{bytes} bytes are too many; allowed: at most {bytes_max}; for example groups of many \
             nodes instead of one group per node"
        ),
        YamlError::NotYaml { why } => format!(
            "not YAML: {why}; allowed: blanks for indentation, one \"key: value\" or \"- item\" \
             per line; for example \"{example}\""
        ),
        YamlError::TooDeep => format!(
            "nested too deeply; allowed: {depth} levels; for example \
             \"{example}\" has 3"
        ),
        YamlError::TooManyValues => format!(
            "too many values; allowed: {values}, aliases (*name) expanded; for example groups \
             of many nodes instead of one group per node"
        ),
        YamlError::SecondDocument => "a second YAML document begins; allowed: one in a file; for \
                                  example remove this \"---\""
            .to_owned(),
        YamlError::NonScalarKey => {
            "a key that is a list, a mapping or an alias; allowed: words with or without \
             quotes; for example \"groups:\""
                .to_owned()
        }
        YamlError::DuplicateKey { key, first } => {
            format!("{key:?} is given twice; the first one is at {first}; remove one of them")
        }
    }
}
