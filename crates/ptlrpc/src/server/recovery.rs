//! Recovery of a target after a restart: which clients are awaited, and in which order what they
//! replay is executed.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::time::{Nanos, Time};

/// How long clients are awaited.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryTunables {
    /// From the first connect of a known client on.
    pub window: Nanos,
    /// What executed replays can lengthen it to.
    pub window_max: Nanos,
}

impl Default for RecoveryTunables {
    fn default() -> RecoveryTunables {
        RecoveryTunables { window: Nanos::from_secs(300), window_max: Nanos::from_secs(900) }
    }
}

/// The phase of a recovery: which requests are executed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Replays of changes, in the order of their transactions.
    Requests,
    /// Replays of locks.
    Locks,
    /// Everything: recovery is over.
    Over,
}

/// What a client has said so far.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    connected: bool,
    requests_done: bool,
    locks_done: bool,
    /// The last transaction that it has replayed.
    last_replay: u64,
}

/// Recovery of a target: from its restart until all clients that it knew are done or given up.
#[derive(Debug)]
pub struct Recovery {
    tunables: RecoveryTunables,
    clients: BTreeMap<Vec<u8>, Progress>,
    /// Replays that wait, by transaction: whose, and the number of the request.
    replays: BTreeMap<u64, (Vec<u8>, u64)>,
    /// From the first connect on.
    started: Option<Time>,
    deadline: Time,
}

impl Recovery {
    /// Begins with the clients that the target knew before.
    pub fn new(tunables: RecoveryTunables, clients: impl IntoIterator<Item = Vec<u8>>) -> Recovery {
        let clients = clients.into_iter().map(|uuid| (uuid, Progress::default()));
        Recovery {
            tunables,
            clients: clients.collect(),
            replays: BTreeMap::new(),
            started: None,
            deadline: Time::NEVER,
        }
    }

    /// Whether a client was known before the restart, and is not given up.
    pub fn knows(&self, uuid: &[u8]) -> bool {
        self.clients.contains_key(uuid)
    }

    /// A client that was known has connected, for the first time or again: what it replays comes
    /// from its start. Returns the requests of it that waited, which are void.
    pub fn connected(&mut self, now: Time, uuid: &[u8]) -> Vec<u64> {
        let started = *self.started.get_or_insert(now);
        if self.deadline == Time::NEVER {
            self.deadline = started + self.tunables.window;
        }
        if let Some(client) = self.clients.get_mut(uuid) {
            *client = Progress { connected: true, ..Progress::default() };
        }
        self.drop_replays(uuid)
    }

    fn drop_replays(&mut self, uuid: &[u8]) -> Vec<u64> {
        let mut dropped = Vec::new();
        self.replays.retain(|_, (whose, request)| {
            let keep = whose != uuid;
            if !keep {
                dropped.push(*request);
            }
            keep
        });
        dropped
    }

    /// A client is gone or given up. Returns the requests of it that waited.
    pub fn remove(&mut self, uuid: &[u8]) -> Vec<u64> {
        self.clients.remove(uuid);
        self.drop_replays(uuid)
    }

    /// Whether it is not the turn of a replay: its client has replayed a later transaction since it
    /// connected, or waits for the answer to another one. Replays come one at a time, in their
    /// order [IMP-10]; [`Recovery::next_replay`] counts on that.
    pub fn is_out_of_turn(&self, uuid: &[u8], transno: u64) -> bool {
        let later = |client: &Progress| transno < client.last_replay;
        self.clients.get(uuid).is_some_and(later)
            || self.replays.iter().any(|(other, (whose, _))| *other != transno && whose == uuid)
    }

    /// A client replays a transaction: the request waits for its turn. Returns a request that
    /// waited with the same number, which is void.
    pub fn queue(&mut self, uuid: &[u8], transno: u64, request: u64) -> Option<u64> {
        if let Some(client) = self.clients.get_mut(uuid) {
            client.last_replay = client.last_replay.max(transno);
        }
        self.replays.insert(transno, (uuid.to_vec(), request)).map(|(_, request)| request)
    }

    /// The client has replayed all its changes.
    pub fn requests_done(&mut self, uuid: &[u8]) {
        if let Some(client) = self.clients.get_mut(uuid) {
            client.requests_done = true;
        }
    }

    /// The client has replayed all its locks.
    pub fn locks_done(&mut self, uuid: &[u8]) {
        if let Some(client) = self.clients.get_mut(uuid) {
            client.requests_done = true;
            client.locks_done = true;
        }
    }

    /// The phase of a recovery: which requests are executed now.
    pub fn phase(&self) -> Phase {
        if !self.replays.is_empty() || self.clients.values().any(|client| !client.requests_done) {
            Phase::Requests
        } else if self.clients.values().any(|client| !client.locks_done) {
            Phase::Locks
        } else {
            Phase::Over
        }
    }

    /// The replay whose turn it is: the lowest one, once every client has one waiting or is done.
    /// After that lower ones cannot come.
    pub fn next_replay(&mut self, now: Time) -> Option<u64> {
        let waiting: BTreeSet<&[u8]> =
            self.replays.values().map(|(uuid, _)| uuid.as_slice()).collect();
        let ready = |(uuid, client): (&Vec<u8>, &Progress)| {
            client.requests_done || waiting.contains(uuid.as_slice())
        };
        if !self.clients.iter().all(ready) {
            return None;
        }
        let (_, (_, request)) = self.replays.pop_first()?;
        // There is work: clients that wait for their turn are not given up meanwhile.
        if let Some(started) = self.started {
            let most = started + self.tunables.window_max;
            let least = now + Nanos::from_secs(self.tunables.window.0 / 4 / 1_000_000_000);
            self.deadline = self.deadline.max(least).min(most);
        }
        Some(request)
    }

    /// Clients that are not done when the time is over: they are to be evicted. Those that have
    /// something waiting get the same time once more, up to the largest one.
    pub fn overdue(&mut self, now: Time) -> Vec<Vec<u8>> {
        if now < self.deadline {
            return Vec::new();
        }
        let most = self.started.map_or(now, |started| started + self.tunables.window_max);
        let waiting: BTreeSet<Vec<u8>> =
            self.replays.values().map(|(uuid, _)| uuid.clone()).collect();
        let late = |(uuid, client): &(&Vec<u8>, &Progress)| {
            !client.locks_done && (now >= most || !waiting.contains(*uuid) || !client.connected)
        };
        let late = self.clients.iter().filter(late).map(|(uuid, _)| uuid.clone()).collect();
        self.deadline = (now + self.tunables.window).min(most.max(now + Nanos(1)));
        late
    }

    /// When [`Recovery::overdue`] has something to say next.
    pub fn next_deadline(&self) -> Time {
        self.deadline
    }
}
