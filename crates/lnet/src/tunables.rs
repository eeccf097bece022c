//! Tunables: each crate declares its own once, with name, LNet's name, unit, default, range, and
//! one sentence. This module has the means, [`declare_tunables!`](crate::declare_tunables), and the
//! tunables of the core.
//!
//! Parsers and the reference page read tables of [`Tunable`]; the code reads the fields of the
//! `Tunables` of its crate. Defaults are those of Lustre 2.17 unless the sentence says otherwise.

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Our name; the field of the `Tunables` of its crate.
    pub name: &'static str,
    /// LNet's name: a module parameter or a key of lnetctl; empty when LNet has none.
    pub lnet_name: &'static str,
    /// Unit of the value.
    pub unit: &'static str,
    /// Default value.
    pub default: i64,
    /// Smallest legal value.
    pub min: i64,
    /// Largest legal value.
    pub max: i64,
    /// When a new value takes effect.
    pub change: Change,
    /// What it does.
    pub help: &'static str,
}

impl Tunable {
    /// Whether this is our name or LNet's name of the tunable.
    pub fn has_name(&self, name: &str) -> bool {
        name == self.name || (!self.lnet_name.is_empty() && name == self.lnet_name)
    }

    /// Checks a value against the range.
    ///
    /// # Errors
    /// [`TunableError::OutOfRange`].
    pub fn check(&self, value: i64) -> Result<(), TunableError> {
        let Tunable { name, min, max, unit, .. } = *self;
        if (min..=max).contains(&value) {
            return Ok(());
        }
        Err(TunableError::OutOfRange { name, value, min, max, unit })
    }
}

/// When a new value of a tunable takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At once, while the node runs.
    Live,
    /// At the next start of the node.
    Start,
}

/// Why a value was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TunableError {
    /// There is no tunable of this name.
    #[error("no tunable is called {0:?}; docs/tunables.md lists them, an example is peer_credits")]
    Unknown(String),
    /// Outside the range.
    #[error("{name} = {value}; {}", range(*min, *max, unit))]
    OutOfRange {
        /// The tunable.
        name: &'static str,
        /// The value that was given.
        value: i64,
        /// Smallest legal value.
        min: i64,
        /// Largest legal value.
        max: i64,
        /// Unit of the value.
        unit: &'static str,
    },
}

fn range(min: i64, max: i64, unit: &str) -> String {
    let unit = if unit == "0/1" { "" } else { unit };
    format!("allowed: {min} to {max} {unit}").trim_end().to_owned()
}

/// Declares the tunables of a crate: the struct `Tunables` with their values, `TABLE` with a row
/// for each, and access by name. A row is
///
/// ```text
/// name "LNet's name" "unit" default least..=most Live-or-Start
///     "One sentence."
/// ```
///
/// LNet's name and the unit may be empty. The crate that knows all drivers and services merges the
/// tables into one, so that names must be unique in all crates; a test there checks it.
#[macro_export]
macro_rules! declare_tunables {
    ($(
        $name:ident $lnet:literal $unit:literal $default:literal $min:literal ..= $max:literal
        $change:ident $help:literal
    )*) => {
        /// Values of the tunables of this crate. Field names, units, defaults and ranges are those
        /// of [`TABLE`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each field is documented by its row in TABLE")]
        pub struct Tunables { $(pub $name: i64,)* }

        /// The tunables of this crate.
        pub const TABLE: &[$crate::tunables::Tunable] = &[$($crate::tunables::Tunable {
            name: stringify!($name), lnet_name: $lnet, unit: $unit, default: $default,
            min: $min, max: $max, change: $crate::tunables::Change::$change, help: $help,
        },)*];

        impl Default for Tunables {
            fn default() -> Tunables { Tunables { $($name: $default,)* } }
        }

        impl Tunables {
            /// Sets one value by our name or LNet's.
            ///
            /// # Errors
            /// When this crate has no such tunable or the value is outside its range; nothing
            /// changes.
            pub fn set(
                &mut self,
                name: &str,
                value: i64,
            ) -> Result<(), $crate::tunables::TunableError> {
                let row = TABLE.iter().find(|row| row.has_name(name));
                match row.map(|row| row.check(value).map(|()| row.name)).transpose()? {
                    $(Some(stringify!($name)) => self.$name = value,)*
                    _ => return Err($crate::tunables::TunableError::Unknown(name.to_owned())),
                }
                Ok(())
            }

            /// Reads one value by our name or LNet's.
            pub fn value(&self, name: &str) -> Option<i64> {
                match TABLE.iter().find(|row| row.has_name(name))?.name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

declare_tunables! {
    transaction_timeout "lnet_transaction_timeout" "s" 150 1..=100_000 Live
        "How long a GET, or a PUT that wants an ACK, waits for its answer."
    retry_count "lnet_retry_count" "" 2 0..=255 Live
        "LND timeout: (transaction_timeout - 1) / (retry_count + 1), at least 1 s; no resends yet."
    discovery "discovery" "0/1" 1 0..=1 Live
        "Whether this node and its peers discover each other; a userland node is never discovered."
    lock_prim_nid "lock_prim_nid" "0/1" 1 0..=1 Live
        "No effect yet: would keep the primary NID that a file system asked for."
    max_interfaces "lnet_interfaces_max" "" 200 16..=4096 Live
        "Most NIDs accepted in a peer's ping information."
    peers_max "" "" 131_072 16..=16_777_216 Start
        "Maximum number of peer NIDs kept; the one idle for longest is dropped for a new one."
    credits "credits" "messages" 256 1..=65_535 Start
        "Messages in flight at once per interface, all peers together."
    peer_credits "peer_credits" "messages" 8 1..=65_535 Start
        "Messages in flight at once to one peer."
    latency_peers "" "" 16_384 0..=16_777_216 Start
        "Peer NIDs that have latency histograms, per CPU partition; 0: no latencies are taken."
}

impl Tunables {
    /// The driver's share of the transaction timeout, in seconds ([CORE-17]).
    pub fn lnd_timeout(&self) -> i64 {
        ((self.transaction_timeout - 1) / (self.retry_count + 1)).max(1)
    }

    /// How long a message may wait to be sent, in seconds ([CORE-17]).
    pub fn message_timeout(&self) -> i64 {
        self.lnd_timeout() * (self.retry_count + 1) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_by_either_name_within_range() {
        let mut values = Tunables::default();
        values.set("lnet_transaction_timeout", 10).unwrap();
        assert_eq!(values.value("transaction_timeout"), Some(10));
        let error = values.set("peer_credits", 0).unwrap_err();
        assert_eq!(error.to_string(), "peer_credits = 0; allowed: 1 to 65535 messages");
        assert_eq!(values.peer_credits, 8);
        assert!(matches!(values.set("no_such", 1), Err(TunableError::Unknown(_))));
    }

    #[test]
    fn derived_timeouts_are_those_of_the_kernel() {
        let values = Tunables::default();
        assert_eq!((values.lnd_timeout(), values.message_timeout()), (49, 148));
    }
}
