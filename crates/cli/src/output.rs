//! The one place from which this program writes to its standard output, tells what went wrong and
//! gets its exit status.

use std::io::{self, Write};
use std::process::ExitCode;

/// Exit status when it was tried and failed.
const FAILED: u8 = 1;
/// Exit status when the command line makes no sense; clap's own.
const USAGE: u8 = 2;
/// Exit status after SIGINT or SIGTERM, as shells write the first of them.
const INTERRUPTED: u8 = 130;

/// Why a command ended without what was asked for. Texts are for people, already with their hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was tried and failed.
    Failed(String),
    /// The words of the command line do not go together; nothing was tried.
    Usage(String),
    /// A signal ended it early.
    Interrupted,
    /// The reader of our output left; what it wanted to know, it knows.
    ReaderLeft,
    /// It was told already, and this is the exit status.
    Reported(u8),
}

impl From<String> for Failure {
    fn from(error: String) -> Failure {
        Failure::Failed(error)
    }
}

impl Failure {
    /// The exit status it ends with.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Failed(_) => FAILED,
            Failure::Usage(_) => USAGE,
            Failure::Interrupted => INTERRUPTED,
            Failure::ReaderLeft => 0,
            Failure::Reported(status) => *status,
        }
    }

    /// Tells it on standard error.
    pub(crate) fn report(&self) {
        match self {
            Failure::Failed(error) => print_error(error),
            Failure::Usage(error) => {
                print_error(error);
                note("\nFor more information, try '--help'.");
            }
            Failure::Interrupted => print_error("interrupted"),
            Failure::ReaderLeft | Failure::Reported(_) => {}
        }
    }
}

/// The end of the program.
pub(crate) fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.status())
        }
    }
}

/// Prints text, ends of lines included.
///
/// # Errors
/// When it cannot be written: a full disk is a failure, a reader that left is not.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(write_error)
}

/// Prints a value as JSON.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&json(value)?)
}

/// A value as JSON, for people too: over several lines, the last one ended.
///
/// # Errors
/// When the value has no JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| format!("cannot write JSON: {error}"))?;
    Ok(text + "\n")
}

/// What it means that standard output cannot be written to.
pub(crate) fn write_error(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
        _ => Failure::Failed(format!("cannot write to standard output: {error}")),
    }
}

/// Tells something on standard error, under our name. If that cannot be written either, there is
/// nobody to tell it to.
pub(crate) fn print_error(text: &str) {
    note(&format!("lustrine: {text}"));
}

/// A line on standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
