//! The management client (MGC): what the MGS configures, and how a mounted client learns that it
//! has changed [MGS-14].
//!
//! The client holds a lock of each configuration. When one is called back, it is given up, asked
//! for again after a pause, and what is new is read. Only one configuration is asked for or read at
//! a time: a server that calls back all the time, or never stops to answer, costs that one request.

mod apply;
mod log;
mod mounting;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use lustrine_fswire::connect::ConnectFlags;
use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{LockDesc, LockFlags, LockMode, LockType, Resource};
use lustrine_fswire::llog::LogId;
use lustrine_fswire::mgs::ConfigKind;
use lustrine_ldlm::LockState;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::{ImportKey, RpcError, SlotKind};

use super::locks::LockArgs;
use super::{Caller, Client, TargetKey};
use crate::config::{ConfigReader, Parameter};
use crate::error::{ClientError, Outcome, errno};
use mounting::Mounting;

/// How a client follows the configuration of its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MgcTunables {
    /// Whether it holds the locks of its configurations, and reads what changes. Otherwise it reads
    /// the log of its file system once, when it is mounted.
    pub follows: bool,
    /// Whether the MGS notifies it where targets are after a restart, so that it connects again at
    /// once: imperative recovery. Lustre's mount option `noir` switches it off.
    pub imperative_recovery: bool,
    /// The shortest pause before a lock that was called back is asked for again; a random part, at
    /// most as long, is added (`mgc_requeue_timeout_min`) [MGS-14].
    pub requeue_timeout_min: Nanos,
}

impl Default for MgcTunables {
    fn default() -> MgcTunables {
        MgcTunables {
            follows: true,
            imperative_recovery: true,
            requeue_timeout_min: Nanos::from_secs(5),
        }
    }
}

/// The longest pause, after attempts that failed.
const REQUEUE_MAX: Nanos = Nanos::from_secs(60);

/// What a client follows, as it is asked for at a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Rules of security of the file system.
    Sptlrpc,
    /// Its targets.
    Client,
    /// Where they are.
    Recover,
    /// Parameters of all file systems.
    Params,
}

impl Which {
    /// In the order of a mount (`fs/s01_client_mount`).
    pub(super) const ALL: [Which; 4] =
        [Which::Sptlrpc, Which::Client, Which::Recover, Which::Params];
    /// In the order in which they are asked for again (`fs/s42_partition`).
    const AGAIN: [Which; 4] = [Which::Recover, Which::Client, Which::Params, Which::Sptlrpc];

    fn name(self, fsname: &str) -> String {
        match self {
            Which::Sptlrpc => format!("{fsname}-sptlrpc"),
            Which::Client => format!("{fsname}-client"),
            Which::Recover => format!("{fsname}-cliir"),
            Which::Params => "params".to_owned(),
        }
    }

    /// What its lock is of [MGS-2].
    fn resource(self, fsname: &str) -> Resource {
        let (name, kind) = match self {
            Which::Sptlrpc | Which::Client => (fsname, ConfigKind::CONFIG),
            Which::Recover => (fsname, ConfigKind::RECOVER),
            Which::Params => ("params", ConfigKind::PARAMS),
        };
        Resource::of_config(name.as_bytes(), kind.0.into())
    }
}

/// Whether the client is notified of a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfigLock {
    /// It has no lock, and will not ask for one.
    #[default]
    None,
    /// It has asked for the lock.
    Asked,
    /// It has the lock.
    Held,
    /// It has lost the lock, and will ask for it again.
    Lost,
}

/// A configuration that a client follows, to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigView {
    /// Its name, such as `lustre-client`.
    pub name: String,
    /// Whether the client is notified of a change.
    pub lock: ConfigLock,
    /// The last record that was read; of the table of NIDs, its version.
    pub last: u64,
    /// How often its lock was lost.
    pub losses: u64,
    /// Why the last reading failed, if it did.
    pub error: Option<String>,
    /// The last record that was left out since the mount, and why.
    pub left_out: Option<String>,
}

/// What a client knows of its configuration, to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MgcView {
    /// What it follows.
    pub configs: Vec<ConfigView>,
    /// Whether the MGS notifies it of targets that restart.
    pub imperative_recovery: bool,
    /// How often it has connected again after such a notification.
    pub reconnects: u64,
    /// Changes that were carried out since the mount.
    pub changes: u64,
    /// The last of them, and how long ago it was.
    pub last_change: Option<(String, Nanos)>,
    /// Parameters and rules that mean nothing to this client, those of the mount included.
    pub ignored: u64,
    /// The last of them.
    pub last_ignored: Option<String>,
}

/// One configuration.
#[derive(Debug, Default)]
struct Config {
    /// The lock that it has, or has asked for.
    lock: Option<Handle>,
    /// Whether it is to be asked for, and read, again.
    lost: bool,
    losses: u64,
    /// Whether it was read to its end once.
    was_read: bool,
    error: Option<String>,
    left_out: Option<String>,
    /// The log that was read last, if it is one, and what was read of it.
    log: Option<LogId>,
    reader: ConfigReader,
    /// Whether it is read from its start again, and was not read to its end since.
    anew: bool,
}

impl Config {
    /// Its lock is gone.
    fn lose(&mut self) {
        (self.lock, self.lost) = (None, true);
        self.losses += 1;
    }
}

/// What a client follows.
pub(super) struct Mgc {
    tunables: MgcTunables,
    configs: [Config; 4],
    /// What is asked for or read now, and then the next ones.
    busy: Option<Which>,
    queue: VecDeque<Which>,
    /// When configurations whose locks are lost are asked for again.
    requeue_at: Time,
    /// Whether the MGS has refused anything in this round, or could not be asked.
    failed: bool,
    /// Rounds that have failed, one after another.
    failures: u32,
    /// The version of the table of NIDs up to which it was read.
    table_version: u64,
    /// Parameters that count, in the order in which they came, for targets that are added later.
    parameters: Vec<Parameter>,
    /// How often a parameter was held against a target: what the server's logs cost.
    steps: u64,
    /// Parameters that the user has set, by name.
    set_by_user: BTreeSet<&'static str>,
    mounting: Option<Mounting>,
    reconnects: u64,
    changes: u64,
    last_change: Option<(String, Time)>,
    ignored: u64,
    last_ignored: Option<String>,
}

impl Mgc {
    pub(super) fn new(tunables: MgcTunables) -> Mgc {
        let mut configs: [Config; 4] = Default::default();
        for which in [Which::Sptlrpc, Which::Params] {
            // No mount depends on them.
            configs[which as usize].reader.be_lenient();
        }
        Mgc {
            tunables,
            configs,
            busy: None,
            queue: VecDeque::new(),
            requeue_at: Time::NEVER,
            failed: false,
            failures: 0,
            table_version: 0,
            parameters: Vec::new(),
            steps: 0,
            set_by_user: BTreeSet::new(),
            mounting: None,
            reconnects: 0,
            changes: 0,
            last_change: None,
            ignored: 0,
            last_ignored: None,
        }
    }

    fn config(&mut self, which: Which) -> &mut Config {
        &mut self.configs[which as usize]
    }

    /// A log is about to be read. If it is another one than before, or has lost records, it is read
    /// from its start.
    fn begin_log(&mut self, which: Which, log: LogId, last: u32) {
        let config = self.config(which);
        if config.log.is_some_and(|before| before != log) || last < config.reader.last() {
            config.reader = ConfigReader::default();
            // It was read at the mount: what is wrong in it now does not end the mount.
            config.reader.be_lenient();
            config.anew = true;
        }
        config.log = Some(log);
    }

    #[cfg(test)]
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    #[cfg(test)]
    pub(super) fn kept(&self) -> &[Parameter] {
        &self.parameters
    }

    fn changed(&mut self, now: Time, what: String) {
        self.changes += 1;
        self.last_change = Some((what, now));
    }

    fn ignore(&mut self, what: String) {
        self.ignored += 1;
        self.last_ignored = Some(what);
    }
}

impl Client {
    /// What is known of the configuration.
    pub fn mgc(&self, now: Time) -> MgcView {
        let mgc = &self.mgc;
        let view = |which: Which| {
            let config = &mgc.configs[which as usize];
            // Without a connection there is no notification of a change.
            let connected = self.mgs.is_some_and(|mgs| self.is_connected(TargetKey(mgs)));
            let held = config.lock.and_then(|handle| self.locks.state(self.mgs?, handle));
            ConfigView {
                name: which.name(&self.args.fsname),
                lock: match (held, config.lost) {
                    (Some(LockState::Granted), _) if connected => ConfigLock::Held,
                    (Some(LockState::Granted), _) => ConfigLock::Lost,
                    (Some(_), _) => ConfigLock::Asked,
                    (None, true) => ConfigLock::Lost,
                    (None, false) => ConfigLock::None,
                },
                last: match which {
                    Which::Recover => mgc.table_version,
                    _ => config.reader.last().into(),
                },
                losses: config.losses,
                error: config.error.clone(),
                left_out: config.left_out.clone(),
            }
        };
        let last_change = mgc.last_change.clone();
        MgcView {
            configs: Which::ALL.map(view).into(),
            imperative_recovery: self.has_imperative_recovery(),
            reconnects: mgc.reconnects,
            changes: mgc.changes,
            last_change: last_change.map(|(what, at)| (what, now.since(at))),
            ignored: mgc.ignored,
            last_ignored: mgc.last_ignored.clone(),
        }
    }

    /// Whether the MGS has promised to notify this client of targets that restart.
    fn has_imperative_recovery(&self) -> bool {
        let granted = self.mgs.and_then(|mgs| self.rpc.import(mgs)).map(|import| import.granted());
        self.mgc.tunables.follows
            && self.mgc.tunables.imperative_recovery
            && granted.is_some_and(|granted| granted.flags.contains(ConnectFlags::IMP_RECOV))
    }

    /// Goes on with the next configuration.
    fn next_config(&mut self, turn: &mut Turn<'_>) {
        if self.unmounted {
            return self.mount_failed(turn, ClientError::Rpc(RpcError::Closed));
        }
        while let Some(which) = self.mgc.queue.pop_front() {
            if which != Which::Recover || self.has_imperative_recovery() {
                self.mgc.busy = Some(which);
                return self.follow(turn, which);
            }
            // There is nothing to ask for.
            self.mgc.config(which).lost = false;
        }
        self.mgc.busy = None;
        self.mgc.failures = match core::mem::take(&mut self.mgc.failed) {
            true => self.mgc.failures.saturating_add(1),
            false => 0,
        };
        self.requeue_later(turn.now);
        self.root_or_configs_known(turn);
    }

    /// Asks for the lock of a configuration, and reads it.
    fn follow(&mut self, turn: &mut Turn<'_>, which: Which) {
        let Some(mgs) = self.mgs else { return };
        if !self.mgc.tunables.follows {
            return self.read_config(turn, which);
        }
        let handle = self.next_handle();
        let config = self.mgc.config(which);
        (config.lock, config.lost) = (Some(handle), false);
        let desc = LockDesc {
            kind: LockType::PLAIN,
            resource: which.resource(&self.args.fsname),
            req_mode: LockMode::CR,
            ..LockDesc::default()
        };
        let args = LockArgs {
            desc,
            flags: LockFlags::empty(),
            slot: SlotKind::None,
            caller: Caller::ROOT,
        };
        self.enqueue(
            turn,
            mgs,
            handle,
            args,
            Box::new(move |client, turn, granted| match granted {
                Ok(_) => {
                    client.read_config(turn, which);
                    // It may have been called back already.
                    let lock = client.locks.at(mgs).get(handle);
                    if lock.is_some_and(|lock| lock.blocked) {
                        client.config_blocked(turn, handle);
                    }
                }
                Err(error) => client.config_refused(turn, which, error),
            }),
        );
    }

    /// The MGS has not given a lock. What a mount cannot do without is read all the same.
    fn config_refused(&mut self, turn: &mut Turn<'_>, which: Which, error: ClientError) {
        self.mgc.failed = true;
        let config = self.mgc.config(which);
        (config.lock, config.lost) = (None, true);
        match which == Which::Client && self.mgc.mounting.is_some() && !self.unmounted {
            true => self.read_config(turn, which),
            false => self.config_settled(turn, which, Err(error)),
        }
    }

    fn read_config(&mut self, turn: &mut Turn<'_>, which: Which) {
        match which {
            Which::Recover => self.read_table(turn, 0),
            Which::Sptlrpc | Which::Client | Which::Params => self.open_log(turn, which),
        }
    }

    /// A configuration was read, or was not.
    fn config_settled(&mut self, turn: &mut Turn<'_>, which: Which, outcome: Outcome<()>) {
        let config = self.mgc.config(which);
        config.error = outcome.as_ref().err().map(ToString::to_string);
        let fails = outcome.as_ref().err().is_some_and(can_pass);
        config.was_read |= !fails;
        if fails {
            // It is asked for again, with what has changed meanwhile.
            config.lost = true;
            let lock = config.lock.take();
            self.mgc.failed = true;
            if let (Some(mgs), Some(lock)) = (self.mgs, lock) {
                self.cancel_lock(turn, mgs, lock);
            }
        }
        if which == Which::Client {
            self.client_log_settled(turn, outcome);
        }
        self.next_config(turn);
    }

    /// A lock is called back: if it is one of a configuration, it is given up.
    pub(super) fn config_blocked(&mut self, turn: &mut Turn<'_>, handle: Handle) {
        let Some(mgs) = self.mgs else { return };
        let mut configs = self.mgc.configs.iter_mut();
        let Some(config) = configs.find(|config| config.lock == Some(handle)) else { return };
        if self.locks.state(mgs, handle) != Some(LockState::Granted) {
            return;
        }
        config.lose();
        self.cancel_lock(turn, mgs, handle);
        self.requeue_later(turn.now);
    }

    /// The MGS has evicted this client, or has restarted: all locks are lost.
    pub(super) fn configs_lost(&mut self, turn: &Turn<'_>, import: ImportKey) {
        if self.mgs != Some(import) || !self.mgc.tunables.follows || self.unmounted {
            return;
        }
        for config in &mut self.mgc.configs {
            if config.lock.is_some() {
                config.lose();
            }
        }
        self.requeue_later(turn.now);
    }

    /// The MGS is connected, perhaps once more. Callbacks may have been lost with the connection,
    /// so all locks that are held are given up, and asked for again [MGS-14].
    pub(super) fn mgs_connected(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        if self.mgs != Some(import) || !self.mgc.tunables.follows || self.unmounted {
            return;
        }
        for which in Which::ALL {
            let Some(handle) = self.mgc.config(which).lock else { continue };
            if self.locks.state(import, handle) == Some(LockState::Granted) {
                self.mgc.config(which).lose();
                self.cancel_lock(turn, import, handle);
            }
        }
        if self.has_imperative_recovery() && self.mgc.config(Which::Recover).lock.is_none() {
            // An MGS before may not have known imperative recovery.
            self.mgc.config(Which::Recover).lost = true;
        }
        self.requeue_later(turn.now);
    }

    /// The MGS has restarted: it does not take locks of configurations again. An enqueue that is
    /// not answered is sent again with all requests.
    pub(super) fn configs_not_replayed(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        if self.mgs != Some(import) {
            return;
        }
        for which in Which::ALL {
            let Some(handle) = self.mgc.config(which).lock else { continue };
            match self.locks.state(import, handle) {
                Some(LockState::Granted) => {
                    self.mgc.config(which).lose();
                    self.locks.forget(import, handle);
                }
                Some(LockState::Waiting) => {
                    self.locks.at(import).remove(handle);
                    self.wake(turn, handle, Err(ClientError::Rpc(RpcError::Canceled)));
                }
                _ => {}
            }
        }
        self.requeue_later(turn.now);
    }

    /// What is lost is asked for again after a pause, which differs between clients: otherwise all
    /// of them would come at once.
    fn requeue_later(&mut self, now: Time) {
        // A round that is under way ends with this, and with what it has failed at.
        if self.mgc.requeue_at != Time::NEVER || self.mgc.busy.is_some() {
            return;
        }
        if !self.mgc.configs.iter().any(|config| config.lost) {
            return;
        }
        let least = self.mgc.tunables.requeue_timeout_min.0.max(1);
        let doubled = least.saturating_mul(1 << self.mgc.failures.min(16));
        let pause = doubled.min(REQUEUE_MAX.0.max(least));
        let random = self.next_handle().0 % least;
        self.mgc.requeue_at = now + Nanos(pause.saturating_add(random));
    }

    /// Asks for what is lost, when it is time.
    pub(super) fn drive_mgc(&mut self, turn: &mut Turn<'_>) {
        if self.mgc_deadline() > turn.now {
            return;
        }
        if self.mgc.busy.is_none() && self.mgc.requeue_at <= turn.now {
            self.mgc.requeue_at = Time::NEVER;
            let lost = |which: &Which| self.mgc.configs[*which as usize].lost;
            self.mgc.queue = Which::AGAIN.into_iter().filter(lost).collect();
            self.next_config(turn);
        }
        self.root_or_configs_known(turn);
    }

    /// When [`Client::drive_mgc`] has something to do next.
    pub(super) fn mgc_deadline(&self) -> Time {
        if self.unmounted {
            return Time::NEVER;
        }
        let requeue = match self.mgc.busy {
            None => self.mgc.requeue_at,
            // Another round begins when this one is over.
            Some(_) => Time::NEVER,
        };
        let mounting = self.mgc.mounting.as_ref();
        requeue.min(mounting.map_or(Time::NEVER, Mounting::deadline))
    }
}

/// Whether what failed may work later. What a log says stays wrong until it changes.
fn can_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Rpc(_) | ClientError::NoMemory => true,
        ClientError::Errno(number) => !matches!(
            *number,
            errno::ENOENT | errno::EOPNOTSUPP | errno::EINVAL | errno::EPERM | errno::EACCES
        ),
        _ => false,
    }
}
