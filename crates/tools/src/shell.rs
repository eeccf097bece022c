//! What all tools have in common: one command on the command line, a script, or a prompt [TOOL-1].

mod interpreter;
mod words;

use crate::help::{self, BUILTINS};
use crate::parse::{Parsed, UsageError, parse};
use crate::table::{CommandSyntax, Tool};

pub use interpreter::{Interpreter, LINE_MAX, LineOutcome, Mode};
pub use words::{WordsError, split};

/// Where the output of a tool goes.
pub trait Terminal {
    /// Prints results: whole lines with their line ends.
    fn out(&mut self, text: &str);
    /// Prints errors and remarks: whole lines with their line ends.
    fn err(&mut self, text: &str);
}

/// A running tool.
pub trait Program {
    /// Its commands.
    fn tool(&self) -> &'static Tool;
    /// The release whose output it follows.
    fn compat(&self) -> Compat;
    /// Its version.
    fn version(&self) -> &str;
    /// Where its output goes.
    fn terminal(&mut self) -> &mut dyn Terminal;
    /// Runs a command of its table. `path` are the names that lead to it.
    ///
    /// # Errors
    /// The exit status; the error was already printed.
    fn run(&mut self, path: &[&'static str], parsed: &Parsed) -> Result<(), Exit>;
}

/// The release of Lustre whose options, output and statuses a tool follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// The 2.15 line.
    V2_15,
    /// 2.16 and later.
    #[default]
    V2_16,
}

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    /// The command succeeded.
    pub const SUCCESS: Exit = Exit(0);
    /// The command failed.
    pub const FAILURE: Exit = Exit(255);
    /// The user interrupted it; shells report SIGINT with this status.
    pub const INTERRUPTED: Exit = Exit(130);

    /// Usage error; the usage was printed.
    pub const fn usage(compat: Compat) -> Exit {
        match compat {
            Compat::V2_15 => Exit(255),
            Compat::V2_16 => Exit(4),
        }
    }

    /// Whether it is 0.
    pub const fn is_success(self) -> bool {
        self.0 == 0
    }
}

/// The meaning of a tool's arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// One command, for [`run`].
    Command(Vec<String>),
    /// Commands from standard input, for an [`Interpreter`].
    Lines {
        /// Whether a script continues after a command that failed.
        ignore_errors: bool,
    },
}

/// Parses the arguments of a tool, without its name.
pub fn invocation(arguments: &[String]) -> Invocation {
    let ignores = |word: &String| IGNORE_ERRORS.contains(&word.as_str());
    let command: Vec<String> = arguments.iter().skip_while(|word| ignores(word)).cloned().collect();
    let ignore_errors = command.len() < arguments.len();
    match command.is_empty() {
        true => Invocation::Lines { ignore_errors },
        false => Invocation::Command(command),
    }
}

/// The spellings of `ignore_errors`.
pub(crate) const IGNORE_ERRORS: [&str; 3] = ["--ignore_errors", "--ignore-errors", "ignore_errors"];

/// How command names are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameMatching {
    /// The whole name, in the same case.
    Exact,
    /// In upper or lower case, and abbreviated as long as they are unambiguous.
    Prefix,
}

/// Runs one command, given as a list of words.
pub fn run(program: &mut impl Program, words: &[String], names: NameMatching) -> Exit {
    let (tool, compat) = (program.tool(), program.compat());
    let Some((first, rest)) = words.split_first() else { return Exit::SUCCESS };
    let name = match name_of(tool, first, names) {
        Ok(name) => name,
        Err(text) => {
            program.terminal().err(&text);
            return Exit::FAILURE;
        }
    };
    if let Some(exit) = builtin(program, name, rest) {
        return exit;
    }
    let mut path = vec![name];
    let Some(mut syntax) = tool.commands.iter().find(|syntax| syntax.name == name) else {
        unreachable!("the name was found in the table")
    };
    let mut rest = rest;
    while !syntax.subcommands.is_empty() {
        let Some((word, left)) = rest.split_first() else {
            program.terminal().out(&help::command_help(tool, syntax));
            return Exit::usage(compat);
        };
        if ["--help", "-h", "help"].contains(&word.as_str()) {
            program.terminal().out(&help::command_help(tool, syntax));
            return Exit::SUCCESS;
        }
        let Some(under) = syntax.subcommands.iter().find(|under| under.name == word) else {
            program.terminal().err(&unknown(tool, word));
            return Exit::FAILURE;
        };
        rest = left;
        path.push(under.name);
        syntax = under;
    }
    match parse(syntax, rest) {
        Ok(parsed) => program.run(&path, &parsed).err().unwrap_or(Exit::SUCCESS),
        Err(error) => refuse(program, syntax, &error),
    }
}

/// Prints what is wrong with the arguments of a command.
fn refuse(program: &mut impl Program, syntax: &CommandSyntax, error: &UsageError) -> Exit {
    let (tool, compat) = (program.tool(), program.compat());
    let screen = program.terminal();
    match error {
        UsageError::Help => {
            screen.out(&help::command_help(tool, syntax));
            return Exit::SUCCESS;
        }
        // The usage shows what is missing.
        UsageError::MissingPositional(_) => {}
        error if error.shows_usage() => screen.err(&format!("{}: {error}\n", syntax.name)),
        error => {
            screen.err(&format!("{error}\n"));
            return Exit::FAILURE;
        }
    }
    screen.out(&help::usage(tool, syntax));
    Exit::usage(compat)
}

/// Finds the full name of a command; the error is the message to print.
fn name_of(tool: &Tool, given: &str, names: NameMatching) -> Result<&'static str, String> {
    let all = || BUILTINS.into_iter().chain(tool.commands.iter().map(|syntax| syntax.name));
    if let Some(name) = all().find(|name| *name == given) {
        return Ok(name);
    }
    let lower = given.to_ascii_lowercase();
    let begins = |name: &&str| names == NameMatching::Prefix && name.starts_with(&lower);
    let mut candidates: Vec<&'static str> = all().filter(begins).collect();
    if let Some(name) = candidates.iter().find(|name| **name == lower) {
        return Ok(name);
    }
    candidates.retain(|name| !name.starts_with("--"));
    match candidates[..] {
        [name] => Ok(name),
        [] => Err(unknown(tool, given)),
        _ => Err(format!(
            "{}: '{given}' is ambiguous; possibilities: {}\n",
            tool.name,
            candidates.join(" ")
        )),
    }
}

fn unknown(tool: &Tool, given: &str) -> String {
    format!("{0}: '{given}' is not a valid command. See '{0} --list-commands'.\n", tool.name)
}

/// Runs a command that every tool has; `None` if it is none of these. Commands about scripts belong
/// to the [`Interpreter`] and do nothing here.
fn builtin(program: &mut impl Program, name: &str, rest: &[String]) -> Option<Exit> {
    let tool = program.tool();
    let version = format!("{} {}\n", tool.name, program.version());
    let screen = program.terminal();
    match name {
        "help" | "--help" => return Some(help_on(screen, tool, rest)),
        "version" | "--version" => screen.out(&version),
        "list-commands" | "--list-commands" => screen.out(&help::list_commands(tool)),
        "quit" | "exit" => {}
        name if IGNORE_ERRORS.contains(&name) => {}
        _ => return None,
    }
    Some(Exit::SUCCESS)
}

fn help_on(screen: &mut dyn Terminal, tool: &Tool, path: &[String]) -> Exit {
    let mut found: Option<&CommandSyntax> = None;
    for name in path {
        let under = found.map_or(tool.commands, |syntax| syntax.subcommands);
        let Some(syntax) = under.iter().find(|syntax| syntax.name == name) else {
            screen.err(&unknown(tool, &path.join(" ")));
            return Exit::FAILURE;
        };
        found = Some(syntax);
    }
    screen.out(&match found {
        Some(syntax) => help::command_help(tool, syntax),
        None => help::tool_help(tool),
    });
    Exit::SUCCESS
}

#[cfg(test)]
mod tests;
