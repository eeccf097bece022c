//! A Lustrine node: its CPU partitions, and the surroundings that event loops would provide.

mod cpt;
mod service;
mod spec;

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::lnd::NiIndex;
use lustrine_lnet::shard::PeerTableFull;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_lnet::topology::home_of;
use lustrine_partition::{Change, NodePartition, ProbeId, ProbeResult, StreamReport};
use lustrine_selftest::{Client, ClientSlot};
use lustrine_socklnd::io::SockId;
use lustrine_wire::nid::Nid;

use crate::costs::{CpuCost, WaitTotals};
use crate::event_log::EventKind;
use crate::memory::Usage;
use crate::network::{HostId, Incoming, Network};
use crate::recording::{Recorder, SourceId};
use crate::rng::Rng;
use cpt::{Cpt, LoopMessage};
pub use service::NodeService;
pub use spec::NodeSpec;

/// A running node.
pub struct Node {
    spec: NodeSpec,
    host: HostId,
    cpts: Vec<Cpt>,
    /// By partition; empty while nothing is recorded.
    sources: Vec<SourceId>,
    rng: Rng,
    baseline: Usage,
    tickets: u64,
    asked: BTreeSet<u64>,
    results: BTreeMap<u64, Vec<ProbeResult>>,
    complaints: Vec<String>,
    /// Messages and bytes whose CPU time has been accounted.
    worked: (u64, u64),
    waits: WaitTotals,
    /// The time up to which the sums of `waits` are complete.
    counted_to: Time,
}

impl Node {
    /// Starts on a host, and listens.
    pub(crate) fn start(
        spec: NodeSpec,
        host: HostId,
        network: &mut Network,
        recorder: Option<&mut Recorder>,
    ) -> Node {
        let cpts = (0..spec.cpts.max(1)).map(|cpt| Cpt::start(&spec, cpt, host, network));
        let mut cpts: Vec<Cpt> = cpts.collect();
        let sources = recorder.map(|recorder| {
            let mut sources = Vec::new();
            for (cpt, number) in cpts.iter_mut().zip(0..) {
                sources.push(recorder.join(spec.nids[0], number, &mut cpt.partition));
            }
            sources
        });
        for door in spec.doors() {
            network.listen(host, door);
        }
        let mut node = Node {
            host,
            cpts,
            sources: sources.unwrap_or_default(),
            rng: Rng::new(spec.seed),
            baseline: Usage::default(),
            tickets: 0,
            asked: BTreeSet::new(),
            results: BTreeMap::new(),
            complaints: Vec::new(),
            worked: (0, 0),
            waits: WaitTotals::default(),
            counted_to: network.now(),
            spec,
        };
        node.baseline = node.usage();
        node
    }

    /// Hands over its journals.
    pub(crate) fn report(&mut self, recorder: &mut Recorder) {
        for (cpt, source) in self.cpts.iter_mut().zip(&self.sources) {
            recorder.take(*source, &mut cpt.partition);
        }
    }

    /// The largest number of consecutive turns after which one of its loops had nothing to do and
    /// yet requested the next turn at once: a loop that spins.
    pub fn idle_turns_max(&self) -> u64 {
        self.cpts.iter().map(|cpt| cpt.idle_turns_max).max().unwrap_or_default()
    }

    /// When it last had a turn.
    pub(crate) fn last_turn(&self) -> Time {
        self.counted_to
    }

    /// Its specification.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// Its first partition, for inspection.
    pub fn partition(&self) -> &NodePartition {
        &self.cpts[0].partition
    }

    /// All its partitions.
    pub fn partitions(&self) -> impl Iterator<Item = &NodePartition> {
        self.cpts.iter().map(|cpt| &cpt.partition)
    }

    /// Its selftest client in a slot, if there is one; its loop has a turn afterwards.
    pub fn client(&mut self, slot: ClientSlot) -> Option<&mut Client> {
        self.cpts.iter_mut().find_map(|cpt| {
            cpt.stirred = true;
            cpt.partition.client(slot)
        })
    }

    /// The same, for inspection.
    pub(crate) fn peek(&mut self, slot: ClientSlot) -> Option<&Client> {
        self.cpts.iter_mut().find_map(|cpt| cpt.partition.client(slot)).map(|client| &*client)
    }

    /// Memory in use.
    pub fn usage(&self) -> Usage {
        self.cpts.iter().fold(Usage::default(), |sum, cpt| {
            let usage = cpt.memory.usage();
            Usage {
                spans: sum.spans + usage.spans,
                bytes: sum.bytes + usage.bytes,
                bytes_max: sum.bytes_max + usage.bytes_max,
            }
        })
    }

    /// Memory in use when it had just started.
    pub fn baseline(&self) -> Usage {
        self.baseline
    }

    /// What it did that no node may do: a driver changed memory that the system still refers to.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The tickets of requested probes, and how many results each has.
    pub fn tickets(&self) -> impl Iterator<Item = (ProbeId, usize)> + '_ {
        let count = |ticket: &u64| self.results.get(ticket).map_or(0, Vec::len);
        let known = self.asked.iter().map(move |ticket| (ProbeId(*ticket), count(ticket)));
        let unasked = self.results.iter().filter(|(ticket, _)| !self.asked.contains(ticket));
        known.chain(unasked.map(|(ticket, results)| (ProbeId(*ticket), results.len())))
    }

    /// The result of a probe, when it has one.
    pub fn result(&self, ticket: ProbeId) -> Option<&ProbeResult> {
        self.results.get(&ticket.0)?.first()
    }

    pub(crate) fn ping(&mut self, network: &mut Network, nid: &Nid, timeout: Nanos) -> ProbeId {
        let (ticket, now) = (self.next_ticket(), network.now());
        let (host, cpt) = (self.host, self.home(nid));
        let (partition, mut io) = cpt.at_work(host, network);
        partition.ping(now, &mut io, ticket, nid, timeout);
        ticket
    }

    pub(crate) fn discover(&mut self, network: &mut Network, nid: &Nid, timeout: Nanos) -> ProbeId {
        let (ticket, now) = (self.next_ticket(), network.now());
        let (host, cpt) = (self.host, self.home(nid));
        let (partition, mut io) = cpt.at_work(host, network);
        partition.discover(now, &mut io, ticket, nid, timeout);
        ticket
    }

    /// Applies a change on all its partitions at once; the first failure is returned.
    pub(crate) fn change(
        &mut self,
        network: &mut Network,
        change: &Change,
    ) -> Result<(), PeerTableFull> {
        let (now, host) = (network.now(), self.host);
        let mut changed = Ok(());
        for cpt in &mut self.cpts {
            let (partition, mut io) = cpt.at_work(host, network);
            changed = changed.and(partition.change(now, &mut io, change));
        }
        changed
    }

    fn next_ticket(&mut self) -> ProbeId {
        self.tickets += 1;
        self.asked.insert(self.tickets);
        ProbeId(self.tickets)
    }

    fn home_index(&self, nid: &Nid) -> usize {
        usize::from(home_of(nid, self.cpts.len() as u16))
    }

    fn home(&mut self, nid: &Nid) -> &mut Cpt {
        let home = self.home_index(nid);
        &mut self.cpts[home]
    }

    /// The partition of a peer, which gets something to do.
    pub(crate) fn partition_of(&mut self, nid: &Nid) -> &mut NodePartition {
        self.home(nid).stirred()
    }

    /// The first partition, which gets something to do.
    pub(crate) fn partition_mut(&mut self) -> &mut NodePartition {
        self.cpts[0].stirred()
    }

    /// Gives a turn to each of its loops that has a reason for one. Returns the latest time of its
    /// next turn.
    pub(crate) fn turn(&mut self, network: &mut Network) -> Time {
        let (now, host) = (network.now(), self.host);
        if now != self.counted_to {
            self.waits = self.waits(now);
            self.counted_to = now;
        }
        self.take_in(network);
        let count = self.cpts.len();
        let first = self.rng.below(count as u64) as usize;
        for index in (0..count).map(|index| (index + first) % count) {
            if !self.cpts[index].has_reason(now) {
                continue;
            }
            let reports = self.cpts[index].turn(host, network);
            network.note(host, SockId(index as u64), EventKind::Turn, reports);
            self.carry_letters(index, network);
            while let Some((ticket, result)) = self.cpts[index].partition.next_result() {
                network.note(host, SockId(0), EventKind::Result, ticket.0);
                self.results.entry(ticket.0).or_default().push(result);
            }
        }
        let skew = self.spec.skew.0;
        let cpts = self.cpts.iter_mut();
        cpts.map(|cpt| cpt.next_turn(now, skew, &mut self.rng)).min().unwrap_or(Time::NEVER)
    }

    /// Passes reports of the network to the loops that they concern.
    fn take_in(&mut self, network: &mut Network) {
        let (now, host) = (network.now(), self.host);
        while let Some(incoming) = network.next_incoming(host) {
            let ni = self.spec.nids.iter().position(|nid| nid.ip() == Some(incoming.local.ip()));
            let ni = NiIndex(ni.expect("a listener of this node") as u16);
            // The first loop has the listeners.
            let (partition, mut io) = self.cpts[0].at_work(host, network);
            let Incoming { sock, local, remote } = incoming;
            partition.report(now, &mut io, StreamReport::Accepted { sock, ni, local, remote });
        }
        while let Some((sock, report)) = network.next_report(host) {
            let cpt = &mut self.cpts[usize::from(network.cpt_of(sock))];
            for lent in &report.returned {
                if cpt.memory.digest(lent.span) != Some(lent.digest) {
                    self.complaints.push(format!("{now:?}: {lent:?} was changed while in use"));
                }
            }
            cpt.reports.push((sock, report.readiness));
        }
    }

    /// Carries messages from one loop to the others; the messages to one loop arrive in the order
    /// in which they were sent.
    fn carry_letters(&mut self, from: usize, network: &mut Network) {
        let now = network.now();
        let partition = &mut self.cpts[from].partition;
        let mut messages = Vec::new();
        while let Some((home, handoff)) = partition.next_handoff() {
            network.give_to(handoff.sock, home);
            messages.push((home, LoopMessage::Handoff(Box::new(handoff))));
        }
        while let Some((cpt, cross)) = partition.take_cpt_message() {
            messages.push((cpt, LoopMessage::CptMessage(Box::new(cross))));
        }
        for (to, message) in messages {
            let at = now + Nanos(self.rng.below(self.spec.skew.0 + 1));
            self.cpts[usize::from(to)].post(from, at, message);
        }
    }

    /// CPU time of what it did since the last call.
    pub(crate) fn work_done(&mut self, cost: &CpuCost) -> Nanos {
        let mut now = (0, 0);
        for partition in self.partitions() {
            let stats = partition.shard().stats();
            now.0 += stats.sent.total() + stats.received.total();
            now.1 += stats.send_length + stats.recv_length;
        }
        let before = core::mem::replace(&mut self.worked, now);
        let took = cost.of(now.0 - before.0, now.1 - before.1);
        self.waits.messages = now.0;
        self.waits.cpu += took.0;
        took
    }

    /// What its messages have waited for until now.
    pub(crate) fn waits(&self, now: Time) -> WaitTotals {
        let passed = now.since(self.counted_to).0;
        let mut waits = self.waits;
        for cpt in &self.cpts {
            let waiting = cpt.partition.shard().waiting();
            waits.peer_credits += waiting.peer_credits * passed;
            waits.ni_credits += waiting.ni_credits * passed;
            for peer in cpt.partition.driver().peers() {
                waits.driver += (peer.waiting + peer.tx_messages) as u64 * passed;
                waits.zero_copy += peer.zero_copy as u64 * passed;
            }
        }
        waits
    }

    /// Closes its connections in an orderly way.
    pub(crate) fn close(&mut self, network: &mut Network, status: Status) {
        let now = network.now();
        for cpt in &mut self.cpts {
            let (partition, mut io) = cpt.at_work(self.host, network);
            partition.close(now, &mut io, status);
        }
    }
}
