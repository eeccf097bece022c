//! What the tools of administrators have in common here: whose habits they have, where their
//! commands come from, where their text goes.

pub(crate) mod running;

use std::env;
use std::io::{self, BufRead, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};

use clap::ValueEnum;
use lustrine_tools::shell::{
    self, Compat, Exit, Interpreter, Invocation, LineOutcome, Mode, NameMatching, Program, Terminal,
};

use crate::output::{self, Failure};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompatArg {
    /// Those of the 2.15 line
    #[value(name = "2.15")]
    V2_15,
    /// Those of 2.16 and later
    #[value(name = "2.16")]
    V2_16,
}

/// The habits of an option, or of the environment.
pub(crate) fn compat(word: Option<CompatArg>) -> Result<Compat, Failure> {
    let word = match word {
        Some(word) => Some(word),
        None => match env::var("LUSTRINE_COMPAT") {
            Ok(text) if !text.is_empty() => {
                Some(CompatArg::from_str(&text, false).map_err(|_| {
                    Failure::Usage(format!("LUSTRINE_COMPAT is {text:?}: 2.15 and 2.16 are known"))
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

/// Has a tool carry out the command of its arguments, or those of the standard input.
pub(crate) fn run(program: &mut impl Program, arguments: &[String]) -> Result<Exit, Failure> {
    match shell::invocation(arguments) {
        Invocation::Command(words) => Ok(shell::run(program, &words, NameMatching::Exact)),
        Invocation::Lines { ignore_errors } => lines(program, ignore_errors),
    }
}

/// Commands of the standard input.
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

/// The next line, or as much of it as no command needs; `None` at the end.
fn read_line(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut line = Vec::new();
    let limit = shell::LINE_MAX as u64 + 1;
    let read = io::Read::take(&mut *input, limit).read_until(b'\n', &mut line);
    match read.map_err(|error| format!("cannot read standard input: {error}"))? {
        0 => Ok(None),
        _ => Ok(Some(String::from_utf8_lossy(&line).into_owned())),
    }
}

/// The standard output and error.
#[derive(Debug, Default)]
pub(crate) struct StdTerminal {
    /// What it meant that something could not be printed.
    unwritten: Option<Failure>,
}

impl StdTerminal {
    /// Whether somebody reads what is printed.
    pub(crate) fn is_read(&self) -> bool {
        self.unwritten.is_none()
    }

    /// How the program ends after a tool ended so.
    pub(crate) fn end(self, exit: Exit) -> Result<(), Failure> {
        match (self.unwritten, exit) {
            (Some(failure), _) => Err(failure),
            (None, Exit(0)) => Ok(()),
            (None, Exit(status)) => Err(Failure::Reported(status)),
        }
    }
}

impl Terminal for StdTerminal {
    fn out(&mut self, text: &str) {
        if self.unwritten.is_none() {
            self.unwritten = output::print(text).err();
        }
    }

    fn err(&mut self, text: &str) {
        output::note(text.strip_suffix('\n').unwrap_or(text));
    }
}

/// The address of a host.
pub(crate) fn resolve(host: &str) -> Result<Ipv4Addr, String> {
    let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut found = found.filter_map(|address| match address.ip() {
        IpAddr::V4(ip) => Some(ip),
        IpAddr::V6(_) => None,
    });
    found.next().ok_or_else(|| "it has no IPv4 address, and names stand for no others".to_owned())
}
