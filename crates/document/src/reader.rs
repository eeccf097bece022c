//! Reading a tree by tables of known keys, and going on after a problem: whoever mends a file wants
//! to know all that is wrong with it.

use std::ops::RangeInclusive;
use std::rc::Rc;

use lustrine_yaml::clipped;

use crate::problem::{Location, Problem};
use crate::quantity::Quantity;
use crate::{Content, Node};

/// One kind of mapping in a file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// What messages call it.
    pub name: &'static str,
    /// Its keys.
    pub keys: &'static [&'static str],
    /// How it may look.
    pub example: &'static str,
}

/// The known keys of one mapping, with their values.
#[derive(Debug)]
pub struct Fields<'n> {
    /// Where the mapping is.
    pub at: Location,
    /// What kind of mapping it is.
    pub section: Section,
    found: Vec<(&'static str, &'n Rc<Node>)>,
}

impl<'n> Fields<'n> {
    /// The value of a key; nothing counts as no value.
    pub fn value(&self, key: &str) -> Option<&'n Node> {
        debug_assert!(self.section.keys.contains(&key), "{key} is in no table");
        let found = self.found.iter().find(|(name, _)| *name == key).map(|(_, node)| &***node);
        found.filter(|node| !matches!(node.content, Content::Null))
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

/// One reading of one file.
#[derive(Debug, Default)]
pub struct Reader {
    /// What was found wrong so far.
    pub problems: Vec<Problem>,
}

impl Reader {
    /// Notes a problem; reading goes on.
    pub fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// The entries of a mapping; nothing in its place is a mapping without keys.
    pub fn fields<'n>(&mut self, node: &'n Node, section: Section) -> Fields<'n> {
        let mut fields = Fields { at: node.at.clone(), section, found: Vec::new() };
        let pairs = match &node.content {
            Content::Null => return fields,
            Content::Mapping(pairs) => pairs,
            _ => {
                self.wrong_shape(node, section.name, "keys with values", section.example);
                return fields;
            }
        };
        for pair in pairs {
            match section.keys.iter().find(|known| **known == pair.key) {
                Some(known) => fields.found.push((known, &pair.value)),
                None => self.unknown_key(&pair.at, &pair.key, &section),
            }
        }
        fields
    }

    fn unknown_key(&mut self, at: &Location, key: &str, section: &Section) {
        let Section { name, keys, example } = section;
        let hint = match nearest(key, keys.iter().copied()) {
            Some(nearest) => format!("did you mean {nearest:?}?"),
            None => format!("for example {example}"),
        };
        let (key, known) = (clipped(key), keys.join(", "));
        let what = format!("{key:?} is not known in {name}; allowed: {known}; {hint}");
        self.report(Problem::new(at, what));
    }

    /// Notes that a value is a list where a word is wanted, or the like.
    pub fn wrong_shape(&mut self, node: &Node, what: &str, want: &str, example: &str) {
        let found = node.shape();
        let what = format!("{what} is {found}; allowed: {want}; for example {example}");
        self.report(Problem::new(&node.at, what));
    }

    /// A key that must be there is not.
    pub fn missing(&mut self, fields: &Fields<'_>, key: &str, example: &str) {
        let what = format!("{} needs {key:?}; for example {example}", fields.section.name);
        self.report(Problem::new(&fields.at, what));
    }

    /// The items of a list; nothing in place of a list is a list without items.
    pub fn items<'n>(
        &mut self,
        node: Option<&'n Node>,
        what: &str,
        example: &str,
    ) -> &'n [Rc<Node>] {
        match node.map(|node| (&node.content, node)) {
            None | Some((Content::Null, _)) => &[],
            Some((Content::List(items), _)) => items,
            Some((_, node)) => {
                self.wrong_shape(node, what, "a list, each item behind a dash", example);
                &[]
            }
        }
    }

    /// A word or number, quoted or not.
    pub fn word<'n>(&mut self, node: &'n Node, key: &str, example: &str) -> Option<&'n str> {
        match &node.content {
            Content::Scalar(text) => Some(text),
            _ => {
                self.wrong_shape(node, key, "a word or number", example);
                None
            }
        }
    }

    /// A figure with a unit, in its smallest unit; `None` if it is not given or not good.
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

/// The word most like `word`: up to a third of its letters may differ; case, `_` and `-` do not
/// count.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let plain = |word: &str| clipped(word).to_lowercase().replace(['_', '-'], " ");
    let wanted = plain(word);
    let tolerance = (wanted.chars().count() / 3).max(1);
    let scored =
        known.into_iter().map(|known| (strsim::damerau_levenshtein(&wanted, &plain(known)), known));
    scored.min_by_key(|(distance, _)| *distance).filter(|(d, _)| *d <= tolerance).map(|(_, k)| k)
}

/// Digits, perhaps behind a minus; nothing else that a YAML dialect may take for a number.
pub fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}
