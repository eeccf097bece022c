//! A script or a prompt, line by line.

use super::{Exit, IGNORE_ERRORS, NameMatching, Program, name_of, run, words};
use crate::shell::Compat;

/// Longest line, in bytes.
pub const LINE_MAX: usize = 65_536;

/// The source of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A person at a prompt: names may be abbreviated, and a failure does not end it.
    Prompt,
    /// A script: names are exact, and a failure ends it unless errors are ignored.
    Script {
        /// Whether the script continues after a failure.
        ignore_errors: bool,
    },
}

/// What to do after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineOutcome {
    /// Read the next line; after the last one, exit with [`Interpreter::exit`].
    Continue,
    /// Exit with this status.
    Quit(Exit),
}

/// Runs lines, each a command. The caller reads them and shows the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    mode: Mode,
    last: Exit,
}

impl Interpreter {
    /// An interpreter that has run nothing yet.
    pub fn new(mode: Mode) -> Interpreter {
        Interpreter { mode, last: Exit::SUCCESS }
    }

    /// The prompt; empty for a script.
    pub fn prompt(&self, program: &impl Program) -> String {
        match (self.mode, program.compat()) {
            (Mode::Script { .. }, _) => String::new(),
            (Mode::Prompt, Compat::V2_15) => format!("{} > ", program.tool().name),
            (Mode::Prompt, Compat::V2_16) => "> ".to_owned(),
        }
    }

    /// Runs a line, with or without its line end.
    pub fn line(&mut self, program: &mut impl Program, text: &str) -> LineOutcome {
        let words = match words::split(text) {
            _ if text.len() > LINE_MAX => Err(format!("a line has at most {LINE_MAX} bytes")),
            Ok(words) => Ok(words),
            Err(error) => Err(error.to_string()),
        };
        self.last = match words {
            Ok(words) if words.is_empty() => return LineOutcome::Continue,
            Ok(words) => {
                let names = self.names();
                match name_of(program.tool(), &words[0], names) {
                    Ok("quit" | "exit") => return LineOutcome::Quit(self.exit()),
                    Ok(name) if IGNORE_ERRORS.contains(&name) => self.ignore_errors(),
                    _ => {}
                }
                run(program, &words, names)
            }
            Err(text) => {
                let name = program.tool().name;
                program.terminal().err(&format!("{name}: {text}\n"));
                Exit::FAILURE
            }
        };
        match self.mode {
            Mode::Script { .. } if self.last == Exit::INTERRUPTED => LineOutcome::Quit(self.last),
            Mode::Script { ignore_errors: false } if !self.last.is_success() => {
                LineOutcome::Quit(self.last)
            }
            Mode::Script { .. } | Mode::Prompt => LineOutcome::Continue,
        }
    }

    /// The exit status after the last line: that of its command, or success if errors are ignored.
    pub fn exit(&self) -> Exit {
        match self.mode {
            Mode::Script { ignore_errors: true } => Exit::SUCCESS,
            Mode::Script { ignore_errors: false } | Mode::Prompt => self.last,
        }
    }

    fn names(&self) -> NameMatching {
        match self.mode {
            Mode::Prompt => NameMatching::Prefix,
            Mode::Script { .. } => NameMatching::Exact,
        }
    }

    fn ignore_errors(&mut self) {
        if let Mode::Script { ignore_errors } = &mut self.mode {
            *ignore_errors = true;
        }
    }
}
