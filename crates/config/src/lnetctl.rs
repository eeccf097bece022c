//! The file as a whole [CFG-7], and lnetctl's `global` section [CFG-10].

use std::rc::Rc;

use lustrine_lnet::tunables::Tunable;
use lustrine_yaml::{Node, Position};

use super::check::{self, Inconsistency, Subject};
use super::problem::{Failure, LIMITS, Problem, Warning};
use super::reading::{Entry, Key, Reading, Section, number};
use super::{ConfigError, NodeConfig, Strictness, lustrine_section, nets, peers};

/// What the examples of whole files show.
const EXAMPLE: &str = "\"net: [{net type: tcp}]\"";

pub(super) const TOP: Section =
    Section { name: "a configuration file", keys: &[TOP_KEYS, GLOBAL_KEYS], example: EXAMPLE };

const TOP_KEYS: &[Key] = &[
    Key::read("net"),
    Key::read("peer"),
    Key::read("global"),
    Key::read("lustrine"),
    Key::shown("statistics"),
    Key::not_yet("route", "this release does not route"),
    Key::not_yet("routing", "this release does not route"),
    Key::not_yet("buffers", "this release does not route and has no router buffers"),
    Key::not_yet("numa", "paths are chosen without regard to NUMA distance"),
    Key::not_yet("udsp", "there are no selection policies"),
    Key::not_yet("ip2nets", "nets are not chosen by address patterns; list them under net"),
    Key::command("ping", "lnetctl ping 10.0.0.1@tcp"),
    Key::command("discover", "lnetctl discover 10.0.0.1@tcp"),
];

pub(super) const GLOBAL: Section =
    Section { name: "global", keys: &[GLOBAL_KEYS], example: "\"discovery: 1\"" };

const NO_HEALTH: &str =
    "interfaces have no health values, as with health_sensitivity 0 on a kernel";

/// lnetctl reads these inside `global` and at the top level [CFG-7]. Those that are read are
/// tunables of the same name.
const GLOBAL_KEYS: &[Key] = &[
    Key::read("discovery"),
    Key::read("retry_count"),
    Key::read("transaction_timeout"),
    Key::read("max_interfaces"),
    // It follows from transaction_timeout and retry_count [CFG-10].
    Key::shown("lnd_timeout"),
    Key::not_yet("numa_range", "paths are chosen without regard to NUMA distance"),
    Key::not_yet("drop_asym_route", "this release does not route"),
    Key::not_yet("health_sensitivity", NO_HEALTH),
    Key::not_yet("recovery_interval", NO_HEALTH),
    Key::not_yet("recovery_limit", NO_HEALTH),
    Key::not_yet("max_recovery_ping_interval", NO_HEALTH),
    Key::not_yet("router_sensitivity", "this release does not route"),
    Key::not_yet("response_tracking", "every PUT that wants an ACK and every GET is tracked"),
];

/// A configuration in the making, and where its parts come from.
pub(super) struct Draft {
    pub(super) config: NodeConfig,
    /// Where each of the nets is described.
    pub(super) nets_at: Vec<Position>,
    /// Where each of the peers is described.
    pub(super) peers_at: Vec<Position>,
    /// Where tunables were set.
    tunables_at: Vec<(&'static str, Position)>,
    /// Where keys of our own section were set.
    pub(super) own_at: Vec<(&'static str, Position)>,
}

impl Draft {
    /// Takes the value of a tunable, once.
    pub(super) fn set(
        &mut self,
        row: &'static Tunable,
        key: &str,
        at: Position,
        value: &Node,
    ) -> Result<(), Failure> {
        if let Some(first) = self.tunable_at(row.name) {
            return Err((at, Problem::DuplicateKey { key: key.to_owned(), first }));
        }
        let number = number(value, key, row)?;
        self.tunables_at.push((row.name, at));
        let set = self.config.tunables.set(row.name, number);
        assert!(set.is_ok(), "{} is a tunable and {number} in its range", row.name);
        Ok(())
    }

    pub(super) fn tunable_at(&self, name: &str) -> Option<Position> {
        self.tunables_at.iter().find(|(set, _)| *set == name).map(|(_, at)| *at)
    }

    pub(super) fn own_at(&self, key: &str) -> Option<Position> {
        self.own_at.iter().find(|(set, _)| *set == key).map(|(_, at)| *at)
    }

    /// Where the file says what does not go together.
    fn place_of(&self, what: &Inconsistency) -> Position {
        let at = match what.subject() {
            Subject::Net(index) => self.nets_at.get(index).copied(),
            Subject::Peer(index) => self.peers_at.get(index).or(self.peers_at.last()).copied(),
            Subject::Tunables(names) => names.iter().filter_map(|name| self.tunable_at(name)).max(),
            Subject::Control => self.own_at("control"),
        };
        at.unwrap_or(Position::START)
    }
}

pub(super) fn read(
    text: &str,
    source_name: &str,
    strictness: Strictness,
) -> Result<(NodeConfig, Vec<Warning>), ConfigError> {
    let mut reading = Reading::new(source_name, strictness);
    let root = lustrine_yaml::load(text, &LIMITS)
        .map_err(|(at, fault)| reading.error((at, fault.into())))?;
    let base = NodeConfig::default();
    let draft = draft(&mut reading, &root, base).map_err(|failure| reading.error(failure))?;
    Ok((draft.config, reading.into_warnings()))
}

/// The same over a configuration that is there: what the text does not say stays. Interfaces and
/// peers are those of the text alone.
pub(super) fn read_over(
    base: &NodeConfig,
    text: &str,
    source_name: &str,
    strictness: Strictness,
) -> Result<(Draft, Vec<Warning>), ConfigError> {
    let mut reading = Reading::new(source_name, strictness);
    let root = lustrine_yaml::load(text, &LIMITS)
        .map_err(|(at, fault)| reading.error((at, fault.into())))?;
    let base = NodeConfig { nets: Vec::new(), peers: Vec::new(), ..base.clone() };
    let draft = draft(&mut reading, &root, base).map_err(|failure| reading.error(failure))?;
    Ok((draft, reading.into_warnings()))
}

fn draft(reading: &mut Reading<'_>, root: &Rc<Node>, base: NodeConfig) -> Result<Draft, Failure> {
    let mut draft = Draft {
        config: base,
        nets_at: Vec::new(),
        peers_at: Vec::new(),
        tunables_at: Vec::new(),
        own_at: Vec::new(),
    };
    for entry in reading.entries(root, &TOP)? {
        match entry.key {
            "net" => nets::read(reading, &mut draft, entry.value)?,
            "peer" => peers::read(reading, &mut draft, entry.value)?,
            "lustrine" => lustrine_section::read(reading, &mut draft, entry.value)?,
            "global" => {
                for inner in reading.entries(entry.value, &GLOBAL)? {
                    global(&mut draft, &inner)?;
                }
            }
            _ => global(&mut draft, &entry)?,
        }
    }
    if let Err(what) = draft.config.check() {
        return Err((draft.place_of(&what), what.into()));
    }
    nets::warn_of_the_ineffective(reading, &draft);
    Ok(draft)
}

fn global(draft: &mut Draft, entry: &Entry<'_>) -> Result<(), Failure> {
    draft.set(check::row(entry.key), entry.key, entry.at, entry.value)
}

#[cfg(test)]
mod tests;
