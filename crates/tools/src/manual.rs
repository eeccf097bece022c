//! Manual pages, from the table: roff with the macros of man(7).
//!
//! Pages contain no date, so that they are reproducible.

mod roff;

use core::fmt::Write;

use crate::table::{Arity, CommandSyntax, OptionSyntax, PositionalSyntax, Tool, ValueKind};
use roff::{bold, escaped, italic};

/// The parts of a tool's page that do not come from its table.
#[derive(Debug, PartialEq, Eq)]
pub struct Manual {
    /// The tool.
    pub tool: &'static Tool,
    /// The section its page belongs to; 8 is for administrators.
    pub section: u8,
    /// Paragraphs about the tool as a whole.
    pub description: &'static [&'static str],
    /// Exit statuses and their meanings.
    pub statuses: &'static [(&'static str, &'static str)],
    /// Environment variables and their effects.
    pub environment: &'static [(&'static str, &'static str)],
    /// Other pages: name and section.
    pub see_also: &'static [(&'static str, u8)],
}

impl Manual {
    /// The manual of a tool that consists of its table alone.
    pub const fn for_tool(tool: &'static Tool) -> Manual {
        let statuses = &[("0", "Success."), ("255", "Refused, failed, or unknown command.")];
        let see_also = &[("lustrine", 1)];
        Manual { tool, section: 8, description: &[], statuses, environment: &[], see_also }
    }

    /// The name of the page's file.
    pub fn file_name(&self) -> String {
        format!("{}.{}", self.tool.name, self.section)
    }

    /// The page. `version` is that of the program, as in `lustrine 1.0`.
    pub fn page(&self, version: &str) -> String {
        let mut page = Page::default();
        let Tool { name, about, commands } = self.tool;
        let title = escaped(&name.to_uppercase());
        let version = escaped(version);
        page.line(&format!(".TH \"{title}\" \"{}\" \"\" \"{version}\" \"Lustrine\"", self.section));
        page.section("NAME");
        page.line(&format!("{} \\- {}", escaped(name), escaped(about)));
        page.section("SYNOPSIS");
        page.line(&format!("{} {} [{}]...", bold(name), italic("COMMAND"), italic("WORD")));
        page.line(".br");
        page.line(&format!("{} [{}]", bold(name), bold("--ignore_errors")));
        page.section("DESCRIPTION");
        page.paragraphs(self.description);
        page.paragraphs(&COMMON);
        page.section("COMMANDS");
        commands.iter().for_each(|command| page.command(name, command, name));
        page.subsection(&format!("{name} help [COMMAND]"));
        page.paragraphs(&["Explains a command, or lists the commands."]);
        page.subsection(&format!("{name} --list-commands"));
        page.paragraphs(&["Prints the names of all commands, for scripts."]);
        page.subsection(&format!("{name} --version"));
        page.paragraphs(&["Prints the version."]);
        page.pairs("EXIT STATUS", self.statuses);
        page.pairs("ENVIRONMENT", self.environment);
        page.see_also(self.see_also);
        page.0
    }
}

/// Paragraphs for every tool.
const COMMON: [&str; 2] = [
    "Without a command, commands are read from standard input, one per line: at a terminal with \
     a prompt, otherwise as a script, which ends at its first failure unless --ignore_errors is \
     given. quit and exit end it. At the prompt, command names may be abbreviated.",
    "Long options may be abbreviated as long as they are unambiguous; a value follows as \
     --option=value or --option value. Options and other arguments may be mixed; -- ends the \
     options. Every command has --help.",
];

/// A page that is being written.
#[derive(Default)]
struct Page(String);

impl Page {
    /// A line of roff.
    fn line(&mut self, line: &str) {
        self.0 += line;
        self.0.push('\n');
    }

    fn section(&mut self, title: &str) {
        self.line(&format!(".SH \"{title}\""));
    }

    fn subsection(&mut self, title: &str) {
        self.line(&format!(".SS \"{}\"", escaped(title)));
    }

    fn paragraphs(&mut self, texts: &[&str]) {
        for text in texts {
            self.line(".PP");
            self.line(&escaped(text));
        }
    }

    /// A term and, indented, what it means. The term is roff, the meaning text.
    fn term(&mut self, term: &str, meaning: &str) {
        self.line(".TP");
        self.line(term);
        self.line(&escaped(meaning));
    }

    fn pairs(&mut self, title: &str, pairs: &[(&str, &str)]) {
        if !pairs.is_empty() {
            self.section(title);
            pairs.iter().for_each(|(term, meaning)| self.term(&bold(term), meaning));
        }
    }

    fn see_also(&mut self, pages: &[(&str, u8)]) {
        let Some((last, others)) = pages.split_last() else { return };
        self.section("SEE ALSO");
        others.iter().for_each(|(name, section)| self.line(&format!(".BR {name} ({section}),")));
        self.line(&format!(".BR {} ({})", last.0, last.1));
    }

    /// A command, and those under it. `path` are the words that lead to it.
    fn command(&mut self, tool: &str, syntax: &CommandSyntax, path: &str) {
        let path = format!("{path} {}", syntax.name);
        if !syntax.subcommands.is_empty() {
            syntax.subcommands.iter().for_each(|under| self.command(tool, under, &path));
            return;
        }
        self.subsection(path.strip_prefix(tool).map_or(path.as_str(), str::trim_start));
        let options = if syntax.options.is_empty() { "" } else { " [OPTION]..." };
        let words: String =
            syntax.positionals.iter().map(|word| format!(" {}", shown_word(word))).collect();
        let arguments = match format!("{options}{words}") {
            none if none.is_empty() => String::new(),
            arguments => italic(&arguments),
        };
        self.line(&format!("{}{arguments}", bold(&path)));
        self.paragraphs(&[&sentence(syntax.about)]);
        for option in syntax.options {
            self.term(&shown_option(option), &about_option(option));
        }
        for word in syntax.positionals {
            if let Some(meaning) = about_word(word) {
                self.term(&italic(word.name), &meaning);
            }
        }
    }
}

fn shown_word(word: &PositionalSyntax) -> String {
    match word.arity {
        Arity::One => word.name.to_owned(),
        Arity::Optional => format!("[{}]", word.name),
        Arity::ZeroOrMore => format!("[{}]...", word.name),
        Arity::OneOrMore => format!("{}...", word.name),
    }
}

fn shown_option(option: &OptionSyntax) -> String {
    let long = bold(&format!("--{}", option.long));
    let mut shown = match option.short {
        Some(letter) => format!("{}, {long}", bold(&format!("-{letter}"))),
        None => long,
    };
    if option.kind != ValueKind::None {
        let _ = write!(shown, " {}", italic(&option.kind.placeholder()));
    }
    shown
}

fn about_option(option: &OptionSyntax) -> String {
    let about = sentence(option.about);
    match (option.kind.bounds(), option.default) {
        (None, None) => about,
        (None, Some(default)) => format!("{about} Default: {default}."),
        (Some(bounds), None) => format!("{about} {bounds}."),
        (Some(bounds), Some(default)) => format!("{about} {bounds}; default: {default}."),
    }
}

/// What a page says about an argument beyond its name.
fn about_word(word: &PositionalSyntax) -> Option<String> {
    let values = match word.kind {
        ValueKind::OneOf(values) => Some(format!("One of {}.", values.join(", "))),
        ValueKind::Suggested(values) => Some(format!("Such as {}.", values.join(", "))),
        ValueKind::Name(what) => Some(format!("The name of a {what}.")),
        ValueKind::Nids => {
            Some("NIDs: 10.7.0.4@tcp, or several as in 10.7.0.[4-9,12]@tcp.".to_owned())
        }
        kind => kind.bounds().map(|bounds| format!("{bounds}.")),
    };
    match (values, word.default) {
        (None, None) => None,
        (Some(values), None) => Some(values),
        (None, Some(default)) => Some(format!("Default: {default}.")),
        (Some(values), Some(default)) => Some(format!("{values} Default: {default}.")),
    }
}

impl ValueKind {
    /// Which numbers are allowed.
    fn bounds(self) -> Option<String> {
        let (ValueKind::Number { min, max, .. } | ValueKind::OptionalNumber { min, max, .. }) =
            self
        else {
            return None;
        };
        // The largest integer is no bound that helps a reader.
        let open = max >= i64::from(i32::MAX);
        Some(if open { format!("{min} or more") } else { format!("{min} to {max}") })
    }
}

/// The same as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return String::new() };
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    // A name at the beginning keeps its case.
    let begins_with_name = text.split_whitespace().next().is_some_and(|word| word.contains('_'));
    match begins_with_name {
        true => format!("{text}{end}"),
        false => format!("{}{}{end}", first.to_uppercase(), letters.as_str()),
    }
}

#[cfg(test)]
mod tests;
