//! The one place that writes to standard output and standard error and that sets the exit status.

use std::io::{self, Write};
use std::process::ExitCode;

/// Exit status when the operation failed.
const FAILED: u8 = 1;
/// Exit status of a usage error, or of an input file that cannot be used; clap uses the same.
const USAGE: u8 = 2;
/// Exit status after SIGINT or SIGTERM; shells report SIGINT so.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command did not succeed. The texts are complete messages for people, hints included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The operation failed.
    Failed(String),
    /// The arguments are invalid or contradict each other; nothing was done.
    Usage(String),
    /// A file that the command was given to read cannot be read, or its content is invalid.
    Input(String),
    /// A signal ended it early.
    Interrupted,
    /// The reader of standard output closed it, as `head` does. This is a success.
    ReaderLeft,
    /// The error was already reported; this is the exit status.
    Reported(u8),
}

impl From<String> for Failure {
    fn from(error: String) -> Failure {
        Failure::Failed(error)
    }
}

impl Failure {
    /// The exit status of the process.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::Failed(_) => FAILED,
            Failure::Usage(_) | Failure::Input(_) => USAGE,
            Failure::Interrupted => INTERRUPTED,
            Failure::ReaderLeft => 0,
            Failure::Reported(status) => *status,
        }
    }

    /// Writes the message to standard error.
    pub(crate) fn report(&self) {
        match self {
            Failure::Failed(error) | Failure::Input(error) => print_error(error),
            Failure::Usage(error) => {
                print_error(error);
                note("\nFor more information, try '--help'.");
            }
            Failure::Interrupted => print_error("interrupted"),
            Failure::ReaderLeft | Failure::Reported(_) => {}
        }
    }
}

/// Reports a failure and returns the exit code of the process.
pub(crate) fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.status())
        }
    }
}

/// Prints text, which contains its line ends.
///
/// # Errors
/// When the text cannot be written. A full disk is a failure, a reader that left is not.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Prints bytes as they are.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(write_error)
}

/// Prints a value as JSON.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&json(value)?)
}

/// A value as indented JSON with a line end.
///
/// # Errors
/// When the value cannot be written as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| format!("cannot write JSON: {error}"))?;
    Ok(text + "\n")
}

/// Turns an error of standard output into a failure.
pub(crate) fn write_error(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
        _ => Failure::Failed(format!("cannot write to standard output: {error}")),
    }
}

/// Writes a message to standard error, after the name of the program. An error is ignored, because
/// it cannot be reported.
pub(crate) fn print_error(text: &str) {
    note(&escaped(&format!("lustrine: {text}")));
}

/// Text without control characters, except ends of lines and tabs: names of files come from others,
/// and must not reach the terminal as commands.
fn escaped(text: &str) -> String {
    let is_command = |c: char| c.is_control() && c != '\n' && c != '\t';
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_command(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// Writes a line to standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_control_characters() {
        assert_eq!(escaped("a\x1b[2J\tb\nc"), "a\\u{1b}[2J\tb\nc");
        assert_eq!(escaped("Gr\u{f6}\u{df}e"), "Gr\u{f6}\u{df}e");
    }
}
