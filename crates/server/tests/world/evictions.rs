//! When servers forget clients, and when these learn of it.

use std::collections::BTreeMap;

use lustrine_client::Client;
use lustrine_lnet::time::Time;
use lustrine_server::Server;

/// A client at a target, by their indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) client: usize,
    pub(crate) target: usize,
}

/// What happened to clients since it is noted.
#[derive(Debug, Default)]
pub(crate) struct Evictions {
    /// Whether a target knows a client.
    known: BTreeMap<Place, bool>,
    /// How often a client has learnt that a target has forgotten it.
    counts: BTreeMap<Place, u64>,
    /// When targets have forgotten clients, in the order of time.
    pub(crate) forgotten: Vec<(Place, Time)>,
    /// When clients have learnt that.
    pub(crate) learned: Vec<(Place, Time)>,
    /// When clients that were idle have ended a connection, by which they held nothing any more.
    pub(crate) ended: Vec<(Place, Time)>,
    /// Connections of clients.
    exports: BTreeMap<Place, u64>,
}

impl Evictions {
    /// Notes which clients targets know now. It is called after all that the server does.
    pub(crate) fn look_at_server(&mut self, now: Time, server: &Server, clients: usize) {
        for (target, _) in TARGETS {
            for client in 0..clients {
                let place = Place { client, target };
                let knows = server.knows(target, format!("client-{client}").as_bytes());
                // A client without a connection has nothing that can be forgotten.
                let holds = self.exports.get(&place) != Some(&0);
                if self.known.insert(place, knows) == Some(true) && !knows && holds {
                    self.forgotten.push((place, now));
                }
            }
        }
    }

    /// Notes what clients know now.
    pub(crate) fn look_at_clients(&mut self, now: Time, clients: &[Client]) {
        for (number, client) in clients.iter().enumerate() {
            for view in client.imports() {
                let Some((target, _)) = TARGETS.into_iter().find(|(_, name)| *name == view.target)
                else {
                    continue;
                };
                let place = Place { client: number, target };
                let before = self.counts.insert(place, view.evictions).unwrap_or_default();
                if view.evictions > before {
                    self.learned.push((place, now));
                }
                let export = self.exports.insert(place, view.export).unwrap_or_default();
                if export != 0 && view.export == 0 {
                    self.ended.push((place, now));
                }
            }
        }
    }

    /// Whether a client has learnt of an eviction since a time.
    pub(crate) fn learned_since(&self, client: usize, since: Time) -> bool {
        self.learned.iter().any(|(place, at)| place.client == client && *at >= since)
    }

    /// When clients have nothing any more that a target has forgotten, in no order.
    pub(crate) fn over(&self) -> impl Iterator<Item = (Place, Time)> {
        self.learned.iter().chain(&self.ended).copied()
    }

    /// Evictions of a client from a target: when it was forgotten, and when that was over.
    pub(crate) fn of(&self, place: Place) -> Vec<(Time, Time)> {
        let forgotten = self.forgotten.iter().filter(|(other, _)| *other == place);
        let over = |from: Time| {
            let later = self.over().filter(|(other, at)| *other == place && *at >= from);
            later.map(|(_, at)| at).min().unwrap_or(Time::NEVER)
        };
        forgotten.map(|(_, from)| (*from, over(*from))).collect()
    }
}

/// The targets whose clients are looked at, and their names.
const TARGETS: [(usize, &str); 3] = [
    (super::MDT, "lustre-MDT0000_UUID"),
    (super::OST, "lustre-OST0000_UUID"),
    (super::OST + 1, "lustre-OST0001_UUID"),
];
