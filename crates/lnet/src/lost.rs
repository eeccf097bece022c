//! Reports of lost peers, on their way to the users of a shard.
//!
//! A report must not get lost, whatever other peers do: a service that misses one waits for a
//! time-out instead. So a peer has at most one report in the queue, which its next loss replaces.
//! Nodes have entries in the table of peers, and that limits their reports. Userland processes are
//! distinguished by their ports; they have a queue with a limit of its own, which they cannot use
//! to crowd out a node.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use lustrine_wire::nid::ProcessId;
use slotmap::{SlotMap, new_key_type};

use crate::status::Status;
use crate::wait_queue::{WaitQueue, WaitQueues};

/// Most reports kept of userland processes: as many as there are connections by default. The
/// oldest makes room. A user that takes reports once per turn never comes near this.
pub(crate) const USERLAND_MAX: usize = 16_384;

new_key_type! {
    struct ReportKey;
}

/// A peer lost its last connection, or restarted.
#[derive(Clone, Copy, Debug)]
struct Report {
    peer: ProcessId,
    status: Status,
    /// Number of events raised before it: they are taken first.
    events: u64,
    /// Number of reports made before it.
    order: u64,
}

/// All reports that no user has taken yet.
#[derive(Debug)]
pub(crate) struct LostPeers {
    reports: SlotMap<ReportKey, Report>,
    by_peer: HashMap<ProcessId, ReportKey, FixedState>,
    queues: WaitQueues<ReportKey>,
    nodes: WaitQueue<ReportKey>,
    userland: WaitQueue<ReportKey>,
    made: u64,
}

impl LostPeers {
    pub(crate) fn new(seed: u64) -> LostPeers {
        LostPeers {
            reports: SlotMap::with_key(),
            by_peer: HashMap::with_hasher(FixedState::with_seed(seed)),
            queues: WaitQueues::new(),
            nodes: WaitQueue::default(),
            userland: WaitQueue::default(),
            made: 0,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }

    /// Adds a report behind the first `events` events.
    pub(crate) fn add(&mut self, peer: ProcessId, status: Status, events: u64) {
        if let Some(key) = self.by_peer.get(&peer).copied() {
            self.remove(key);
        } else if peer.is_userland()
            && self.userland.len() >= USERLAND_MAX
            && let Some(oldest) = self.userland.first()
        {
            self.remove(oldest);
        }
        self.made += 1;
        let key = self.reports.insert(Report { peer, status, events, order: self.made });
        self.by_peer.insert(peer, key);
        let queue = if peer.is_userland() { &mut self.userland } else { &mut self.nodes };
        self.queues.push_back(queue, key);
    }

    /// Takes the oldest report, unless fewer than its number of events were `taken`.
    #[inline]
    pub(crate) fn next(&mut self, taken: u64) -> Option<(ProcessId, Status)> {
        if self.reports.is_empty() {
            return None;
        }
        self.take_oldest(taken)
    }

    fn take_oldest(&mut self, taken: u64) -> Option<(ProcessId, Status)> {
        let heads = [self.nodes.first(), self.userland.first()];
        let key = heads.into_iter().flatten().min_by_key(|key| self.reports[*key].order)?;
        let Report { peer, status, events, .. } = self.reports[key];
        if taken < events {
            return None;
        }
        self.remove(key);
        Some((peer, status))
    }

    fn remove(&mut self, key: ReportKey) {
        let Some(report) = self.reports.remove(key) else { return };
        self.by_peer.remove(&report.peer);
        let queue = if report.peer.is_userland() { &mut self.userland } else { &mut self.nodes };
        self.queues.remove(queue, key);
    }
}

#[cfg(test)]
mod tests {
    use lustrine_wire::nid::{Net, Nid, PID_LUSTRE, PID_USERLAND};

    use super::*;

    fn node(number: u32) -> ProcessId {
        ProcessId { nid: Nid::new4(Net::TCP, number), pid: PID_LUSTRE }
    }

    fn process(number: u32) -> ProcessId {
        ProcessId { pid: PID_USERLAND | number, ..node(1) }
    }

    const LOST: Status = Status::ConnectionLost;

    #[test]
    fn reports_come_in_order_and_behind_the_events_before_them() {
        let mut lost = LostPeers::new(1);
        lost.add(node(1), LOST, 3);
        lost.add(process(5), LOST, 3);
        lost.add(node(2), Status::PeerRestarted, 4);
        assert_eq!(lost.next(2), None);
        assert_eq!(lost.next(3), Some((node(1), LOST)));
        assert_eq!(lost.next(3), Some((process(5), LOST)));
        assert_eq!(lost.next(3), None);
        assert_eq!(lost.next(4), Some((node(2), Status::PeerRestarted)));
        assert_eq!(lost.next(9), None);
    }

    /// Strangers that come and go do not push out the report of another peer.
    #[test]
    fn a_flood_of_losses_pushes_no_other_report_out() {
        let mut lost = LostPeers::new(1);
        lost.add(node(7), LOST, 0);
        lost.add(process(7), LOST, 0);
        for _ in 0..100_000 {
            lost.add(node(8), LOST, 0);
            lost.add(process(8), LOST, 0);
        }
        let all: Vec<_> = core::iter::from_fn(|| lost.next(0)).map(|(peer, _)| peer).collect();
        assert_eq!(all, [node(7), process(7), node(8), process(8)]);
    }

    #[test]
    fn userland_processes_have_a_limit_of_their_own() {
        let mut lost = LostPeers::new(1);
        lost.add(node(7), LOST, 0);
        for number in 0..USERLAND_MAX as u32 + 10 {
            lost.add(process(number), LOST, 0);
        }
        assert_eq!(lost.next(0), Some((node(7), LOST)));
        assert_eq!(lost.next(0), Some((process(10), LOST)));
        assert_eq!(lost.reports.len(), USERLAND_MAX - 1);
    }

    #[test]
    fn the_latest_loss_of_a_peer_replaces_the_one_before() {
        let mut lost = LostPeers::new(1);
        lost.add(node(1), LOST, 1);
        lost.add(node(2), LOST, 2);
        lost.add(node(1), Status::PeerRestarted, 3);
        assert_eq!(lost.next(2), Some((node(2), LOST)));
        assert_eq!(lost.next(3), Some((node(1), Status::PeerRestarted)));
        assert_eq!(lost.next(3), None);
    }
}
