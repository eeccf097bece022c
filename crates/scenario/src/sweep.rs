//! Many scenarios from one file: all combinations of values for some names.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::overrides::Override;
use lustrine_document::range;

/// Largest number of combinations.
pub const POINTS_MAX: usize = 10_000;

/// Names that vary together, and their values.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Dimension {
    /// One name, or several that are linked.
    pub names: Vec<String>,
    /// One value for each name, per step.
    pub steps: Vec<Vec<String>>,
}

/// The values that a sweep varies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// The dimensions, independent of each other.
    pub axes: Vec<Dimension>,
}

/// Why text is not a sweep; a message for users, with what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepError(String);

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SweepError {}

const EXAMPLES: &str = "examples are peer_credits=8,32,64 and concurrency=1..256*2 and \
                        delay=10..50+10 ms and peer_credits,credits=8:64,32:1024";

impl Dimension {
    /// Reads `NAME=VALUES` or `NAME,NAME=VALUE:VALUE,...`: values separated by commas, ranges
    /// `a..b`, `a..b+step`, `a..b*factor`, followed by a unit where the name has one.
    ///
    /// # Errors
    /// When the text has none of these forms.
    pub fn parse(text: &str) -> Result<Dimension, SweepError> {
        let wrong = |why: &str| SweepError(format!("{text:?}: {why}; {EXAMPLES}"));
        let (names, values) = text.split_once('=').ok_or_else(|| wrong("no '='"))?;
        let names: Vec<String> = names.split(',').map(|name| name.trim().to_owned()).collect();
        if names.iter().any(String::is_empty) {
            return Err(wrong("a name is missing"));
        }
        let mut steps = Vec::new();
        for item in values.split(',').map(str::trim) {
            if item.is_empty() {
                return Err(wrong("a value is missing"));
            }
            if names.len() > 1 {
                let step: Vec<String> = item.split(':').map(|v| v.trim().to_owned()).collect();
                if step.len() != names.len() || step.iter().any(String::is_empty) {
                    let why = format!(
                        "{item:?} does not have one value for each of the {} names",
                        names.len()
                    );
                    return Err(wrong(&why));
                }
                steps.push(step);
            } else if item.contains("..") {
                let values = range(item).map_err(|why| wrong(&why))?;
                steps.extend(values.into_iter().map(|value| vec![value]));
            } else {
                steps.push(vec![item.to_owned()]);
            }
        }
        Ok(Dimension { names, steps })
    }
}

impl Sweep {
    /// Reads the values of all `--vary` options.
    ///
    /// # Errors
    /// When one is malformed, a name is given twice, or there are more than [`POINTS_MAX`]
    /// combinations.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>) -> Result<Sweep, SweepError> {
        let axes = texts.into_iter().map(Dimension::parse).collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<&str> = axes.iter().flat_map(|axis| &axis.names).map(|n| &**n).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SweepError(format!("{} is varied twice; give its values once", pair[0])));
        }
        let product =
            axes.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.steps.len()));
        match product {
            Some(count) if count <= POINTS_MAX => Ok(Sweep { axes }),
            _ => {
                let sizes: Vec<_> = axes.iter().map(|axis| axis.steps.len().to_string()).collect();
                Err(SweepError(format!(
                    "{} combinations are too many; allowed: {POINTS_MAX}; give fewer values, or \
                     sweep in several parts",
                    sizes.join(" x ")
                )))
            }
        }
    }

    /// Number of combinations.
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.steps.len()).product()
    }

    /// Whether there is nothing to vary.
    pub fn is_empty(&self) -> bool {
        self.axes.is_empty() || self.len() == 0
    }

    /// Every name, in order.
    pub fn names(&self) -> Vec<&str> {
        self.axes.iter().flat_map(|axis| &axis.names).map(String::as_str).collect()
    }

    /// One combination: a value for each name. The last dimension varies fastest.
    pub fn point(&self, index: usize) -> Vec<Override> {
        let mut rest = index;
        let mut lots: Vec<Vec<Override>> = Vec::new();
        for axis in self.axes.iter().rev() {
            let step = &axis.steps[rest % axis.steps.len()];
            rest /= axis.steps.len();
            let pairs = axis.names.iter().zip(step);
            lots.push(
                pairs
                    .map(|(name, value)| Override {
                        name: name.clone(),
                        value: value.clone(),
                        origin: format!("--vary {name}={value}"),
                    })
                    .collect(),
            );
        }
        lots.into_iter().rev().flatten().collect()
    }
}

#[cfg(test)]
mod tests;
