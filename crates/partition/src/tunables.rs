//! The tunables of a node: those that the crates below declare, and those of its event loops.

use lustrine_lnet::tunables::{Tunable, TunableError};

/// Declares how many event loops there are and how they wait. The loops are in `node`; their
/// tunables are here because `config`, which reads all tunables, may not use `node`.
pub mod loops {
    /// `kept_memory` in MiB if it is -1 and no service of the node needs more.
    pub const KEPT_MEMORY: i64 = 256;

    lustrine_lnet::declare_tunables! {
        cpu_npartitions "cpu_npartitions" "" 0 0..=256 Start
            "CPU partitions, one event loop each; 0 follows cpu_pattern or the machine."
        spin_us "" "us" 200 -1..=1_000_000 Live
            "How long a loop polls before it sleeps; 0 sleeps at once, -1 never sleeps."
        kept_memory "" "MiB" -1 -1..=16_777_216 Start
            "Received data that a loop keeps where they are, at most; -1: 256 and what is cached."
    }
}

/// What each part declares.
const PARTS: [&[Tunable]; 4] = [
    lustrine_lnet::tunables::TABLE,
    lustrine_socklnd::TUNABLES,
    lustrine_selftest::TUNABLES,
    loops::TABLE,
];

const COUNT: usize = PARTS[0].len() + PARTS[1].len() + PARTS[2].len() + PARTS[3].len();

const ALL: [Tunable; COUNT] = {
    let mut all = [PARTS[0][0]; COUNT];
    let (mut part, mut at) = (0, 0);
    while part < PARTS.len() {
        let mut row = 0;
        while row < PARTS[part].len() {
            all[at] = PARTS[part][row];
            (row, at) = (row + 1, at + 1);
        }
        part += 1;
    }
    all
};

/// All tunables of a node, in the order of the reference page.
pub const TABLE: &[Tunable] = &ALL;

/// The values of all tunables of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tunables {
    /// Of the core.
    pub lnet: lustrine_lnet::tunables::Tunables,
    /// Of the TCP driver.
    pub socklnd: lustrine_socklnd::Tunables,
    /// Of LNet selftest.
    pub selftest: lustrine_selftest::Tunables,
    /// Of the event loops.
    pub loops: loops::Tunables,
}

impl Tunables {
    /// Sets one value by our name or LNet's.
    ///
    /// # Errors
    /// When there is no such tunable or the value is outside its range; nothing changes.
    pub fn set(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
        let unknown =
            |result: &Result<(), TunableError>| matches!(result, Err(TunableError::Unknown(_)));
        let mut result = self.lnet.set(name, value);
        if unknown(&result) {
            result = self.socklnd.set(name, value);
        }
        if unknown(&result) {
            result = self.selftest.set(name, value);
        }
        if unknown(&result) {
            result = self.loops.set(name, value);
        }
        result
    }

    /// Reads one value by our name or LNet's.
    pub fn value(&self, name: &str) -> Option<i64> {
        let Tunables { lnet, socklnd, selftest, loops } = self;
        let value = lnet.value(name).or_else(|| socklnd.value(name));
        value.or_else(|| selftest.value(name)).or_else(|| loops.value(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_defaults_legal() {
        for (index, row) in TABLE.iter().enumerate() {
            assert!((row.min..=row.max).contains(&row.default), "{}", row.name);
            assert!(row.help.ends_with('.'), "{}", row.name);
            for other in &TABLE[index + 1..] {
                assert_ne!(row.name, other.name);
                assert!(row.lnet_name.is_empty() || row.lnet_name != other.lnet_name);
            }
        }
    }

    #[test]
    fn every_row_is_the_value_of_one_crate() {
        let defaults = Tunables::default();
        for row in TABLE {
            assert_eq!(defaults.value(row.name), Some(row.default), "{}", row.name);
            let mut values = Tunables::default();
            let other = if row.default == row.max { row.min } else { row.max };
            values.set(row.name, other).expect("it is in the range");
            assert_eq!(values.value(row.name), Some(other), "{}", row.name);
            assert_ne!(values, defaults, "{}", row.name);
            let error = values.set(row.name, row.max + 1).expect_err("it is outside");
            assert!(matches!(error, TunableError::OutOfRange { .. }), "{}", row.name);
        }
        assert_eq!(defaults.value("no_such"), None);
        let error = Tunables::default().set("no_such", 1);
        assert!(matches!(error, Err(TunableError::Unknown(_))));
    }
}
