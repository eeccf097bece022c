//! Limits that results must meet, such as `read 1M >= 9 GiB/s`, for scripts and CI.

use lustrine_document::nearest;
use lustrine_report::numbers;
use serde::Serialize;

use crate::lines::{LineKey, Metric, lines};
use crate::model::TestKind;
use crate::results::{End, Results};

/// The sign of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sense {
    /// The value must be at least the limit: `>=`.
    AtLeast,
    /// The value must be at most the limit: `<=`.
    AtMost,
}

/// A limit. It concerns the largest value of the lines that it selects.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    text: String,
    test: Option<TestKind>,
    size: Option<u32>,
    concurrency: Option<u32>,
    metric: Metric,
    sense: Sense,
    /// In the metric's unit.
    value: f64,
}

/// Whether results meet a limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LimitResult {
    /// The limit, as it was given.
    pub limit: String,
    /// The name of the results.
    pub results: String,
    /// Whether they meet it.
    pub met: bool,
    /// The line with the largest value; absent if no line has one.
    pub line: Option<String>,
    /// That value: in MiB/s, operations per second, microseconds, or errors.
    pub value: Option<f64>,
    /// The same in a sentence.
    pub sentence: String,
}

/// Words for what is measured.
const METRICS: [(&str, Metric); 6] = [
    ("p50", Metric::P50),
    ("p90", Metric::P90),
    ("p99", Metric::P99),
    ("p99.9", Metric::P999),
    ("max", Metric::Max),
    ("errors", Metric::Errors),
];

const TESTS: [TestKind; 3] = [TestKind::Ping, TestKind::Read, TestKind::Write];

/// Units of rates, with what they are in MiB/s.
const RATES: [(&str, f64); 8] = [
    ("KiB/s", 1.0 / 1024.0),
    ("MiB/s", 1.0),
    ("GiB/s", 1024.0),
    ("MB/s", 1e6 / 1_048_576.0),
    ("GB/s", 1e9 / 1_048_576.0),
    ("Mb/s", 125e3 / 1_048_576.0),
    ("Gb/s", 125e6 / 1_048_576.0),
    ("Tb/s", 125e9 / 1_048_576.0),
];

/// Units of latencies, with what they are in microseconds.
const TIMES: [(&str, f64); 4] = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];

/// Units of operations per second.
const OPERATIONS: [(&str, f64); 2] = [("/s", 1.0), ("ops/s", 1.0)];

impl Limit {
    /// Reads a limit: words that select lines (`ping`, `read` or `write`; a size such as `1M`; a
    /// concurrency such as `c8`), at most one value (`p50` to `max`, `errors`; without one the
    /// rate), `>=` or `<=`, a number and its unit.
    ///
    /// # Errors
    /// What is wrong, with a suggestion, in a text for people.
    pub fn parse(text: &str) -> Result<Limit, String> {
        let wrong = |what: String| {
            format!("{text:?}: {what}; for example 'read >= 9 GiB/s' or 'p99 <= 2 ms'")
        };
        let Some(at) = text.find(['<', '>', '=']) else {
            return Err(wrong("a limit needs >= or <=".to_owned()));
        };
        let (words, rest) = text.split_at(at);
        let (amount, sense) = if let Some(amount) = rest.strip_prefix(">=") {
            (amount, Sense::AtLeast)
        } else if let Some(amount) = rest.strip_prefix("<=") {
            (amount, Sense::AtMost)
        } else {
            return Err(wrong("a limit needs >= or <=".to_owned()));
        };
        let mut limit = Limit {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            test: None,
            size: None,
            concurrency: None,
            metric: Metric::MibPerS,
            sense,
            value: 0.0,
        };
        let mut metric = None;
        for word in words.split_whitespace() {
            limit.word(word, &mut metric).map_err(wrong)?;
        }
        if limit.test.is_none() && metric.is_none() {
            return Err(wrong(format!("the limit names no value; use one of {}", known())));
        }
        let amount = amount.trim();
        let digits = amount.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = amount.split_at(digits.unwrap_or(amount.len()));
        let number: f64 = number
            .parse()
            .map_err(|_| wrong(format!("{amount:?} does not begin with a number")))?;
        let (metric, factor) = unit_of(unit.trim(), metric, limit.test).map_err(wrong)?;
        (limit.metric, limit.value) = (metric, number * factor);
        Ok(limit)
    }

    /// Reads a word before the sign.
    fn word(&mut self, word: &str, metric: &mut Option<Metric>) -> Result<(), String> {
        let twice = |word: &str| format!("{word:?} repeats or contradicts a word before it");
        if let Some(test) = TESTS.into_iter().find(|test| test.name() == word) {
            return once(&mut self.test, test).ok_or_else(|| twice(word));
        }
        if let Some((_, found)) = METRICS.into_iter().find(|(name, _)| *name == word) {
            return once(metric, found).ok_or_else(|| twice(word));
        }
        if let Some(count) = word.strip_prefix('c').and_then(|count| count.parse().ok()) {
            return once(&mut self.concurrency, count).ok_or_else(|| twice(word));
        }
        if let Some(bytes) = size_of(word) {
            return once(&mut self.size, bytes).ok_or_else(|| twice(word));
        }
        let names = TESTS.iter().map(|test| test.name());
        let hint = match nearest(word, names.chain(METRICS.iter().map(|(name, _)| *name))) {
            Some(near) => format!("did you mean {near:?}?"),
            None => {
                format!("it may be {}, a size such as 1M, or a concurrency such as c8", known())
            }
        };
        Err(format!("{word:?} is not known; {hint}"))
    }

    fn selects(&self, key: &LineKey) -> bool {
        self.test.is_none_or(|test| test == key.test)
            && self.size.is_none_or(|size| size == key.size)
            && self.concurrency.is_none_or(|concurrency| concurrency == key.concurrency)
    }

    /// Whether results meet it. A run that did not complete fails every limit.
    pub fn check(&self, name: &str, results: &Results) -> LimitResult {
        let text = &self.text;
        let mut checked = LimitResult {
            limit: text.clone(),
            results: name.to_owned(),
            met: false,
            line: None,
            value: None,
            sentence: format!("{name}: {text}: not met, because no line measures it"),
        };
        if results.end != End::Complete {
            checked.sentence = format!("{name}: {text}: not met, because the run ended early");
            return checked;
        }
        let all = lines(results);
        let selected: Vec<_> = all.iter().filter(|line| self.selects(&line.key)).collect();
        let gap = selected.iter().find_map(|line| Some((line, line.gap(self.metric)?)));
        if let Some((line, gap)) = gap {
            checked.line = Some(line.key.to_string());
            checked.sentence = format!("{name}: {text}: not met, because {} {gap}", line.key);
            return checked;
        }
        let values = selected.iter().filter_map(|line| {
            let range = line.range(self.metric)?;
            let value = match self.metric {
                Metric::Errors => line.errors() as f64,
                _ => range.median,
            };
            Some((line, range, value))
        });
        let values: Vec<_> = values.collect();
        let most = values.iter().max_by(|one, two| one.2.total_cmp(&two.2));
        let Some((line, range, value)) = most else { return checked };
        let value = *value;
        checked.met = match self.sense {
            Sense::AtLeast => value >= self.value,
            Sense::AtMost => value <= self.value,
        };
        (checked.line, checked.value) = (Some(line.key.to_string()), Some(value));
        let mut sentence = format!("{name}: {text}: ");
        sentence += if checked.met { "met" } else { "not met" };
        sentence += &format!(", {} has {}", line.key, self.metric.text(value));
        let difference = (value - self.value).abs();
        let side = if value < self.value { "below" } else { "above" };
        if difference > 0.0 {
            sentence += &match self.value > 0.0 {
                true => {
                    let percent = numbers::grouped(difference / self.value * 100.0);
                    format!(", {percent} % {side} the limit")
                }
                false => format!(", {} {side} the limit", self.metric.text(difference)),
            };
        }
        match range.samples {
            _ if self.metric == Metric::Errors => {}
            1 => sentence += "; one sample, noise unknown",
            samples if (range.low..=range.high).contains(&self.value) => {
                sentence +=
                    &format!("; the limit is within the range of the {samples} repetitions");
            }
            _ => {}
        }
        if values.len() > 1 {
            sentence += &format!("; the largest of {} lines", values.len());
        }
        if values.len() < selected.len() {
            let without = selected.len() - values.len();
            sentence += &format!("; {without} more lines did not measure it");
        }
        checked.sentence = sentence;
        checked
    }
}

/// Sets a value that has none yet.
fn once<T>(place: &mut Option<T>, value: T) -> Option<()> {
    match place.replace(value) {
        None => Some(()),
        Some(_) => None,
    }
}

/// All names of tests and values.
fn known() -> String {
    let names = TESTS.iter().map(|test| test.name());
    names.chain(METRICS.iter().map(|(name, _)| *name)).collect::<Vec<_>>().join(", ")
}

/// Bytes as tables show them: `4k`, `1M`, `512`.
fn size_of(word: &str) -> Option<u32> {
    let (digits, unit) = match word.as_bytes().last()? {
        b'k' => (&word[..word.len() - 1], 1 << 10),
        b'M' => (&word[..word.len() - 1], 1 << 20),
        _ => (word, 1),
    };
    digits.parse::<u32>().ok()?.checked_mul(unit)
}

/// What a value in this unit is of, and what one of it is in the metric's unit.
fn unit_of(
    unit: &str,
    metric: Option<Metric>,
    test: Option<TestKind>,
) -> Result<(Metric, f64), String> {
    let find = |units: &[(&str, f64)]| {
        units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor)
    };
    let names = |units: &[(&'static str, f64)]| -> Vec<&'static str> {
        units.iter().map(|(name, _)| *name).collect()
    };
    let (found, allowed) = match (metric, test) {
        (Some(Metric::Errors), _) => match unit {
            "" => return Ok((Metric::Errors, 1.0)),
            _ => return Err(format!("errors have no unit, and {unit:?} is there")),
        },
        (Some(metric), _) => (find(&TIMES).map(|factor| (metric, factor)), names(&TIMES)),
        (None, Some(TestKind::Ping)) => {
            let operations = find(&OPERATIONS).map(|factor| (Metric::OpsPerS, factor));
            (operations, names(&OPERATIONS))
        }
        (None, _) => {
            let operations = find(&OPERATIONS).map(|factor| (Metric::OpsPerS, factor));
            let rate = find(&RATES).map(|factor| (Metric::MibPerS, factor));
            (rate.or(operations), [names(&RATES), names(&OPERATIONS)].concat())
        }
    };
    if let Some(found) = found {
        return Ok(found);
    }
    let what = match unit {
        "" => "the number has no unit".to_owned(),
        unit => format!("the unit {unit:?} does not fit"),
    };
    Err(match nearest(unit, allowed.iter().copied()).filter(|_| !unit.is_empty()) {
        Some(near) => format!("{what}; did you mean {near:?}?"),
        None => format!("{what}; it may be {}", allowed.join(", ")),
    })
}

#[cfg(test)]
mod tests;
