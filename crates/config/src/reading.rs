//! Reading a tree by tables of known keys.
//!
//! A [`Section`] lists what may stand in one kind of mapping and what is done with each key; the
//! reading of sections is here, so that every kind gets the same care and the same messages.

use std::rc::Rc;

use lustrine_lnet::tunables::Tunable;
use lustrine_yaml::{Content, Node, Pair, Position, Shape, clipped};

use super::problem::{Failure, Problem, Warning};
use super::{ConfigError, Strictness};

/// Most warnings of one reading that are listed one by one.
const WARNINGS_MAX: usize = 1000;

/// One kind of mapping in a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    /// What messages call it.
    pub(super) name: &'static str,
    /// The keys in groups; a message about an unknown key lists the first group.
    pub(super) keys: &'static [&'static [Key]],
    /// How it may look.
    pub(super) example: &'static str,
}

/// A key that has a meaning in a section.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// A second spelling, of another release.
    pub(super) also: Option<&'static str>,
    pub(super) role: Role,
}

/// What is done with a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    /// It is read.
    Read,
    /// LNet shows it and ignores it on import, and so do we.
    Shown,
    /// LNet has it, this release does not, for this reason.
    NotImplemented(&'static str),
    /// A verb; this is what to type instead.
    Command(&'static str),
}

impl Key {
    pub(super) const fn read(name: &'static str) -> Key {
        Key { name, also: None, role: Role::Read }
    }

    pub(super) const fn shown(name: &'static str) -> Key {
        Key { name, also: None, role: Role::Shown }
    }

    pub(super) const fn not_yet(name: &'static str, reason: &'static str) -> Key {
        Key { name, also: None, role: Role::NotImplemented(reason) }
    }

    pub(super) const fn command(name: &'static str, instead: &'static str) -> Key {
        Key { name, also: None, role: Role::Command(instead) }
    }
}

impl Section {
    fn all(&self) -> impl Iterator<Item = &'static Key> {
        self.keys.iter().copied().flatten()
    }

    fn find(&self, key: &str) -> Option<&'static Key> {
        self.all().find(|known| known.name == key || known.also == Some(key))
    }

    /// The keys of the first group that do something.
    pub(super) fn known(&self) -> String {
        let read = self.keys[0].iter().filter(|key| matches!(key.role, Role::Read));
        read.map(|key| key.name).collect::<Vec<_>>().join(", ")
    }
}

/// A key to be read and its value.
pub(super) struct Entry<'n> {
    /// The key in its first spelling.
    pub(super) key: &'static str,
    pub(super) at: Position,
    pub(super) value: &'n Rc<Node>,
}

/// One reading of one file.
pub(super) struct Reading<'a> {
    source_name: &'a str,
    strictness: Strictness,
    warnings: Vec<Warning>,
    /// Warnings beyond [`WARNINGS_MAX`]: where the first one is, and how many.
    unlisted: Option<(Position, usize)>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(source_name: &'a str, strictness: Strictness) -> Reading<'a> {
        Reading { source_name, strictness, warnings: Vec::new(), unlisted: None }
    }

    pub(super) fn into_warnings(mut self) -> Vec<Warning> {
        if let Some((at, count)) = self.unlisted {
            let (source_name, problem) = (self.source_name.to_owned(), Problem::Unlisted { count });
            self.warnings.push(Warning { source_name, at, problem });
        }
        self.warnings
    }

    /// Gives a problem the file's name.
    pub(super) fn error(&self, (at, problem): Failure) -> ConfigError {
        let source_name = self.source_name.to_owned();
        ConfigError { source_name, at, problem: Box::new(problem) }
    }

    pub(super) fn warn(&mut self, at: Position, problem: Problem) {
        if self.warnings.len() == WARNINGS_MAX {
            self.unlisted.get_or_insert((at, 0)).1 += 1;
            return;
        }
        self.warnings.push(Warning { source_name: self.source_name.to_owned(), at, problem });
    }

    /// Says that something is not implemented; goes on only if the reading is lenient.
    pub(super) fn not_yet(
        &mut self,
        at: Position,
        what: &str,
        reason: &'static str,
        section: &Section,
    ) -> Result<(), Failure> {
        let example = section.example;
        let problem = Problem::NotImplemented {
            what: clipped(what),
            reason,
            known: section.known(),
            example,
        };
        match self.strictness {
            Strictness::Strict => Err((at, problem)),
            Strictness::Lenient => {
                self.warn(at, problem);
                Ok(())
            }
        }
    }

    /// The entries of a mapping that are to be read; all others have been dealt with. Nothing in
    /// place of a mapping is a mapping without keys.
    pub(super) fn entries<'n>(
        &mut self,
        node: &'n Node,
        section: &Section,
    ) -> Result<Vec<Entry<'n>>, Failure> {
        let pairs = match &node.content {
            Content::Null => return Ok(Vec::new()),
            Content::Mapping(pairs) => pairs,
            _ => return Err(wrong_shape(node, section.name, Shape::Mapping, section.example)),
        };
        let mut seen: Vec<(&str, Position)> = Vec::new();
        let mut entries = Vec::new();
        for Pair { key, at, value } in pairs {
            let Some(known) = section.find(key) else {
                let problem = unknown_key(key, section);
                match self.strictness {
                    Strictness::Strict => return Err((*at, problem)),
                    Strictness::Lenient => self.warn(*at, problem),
                }
                continue;
            };
            if let Some((_, first)) = seen.iter().find(|(name, _)| *name == known.name) {
                return Err((*at, Problem::DuplicateKey { key: key.clone(), first: *first }));
            }
            seen.push((known.name, *at));
            match known.role {
                Role::Read => entries.push(Entry { key: known.name, at: *at, value }),
                Role::Shown => {}
                Role::NotImplemented(reason) => self.not_yet(*at, key, reason, section)?,
                Role::Command(command) => {
                    let (key, known) = (known.name, section.known());
                    return Err((*at, Problem::Command { key, known, command }));
                }
            }
        }
        Ok(entries)
    }
}

fn unknown_key(key: &str, section: &Section) -> Problem {
    let names = section.all().flat_map(|known| [Some(known.name), known.also]).flatten();
    Problem::UnknownKey {
        key: clipped(key),
        within: section.name,
        known: section.known(),
        nearest: nearest(key, names).map(str::to_owned),
        example: section.example,
    }
}

/// The word most like `word`: up to a third of its letters may differ; case, `_` and `-` do not
/// count.
pub(super) fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let plain = |word: &str| clipped(word).to_lowercase().replace(['_', '-'], " ");
    let wanted = plain(word);
    let tolerance = (wanted.chars().count() / 3).max(1);
    let scored =
        known.into_iter().map(|known| (strsim::damerau_levenshtein(&wanted, &plain(known)), known));
    scored.min_by_key(|(distance, _)| *distance).filter(|(d, _)| *d <= tolerance).map(|(_, k)| k)
}

pub(super) fn wrong_shape(node: &Node, what: &str, want: Shape, example: &str) -> Failure {
    let (what, example) = (what.to_owned(), example.to_owned());
    (node.at, Problem::WrongShape { what, found: node.shape(), want, example })
}

/// The items of a list; nothing in place of a list is a list without items.
pub(super) fn items<'n>(
    node: &'n Node,
    what: &str,
    example: &str,
) -> Result<&'n [Rc<Node>], Failure> {
    match &node.content {
        Content::Null => Ok(&[]),
        Content::List(items) => Ok(items),
        _ => Err(wrong_shape(node, what, Shape::List, example)),
    }
}

/// A word or number, quoted or not.
pub(super) fn word<'n>(node: &'n Node, what: &str, example: &str) -> Result<&'n str, Failure> {
    match &node.content {
        Content::Scalar(text) => Ok(text),
        _ => Err(wrong_shape(node, what, Shape::Scalar, example)),
    }
}

/// A whole number in the range of a tunable. Where that is `0/1`, YAML's truth values will do.
pub(super) fn number(node: &Node, key: &str, row: &Tunable) -> Result<i64, Failure> {
    let example = format!("\"{key}: {}\"", row.default);
    let text = word(node, key, &example)?;
    let value = match text {
        "true" | "True" if row.unit == "0/1" => Some(1),
        "false" | "False" if row.unit == "0/1" => Some(0),
        _ => decimal(text),
    };
    match value.filter(|value| (row.min..=row.max).contains(value)) {
        Some(value) => Ok(value),
        None => {
            let unit = if row.unit.is_empty() || row.unit == "0/1" { "" } else { row.unit };
            let allowed = format!("a number from {} to {} {unit}", row.min, row.max);
            let allowed = allowed.trim_end().to_owned();
            let (what, found) = (key.to_owned(), clipped(text));
            Err((node.at, Problem::BadValue { what, found, allowed, example }))
        }
    }
}

/// Digits, perhaps behind a minus; nothing else that a YAML dialect may take for a number.
fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
