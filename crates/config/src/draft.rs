//! A configuration while a file is read, with the places of its parts.

use lustrine_document::{Location, Node, Problem};
use lustrine_lnet::tunables::Tunable;

use super::check::{Inconsistency, Subject};
use super::reading::number;
use super::{AUTO, NodeConfig, Tuning};

/// A configuration in the making, and where its parts come from.
pub(super) struct Draft {
    pub(super) config: NodeConfig,
    /// Where each of the nets is described.
    pub(super) nets_at: Vec<Location>,
    /// Where each of the peers is described.
    pub(super) peers_at: Vec<Location>,
    /// Where tunables were set.
    tunables_at: Vec<(&'static str, Location)>,
    /// Where keys of our own section were set.
    pub(super) own_at: Vec<(&'static str, Location)>,
    /// What the key `tuning` says.
    pub(super) tuning: Option<Tuning>,
}

impl Draft {
    pub(super) fn new(base: NodeConfig) -> Draft {
        Draft {
            config: base,
            nets_at: Vec::new(),
            peers_at: Vec::new(),
            tunables_at: Vec::new(),
            own_at: Vec::new(),
            tuning: None,
        }
    }

    /// Takes the value of a tunable, once.
    pub(super) fn set(
        &mut self,
        row: &'static Tunable,
        key: &str,
        at: &Location,
        value: &Node,
    ) -> Result<(), Problem> {
        if let Some(first) = self.tunable_at(row.name) {
            return Err(Problem::given_twice(at, key, first));
        }
        let number = number(value, key, row)?;
        self.tunables_at.push((row.name, at.clone()));
        let set = self.config.tunables.set(row.name, number);
        assert!(set.is_ok(), "{} is a tunable and {number} in its range", row.name);
        Ok(())
    }

    pub(super) fn tunable_at(&self, name: &str) -> Option<&Location> {
        self.tunables_at.iter().find(|(set, _)| *set == name).map(|(_, at)| at)
    }

    /// What `tuning` says, and where, if it decides about this tunable.
    pub(super) fn tuned_at(&self, name: &str) -> Option<(Tuning, &Location)> {
        let decides = AUTO.iter().any(|(auto, _)| *auto == name) && self.tunable_at(name).is_none();
        self.tuning.filter(|_| decides).zip(self.own_at("tuning"))
    }

    pub(super) fn own_at(&self, key: &str) -> Option<&Location> {
        self.own_at.iter().find(|(set, _)| *set == key).map(|(_, at)| at)
    }

    /// Where the file says what does not go together.
    pub(super) fn place_of(&self, what: &Inconsistency) -> Location {
        let at = match what.subject() {
            Subject::Net(index) => self.nets_at.get(index),
            Subject::Peer(index) => self.peers_at.get(index).or(self.peers_at.last()),
            Subject::Tunables(names) => names.iter().filter_map(|name| self.tunable_at(name)).max(),
            Subject::Control => self.own_at("control"),
        };
        at.cloned().unwrap_or(Location::START)
    }
}
