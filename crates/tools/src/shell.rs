//! What all tools have: one command on the command line, a script, a prompt (cli-habits 1).

mod interpreter;
mod words;

use crate::help::{self, BUILTINS};
use crate::parse::{Misuse, Parsed, parse};
use crate::table::{Syntax, Tool};

pub use interpreter::{Interpreter, LINE_MAX, Mode, Next};
pub use words::{WordsError, split};

/// Where text goes.
pub trait Screen {
    /// What was asked for. Whole lines, each with its end.
    fn out(&mut self, text: &str);
    /// What is wrong, or worth to be known. Whole lines, each with its end.
    fn err(&mut self, text: &str);
}

/// A tool at work.
pub trait Program {
    /// Its commands.
    fn tool(&self) -> &'static Tool;
    /// Whose habits it has.
    fn compat(&self) -> Compat;
    /// Its version.
    fn version(&self) -> &str;
    /// Where its text goes.
    fn screen(&mut self) -> &mut dyn Screen;
    /// Carries out a command of its table. `path` are the names that led to it.
    ///
    /// # Errors
    /// The status to end with; what there is to be said was said.
    fn run(&mut self, path: &[&'static str], parsed: &Parsed) -> Result<(), Exit>;
}

/// Whose habits a tool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Compat {
    /// Those of the 2.15 line.
    V2_15,
    /// Those of 2.16 and later.
    #[default]
    V2_16,
}

/// The status a command ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    /// It did what it should.
    pub const DONE: Exit = Exit(0);
    /// It could not.
    pub const FAILED: Exit = Exit(255);
    /// The user interrupted it; as shells have it for a program that SIGINT ended.
    pub const INTERRUPTED: Exit = Exit(130);

    /// Usage was printed.
    pub const fn usage(compat: Compat) -> Exit {
        match compat {
            Compat::V2_15 => Exit(255),
            Compat::V2_16 => Exit(4),
        }
    }

    /// Whether it did what it should.
    pub const fn is_done(self) -> bool {
        self.0 == 0
    }
}

/// What the arguments of a tool ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// One command: its words, for [`run`].
    Command(Vec<String>),
    /// The lines of the standard input, for an [`Interpreter`].
    Lines {
        /// Whether a script goes on after a command that failed.
        ignore_errors: bool,
    },
}

/// Reads the arguments of a tool, its own name not among them.
pub fn invocation(arguments: &[String]) -> Invocation {
    let ignores = |word: &String| IGNORE_ERRORS.contains(&word.as_str());
    let command: Vec<String> = arguments.iter().skip_while(|word| ignores(word)).cloned().collect();
    let ignore_errors = command.len() < arguments.len();
    match command.is_empty() {
        true => Invocation::Lines { ignore_errors },
        false => Invocation::Command(command),
    }
}

/// What `ignore_errors` may be written as.
pub(crate) const IGNORE_ERRORS: [&str; 3] = ["--ignore_errors", "--ignore-errors", "ignore_errors"];

/// How names of commands are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// As they are.
    Exact,
    /// In upper or lower case, and shortened while no other begins the same.
    Prefixes,
}

/// Carries out one command, given by its words.
pub fn run(program: &mut impl Program, words: &[String], names: Names) -> Exit {
    let (tool, compat) = (program.tool(), program.compat());
    let Some((first, rest)) = words.split_first() else { return Exit::DONE };
    let name = match name_of(tool, first, names) {
        Ok(name) => name,
        Err(text) => {
            program.screen().err(&text);
            return Exit::FAILED;
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
    while !syntax.under.is_empty() {
        let Some((word, left)) = rest.split_first() else {
            program.screen().out(&help::of_command(tool, syntax));
            return Exit::usage(compat);
        };
        if ["--help", "-h", "help"].contains(&word.as_str()) {
            program.screen().out(&help::of_command(tool, syntax));
            return Exit::DONE;
        }
        let Some(under) = syntax.under.iter().find(|under| under.name == word) else {
            program.screen().err(&unknown(tool, word));
            return Exit::FAILED;
        };
        rest = left;
        path.push(under.name);
        syntax = under;
    }
    match parse(syntax, rest) {
        Ok(parsed) => program.run(&path, &parsed).err().unwrap_or(Exit::DONE),
        Err(misuse) => refuse(program, syntax, &misuse),
    }
}

/// Says what is wrong with the arguments of a command.
fn refuse(program: &mut impl Program, syntax: &Syntax, misuse: &Misuse) -> Exit {
    let (tool, compat) = (program.tool(), program.compat());
    let screen = program.screen();
    match misuse {
        Misuse::Help => {
            screen.out(&help::of_command(tool, syntax));
            return Exit::DONE;
        }
        // The usage says it.
        Misuse::TooFewWords(_) => {}
        misuse if misuse.wants_usage() => screen.err(&format!("{}: {misuse}\n", syntax.name)),
        misuse => {
            screen.err(&format!("{misuse}\n"));
            return Exit::FAILED;
        }
    }
    screen.out(&help::usage(tool, syntax));
    Exit::usage(compat)
}

/// Finds the full name of a command; the error is what there is to be said.
fn name_of(tool: &Tool, given: &str, names: Names) -> Result<&'static str, String> {
    let all = || BUILTINS.into_iter().chain(tool.commands.iter().map(|syntax| syntax.name));
    if let Some(name) = all().find(|name| *name == given) {
        return Ok(name);
    }
    let lower = given.to_ascii_lowercase();
    let begins = |name: &&str| names == Names::Prefixes && name.starts_with(&lower);
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

/// Carries out what every tool knows; `None` if it is none of that. Those words that concern a
/// script are the [`Interpreter`]'s, and do nothing elsewhere.
fn builtin(program: &mut impl Program, name: &str, rest: &[String]) -> Option<Exit> {
    let tool = program.tool();
    let version = format!("{} {}\n", tool.name, program.version());
    let screen = program.screen();
    match name {
        "help" | "--help" => return Some(help_on(screen, tool, rest)),
        "version" | "--version" => screen.out(&version),
        "list-commands" | "--list-commands" => screen.out(&help::list_commands(tool)),
        "quit" | "exit" => {}
        name if IGNORE_ERRORS.contains(&name) => {}
        _ => return None,
    }
    Some(Exit::DONE)
}

fn help_on(screen: &mut dyn Screen, tool: &Tool, path: &[String]) -> Exit {
    let mut found: Option<&Syntax> = None;
    for name in path {
        let under = found.map_or(tool.commands, |syntax| syntax.under);
        let Some(syntax) = under.iter().find(|syntax| syntax.name == name) else {
            screen.err(&unknown(tool, &path.join(" ")));
            return Exit::FAILED;
        };
        found = Some(syntax);
    }
    screen.out(&match found {
        Some(syntax) => help::of_command(tool, syntax),
        None => help::of_tool(tool),
    });
    Exit::DONE
}

#[cfg(test)]
mod tests;
