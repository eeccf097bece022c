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
    pub commands: &'static [Syntax],
}

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub struct Syntax {
    /// Its name, as it must be typed.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What follows `Usage: ` and the tool's name, as the old tools print it.
    pub usage: &'static str,
    /// Its options.
    pub options: &'static [OptionSyntax],
    /// Its words, in their order.
    pub words: &'static [WordSyntax],
    /// Its own commands; one that has some has neither options nor words.
    pub under: &'static [Syntax],
}

/// An option.
#[derive(Debug, PartialEq, Eq)]
pub struct OptionSyntax {
    /// Its name after `--`.
    pub long: &'static str,
    /// Its letter after `-`.
    pub short: Option<char>,
    /// What it takes.
    pub takes: Takes,
    /// What counts when it is not given.
    pub default: Option<&'static str>,
    /// What it does, in one line.
    pub about: &'static str,
}

/// A word of a command line.
#[derive(Debug, PartialEq, Eq)]
pub struct WordSyntax {
    /// What usage calls it.
    pub name: &'static str,
    /// What it is.
    pub takes: Takes,
    /// How many of it there are. All but the last of a command are [`Count::One`].
    pub count: Count,
    /// What counts when it is not given.
    pub default: Option<&'static str>,
}

/// How many words of a kind there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// One.
    One,
    /// One or none.
    Optional,
    /// Any number, or none.
    Any,
    /// At least one.
    Many,
}

impl Count {
    /// Fewest and most.
    pub const fn bounds(self) -> (usize, usize) {
        match self {
            Count::One => (1, 1),
            Count::Optional => (0, 1),
            Count::Any => (0, usize::MAX),
            Count::Many => (1, usize::MAX),
        }
    }
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// There is none: a switch.
    Nothing,
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
    Usually(&'static [&'static str]),
    /// The name of a file.
    File,
    /// Any text; this is what usage calls it.
    Text(&'static str),
}

impl Takes {
    /// How usage shows it.
    pub fn placeholder(self) -> String {
        match self {
            Takes::Nothing => String::new(),
            Takes::Number { .. } => "N".to_owned(),
            Takes::OptionalNumber { .. } => "[N]".to_owned(),
            Takes::OneOf(values) => values.join("|"),
            Takes::Nids => "NIDS".to_owned(),
            Takes::Name(what) => what.to_uppercase(),
            Takes::Usually(values) => values.join("|"),
            Takes::File => "FILE".to_owned(),
            Takes::Text(name) => name.to_owned(),
        }
    }
}

impl Syntax {
    /// Fewest and most words it takes.
    pub fn word_bounds(&self) -> (usize, usize) {
        let bounds = self.words.iter().map(|word| word.count.bounds());
        bounds.fold((0, 0), |(min, max), (low, high)| (min + low, high.saturating_add(max)))
    }
}

impl OptionSyntax {
    /// A switch.
    pub const fn switch(long: &'static str, short: char, about: &'static str) -> OptionSyntax {
        OptionSyntax { long, short: Some(short), takes: Takes::Nothing, default: None, about }
    }

    /// An option with a value, which does nothing when it is not given.
    pub const fn value(
        long: &'static str,
        short: char,
        takes: Takes,
        about: &'static str,
    ) -> OptionSyntax {
        OptionSyntax { long, short: Some(short), takes, default: None, about }
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
