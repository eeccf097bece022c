//! What a client does: its targets and the times of its RPCs, as plain data.

use lustrine_client::{
    CacheCounts, Client, ClientError, ConfigLock, ConfigView, LockCounts, MaxRpcs, MgcView,
};
use lustrine_fswire::opcode::Target;
use lustrine_lnet::latency::Histogram;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::{Deactivated, Import, ImportState, Latencies};
use serde::{Deserialize, Serialize};

/// What a client does now, and what it has done since it was mounted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// How long the file system has been mounted, in seconds.
    pub mounted_s: f64,
    /// Files and directories that are open at the servers.
    pub open_files: usize,
    /// RPCs whose outcome is awaited, those that wait for a connection included.
    pub rpcs: usize,
    /// RPCs sent, for the first time or again.
    pub rpcs_sent: u64,
    /// Replies received, early ones included.
    pub replies_received: u64,
    /// Bytes of file data and directories that servers have sent in bulk.
    pub bulk_received: u64,
    /// Bytes of file data that servers have fetched in bulk.
    pub bulk_sent: u64,
    /// Requests that waited for memory of the node.
    pub memory_waits: u64,
    /// Most reads and writes at a target at once; 0 if that is `auto`, and in the status of an
    /// earlier release.
    #[serde(default)]
    pub max_rpcs_in_flight: u16,
    /// Whether it is `auto`: as many as the path and the target carry.
    #[serde(default)]
    pub max_rpcs_in_flight_auto: bool,
    /// Most changes of metadata at a target at once; 0 as above.
    #[serde(default)]
    pub max_mod_rpcs_in_flight: u16,
    /// What it keeps of the data of files.
    #[serde(default)]
    pub cache: CacheRow,
    /// What it keeps of names and attributes.
    #[serde(default)]
    pub names: NamesRow,
    /// What it knows of its configuration.
    #[serde(default)]
    pub configuration: ConfigurationRow,
    /// The targets.
    pub targets: Vec<TargetRow>,
    /// The operations at all targets together.
    pub operations: Vec<OperationRow>,
}

/// What a client keeps of the data of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRow {
    /// Bytes of memory for data.
    pub cached: u64,
    /// Bytes that programs have written and the servers do not have.
    pub dirty: u64,
    /// Bytes that the servers have and have not committed: they are kept for servers that restart.
    #[serde(default)]
    pub unstable: u64,
    /// Objects of which there are data or locks.
    pub objects: usize,
    /// Bytes that programs have read and that were in memory.
    pub hits: u64,
    /// Bytes that programs have read and that were asked for.
    pub misses: u64,
    /// Bytes that were asked for before a program did.
    #[serde(default)]
    pub read_ahead: u64,
    /// Bytes that could not be written.
    pub lost: u64,
}

/// What a client keeps of names and attributes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamesRow {
    /// Files whose attributes are kept, each with a lock.
    pub files: usize,
    /// Names of these files.
    pub names: usize,
    /// Names that directories are known not to have.
    pub missing: usize,
    /// Requests for attributes that were answered without a server.
    pub attr_hits: u64,
    /// Requests for attributes for which a server was asked.
    pub attr_misses: u64,
    /// Names that were found, or found missing, without a server.
    pub name_hits: u64,
    /// Names for which a server was asked.
    pub name_misses: u64,
    /// Locks that were given back with other requests.
    pub early_cancels: u64,
    /// Names that servers were asked for before a program did.
    #[serde(default)]
    pub statahead: u64,
}

/// What a client knows of its configuration, and how it would learn of a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigurationRow {
    /// The configurations that it follows.
    pub logs: Vec<ConfigRow>,
    /// Whether the MGS notifies it of targets that restart.
    pub imperative_recovery: bool,
    /// How often it has connected to a target again after such a notification.
    pub reconnects: u64,
    /// Changes that were carried out since the mount.
    pub changes: u64,
    /// The last of them; empty if there was none.
    pub last_change: String,
    /// How long ago that was, in seconds.
    pub last_change_s: f64,
    /// Parameters that mean nothing to this client, those of the mount included.
    pub ignored: u64,
    /// The last of them.
    pub last_ignored: String,
}

/// A configuration that a client follows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigRow {
    /// Its name, such as lustre-client.
    pub name: String,
    /// Its lock: `held`, `asked`, `lost`, or `none`.
    pub lock: String,
    /// The last record that was read; of the table of NIDs (lustre-cliir), its version.
    pub last: u64,
    /// How often the lock was lost.
    pub losses: u64,
    /// Why it could not be read, if it could not.
    pub error: String,
    /// The last record that was left out since the mount, and why; empty if there was none.
    #[serde(default)]
    pub left_out: String,
}

/// One target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetRow {
    /// Its name, such as lustre-OST0001.
    pub name: String,
    /// The state of its import: FULL if all is well, IDLE if it was disconnected because nothing
    /// was to be done, INACTIVE if requests fail because it is not to be used, `REFUSED (reason)`
    /// if they fail because the target refuses this client.
    pub state: String,
    /// The NID of the server that is used, or tried.
    pub nid: String,
    /// Attempts to connect.
    pub connects: u32,
    /// RPCs sent and not answered.
    pub in_flight: usize,
    /// RPCs that wait for a connection, a credit or a slot.
    pub waiting: usize,
    /// Changes that the server has not committed to disk yet, and opens of open files: they are
    /// replayed if it restarts.
    pub kept: usize,
    /// Locks that the client has there, such as those of programs.
    #[serde(default)]
    pub locks: usize,
    /// Locks that it has asked for and does not have.
    #[serde(default)]
    pub locks_waiting: usize,
    /// How often the server has evicted this client.
    pub evictions: u64,
    /// Most reads and writes at once; 0 in the status of an earlier release.
    #[serde(default)]
    pub max_rpcs_in_flight: u16,
    /// Most changes of metadata at once; 0 as above.
    #[serde(default)]
    pub max_mod_rpcs_in_flight: u16,
    /// Whether data have checksums; none for the management server, and in the status of an earlier
    /// release.
    #[serde(default)]
    pub checksums: Option<bool>,
    /// The operations at this target, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationRow>,
}

/// How long one operation took, from sending the RPC to its reply. The percentiles are at most
/// 12.5 % too high.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// The operation, as the protocol names it.
    pub name: String,
    /// Replies.
    pub count: u64,
    /// The shortest time, in microseconds.
    pub min_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The longest time.
    pub max_us: f64,
    /// The sum of all times.
    pub sum_us: f64,
}

impl Status {
    /// The status of a client, with the operations of all targets together.
    pub fn of(client: &Client, now: Time) -> Status {
        let (open_files, rpcs) = client.in_use();
        let counters = client.counters();
        let settings = client.rpc_settings();
        let mut latencies = Latencies::default();
        client.targets().for_each(|(import, _)| latencies.add(import.latencies()));
        Status {
            mounted_s: client.mounted_for(now).as_secs_f64(),
            open_files,
            rpcs,
            rpcs_sent: counters.requests_sent,
            replies_received: counters.replies_received,
            bulk_received: counters.bulk_received,
            bulk_sent: counters.bulk_sent,
            memory_waits: counters.memory_waits,
            max_rpcs_in_flight: match settings.max_rpcs_in_flight {
                Some(MaxRpcs::Fixed(number)) => number,
                Some(MaxRpcs::Auto) | None => 0,
            },
            max_rpcs_in_flight_auto: settings.max_rpcs_in_flight == Some(MaxRpcs::Auto),
            max_mod_rpcs_in_flight: settings.max_mod_rpcs_in_flight.unwrap_or(0),
            cache: CacheRow::of(client),
            names: NamesRow::of(client),
            configuration: ConfigurationRow::of(client, now),
            targets: client.targets().map(|(import, locks)| TargetRow::of(import, locks)).collect(),
            operations: OperationRow::all(&latencies),
        }
    }

    /// The same with the targets of this name only, each with its own operations.
    pub fn of_target(client: &Client, now: Time, name: &str) -> Status {
        let name = short(name);
        let named = client.targets().filter(|(import, _)| short(&import.view().target) == name);
        let targets = named.map(|(import, locks)| TargetRow {
            operations: OperationRow::all(import.latencies()),
            ..TargetRow::of(import, locks)
        });
        Status { targets: targets.collect(), operations: Vec::new(), ..Status::of(client, now) }
    }
}

/// The name of a target without the ending of its UUID.
fn short(target: &str) -> &str {
    target.strip_suffix("_UUID").unwrap_or(target)
}

impl CacheRow {
    fn of(client: &Client) -> CacheRow {
        let CacheCounts { cached, dirty, unstable, objects, hits, misses, read_ahead, lost } =
            client.cache_counts();
        CacheRow { cached, dirty, unstable, objects, hits, misses, read_ahead, lost }
    }
}

impl NamesRow {
    fn of(client: &Client) -> NamesRow {
        let counts = client.attr_counts();
        NamesRow {
            files: counts.entries,
            names: counts.names,
            missing: counts.missing,
            attr_hits: counts.hits,
            attr_misses: counts.misses,
            name_hits: counts.name_hits,
            name_misses: counts.name_misses,
            early_cancels: counts.early_cancels,
            statahead: counts.statahead,
        }
    }
}

impl ConfigurationRow {
    fn of(client: &Client, now: Time) -> ConfigurationRow {
        let view: MgcView = client.mgc(now);
        let row = |config: ConfigView| ConfigRow {
            name: config.name,
            lock: match config.lock {
                ConfigLock::None => "none",
                ConfigLock::Asked => "asked",
                ConfigLock::Held => "held",
                ConfigLock::Lost => "lost",
            }
            .to_owned(),
            last: config.last,
            losses: config.losses,
            error: config.error.unwrap_or_default(),
            left_out: config.left_out.unwrap_or_default(),
        };
        let (last_change, ago) = view.last_change.unwrap_or_default();
        ConfigurationRow {
            logs: view.configs.into_iter().map(row).collect(),
            imperative_recovery: view.imperative_recovery,
            reconnects: view.reconnects,
            changes: view.changes,
            last_change,
            last_change_s: ago.as_secs_f64(),
            ignored: view.ignored,
            last_ignored: view.last_ignored.unwrap_or_default(),
        }
    }
}

impl TargetRow {
    /// Whether the target is connected, or will be with the next request.
    pub fn is_usable(&self) -> bool {
        [ImportState::Full, ImportState::Idle].iter().any(|state| state.name() == self.state)
    }

    fn of(import: &Import, locks: LockCounts) -> TargetRow {
        let view = import.view();
        let state = match view.deactivated {
            Some(Deactivated::Refused(errno)) => {
                format!("REFUSED ({})", ClientError::Errno(errno))
            }
            Some(Deactivated::Inactive) => "INACTIVE".to_owned(),
            None => view.state.name().to_owned(),
        };
        TargetRow {
            name: short(&view.target).to_owned(),
            state,
            nid: view.peer.nid.to_string(),
            connects: view.conn_cnt,
            in_flight: view.in_flight,
            waiting: view.waiting,
            kept: view.kept,
            locks: locks.granted,
            locks_waiting: locks.waiting,
            evictions: view.evictions,
            max_rpcs_in_flight: import.tunables().max_rpcs_in_flight,
            max_mod_rpcs_in_flight: import.tunables().max_mod_rpcs_in_flight,
            checksums: (import.kind() != Target::Mgs).then_some(import.tunables().checksums),
            operations: Vec::new(),
        }
    }
}

impl OperationRow {
    fn all(latencies: &Latencies) -> Vec<OperationRow> {
        let rows = latencies.iter().map(|(opcode, histogram)| OperationRow {
            name: opcode.to_string(),
            ..OperationRow::of(histogram)
        });
        rows.collect()
    }

    fn of(histogram: &Histogram) -> OperationRow {
        let micros = |time: Nanos| time.0 as f64 / 1e3;
        let percentile = |thousandths| histogram.percentile(thousandths).map_or(0.0, micros);
        let summary = histogram.summary();
        OperationRow {
            name: String::new(),
            count: summary.samples,
            min_us: micros(summary.min),
            p50_us: percentile(500),
            p90_us: percentile(900),
            p99_us: percentile(990),
            max_us: micros(summary.max),
            sum_us: summary.sum as f64 / 1e3,
        }
    }
}

#[test]
fn times_are_microseconds() {
    let mut histogram = Histogram::default();
    for micros in 1..=1000_u64 {
        histogram.record(Nanos::from_micros(micros));
    }
    let row = OperationRow::of(&histogram);
    assert_eq!((row.count, row.min_us, row.max_us, row.sum_us), (1000, 1.0, 1000.0, 500_500.0));
    for (value, exact) in [(row.p50_us, 500.0), (row.p90_us, 900.0), (row.p99_us, 990.0)] {
        assert!((exact..=exact * 1.125).contains(&value), "{value} instead of {exact}");
    }
}
