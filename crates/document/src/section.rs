//! Tables of the keys that a mapping may have.

use crate::hint::unknown_key;
use crate::problem::{Location, Problem};

/// One kind of mapping in a file.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The name of the section in error messages.
    pub name: &'static str,
    /// Its keys. Messages list those that are read.
    pub keys: &'static [Key],
    /// Further keys, which messages do not list.
    pub unlisted: &'static [Key],
    /// An example of such a mapping, for error messages.
    pub example: &'static str,
}

/// A key that has a meaning in a section.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// A second spelling, of another release.
    pub also: Option<&'static str>,
    /// How the key is read.
    pub role: Role,
}

/// How a key is read.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// It is read.
    Read,
    /// Programs that write such files show it, and readers ignore it.
    Shown,
    /// It has a meaning that this release does not implement, for this reason.
    NotImplemented(&'static str),
    /// It is a command; this is what to type instead.
    Command(&'static str),
}

impl Key {
    /// A key that is read.
    pub const fn read(name: &'static str) -> Key {
        Key { name, also: None, role: Role::Read }
    }

    /// A key that is ignored.
    pub const fn shown(name: &'static str) -> Key {
        Key { name, also: None, role: Role::Shown }
    }

    /// A key that is not implemented, and why.
    pub const fn not_implemented(name: &'static str, reason: &'static str) -> Key {
        Key { name, also: None, role: Role::NotImplemented(reason) }
    }

    /// A command, and what to type instead.
    pub const fn command(name: &'static str, instead: &'static str) -> Key {
        Key { name, also: None, role: Role::Command(instead) }
    }

    /// The same with a second spelling.
    #[must_use]
    pub const fn or(self, also: &'static str) -> Key {
        Key { also: Some(also), ..self }
    }
}

/// Keys that are read.
pub const fn read_keys<const N: usize>(names: [&'static str; N]) -> [Key; N] {
    let mut keys = [Key::read(""); N];
    let mut at = 0;
    while at < N {
        keys[at] = Key::read(names[at]);
        at += 1;
    }
    keys
}

impl Section {
    /// A section all of whose keys may be listed.
    pub const fn new(name: &'static str, keys: &'static [Key], example: &'static str) -> Section {
        Section { name, keys, unlisted: &[], example }
    }

    /// All its keys.
    pub fn all(&self) -> impl Iterator<Item = &'static Key> + use<> {
        self.keys.iter().chain(self.unlisted)
    }

    pub(crate) fn find(&self, key: &str) -> Option<&'static Key> {
        self.all().find(|known| known.name == key || known.also == Some(key))
    }

    /// The keys that messages list, with their second spellings.
    pub fn known(&self) -> String {
        let read = self.keys.iter().filter(|key| matches!(key.role, Role::Read));
        let names = read.map(|key| match key.also {
            Some(also) => format!("{} or {also}", key.name),
            None => key.name.to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn unknown_key(&self, at: &Location, key: &str) -> Problem {
        let names = self.all().flat_map(|known| [Some(known.name), known.also]).flatten();
        unknown_key(at, key, (self.name, &self.known()), names, self.example)
    }
}
