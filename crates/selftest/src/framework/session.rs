//! The session of a node, and those that are over but not finished [LST-12].

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{MakeSessionRequest, Name, Sid};

use super::batch::Batch;
use crate::cpt_message::InstanceId;
use crate::limits::{BATCHES_MAX, CONSOLE_NIDS_MAX};

/// The session a node is in.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) sid: Sid,
    pub(super) name: Name,
    /// Those of the request that made it.
    pub(super) features: u32,
    /// How often it was made; it ends when it was removed as often.
    pub(super) references: u32,
    pub(super) made: Time,
    /// The NID of the console that made it, `0@lo` for one inside this node.
    pub(super) console: Nid,
    /// The partition that knows the console's node: its request arrived there.
    pub(super) home: u16,
    /// Other NIDs of the console's node that requests came from.
    other_nids: Vec<Nid>,
    /// Whether only consoles that may have this node send load may change it.
    pub(super) controlled: bool,
    /// Distinguishes it from sessions before and after it, whatever their ids.
    pub(super) epoch: u64,
    batches: Vec<Batch>,
}

/// Who makes a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker {
    /// See [`Session::console`].
    pub(super) console: Nid,
    /// See [`Session::home`].
    pub(super) home: u16,
    /// See [`Session::controlled`].
    pub(super) controlled: bool,
}

impl Session {
    pub(super) fn new(
        now: Time,
        epoch: u64,
        features: u32,
        maker: Maker,
        wanted: &MakeSessionRequest,
    ) -> Session {
        Session {
            sid: wanted.sid,
            name: wanted.name,
            features,
            references: 1,
            made: now,
            console: maker.console,
            home: maker.home,
            other_nids: Vec::new(),
            controlled: maker.controlled,
            epoch,
            batches: Vec::new(),
        }
    }

    /// Whether a NID is known to be one of the node of its console.
    pub(super) fn is_of(&self, nid: &Nid) -> bool {
        self.console == *nid || self.other_nids.contains(nid)
    }

    /// Notes another NID of the console's node.
    pub(super) fn note_nid(&mut self, nid: Nid) {
        if self.other_nids.len() < CONSOLE_NIDS_MAX && !self.is_of(&nid) {
            self.other_nids.push(nid);
        }
    }

    pub(super) fn batch(&self, id: u64) -> Option<&Batch> {
        self.batches.iter().find(|batch| batch.id == id)
    }

    pub(super) fn batch_mut(&mut self, id: u64) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| batch.id == id)
    }

    /// The batch with this id, made if it is unknown [LST-14]; `None` when there are too
    /// many.
    pub(super) fn obtain_batch(&mut self, id: u64) -> Option<&mut Batch> {
        if let Some(at) = self.batches.iter().position(|batch| batch.id == id) {
            return self.batches.get_mut(at);
        }
        if self.batches.len() == BATCHES_MAX {
            return None;
        }
        self.batches.push(Batch::new(id));
        self.batches.last_mut()
    }

    pub(super) fn active_batches(&self) -> u32 {
        self.batches.iter().filter(|batch| batch.is_active()).count() as u32
    }

    /// Tests in which this node is a client.
    pub(super) fn client_tests(&self) -> usize {
        self.batches.iter().flat_map(Batch::clients).count()
    }

    /// Client units of all its tests.
    pub(super) fn units(&self) -> u32 {
        self.batches.iter().map(Batch::units).sum()
    }

    /// Notes that units of an instance ended; `false` when it is none of this session's.
    pub(super) fn ended(&mut self, instance: InstanceId, units: u32) -> bool {
        self.batches.iter_mut().any(|batch| batch.ended(instance, units))
    }

    pub(super) fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// When the next batch is to be stopped.
    pub(super) fn next_stop(&self) -> Time {
        self.batches.iter().map(|batch| batch.stops_at).min().unwrap_or(Time::NEVER)
    }

    /// A batch that is to be stopped now; it is named once.
    pub(super) fn take_overdue(&mut self, now: Time) -> Option<&Batch> {
        let batch = self.batches.iter_mut().find(|batch| batch.stops_at <= now)?;
        batch.stops_at = Time::NEVER;
        Some(batch)
    }
}

/// Sessions that are over while units of theirs still finish an RPC.
#[derive(Debug)]
pub(super) struct EndedSessions {
    /// Instance to its session's epoch, its units, and how many of them are active.
    instances: HashMap<InstanceId, (u64, u32, u32), FixedState>,
}

impl EndedSessions {
    pub(super) fn new() -> EndedSessions {
        EndedSessions { instances: HashMap::with_hasher(FixedState::default()) }
    }

    /// Takes over what is still active.
    pub(super) fn adopt(&mut self, session: &Session) {
        for client in session.batches().iter().flat_map(Batch::clients) {
            if client.active > 0 {
                let entry = (session.epoch, client.units, client.active);
                self.instances.insert(client.instance, entry);
            }
        }
    }

    /// Notes that units of an instance ended.
    pub(super) fn ended(&mut self, instance: InstanceId, units: u32) {
        if let Some((_, _, active)) = self.instances.get_mut(&instance) {
            *active = active.saturating_sub(units);
            if *active == 0 {
                self.instances.remove(&instance);
            }
        }
    }

    /// Sessions among them.
    pub(super) fn sessions(&self) -> u32 {
        let mut epochs: Vec<u64> = self.instances.values().map(|(epoch, ..)| *epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        epochs.len() as u32
    }

    /// Client units that exist because of them.
    pub(super) fn units(&self) -> u32 {
        self.instances.values().map(|(_, units, _)| *units).sum()
    }
}
