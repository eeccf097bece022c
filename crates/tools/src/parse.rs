//! Parses arguments by a table, as getopt_long does [TOOL-2].
//!
//! Options and positional arguments may be mixed. Long options may be abbreviated as long as they
//! are unambiguous; their values follow as `--name=value` or `--name value`. Switches of one letter
//! may be combined, the last one with a value (`-fc8`). When an option is repeated, the last one
//! counts. `--` ends the options.

#[cfg(test)]
mod tests;

use crate::table::{CommandSyntax, OptionSyntax, ValueKind};

/// The arguments of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    syntax: &'static CommandSyntax,
    /// Index in the table, and value; empty for switches.
    given: Vec<(usize, String)>,
    positionals: Vec<String>,
}

/// Why arguments are invalid; the texts of options are those of getopt_long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// `--help`: not an error, but handled alike.
    #[error("help requested")]
    Help,
    /// There is no such long option.
    #[error("unrecognized option '--{0}'")]
    Unknown(String),
    /// There is no such letter.
    #[error("invalid option -- '{0}'")]
    UnknownLetter(char),
    /// Several options begin with this text.
    #[error("option '--{given}' is ambiguous; possibilities: {}", listed(.candidates))]
    Ambiguous {
        /// What was given.
        given: String,
        /// The options.
        candidates: Vec<&'static str>,
    },
    /// The value is missing.
    #[error("option '--{0}' requires an argument")]
    MissingValue(&'static str),
    /// The value of a letter is missing.
    #[error("option requires an argument -- '{0}'")]
    MissingLetterValue(char),
    /// A switch has a value.
    #[error("option '--{0}' doesn't allow an argument")]
    UnexpectedValue(&'static str),
    /// A positional argument is missing.
    #[error("missing argument {0}")]
    MissingPositional(&'static str),
    /// There is a positional argument too many.
    #[error("unexpected argument '{0}'")]
    UnexpectedPositional(String),
    /// Not a number, or out of range.
    #[error("Invalid {what}: {given} (allowed: {min} to {max})")]
    BadNumber {
        /// Of what.
        what: &'static str,
        /// What was given.
        given: String,
        /// The least.
        min: i64,
        /// The most.
        max: i64,
    },
    /// Not one of the possible values.
    #[error("Invalid {what}: {given} (allowed: {})", .allowed.join(", "))]
    BadChoice {
        /// Of what.
        what: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: &'static [&'static str],
    },
}

impl UsageError {
    /// Whether the usage is printed. An error about a value explains itself.
    pub fn shows_usage(&self) -> bool {
        !matches!(self, UsageError::BadNumber { .. } | UsageError::BadChoice { .. })
    }
}

/// Parses the arguments of a command, without its name.
///
/// # Errors
/// The first [`UsageError`].
pub fn parse(syntax: &'static CommandSyntax, arguments: &[String]) -> Result<Parsed, UsageError> {
    let mut parsed = Parsed { syntax, given: Vec::new(), positionals: Vec::new() };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            parsed.positionals.extend(rest.cloned());
            break;
        }
        if let Some(long) = argument.strip_prefix("--") {
            parsed.take_long(long, &mut rest)?;
        } else if let Some(letters) = argument.strip_prefix('-').filter(|l| !l.is_empty()) {
            parsed.take_letters(letters, &mut rest)?;
        } else {
            parsed.positionals.push(argument.clone());
        }
    }
    parsed.check_positionals()?;
    Ok(parsed)
}

type Rest<'a> = core::slice::Iter<'a, String>;

impl Parsed {
    /// Whether an option was given. Panics if the table has none of this name.
    pub fn has(&self, long: &str) -> bool {
        let place = self.place(long);
        self.given.iter().any(|(given, _)| *given == place)
    }

    /// The value of an option, or its default.
    pub fn text(&self, long: &str) -> Option<&str> {
        let place = self.place(long);
        let given = self.given.iter().rev().find(|(given, _)| *given == place);
        given.map(|(_, value)| value.as_str()).or(self.syntax.options[place].default)
    }

    /// The value of an option that takes a number, or its default.
    pub fn number(&self, long: &str) -> Option<i64> {
        // Values were checked, and defaults are checked by the tests of the tables.
        self.text(long).and_then(|text| text.parse().ok())
    }

    /// The same for an option that is never negative and has a default; at most `u32::MAX`.
    pub fn count(&self, long: &str) -> u32 {
        self.number(long).map_or(0, |number| number.clamp(0, i64::from(u32::MAX)) as u32)
    }

    /// The positional arguments.
    pub fn positionals(&self) -> &[String] {
        &self.positionals
    }

    /// The positional argument at an index, or its default; empty if there is neither.
    pub fn positional(&self, place: usize) -> &str {
        let default = self.syntax.positionals.get(place).and_then(|word| word.default);
        self.positionals.get(place).map(String::as_str).or(default).unwrap_or_default()
    }

    fn place(&self, long: &str) -> usize {
        let found = self.syntax.options.iter().position(|option| option.long == long);
        found.unwrap_or_else(|| panic!("{} has no option {long}", self.syntax.name))
    }

    fn take_long(&mut self, text: &str, rest: &mut Rest<'_>) -> Result<(), UsageError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let place = self.find_long(name)?;
        let option = &self.syntax.options[place];
        let value = match (option.kind, value) {
            (ValueKind::None, Some(_)) => return Err(UsageError::UnexpectedValue(option.long)),
            (ValueKind::None, None) => String::new(),
            (_, Some(value)) => value,
            (ValueKind::OptionalNumber { bare, .. }, None) => next_number(rest, bare),
            (_, None) => rest.next().cloned().ok_or(UsageError::MissingValue(option.long))?,
        };
        self.take(place, value)
    }

    fn find_long(&self, name: &str) -> Result<usize, UsageError> {
        let options = self.syntax.options;
        if let Some(place) = options.iter().position(|option| option.long == name) {
            return Ok(place);
        }
        if name == "help" {
            return Err(UsageError::Help);
        }
        let begins = |place: &usize| options[*place].long.starts_with(name);
        let candidates: Vec<usize> = (0..options.len()).filter(begins).collect();
        match candidates[..] {
            [place] => Ok(place),
            [] => Err(UsageError::Unknown(name.to_owned())),
            _ => Err(UsageError::Ambiguous {
                given: name.to_owned(),
                candidates: candidates.iter().map(|place| options[*place].long).collect(),
            }),
        }
    }

    fn take_letters(&mut self, letters: &str, rest: &mut Rest<'_>) -> Result<(), UsageError> {
        let mut left = letters.chars();
        while let Some(letter) = left.next() {
            let has = |option: &OptionSyntax| option.short == Some(letter);
            let found = self.syntax.options.iter().position(has);
            let place = found.ok_or(UsageError::UnknownLetter(letter))?;
            if self.syntax.options[place].kind == ValueKind::None {
                self.take(place, String::new())?;
                continue;
            }
            let value = match (left.as_str(), self.syntax.options[place].kind) {
                ("", ValueKind::OptionalNumber { bare, .. }) => next_number(rest, bare),
                ("", _) => rest.next().cloned().ok_or(UsageError::MissingLetterValue(letter))?,
                (value, _) => value.to_owned(),
            };
            return self.take(place, value);
        }
        Ok(())
    }

    fn take(&mut self, place: usize, value: String) -> Result<(), UsageError> {
        let option = &self.syntax.options[place];
        check(option.kind, option.long, &value)?;
        self.given.push((place, value));
        Ok(())
    }

    fn check_positionals(&self) -> Result<(), UsageError> {
        let (min, max) = self.syntax.positional_bounds();
        if self.positionals.len() < min {
            let missing = self.syntax.positionals.get(self.positionals.len());
            return Err(UsageError::MissingPositional(
                missing.map_or("ARGUMENT", |word| word.name),
            ));
        }
        if let Some(word) = self.positionals.get(max) {
            return Err(UsageError::UnexpectedPositional(word.clone()));
        }
        let last = self.syntax.positionals.last().into_iter();
        let syntaxes = self.syntax.positionals.iter().chain(last.cycle());
        for (word, syntax) in self.positionals.iter().zip(syntaxes) {
            check(syntax.kind, syntax.name, word)?;
        }
        Ok(())
    }
}

/// The next word, if it is a number.
fn next_number(rest: &mut Rest<'_>, otherwise: &str) -> String {
    match rest.as_slice().first() {
        Some(word) if word.parse::<i64>().is_ok() => {
            rest.next();
            word.clone()
        }
        _ => otherwise.to_owned(),
    }
}

/// Checks a value against the table.
fn check(kind: ValueKind, name: &'static str, given: &str) -> Result<(), UsageError> {
    match kind {
        ValueKind::Number { what, min, max } | ValueKind::OptionalNumber { what, min, max, .. } => {
            match given.parse() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                _ => Err(UsageError::BadNumber { what, given: given.to_owned(), min, max }),
            }
        }
        ValueKind::OneOf(allowed) if !allowed.contains(&given) => {
            Err(UsageError::BadChoice { what: name, given: given.to_owned(), allowed })
        }
        _ => Ok(()),
    }
}

fn listed(candidates: &[&str]) -> String {
    let quoted: Vec<String> = candidates.iter().map(|name| format!("'--{name}'")).collect();
    quoted.join(" ")
}
