//! A finding.

use serde::{Deserialize, Serialize};

use crate::code::{Code, Severity};

/// What a problem leaves of a rate, in MB/s (10^6 bytes per second).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// What can be carried.
    pub carried: f64,
    /// What could be carried without the problem, if that is known.
    pub of: Option<f64>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The peer that it concerns; `None`: this host.
    pub peer: Option<String>,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What was seen.
    pub evidence: String,
    /// What follows from it.
    pub consequence: String,
    /// The same as a rate, where it can be computed.
    pub rate: Option<Rate>,
    /// What to do.
    pub remedy: String,
}

/// The sentences of a finding, in the order in which they are printed.
pub(crate) struct Words {
    pub(crate) what: String,
    pub(crate) evidence: String,
    pub(crate) consequence: String,
    pub(crate) remedy: String,
}

impl Finding {
    pub(crate) fn new(code: Code, peer: Option<&str>, words: Words) -> Finding {
        let Words { what, evidence, consequence, remedy } = words;
        let (severity, peer) = (code.severity(), peer.map(str::to_owned));
        Finding { code, severity, peer, what, evidence, consequence, rate: None, remedy }
    }

    /// With the rate in the consequence, in bits per second.
    pub(crate) fn with_rate(mut self, carried: u64, of: Option<u64>) -> Finding {
        let rate = Rate { carried: megabytes(carried), of: of.map(megabytes) };
        let text = match rate.of {
            Some(of) => format!("at most {:.1} MB/s of {of:.1} MB/s", rate.carried),
            None => format!("at most {:.1} MB/s", rate.carried),
        };
        self.consequence = format!("{}: {text}", self.consequence);
        self.rate = Some(rate);
        self
    }
}

/// Bits per second as MB/s.
pub(crate) fn megabytes(rate: u64) -> f64 {
    rate as f64 / 8e6
}

pub(crate) fn millis(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}
