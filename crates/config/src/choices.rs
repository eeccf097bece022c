//! The words for an identity and for whom to let in, as files and options write them.

use std::fmt;
use std::str::FromStr;

use super::{AcceptPolicy, IdentityChoice, Tuning};

/// A word that is none of those allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found:?} is not a valid {what}; allowed: {allowed}; for example {example}")]
pub struct UnknownValue {
    /// What was to be read, such as `identity`.
    pub what: &'static str,
    /// The word that was found.
    pub found: String,
    /// The words that are allowed.
    pub allowed: &'static str,
    /// One of them.
    pub example: &'static str,
}

impl fmt::Display for IdentityChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IdentityChoice::Auto => "auto",
            IdentityChoice::Node => "node",
            IdentityChoice::Userland => "userland",
        })
    }
}

impl FromStr for IdentityChoice {
    type Err = UnknownValue;

    fn from_str(word: &str) -> Result<IdentityChoice, UnknownValue> {
        match word {
            "auto" => Ok(IdentityChoice::Auto),
            "node" => Ok(IdentityChoice::Node),
            "userland" => Ok(IdentityChoice::Userland),
            other => Err(UnknownValue {
                what: "identity",
                found: other.to_owned(),
                allowed: "auto, node, userland",
                example: "userland",
            }),
        }
    }
}

impl fmt::Display for Tuning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tuning::Auto => "auto",
            Tuning::Fixed => "fixed",
        })
    }
}

impl FromStr for Tuning {
    type Err = UnknownValue;

    fn from_str(word: &str) -> Result<Tuning, UnknownValue> {
        match word {
            "auto" => Ok(Tuning::Auto),
            "fixed" => Ok(Tuning::Fixed),
            other => Err(UnknownValue {
                what: "tuning",
                found: other.to_owned(),
                allowed: "auto, fixed",
                example: "auto",
            }),
        }
    }
}

impl fmt::Display for AcceptPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcceptPolicy::Secure => "secure",
            AcceptPolicy::All => "all",
            AcceptPolicy::None => "none",
        })
    }
}

impl FromStr for AcceptPolicy {
    type Err = UnknownValue;

    fn from_str(word: &str) -> Result<AcceptPolicy, UnknownValue> {
        match word {
            "secure" => Ok(AcceptPolicy::Secure),
            "all" => Ok(AcceptPolicy::All),
            "none" => Ok(AcceptPolicy::None),
            other => Err(UnknownValue {
                what: "accept policy",
                found: other.to_owned(),
                allowed: "secure, all, none",
                example: "secure",
            }),
        }
    }
}
