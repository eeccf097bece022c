//! What commands a tool has: data, from which come parsing, usage and help, and whatever else has
//! to know them all.

/// A tool.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    /// What it is called by.
    pub name: &'static str,
    /// What it is for, in one line.
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
    /// What follows `Usage: ` and the tool's name, as the old tools print it.
    pub usage: &'static str,
    /// Its options.
    pub options: &'static [OptionSyntax],
    /// Its words, in their order.
    pub positionals: &'static [PositionalSyntax],
    /// Its own commands; one that has some has neither options nor words.
    pub subcommands: &'static [CommandSyntax],
}

/// An option.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionSyntax {
    /// Its name after `--`.
    pub long: &'static str,
    /// Its letter after `-`.
    pub short: Option<char>,
    /// What it takes.
    pub kind: ValueKind,
    /// What counts when it is not given.
    pub default: Option<&'static str>,
    /// What it does, in one line.
    pub about: &'static str,
}

/// A word of a command line.
#[derive(Debug, PartialEq, Eq)]
pub struct PositionalSyntax {
    /// What usage calls it.
    pub name: &'static str,
    /// What it is.
    pub kind: ValueKind,
    /// How many of it there are. All but the last of a command are [`Arity::One`].
    pub arity: Arity,
    /// What counts when it is not given.
    pub default: Option<&'static str>,
}

/// How many words of a kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// One.
    One,
    /// One or none.
    Optional,
    /// Any number, or none.
    ZeroOrMore,
    /// At least one.
    OneOrMore,
}

impl Arity {
    /// Fewest and most.
    pub const fn bounds(self) -> (usize, usize) {
        match self {
            Arity::One => (1, 1),
            Arity::Optional => (0, 1),
            Arity::ZeroOrMore => (0, usize::MAX),
            Arity::OneOrMore => (1, usize::MAX),
        }
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// There is none: a switch.
    None,
    /// A decimal number.
    Number {
        /// What it counts, as errors call it.
        what: &'static str,
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// The same, which may be left out; the next word is taken for it if it is a number.
    OptionalNumber {
        /// What it counts, as errors call it.
        what: &'static str,
        /// The least.
        min: i64,
        /// The most.
        max: i64,
        /// What counts when the option has none.
        bare: &'static str,
    },
    /// One of these.
    OneOf(&'static [&'static str]),
    /// An expression for NIDs.
    Nids,
    /// The name of something that the tool can list.
    Name(&'static str),
    /// Any text, but mostly one of these; what ends in `=` is the beginning of one.
    Suggested(&'static [&'static str]),
    /// The name of a file.
    File,
    /// Any text; this is what usage calls it.
    Text(&'static str),
}

impl ValueKind {
    /// How usage shows it.
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
    /// Fewest and most words it takes.
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

    /// An option with a value, which does nothing when it is not given.
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
