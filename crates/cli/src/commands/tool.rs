//! Common parts of the tools: the release that they follow, the source of their commands, and their
//! output.

pub(crate) mod running;

use std::env;
use std::io::{self, BufRead, IsTerminal};

use clap::ValueEnum;
use lustrine_tools::shell::{
    self, Compat, Exit, Interpreter, Invocation, LineOutcome, Mode, NameMatching, Program, Terminal,
};
use serde::Serialize;

use crate::output::{self, Failure};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompatArg {
    /// The 2.15 line
    #[value(name = "2.15")]
    V2_15,
    /// 2.16 and later
    #[value(name = "2.16")]
    V2_16,
}

/// The release that an option names, or else the environment.
pub(crate) fn compat(word: Option<CompatArg>) -> Result<Compat, Failure> {
    let word = match word {
        Some(word) => Some(word),
        None => match env::var("LUSTRINE_COMPAT") {
            Ok(text) if !text.is_empty() => {
                Some(CompatArg::from_str(&text, false).map_err(|_| {
                    Failure::Usage(format!(
                        "LUSTRINE_COMPAT is {text:?}; the possible values are 2.15 and 2.16"
                    ))
                })?)
            }
            _ => None,
        },
    };
    Ok(match word {
        Some(CompatArg::V2_15) => Compat::V2_15,
        Some(CompatArg::V2_16) | None => Compat::V2_16,
    })
}

/// Runs the command in the arguments of a tool, or the commands in standard input.
pub(crate) fn run(program: &mut impl Program, arguments: &[String]) -> Result<Exit, Failure> {
    match shell::invocation(arguments) {
        Invocation::Command(words) => Ok(shell::run(program, &words, NameMatching::Exact)),
        Invocation::Lines { ignore_errors } => lines(program, ignore_errors),
    }
}

/// Runs commands from standard input.
fn lines(program: &mut impl Program, ignore_errors: bool) -> Result<Exit, Failure> {
    let stdin = io::stdin();
    let prompted = stdin.is_terminal();
    let mode = if prompted { Mode::Prompt } else { Mode::Script { ignore_errors } };
    let mut interpreter = Interpreter::new(mode);
    let mut input = stdin.lock();
    loop {
        output::print(&interpreter.prompt(program))?;
        let line = match read_line(&mut input)? {
            Some(line) => line,
            None => {
                if prompted {
                    output::print("\n")?;
                }
                return Ok(interpreter.exit());
            }
        };
        if let LineOutcome::Quit(exit) = interpreter.line(program, &line) {
            return Ok(exit);
        }
    }
}

/// The next line, cut above the longest that a command may have; `None` at the end.
fn read_line(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut line = Vec::new();
    let limit = shell::LINE_MAX as u64 + 1;
    let read = io::Read::take(&mut *input, limit).read_until(b'\n', &mut line);
    match read.map_err(|error| format!("cannot read standard input: {error}"))? {
        0 => Ok(None),
        _ => Ok(Some(String::from_utf8_lossy(&line).into_owned())),
    }
}

/// Standard output and standard error, or the document that `--json` prints.
#[derive(Debug, Default)]
pub(crate) struct StdTerminal {
    /// The first failure to print.
    unwritten: Option<Failure>,
    document: Option<Document>,
}

/// What a tool did, as JSON.
#[derive(Debug, Default, Serialize)]
struct Document {
    /// The command; empty if commands were read from standard input.
    command: Vec<String>,
    /// The exit status.
    status: u8,
    /// What the node or the console answered, in order.
    answers: Vec<serde_json::Value>,
    /// What the tool prints without `--json`.
    output: String,
    /// Its messages.
    errors: String,
}

impl StdTerminal {
    /// A terminal for a command; with `json`, all goes into one document.
    pub(crate) fn of(json: bool, command: &[String]) -> StdTerminal {
        let document = json.then(|| Document { command: command.to_vec(), ..Document::default() });
        StdTerminal { unwritten: None, document }
    }

    /// Whether output still has a reader.
    pub(crate) fn is_read(&self) -> bool {
        self.unwritten.is_none()
    }

    /// Notes an answer for the document.
    pub(crate) fn answered(&mut self, answer: &impl Serialize) {
        if let Some(document) = &mut self.document {
            document.answers.extend(serde_json::to_value(answer));
        }
    }

    /// The result of the program when a tool ended with this status.
    pub(crate) fn end(self, exit: Exit) -> Result<(), Failure> {
        if let Some(document) = self.document {
            output::print_json(&Document { status: exit.0, ..document })?;
        }
        match (self.unwritten, exit) {
            (Some(failure), _) => Err(failure),
            (None, Exit(0)) => Ok(()),
            (None, Exit(status)) => Err(Failure::Reported(status)),
        }
    }
}

impl Terminal for StdTerminal {
    fn out(&mut self, text: &str) {
        if let Some(document) = &mut self.document {
            document.output += text;
        } else if self.unwritten.is_none() {
            self.unwritten = output::print(text).err();
        }
    }

    fn err(&mut self, text: &str) {
        match &mut self.document {
            Some(document) => document.errors += text,
            None => output::note(text.strip_suffix('\n').unwrap_or(text)),
        }
    }
}
