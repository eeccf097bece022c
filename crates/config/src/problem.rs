//! What can be wrong with a configuration file, and how that is said to people.
//!
//! Every message has the form `FILE:LINE:COLUMN: what is wrong; what is allowed; an example`.

use std::fmt;

use lustrine_yaml::{Limits, Position, Shape, YamlError};

use super::check::Inconsistency;

/// Most bytes of a configuration file: enough for the backup of a node with all the peers and
/// interfaces that it can have by hand.
pub const FILE_MAX: usize = 4 << 20;

/// What a file may have at most.
pub(super) const LIMITS: Limits = Limits { bytes: FILE_MAX, depth: 32, values: 1 << 18 };

/// A problem and its place, before the file has a name.
pub(super) type Failure = (Position, Problem);

/// Why a configuration file was not taken. Nothing of it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{at}: {problem}")]
pub struct ConfigError {
    /// The file, as the caller called it.
    pub source_name: String,
    /// Where in it.
    pub at: Position,
    /// What is wrong.
    pub problem: Box<Problem>,
}

/// Something in a configuration file that was read and does nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file, as the caller called it.
    pub source_name: String,
    /// Where in it.
    pub at: Position,
    /// What is without effect.
    pub problem: Problem,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ignored: {}", self.source_name, self.at, self.problem)
    }
}

/// What is wrong in a configuration file. Texts from the file are cut to a bearable length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// More than [`FILE_MAX`].
    #[error(
        "{bytes} bytes are too many; at most {} are read; for example a kernel's whole \
         \"lnetctl export\" with thousands of peers: use \"lnetctl export --backup\" instead",
        LIMITS.bytes
    )]
    TooLarge {
        /// Length of the text.
        bytes: usize,
    },
    /// Not YAML at all.
    #[error(
        "not YAML: {why}; allowed: blanks for indentation, one \"key: value\" or \"- item\" per \
         line; for example \"net: [{{net type: tcp}}]\""
    )]
    NotYaml {
        /// The parser's words.
        why: String,
    },
    /// Values inside values inside values.
    #[error(
        "nested too deeply; at most {} levels are read; for example \
         \"net: [{{net type: tcp}}]\" has 3",
        LIMITS.depth
    )]
    TooDeep,
    /// Too many values, each alias written out.
    #[error(
        "too many values; at most {} are read, aliases (*name) expanded; for \
         example \"net: [{{net type: tcp}}]\" has 3",
        LIMITS.values
    )]
    TooManyValues,
    /// A second document.
    #[error(
        "a second YAML document begins; allowed: one in a file; for example remove this \
         \"---\" and merge the two net lists"
    )]
    SecondDocument,
    /// A list or mapping as key, or an alias.
    #[error("a key that is a list, a mapping or an alias; allowed: words; for example \"net:\"")]
    NonScalarKey,
    /// The same key twice in one mapping, two spellings of it, or two settings of one value.
    #[error("{key:?} is given twice; the first one is at {first}; remove one of them")]
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it stands already.
        first: Position,
    },
    /// A key that nobody knows.
    #[error(
        "{key:?} is not known in {within}; allowed: {known}; {}",
        example_or_nearest(example, nearest.as_deref())
    )]
    UnknownKey {
        /// The key.
        key: String,
        /// The part of the file it stands in.
        within: &'static str,
        /// The keys known there.
        known: String,
        /// The known key most like it, if one is.
        nearest: Option<String>,
        /// How it may look.
        example: &'static str,
    },
    /// A list where a mapping belongs, and the like.
    #[error("{what} is {found}; allowed: {want}; for example {example}")]
    WrongShape {
        /// What is concerned.
        what: String,
        /// What stands there.
        found: Shape,
        /// What belongs there.
        want: Shape,
        /// How it may look.
        example: String,
    },
    /// A value that the key cannot have.
    #[error("{what} cannot be {found:?}; allowed: {allowed}; for example {example}")]
    BadValue {
        /// The key.
        what: String,
        /// The value.
        found: String,
        /// The values it can have.
        allowed: String,
        /// How it may look.
        example: String,
    },
    /// A key that must be there is not.
    #[error("{within} needs {key:?}; allowed: only with it; for example {example}")]
    Missing {
        /// The key.
        key: &'static str,
        /// Where it belongs.
        within: &'static str,
        /// How it may look.
        example: &'static str,
    },
    /// LNet has it, this release does not.
    #[error(
        "{what:?} is not implemented yet: {reason}; allowed here: {known}; for example {example}"
    )]
    NotImplemented {
        /// The key, or the value of a key.
        what: String,
        /// What is missing, or what happens instead.
        reason: &'static str,
        /// The keys that do something there.
        known: String,
        /// How it may look.
        example: &'static str,
    },
    /// The value is kept in the configuration and changes nothing.
    #[error(
        "{what} has no effect: {reason}; allowed: any, it is kept and exported; for example \
         remove it"
    )]
    NoEffect {
        /// The key.
        what: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// More warnings than are worth reading; only a [`Warning`] has this.
    #[error("{count} more warnings are not listed")]
    Unlisted {
        /// How many are not listed.
        count: usize,
    },
    /// A verb of lnetctl where configuration belongs.
    #[error(
        "{key:?} is a command and not configuration; allowed here: {known}; for example run \
         \"{command}\""
    )]
    Command {
        /// The key.
        key: &'static str,
        /// The keys that are configuration.
        known: String,
        /// What to type instead.
        command: &'static str,
    },
    /// The values are legal one by one and do not go together.
    #[error(transparent)]
    Inconsistent(#[from] Inconsistency),
}

impl From<YamlError> for Problem {
    fn from(fault: YamlError) -> Problem {
        match fault {
            YamlError::TooLarge { bytes } => Problem::TooLarge { bytes },
            YamlError::NotYaml { why } => Problem::NotYaml { why },
            YamlError::TooDeep => Problem::TooDeep,
            YamlError::TooManyValues => Problem::TooManyValues,
            YamlError::SecondDocument => Problem::SecondDocument,
            YamlError::NonScalarKey => Problem::NonScalarKey,
            YamlError::DuplicateKey { key, first } => Problem::DuplicateKey { key, first },
        }
    }
}

fn example_or_nearest(example: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("for example {example}"),
    }
}
