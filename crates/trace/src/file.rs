//! Traces: from a recording, to text, and back.

use core::fmt::Write as _;

use lustrine_sim::Recording;

use crate::format::{LIMIT_MAX, LINE_MAX, Step, TraceHeader, TraceLine, VERSION};
use crate::rpc::printable;

/// The content of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// What was simulated.
    pub head: TraceHeader,
    /// Ordered by time.
    pub lines: Vec<TraceLine>,
}

impl Trace {
    /// The trace of a recording. This function fills in the numbers of steps in `head`.
    pub fn of(recording: &Recording, head: TraceHeader) -> Trace {
        let lines = recording.entries.iter().map(|(source, entry)| TraceLine {
            t: entry.at.since(recording.begin).0,
            node: source.nid,
            cpt: source.cpt,
            boot: source.boot,
            step: Step::from(&entry.step),
        });
        let lines: Vec<TraceLine> = lines.collect();
        let (steps, dropped) = (lines.len() as u64, recording.dropped);
        Trace { head: TraceHeader { lustrine_trace: VERSION, steps, dropped, ..head }, lines }
    }

    /// The file's text.
    pub fn to_text(&self) -> String {
        let mut out = String::with_capacity(160 * (self.lines.len() + 1));
        let json = |value: serde_json::Result<String>| value.expect("plain data have JSON");
        let _ = writeln!(out, "{}", json(serde_json::to_string(&self.head)));
        for line in &self.lines {
            let _ = writeln!(out, "{}", json(serde_json::to_string(line)));
        }
        out
    }
}

/// Why a trace file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// It is empty.
    #[error("the file is empty; a trace begins with a line that names \"lustrine_trace\"")]
    Empty,
    /// The first line is no header.
    #[error(
        "not a trace file; it must begin with {{\"lustrine_trace\":{VERSION},\"release\":..}}, as \
         `lustrine sim run FILE --trace` writes it"
    )]
    NoHead,
    /// Its version is not supported.
    #[error(
        "line 1: the trace has version {0}, and this release reads only version {VERSION}: run \
         `lustrine sim run FILE --trace` again"
    )]
    Version(u64),
    /// A line is not a step.
    #[error("line {line}: {what}; expected a step such as {EXAMPLE}")]
    BadLine {
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A line is too long.
    #[error("line {line}: {len} bytes; a step has {LINE_MAX} at most")]
    LongLine {
        /// The number of the line, from 1.
        line: usize,
        /// Its length in bytes, or the part of it that was read.
        len: usize,
    },
    /// A step is earlier than the step before it.
    #[error("line {line}: {t} ns after a step of {before} ns; steps stand in the order of time")]
    Disorder {
        /// The number of the line, from 1.
        line: usize,
        /// Its time.
        t: u64,
        /// The time of the step before.
        before: u64,
    },
    /// There are more steps than a trace may have.
    #[error("more than {0} steps; a trace has so many at most")]
    TooMany(u64),
    /// Steps are missing.
    #[error("the file ends after {found} of {announced} steps: it was cut off")]
    CutOff {
        /// Steps in the file.
        found: u64,
        /// Steps that the header announces.
        announced: u64,
    },
}

const EXAMPLE: &str = r#"{"t":1000,"node":"10.0.0.1@tcp","event":"tx_submitted","msg":"0x1"}"#;

/// Reads a trace line by line, and keeps nothing but the trace itself.
#[derive(Debug, Default)]
pub struct TraceReader {
    head: Option<TraceHeader>,
    lines: Vec<TraceLine>,
    read: usize,
}

impl TraceReader {
    /// Takes the next line, without its end.
    ///
    /// # Errors
    /// The line is not one of a trace; the error says why.
    pub fn line(&mut self, text: &str) -> Result<(), TraceError> {
        self.read += 1;
        let line = self.read;
        if text.len() > LINE_MAX {
            return Err(TraceError::LongLine { line, len: text.len() });
        }
        let Some(head) = &self.head else {
            self.head = Some(read_head(text)?);
            return Ok(());
        };
        if self.lines.len() as u64 >= head.steps.min(u64::from(LIMIT_MAX)) {
            return Err(TraceError::TooMany(self.lines.len() as u64));
        }
        let step: TraceLine = serde_json::from_str(text)
            .map_err(|error| TraceError::BadLine { line, what: in_line(&error) })?;
        if let Some(last) = self.lines.last().filter(|last| last.t > step.t) {
            return Err(TraceError::Disorder { line, t: step.t, before: last.t });
        }
        self.lines.push(step);
        Ok(())
    }

    /// The trace, after all lines were read.
    ///
    /// # Errors
    /// When there are fewer steps than the header announces.
    pub fn finish(self) -> Result<Trace, TraceError> {
        let head = self.head.ok_or(TraceError::Empty)?;
        let (found, announced) = (self.lines.len() as u64, head.steps);
        if found < announced {
            return Err(TraceError::CutOff { found, announced });
        }
        Ok(Trace { head, lines: self.lines })
    }
}

fn read_head(text: &str) -> Result<TraceHeader, TraceError> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|_| TraceError::NoHead)?;
    match value.get("lustrine_trace").and_then(serde_json::Value::as_u64) {
        Some(version) if version != u64::from(VERSION) => Err(TraceError::Version(version)),
        _ => serde_json::from_value(value).map_err(|_| TraceError::NoHead),
    }
}

/// The caller knows the number of the line; the parser of one line does not.
fn in_line(error: &serde_json::Error) -> String {
    let text = printable(&error.to_string());
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("column {column}: {what}"),
        None => text,
    }
}
