//! Scenario files as trees, and what is said of a text that is none.

use lustrine_yaml::{Fault, Limits, Position};

use crate::problem::{Place, Problem};

pub(crate) type Node = lustrine_yaml::Node<Place>;
pub(crate) type Content = lustrine_yaml::Content<Place>;

const LIMITS: Limits = Limits { bytes: 1 << 20, depth: 16, values: 1 << 16 };

impl From<Position> for Place {
    fn from(at: Position) -> Place {
        Place::File(at)
    }
}

/// Reads one document.
pub(crate) fn load(text: &str) -> Result<Node, Problem> {
    match lustrine_yaml::load::<Place>(text, &LIMITS) {
        Ok(root) => Ok((*root).clone()),
        Err((at, fault)) => Err(Problem::new(&at.into(), said(&fault))),
    }
}

fn said(fault: &Fault) -> String {
    let Limits { bytes: bytes_max, depth, values } = LIMITS;
    match fault {
        Fault::TooLarge { bytes } => format!(
            "{bytes} bytes are too many; allowed: at most {bytes_max}; for example groups with a \
             \"count\" instead of one group per node"
        ),
        Fault::NotYaml { why } => format!(
            "not YAML: {why}; allowed: blanks for indentation, one \"key: value\" or \"- item\" \
             per line; for example \"groups: {{clients: {{count: 2}}}}\""
        ),
        Fault::TooDeep => format!(
            "nested too deeply; allowed: {depth} levels; for example \
             \"groups: {{clients: {{count: 2}}}}\" has 3"
        ),
        Fault::TooMany => format!(
            "too many values; allowed: {values}, aliases (*name) written out; for example groups \
             with a \"count\" instead of one group per node"
        ),
        Fault::SecondDocument => "a second YAML document begins; allowed: one in a file; for \
                                  example remove this \"---\""
            .to_owned(),
        Fault::KeyNoWord => "a key that is no word; allowed: words with or without quotes; for \
                             example \"groups:\""
            .to_owned(),
        Fault::GivenTwice { key, first } => format!(
            "{key:?} is given again; allowed: once, and {first} has it; for example remove this"
        ),
    }
}
