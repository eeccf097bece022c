//! Reading a tree by tables of known keys. Reading goes on after a problem, so that the author of a
//! file sees all problems at once.

use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use lustrine_yaml::{Shape, clipped};

use crate::hint::nearest;
use crate::problem::{Location, Problem, Problems};
use crate::quantity::Quantity;
use crate::section::{Role, Section};
use crate::{Content, Node, Pair};

/// The known keys of one mapping, with their values.
#[derive(Debug)]
pub struct Fields<'n> {
    /// Where the mapping is.
    pub at: Location,
    /// What kind of mapping it is.
    pub section: Section,
    found: Vec<Entry<'n>>,
}

impl<'n> Fields<'n> {
    /// The value of a key; nothing counts as no value.
    pub fn value(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.section.find(key).is_some(), "{key} is in no table");
        let found = self.entry(key).map(|entry| &**entry.value);
        found.filter(|node| !matches!(node.content, Content::Null))
    }

    fn entry(&self, key: &str) -> Option<&Entry<'n>> {
        self.found.iter().find(|entry| entry.key == key)
    }

    /// A key as the file spells it, for messages.
    pub fn spelling<'a>(&'a self, key: &'a str) -> &'a str {
        self.entry(key).map_or(key, |entry| entry.spelling)
    }

    /// Whether a key has a value.
    pub fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Where a key's value is, or else the mapping.
    pub fn place(&self, key: &str) -> &Location {
        self.value(key).map_or(&self.at, |node| &node.at)
    }
}

/// How a reader treats unknown keys, and keys that this release does not implement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strictness {
    /// As problems: the file asks for something it would not get.
    #[default]
    Strict,
    /// As warnings: they are left out, so that a file made for another program can be used.
    Lenient,
}

/// Most problems and most warnings of one reading that are kept; more of them are only counted.
const KEPT_MAX: usize = 1000;

/// One reading of one file.
#[derive(Debug, Default)]
pub struct Reader {
    strictness: Strictness,
    /// Whether the person who reads the problems can choose to be lenient.
    offers_lenient: bool,
    /// Whether something is not implemented, which a lenient reading leaves out. It leaves out
    /// unknown keys as well, but those are mistakes that are to be corrected.
    lenient_helps: bool,
    problems: Notes,
    warnings: Notes,
}

/// Problems, as many as are worth keeping.
#[derive(Debug, Default)]
struct Notes {
    kept: Vec<Problem>,
    more: usize,
}

impl Notes {
    fn add(&mut self, problem: Problem) {
        match self.kept.len() {
            KEPT_MAX => self.more += 1,
            _ => self.kept.push(problem),
        }
    }
}

/// A key that is to be read, with its value.
#[derive(Clone, Debug)]
pub struct Entry<'n> {
    /// The key in its first spelling.
    pub key: &'static str,
    /// The key as the file spells it.
    pub spelling: &'n str,
    /// Where the key stands.
    pub at: Location,
    /// Its value.
    pub value: &'n Rc<Node>,
}

impl Reader {
    /// A reader without problems yet, of a document that people can have read leniently
    /// (`--lenient`). [`Reader::default`] is for those that are always read strictly.
    pub fn new(strictness: Strictness) -> Reader {
        Reader { strictness, offers_lenient: true, ..Reader::default() }
    }

    /// Notes a problem; reading goes on.
    pub fn report(&mut self, problem: Problem) {
        self.problems.add(problem);
    }

    /// The value, or `None` and a note of the problem.
    pub fn accept<T>(&mut self, result: Result<T, Problem>) -> Option<T> {
        result.map_err(|problem| self.report(problem)).ok()
    }

    /// Notes something that is read and has no effect, or is left out.
    pub fn warn(&mut self, warning: Problem) {
        self.warnings.add(warning);
    }

    /// Whether nothing is wrong so far.
    pub fn is_good(&self) -> bool {
        self.problems.kept.is_empty()
    }

    /// How many problems there are so far.
    pub fn problem_count(&self) -> usize {
        self.problems.kept.len() + self.problems.more
    }

    /// What the reading found.
    ///
    /// # Errors
    /// All problems, if there are any. Otherwise the warnings, and how many more there are.
    pub fn finish(self, source_name: &str) -> Result<(Vec<Problem>, usize), Problems> {
        let Notes { kept, more } = self.problems;
        match kept.is_empty() {
            true => Ok((self.warnings.kept, self.warnings.more)),
            false => Err(Problems::with_more(source_name, kept, more)
                .with_lenient(self.offers_lenient && self.lenient_helps)),
        }
    }

    /// Notes that something is not implemented: as a problem, or as a warning if the reading is
    /// lenient.
    pub fn not_implemented(&mut self, at: &Location, what: &str, reason: &str, section: &Section) {
        let (what, known, example) = (clipped(what), section.known(), section.example);
        self.lenient_helps = true;
        self.unless_lenient(Problem::new(
            at,
            format!(
                "{what:?} is not implemented yet: {reason}; allowed here: {known}; for example \
                 {example}"
            ),
        ));
    }

    fn unless_lenient(&mut self, problem: Problem) {
        match self.strictness {
            Strictness::Strict => self.report(problem),
            Strictness::Lenient => self.warn(problem),
        }
    }

    /// The entries of a mapping that are to be read, in the order of the file; all others have been
    /// dealt with. Nothing in place of a mapping is a mapping without keys.
    pub fn entries<'n>(&mut self, node: &'n Node, section: &Section) -> Vec<Entry<'n>> {
        let mut entries = Vec::new();
        let pairs = match &node.content {
            Content::Null => return entries,
            Content::Mapping(pairs) => pairs,
            _ => {
                self.wrong_shape(node, section.name, Shape::Mapping, section.example);
                return entries;
            }
        };
        let mut seen: Vec<(&str, &Location)> = Vec::new();
        for Pair { key, at, value } in pairs {
            let Some(known) = section.find(key) else {
                self.unless_lenient(section.unknown_key(at, key));
                continue;
            };
            if let Some((_, first)) = seen.iter().find(|(name, _)| *name == known.name) {
                self.report(Problem::given_twice(at, key, first));
                continue;
            }
            seen.push((known.name, at));
            match known.role {
                Role::Read => {
                    let (spelling, at) = (key.as_str(), at.clone());
                    entries.push(Entry { key: known.name, spelling, at, value });
                }
                Role::Shown => {}
                Role::NotImplemented(reason) => self.not_implemented(at, key, reason, section),
                Role::Command(command) => {
                    let (key, known) = (known.name, section.known());
                    self.report(Problem::new(
                        at,
                        format!(
                            "{key:?} is a command and not configuration; allowed here: {known}; \
                             for example run \"{command}\""
                        ),
                    ));
                }
            }
        }
        entries
    }

    /// The entries of a mapping, to be looked up by their keys.
    pub fn fields<'n>(&mut self, node: &'n Node, section: Section) -> Fields<'n> {
        let found = self.entries(node, &section);
        Fields { at: node.at.clone(), section, found }
    }

    /// Notes that a value is a list where a word is wanted, or the like.
    pub fn wrong_shape(&mut self, node: &Node, what: &str, want: impl fmt::Display, example: &str) {
        self.report(Problem::wrong_shape(node, what, want, example));
    }

    /// A key that must be there is not.
    pub fn missing(&mut self, fields: &Fields<'_>, key: &str, example: &str) {
        self.report(Problem::missing(&fields.at, fields.section.name, key, example));
    }

    /// The items of a list; nothing in place of a list is a list without items.
    pub fn items<'n>(
        &mut self,
        node: Option<&'n Node>,
        what: &str,
        example: &str,
    ) -> &'n [Rc<Node>] {
        let items = node.map_or(Ok(&[][..]), |node| items(node, what, example));
        self.accept(items).unwrap_or_default()
    }

    /// A word or number, quoted or not.
    pub fn word<'n>(&mut self, node: &'n Node, key: &str, example: &str) -> Option<&'n str> {
        self.accept(word(node, key, example))
    }

    /// A quantity with a unit, in its smallest unit; `None` if it is not given or not valid.
    pub fn quantity(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        kind: &Quantity,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        self.quantity_or(fields, key, kind, range, "")
    }

    /// As [`Reader::quantity`]; what else is allowed, such as ` or "unlimited"`, is the caller's to
    /// read.
    pub fn quantity_or(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        kind: &Quantity,
        range: RangeInclusive<u64>,
        or: &str,
    ) -> Option<u64> {
        let node = fields.value(key)?;
        let key = fields.spelling(key);
        let (low, high) = (kind.write(*range.start()), kind.write(*range.end()));
        let usual = kind.read(kind.example).is_ok_and(|value| range.contains(&value));
        let example = format!("\"{key}: {}\"", if usual { kind.example } else { &high });
        let text = self.word(node, key, &example)?;
        let why = match kind.read(text) {
            Ok(value) if range.contains(&value) => return Some(value),
            Ok(_) => String::new(),
            Err(why) => format!(": {}", why.why()),
        };
        let found = clipped(text);
        let what = format!(
            "{key} cannot be {found:?}{why}; allowed: {}, from {low} to {high}{or}; for example \
             {example}",
            kind.allowed
        );
        self.report(Problem::new(&node.at, what));
        None
    }

    /// A whole number without a unit; `None` if it is not given or not good.
    pub fn count(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        range: RangeInclusive<u64>,
        example: &str,
    ) -> Option<u64> {
        let node = fields.value(key)?;
        let key = fields.spelling(key);
        let text = self.word(node, key, example)?;
        let value = decimal(text).and_then(|value| u64::try_from(value).ok());
        match value.filter(|value| range.contains(value)) {
            Some(value) => Some(value),
            None => {
                let (low, high) = (range.start(), range.end());
                let allowed = format!("a whole number without unit from {low} to {high}");
                self.report(Problem::value(&node.at, key, text, &allowed, example));
                None
            }
        }
    }

    /// One of some words; `None` if it is not given or not one of them.
    pub fn choice<T: Copy>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let node = fields.value(key)?;
        let key = fields.spelling(key);
        let text = self.word(node, key, words[0].0)?;
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let allowed = words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", ");
            let near = nearest(text, words.iter().map(|(word, _)| *word));
            let example = format!("\"{key}: {}\"", near.unwrap_or(words[0].0));
            self.report(Problem::value(&node.at, key, text, &allowed, &example));
        }
        found.map(|(_, value)| *value)
    }
}

/// The items of a list; nothing in place of a list is a list without items.
///
/// # Errors
/// When something else stands there.
pub fn items<'n>(node: &'n Node, what: &str, example: &str) -> Result<&'n [Rc<Node>], Problem> {
    match &node.content {
        Content::Null => Ok(&[]),
        Content::List(items) => Ok(items),
        _ => Err(Problem::wrong_shape(node, what, Shape::List, example)),
    }
}

/// A word or number, quoted or not.
///
/// # Errors
/// When something else stands there.
pub fn word<'n>(node: &'n Node, what: &str, example: &str) -> Result<&'n str, Problem> {
    match &node.content {
        Content::Scalar(text) => Ok(text),
        _ => Err(Problem::wrong_shape(node, what, Shape::Scalar, example)),
    }
}

/// Digits, perhaps behind a minus; nothing else that a YAML dialect may take for a number.
pub fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
