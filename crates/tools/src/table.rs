//! The commands of a tool as data, from which parsing, usage, help, completion and manual pages are
//! derived.

/// A tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// Its purpose, in one line.
    pub about: &'static str,
    /// Its commands, in the order in which they are listed.
    pub commands: &'static [CommandSyntax],
}

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandSyntax {
    /// Its name, as it must be typed.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The text after `Usage: ` and the tool's name, as Lustre's tools print it.
    pub usage: &'static str,
    /// Its options.
    pub options: &'static [OptionSyntax],
    /// Its positional arguments, in order.
    pub positionals: &'static [PositionalSyntax],
    /// Its subcommands; a command with subcommands has no options and no positional arguments.
    pub subcommands: &'static [CommandSyntax],
}

/// An option.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionSyntax {
    /// Its name after `--`.
    pub long: &'static str,
    /// Its letter after `-`.
    pub short: Option<char>,
    /// The kind of its value.
    pub kind: ValueKind,
    /// The value when it is not given.
    pub default: Option<&'static str>,
    /// What it does, in one line.
    pub about: &'static str,
}

/// A positional argument.
#[derive(Debug, PartialEq, Eq)]
pub struct PositionalSyntax {
    /// Its name in the usage.
    pub name: &'static str,
    /// The kind of its value.
    pub kind: ValueKind,
    /// How often it may occur. All but the last argument of a command are [`Arity::One`].
    pub arity: Arity,
    /// The value when it is not given.
    pub default: Option<&'static str>,
}

/// How often a positional argument may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly once.
    One,
    /// Once or not at all.
    Optional,
    /// Any number of times, or not at all.
    ZeroOrMore,
    /// At least once.
    OneOrMore,
}

impl Arity {
    /// The minimum and maximum number.
    pub const fn bounds(self) -> (usize, usize) {
        match self {
            Arity::One => (1, 1),
            Arity::Optional => (0, 1),
            Arity::ZeroOrMore => (0, usize::MAX),
            Arity::OneOrMore => (1, usize::MAX),
        }
    }
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// No value: a switch.
    None,
    /// A decimal number.
    Number {
        /// Its name in errors.
        what: &'static str,
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
    },
    /// An optional decimal number; the next argument is taken for it if it is a number.
    OptionalNumber {
        /// Its name in errors.
        what: &'static str,
        /// The minimum.
        min: i64,
        /// The maximum.
        max: i64,
        /// The value when the option has none.
        bare: &'static str,
    },
    /// One of these.
    OneOf(&'static [&'static str]),
    /// An expression for NIDs.
    Nids,
    /// The name of something that the tool can list.
    Name(&'static str),
    /// Any text, usually one of these; one that ends in `=` is the beginning of a value.
    Suggested(&'static [&'static str]),
    /// The name of a file.
    File,
    /// Any text, with its name in the usage.
    Text(&'static str),
}

impl ValueKind {
    /// Its placeholder in the usage.
    pub fn placeholder(self) -> String {
        match self {
            ValueKind::None => String::new(),
            ValueKind::Number { .. } => "N".to_owned(),
            ValueKind::OptionalNumber { .. } => "[N]".to_owned(),
            ValueKind::OneOf(values) => values.join("|"),
            ValueKind::Nids => "NIDS".to_owned(),
            ValueKind::Name(what) => what.to_uppercase(),
            ValueKind::Suggested(values) => values.join("|"),
            ValueKind::File => "FILE".to_owned(),
            ValueKind::Text(name) => name.to_owned(),
        }
    }
}

impl CommandSyntax {
    /// The minimum and maximum number of positional arguments.
    pub fn positional_bounds(&self) -> (usize, usize) {
        let bounds = self.positionals.iter().map(|word| word.arity.bounds());
        bounds.fold((0, 0), |(min, max), (low, high)| (min + low, high.saturating_add(max)))
    }
}

impl OptionSyntax {
    /// A switch.
    pub const fn switch(long: &'static str, short: char, about: &'static str) -> OptionSyntax {
        OptionSyntax { long, short: Some(short), kind: ValueKind::None, default: None, about }
    }

    /// An option with a value and without a default.
    pub const fn value(
        long: &'static str,
        short: char,
        kind: ValueKind,
        about: &'static str,
    ) -> OptionSyntax {
        OptionSyntax { long, short: Some(short), kind, default: None, about }
    }

    /// The same with a default.
    pub const fn or(self, default: &'static str) -> OptionSyntax {
        OptionSyntax { default: Some(default), ..self }
    }

    /// The same without a letter.
    pub const fn only_long(self) -> OptionSyntax {
        OptionSyntax { short: None, ..self }
    }
}
