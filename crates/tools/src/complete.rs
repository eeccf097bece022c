//! Candidates for a position in a command line, for shells that complete words.
//!
//! The words before that position are parsed as [`crate::parse`] does, but nothing is an error: a
//! line that is being typed may be invalid, and then few candidates are offered. The scripts of
//! [`script`] run the program for each word and read its [`Completion`] as text, so that three
//! shells need no grammar of the tools, and every candidate parses. This needs no node and no
//! session, only a process of a few milliseconds.

mod script;

use core::fmt;

use crate::help::BUILTINS;
use crate::shell::IGNORE_ERRORS;
use crate::table::{CommandSyntax, OptionSyntax, Tool, ValueKind};

pub use script::{Shell, script};

/// The candidates for a position.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Completion {
    /// Whole words that begin with the typed text, in the order of the table.
    pub candidates: Vec<Candidate>,
    /// The kind of other values, where the table does not list all of them.
    pub hint: Option<Hint>,
}

/// A word that may be used there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The word. If it ends in `=`, more of it follows.
    pub text: String,
    /// What it means, in one line; empty if the word explains itself.
    pub about: &'static str,
}

/// The kind of a value of which the table does not list all instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The name of a thing: `group`, `batch`.
    Name(&'static str),
    /// An expression for NIDs.
    Nids,
    /// The name of a file.
    File,
    /// A number with this meaning.
    Number(&'static str),
    /// Any text, with its name in the usage.
    Text(&'static str),
}

/// The candidates for position `index` of `words`, the first of which follows the tool's name.
/// Words from there on are ignored, except the typed part of the word itself.
pub fn complete(tool: &Tool, words: &[String], index: usize) -> Completion {
    let typed = words.get(index).map_or("", String::as_str);
    let before = words.get(..index).unwrap_or(words);
    let mut found = anything(tool, before, typed);
    found.candidates.retain(|candidate| candidate.text.starts_with(typed));
    found
}

fn anything(tool: &Tool, before: &[String], typed: &str) -> Completion {
    let ignored = before.iter().take_while(|word| IGNORE_ERRORS.contains(&word.as_str())).count();
    let Some((name, mut before)) = before[ignored..].split_first() else {
        return first_words(tool, typed);
    };
    if name == "help" || name == "--help" {
        return names_along(tool.commands, before);
    }
    let Some(mut syntax) = tool.commands.iter().find(|syntax| syntax.name == name) else {
        return Completion::default();
    };
    while !syntax.subcommands.is_empty() {
        let Some((name, rest)) = before.split_first() else { return names(syntax.subcommands) };
        let Some(under) = syntax.subcommands.iter().find(|under| under.name == name) else {
            return Completion::default();
        };
        (syntax, before) = (under, rest);
    }
    Reader::of(syntax, before).next(typed)
}

/// The tool's commands, and those commands of every tool that are useful on a command line. Words
/// that begin with `-` are only offered after a `-` was typed.
fn first_words(tool: &Tool, typed: &str) -> Completion {
    let at_prompts = ["quit", "exit", "ignore_errors"];
    let shown =
        |name: &&str| name.starts_with('-') == typed.starts_with('-') && !at_prompts.contains(name);
    let mut found = names(if typed.starts_with('-') { &[] } else { tool.commands });
    found.candidates.extend(BUILTINS.into_iter().filter(shown).map(|name| {
        let about = match name.trim_start_matches('-') {
            "help" => "explains a command, or lists them",
            "version" => "prints the version",
            "list-commands" => "names all commands",
            "ignore_errors" => "a script goes on after an error",
            _ => "",
        };
        Candidate { text: name.to_owned(), about }
    }));
    found
}

/// Names of commands under a path of commands.
fn names_along(commands: &'static [CommandSyntax], path: &[String]) -> Completion {
    let Some((name, rest)) = path.split_first() else { return names(commands) };
    let found = commands.iter().find(|syntax| syntax.name == name);
    found.map_or_else(Completion::default, |syntax| names_along(syntax.subcommands, rest))
}

fn names(commands: &[CommandSyntax]) -> Completion {
    let candidate =
        |syntax: &CommandSyntax| Candidate { text: syntax.name.into(), about: syntax.about };
    Completion { candidates: commands.iter().map(candidate).collect(), hint: None }
}

/// The arguments of a command, as far as they are typed.
struct Reader {
    syntax: &'static CommandSyntax,
    /// Indices in the table of the options that were given.
    given: Vec<usize>,
    words: usize,
    /// The option whose value comes next.
    open: Option<&'static OptionSyntax>,
    /// Whether `--` has ended the options.
    only_words: bool,
}

impl Reader {
    fn of(syntax: &'static CommandSyntax, arguments: &[String]) -> Reader {
        let (given, only_words) = (Vec::new(), false);
        let mut reader = Reader { syntax, given, words: 0, open: None, only_words };
        arguments.iter().for_each(|argument| reader.take(argument));
        reader
    }

    fn take(&mut self, argument: &str) {
        if let Some(option) = self.open.take()
            && may_take(option, argument)
        {
            return;
        }
        if self.only_words || !argument.starts_with('-') || argument == "-" {
            self.words += 1;
        } else if argument == "--" {
            self.only_words = true;
        } else if let Some(long) = argument.strip_prefix("--") {
            let (name, value) = long.split_once('=').unzip();
            let Some(place) = long_option(self.syntax, name.unwrap_or(long)) else { return };
            self.given.push(place);
            let option = &self.syntax.options[place];
            self.open = (value.is_none() && option.kind != ValueKind::None).then_some(option);
        } else {
            self.take_letters(&argument[1..]);
        }
    }

    fn take_letters(&mut self, letters: &str) {
        let options = self.syntax.options;
        for (at, letter) in letters.char_indices() {
            let Some(place) = options.iter().position(|option| option.short == Some(letter)) else {
                return;
            };
            self.given.push(place);
            if options[place].kind != ValueKind::None {
                let is_last = at + letter.len_utf8() == letters.len();
                self.open = is_last.then_some(&options[place]);
                return;
            }
        }
    }

    /// What may come next, before the comparison with the typed part.
    fn next(&self, typed: &str) -> Completion {
        if let Some(option) = self.open
            && may_take(option, typed)
        {
            return values(option.kind, "");
        }
        if !self.only_words && typed.starts_with('-') {
            return match typed.strip_prefix("--").and_then(|long| long.split_once('=')) {
                Some((name, _)) => self.values_of(name),
                None => self.options(),
            };
        }
        let last = self.syntax.positionals.last().filter(|word| word.arity.bounds().1 > 1);
        match self.syntax.positionals.get(self.words).or(last) {
            Some(word) => values(word.kind, ""),
            None if self.only_words => Completion::default(),
            None => self.options(),
        }
    }

    /// Long options that are not given yet.
    fn options(&self) -> Completion {
        let options = self.syntax.options.iter().enumerate();
        let fresh = options.filter(|(place, _)| !self.given.contains(place));
        let mut candidates: Vec<Candidate> = fresh
            .map(|(_, option)| Candidate {
                text: format!("--{}", option.long),
                about: option.about,
            })
            .collect();
        candidates.push(Candidate { text: "--help".to_owned(), about: "explains the command" });
        Completion { candidates, hint: None }
    }

    /// `--name=value`.
    fn values_of(&self, name: &str) -> Completion {
        match long_option(self.syntax, name) {
            Some(place) => values(self.syntax.options[place].kind, &format!("--{name}=")),
            None => Completion::default(),
        }
    }
}

/// The index of a long option, which may be abbreviated.
fn long_option(syntax: &CommandSyntax, name: &str) -> Option<usize> {
    let options = syntax.options;
    let whole = options.iter().position(|option| option.long == name);
    let begins = |place: &usize| options[*place].long.starts_with(name);
    whole.or_else(|| {
        let mut found = (0..options.len()).filter(begins);
        found.next().filter(|_| found.next().is_none())
    })
}

/// The candidates for a value; `before` precedes each of them in the same word.
fn values(kind: ValueKind, before: &str) -> Completion {
    let hint = match kind {
        ValueKind::Number { what, .. } | ValueKind::OptionalNumber { what, .. } => {
            Some(Hint::Number(what))
        }
        ValueKind::Nids => Some(Hint::Nids),
        ValueKind::Name(what) => Some(Hint::Name(what)),
        ValueKind::File => Some(Hint::File),
        ValueKind::Text(name) => Some(Hint::Text(name)),
        _ => None,
    };
    let known = match kind {
        ValueKind::OneOf(known) | ValueKind::Suggested(known) => known,
        _ => &[],
    };
    let candidate = |value: &&str| Candidate { text: format!("{before}{value}"), about: "" };
    Completion { candidates: known.iter().map(candidate).collect(), hint }
}

/// As the scripts read it: a line `word TAB meaning` for each candidate, and `:kind` for the kind.
impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Candidate { text, about } in &self.candidates {
            writeln!(f, "{text}\t{about}")?;
        }
        self.hint.map_or(Ok(()), |hint| writeln!(f, ":{hint}"))
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hint::Name(what) | Hint::Number(what) | Hint::Text(what) => what,
            Hint::Nids => "nids",
            Hint::File => "file",
        })
    }
}

/// Whether a word after an option can be its value: an optional number is recognised by its digits.
fn may_take(option: &OptionSyntax, word: &str) -> bool {
    match option.kind {
        ValueKind::OptionalNumber { .. } => word.bytes().all(|byte| byte.is_ascii_digit()),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
