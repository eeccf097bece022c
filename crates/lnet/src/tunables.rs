//! Every tunable, declared once: name, LNet's name, unit, default, range, one sentence.
//!
//! The parser and the reference page read [`TABLE`]; the code reads the fields of [`Tunables`].
//! Defaults are those of Lustre 2.17 unless the sentence says otherwise.

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Tunable {
    /// Our name; the field of [`Tunables`].
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

macro_rules! tunables {
    ($(
        $name:ident $lnet:literal $unit:literal $default:literal $min:literal ..= $max:literal
        $change:ident $help:literal
    )*) => {
        /// Values of all tunables. Field names, units, defaults and ranges are those of [`TABLE`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each field is documented by its row in TABLE")]
        pub struct Tunables { $(pub $name: i64,)* }

        /// All tunables, in the order of the reference page.
        pub const TABLE: &[Tunable] = &[$(Tunable {
            name: stringify!($name), lnet_name: $lnet, unit: $unit,
            default: $default, min: $min, max: $max, change: Change::$change, help: $help,
        },)*];

        impl Default for Tunables {
            fn default() -> Tunables { Tunables { $($name: $default,)* } }
        }

        impl Tunables {
            /// Sets one value by our name or LNet's.
            ///
            /// # Errors
            /// When there is no such tunable or the value is outside its range; nothing changes.
            pub fn set(&mut self, name: &str, value: i64) -> Result<(), TunableError> {
                $(if name == stringify!($name) || (!$lnet.is_empty() && name == $lnet) {
                    if !($min..=$max).contains(&value) {
                        return Err(TunableError::OutOfRange {
                            name: stringify!($name), value, min: $min, max: $max, unit: $unit,
                        });
                    }
                    self.$name = value;
                    return Ok(());
                })*
                Err(TunableError::Unknown(name.to_owned()))
            }

            /// Reads one value by our name or LNet's.
            pub fn value(&self, name: &str) -> Option<i64> {
                $(if name == stringify!($name) || (!$lnet.is_empty() && name == $lnet) {
                    return Some(self.$name);
                })*
                None
            }
        }
    };
}

tunables! {
    transaction_timeout "lnet_transaction_timeout" "s" 150 1..=100_000 Live
        "How long a GET, or a PUT that wants an ACK, waits for its answer."
    retry_count "lnet_retry_count" "" 2 0..=255 Live
        "Divides transaction_timeout into shares for the driver; messages are not resent yet."
    discovery "discovery" "0/1" 1 0..=1 Live
        "Whether peers are discovered and may discover this node; nobody discovers a userland node."
    lock_prim_nid "lock_prim_nid" "0/1" 1 0..=1 Live
        "No effect yet: would keep the primary NID that a file system asked for."
    max_interfaces "lnet_interfaces_max" "" 200 16..=4096 Live
        "Most NIDs accepted in a peer's ping information."
    peers_max "" "" 131_072 16..=16_777_216 Start
        "Most peer NIDs remembered; the idle one unused for longest makes room."
    credits "credits" "messages" 256 1..=65_535 Start
        "Messages under way at once per interface, all peers together."
    peer_credits "peer_credits" "messages" 8 1..=65_535 Start
        "Messages under way at once to one peer."
    sock_timeout "sock_timeout" "s" 50 1..=100_000 Live
        "No progress on a connection for this long closes it."
    accept_timeout "accept_timeout" "s" 5 1..=3600 Live
        "How long a new connection may take for its request and HELLO."
    accept_backlog "accept_backlog" "" 127 1..=65_535 Start
        "Backlog of the listening socket."
    accept_port "accept_port" "" 988 1..=65_535 Start
        "TCP port to listen on and to dial for CONTROL connections."
    accept_port_bulk "accept_port_bulk" "" 0 0..=65_535 Start
        "TCP port to dial for the other connection types; 0 is the same as accept_port."
    conns_per_peer "conns_per_peer" "" 0 0..=127 Start
        "BULK_IN and BULK_OUT connections per peer, each; 0 follows the link's speed."
    min_bulk "min_bulk" "bytes" 1024 0..=1_048_576 Live
        "From this message size on BULK connections are preferred."
    min_reconnectms "min_reconnectms" "ms" 1000 1..=3_600_000 Live
        "Shortest wait before a peer is dialled again."
    max_reconnectms "max_reconnectms" "ms" 60_000 1..=3_600_000 Live
        "Longest wait before a peer is dialled again."
    keepalive "keepalive" "s" 30 0..=100_000 Live
        "Silence after which a keepalive is sent to a connected peer; 0 never."
    keepalive_idle "keepalive_idle" "s" 30 0..=100_000 Live
        "TCP keepalive: idle time; 0 leaves TCP's off."
    keepalive_intvl "keepalive_intvl" "s" 5 1..=100_000 Live
        "TCP keepalive: interval."
    keepalive_count "keepalive_count" "" 5 1..=100 Live
        "TCP keepalive: probes; with TCP_USER_TIMEOUT, Linux goes by sock_timeout instead."
    enable_csum "enable_csum" "0/1" 0 0..=1 Start
        "Checksums on protocol V2 connections; V3 and V4 have none."
    protocol "protocol" "version" 0 0..=4 Start
        "Highest HELLO version this node dials with; 0 is the best for the address family."
    zc_min_payload "zc_min_payload" "bytes" 16_384 2048..=1_048_576 Live
        "Payload from which MSG_ZEROCOPY is used, where zero_copy is on."
    zero_copy "" "0/1" 0 0..=1 Live
        "Send large payloads with MSG_ZEROCOPY and ask for zero-copy acknowledgements."
    tx_buffer_size "tx_buffer_size" "bytes" 0 0..=1_073_741_824 Start
        "TCP send buffer; 0 leaves it to the system."
    rx_buffer_size "rx_buffer_size" "bytes" 0 0..=1_073_741_824 Start
        "TCP receive buffer; 0 leaves it to the system."
    tos "tos" "" -1 -1..=255 Start
        "IP type of service of LNet's connections; -1 leaves it alone."
    connections_max "" "" 16_384 16..=1_048_576 Live
        "Most TCP connections of a node; an eighth, or handshakes_max if less, is for handshakes."
    handshakes_max "" "" 1024 1..=1_048_576 Live
        "Most incoming connections that have not finished their HELLO."
    strict_source "" "0/1" 0 0..=1 Live
        "Refuse a HELLO whose NID is not its address; breaks multi-homed peers and NAT."
    rpc_timeout "rpc_timeout" "s" 64 1..=100_000 Start
        "Selftest: how long one RPC may take, and may wait for memory at a server."
    session_timeout "session_timeout" "s" 100 0..=100_000 Start
        "Selftest: silence of the console after which a node drops its session; 0 never."
    selftest_memory "" "MiB" 256 2..=65_536 Start
        "Selftest: most memory for bulk buffers; further requests wait."
    selftest_client_stats "" "0/1" 1 0..=1 Start
        "Selftest: clients keep latencies of their tests and report them to Lustrine consoles."
    cpu_npartitions "cpu_npartitions" "" 0 0..=256 Start
        "CPU partitions, one event loop each; 0 follows cpu_pattern or the machine."
    latency_peers "" "" 16_384 0..=16_777_216 Start
        "Peer NIDs that have latency histograms, per CPU partition; 0: no latencies are taken."
    spin_us "" "us" 200 -1..=1_000_000 Live
        "How long a loop polls before it sleeps; 0 sleeps at once, -1 never sleeps."
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
