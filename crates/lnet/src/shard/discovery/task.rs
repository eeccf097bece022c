//! The core's own pings and pushes, from the message to the use of its answer.

use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::ping::{DEFAULT_BUFFER_LEN, PingError, PingInfo};

use super::{PING_BITS, PING_PORTAL, USERLAND_PAUSE};
use crate::event::{Event, EventKind};
use crate::lnd::NiIndex;
use crate::md::{Md, MdKey, MdOptions, Owner};
use crate::memory::{Memory, Span};
use crate::peer::{PeerKey, PeerNiKey, Phase};
use crate::shard::{AckWanted, GetArgs, PutArgs, Shard};
use crate::status::Status;
use crate::time::{Nanos, Time};
use crate::topology::Identity;

/// A ping or push of ours that is in flight.
#[derive(Debug)]
pub(in crate::shard) struct PingPushTask {
    peer: PeerKey,
    /// The NID that it goes to.
    contact: Nid,
    buffer: Span,
    kind: TaskKind,
    /// The first failure.
    failure: Option<Status>,
    /// Length in bytes of the reply, or of the push that the peer stored, once it has arrived.
    answered: Option<u32>,
    /// The NID that it goes to, or the interface that it left by, was removed.
    interrupted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskKind {
    Ping,
    /// A ping outside of a round; messages are sent meanwhile.
    Recheck,
    Push {
        sequence: u32,
    },
    /// A push outside of a round; messages are sent meanwhile.
    Update {
        sequence: u32,
    },
}

impl Shard {
    pub(super) fn start_ping(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        sink: u32,
    ) -> Result<(), Status> {
        let contact = self.peers.peers[key].contact;
        self.peers.peers[key].phase = Phase::Pinging { sink };
        self.send_ping(now, memory, key, contact, TaskKind::Ping, sink)
    }

    fn send_ping(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        contact: Nid,
        kind: TaskKind,
        sink: u32,
    ) -> Result<(), Status> {
        let buffer = memory.alloc(sink).ok_or(Status::NoMemory)?;
        let md = self.start_task(key, contact, buffer, kind);
        let target = ProcessId { nid: contact, pid: PID_LUSTRE };
        let args = GetArgs {
            md,
            local: None,
            target,
            portal: PING_PORTAL,
            match_bits: PING_BITS,
            offset: 0,
            timeout: Some(self.task_timeout()),
        };
        self.get(now, args).map_err(|_| self.abandon_task(memory, md))
    }

    pub(super) fn start_push(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        left: u8,
    ) -> Result<(), Status> {
        let contact = self.peers.peers[key].contact;
        self.peers.peers[key].phase = Phase::Pushing { left };
        let sequence = self.discovery.ping.sequence;
        self.send_push(now, memory, key, contact, TaskKind::Push { sequence })
    }

    fn send_push(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        contact: Nid,
        kind: TaskKind,
    ) -> Result<(), Status> {
        let bytes = self.own_info();
        let buffer = memory.alloc(bytes.len() as u32).ok_or(Status::NoMemory)?;
        memory.write(buffer, &bytes);
        let md = self.start_task(key, contact, buffer, kind);
        let target = ProcessId { nid: contact, pid: PID_LUSTRE };
        let args = PutArgs {
            md,
            local: None,
            target,
            portal: PING_PORTAL,
            match_bits: PING_BITS,
            offset: 0,
            hdr_data: 0,
            ack: AckWanted::Yes,
            timeout: Some(self.task_timeout()),
        };
        self.put(now, args).map_err(|_| self.abandon_task(memory, md))
    }

    /// The driver's share of the transaction timeout, so that messages that wait for discovery fail
    /// before their own deadline.
    fn task_timeout(&self) -> Nanos {
        Nanos::from_secs(self.topology.tunables.lnd_timeout() as u64)
    }

    fn start_task(&mut self, peer: PeerKey, contact: Nid, buffer: Span, kind: TaskKind) -> MdKey {
        let md = Md {
            spans: [buffer].into_iter().collect(),
            threshold: Some(2),
            max_size: None,
            options: MdOptions::empty(),
            owner: Owner::LNET,
            user: 0,
        };
        let md = self.bind(md).expect("ping information fits a message");
        let task = PingPushTask {
            peer,
            contact,
            buffer,
            kind,
            failure: None,
            answered: None,
            interrupted: false,
        };
        self.discovery.tasks.insert(md, task);
        md
    }

    /// Removes a task whose message could not be queued.
    fn abandon_task(&mut self, memory: &mut impl Memory, md: MdKey) -> Status {
        if let Some(task) = self.discovery.tasks.remove(&md) {
            memory.free(task.buffer);
        }
        self.remove_md(md);
        Status::NoMemory
    }

    /// Handles an event of a task's descriptor; ignores those of other descriptors.
    pub(super) fn task_event(&mut self, now: Time, memory: &mut impl Memory, event: &Event) {
        let Some(task) = self.discovery.tasks.get_mut(&event.md) else { return };
        if !event.status.is_ok() {
            task.failure.get_or_insert(event.status);
        } else if matches!(event.kind, EventKind::Reply | EventKind::Ack) {
            task.answered = Some(event.moved);
        }
        if !event.unlinked {
            return;
        }
        let task = self.discovery.tasks.remove(&event.md).expect("it was just there");
        let mut bytes = vec![0; task.answered.unwrap_or(0).min(task.buffer.len) as usize];
        if matches!(task.kind, TaskKind::Ping | TaskKind::Recheck) {
            memory.read(task.buffer, &mut bytes);
        }
        memory.free(task.buffer);
        if !self.peers.peers.contains_key(task.peer) {
            return;
        }
        match (task.answered, task.kind) {
            (Some(_), TaskKind::Ping) => self.ping_answered(now, memory, &task, &bytes),
            (Some(_), TaskKind::Recheck) => self.check_answered(now, memory, &task, &bytes),
            (None, TaskKind::Recheck) => self.peers.peers[task.peer].recheck_in_flight = false,
            (answered, TaskKind::Update { sequence }) => {
                let peer = &mut self.peers.peers[task.peer];
                peer.update_in_flight = false;
                if answered.is_some() {
                    peer.confirmed = Some(sequence);
                    if sequence != self.discovery.ping.sequence {
                        // Our information has changed meanwhile.
                        self.push_update(now, memory, task.peer, task.contact);
                    }
                }
            }
            (Some(_), TaskKind::Push { sequence }) => {
                self.push_confirmed(now, memory, task.peer, sequence);
            }
            (None, kind) => {
                let status = task.failure.unwrap_or(Status::TimedOut);
                let known = self.peers.peers[task.peer].features.is_some();
                let essential = self.topology.identity == Identity::Userland;
                if matches!(kind, TaskKind::Push { .. }) && known && !essential {
                    // The ping succeeded, so messages can be sent; the peer can ping this node.
                    self.discovered(now, task.peer, status);
                } else if !(task.interrupted && self.begin_again(task.peer)) {
                    self.discovery_failed(now, task.peer, status);
                }
            }
        }
    }

    /// Begins a round again that was interrupted: through a NID that messages wait for, if there is
    /// one. Whether any NID of the peer can be reached.
    fn begin_again(&mut self, key: PeerKey) -> bool {
        let members = self.peers.peers[key].members.iter().map(|ni| &self.peers.nis[*ni]);
        let reachable = members.filter(|ni| self.topology.ni_on(ni.nid.net()).is_some());
        let next = reachable.min_by_key(|ni| ni.parked.is_empty()).map(|ni| ni.nid);
        if let Some(nid) = next {
            self.request_round(key, nid);
        }
        next.is_some()
    }

    /// Notes that NIDs are removed: the rounds that ping them, or push to them, begin again.
    pub(in crate::shard) fn interrupt_tasks_to(&mut self, is_removed: impl Fn(PeerNiKey) -> bool) {
        for task in self.discovery.tasks.values_mut() {
            task.interrupted |= self.peers.find(&task.contact).is_some_and(&is_removed);
        }
    }

    /// Notes that an interface is removed: the rounds that use it begin again.
    pub(in crate::shard) fn interrupt_tasks_by(&mut self, index: NiIndex) {
        for (md, task) in &mut self.discovery.tasks {
            let left_by = self.mds.get(*md).and_then(|state| state.left_by);
            task.interrupted |= left_by == Some(index);
        }
    }

    fn ping_answered(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        task: &PingPushTask,
        bytes: &[u8],
    ) {
        let mut key = task.peer;
        let Phase::Pinging { sink } = self.peers.peers[key].phase else { return };
        let limit = self.topology.tunables.max_interfaces as u32;
        match PingInfo::parse_limited(bytes, limit) {
            Ok(info) => {
                let learned = self.learn(now, memory, task.contact, &info);
                if !self.peers.peers.contains_key(key) {
                    // The NID belongs to another peer now, whose own round continues if it has one.
                    let Some(other) = learned.map(|learned| learned.peer) else { return };
                    if !self.peers.peers[other].settled() {
                        return;
                    }
                    key = other;
                    self.peers.peers[key].contact = task.contact;
                }
            }
            Err(PingError::Truncated { announced, .. })
                if announced > sink as usize && announced <= self.info_len_max() as usize =>
            {
                if let Err(status) = self.start_ping(now, memory, key, announced as u32) {
                    self.discovery_failed(now, key, status);
                }
                return;
            }
            Err(_) => {
                self.discovery_failed(now, key, Status::Protocol);
                return;
            }
        }
        if self.must_push(key) {
            if let Err(status) = self.start_push(now, memory, key, 0) {
                self.discovered(now, key, status);
            }
        } else {
            self.discovered(now, key, Status::Ok);
        }
    }

    /// The answer to a ping outside of a round.
    fn check_answered(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        task: &PingPushTask,
        bytes: &[u8],
    ) {
        self.peers.peers[task.peer].recheck_in_flight = false;
        let limit = self.topology.tunables.max_interfaces as u32;
        let (key, contact) = (task.peer, task.contact);
        match PingInfo::parse_limited(bytes, limit) {
            Ok(info) => {
                if let Some(learned) = self.learn(now, memory, contact, &info) {
                    self.on_unsolicited_info(now, memory, &learned, contact);
                }
            }
            Err(PingError::Truncated { announced, .. })
                if announced > task.buffer.len as usize
                    && announced <= self.info_len_max() as usize =>
            {
                self.send_recheck(now, memory, key, contact, announced as u32);
            }
            Err(_) => {}
        }
    }

    /// Pings a live peer whose NIDs another peer claims, to learn whether they are one node. There
    /// is one such ping at a time, and messages are sent meanwhile.
    pub(super) fn recheck(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey) {
        let Some(peer) = self.peers.peers.get(key) else { return };
        if peer.recheck_in_flight || !peer.settled() {
            return;
        }
        let contact = self.peers.contact_nid(key);
        self.recheck_by(now, memory, key, contact);
    }

    /// Pings a peer by one of its NIDs, outside of a round.
    pub(super) fn recheck_by(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        contact: Nid,
    ) {
        if self.peers.peers[key].recheck_in_flight {
            return;
        }
        self.send_recheck(now, memory, key, contact, DEFAULT_BUFFER_LEN as u32);
    }

    fn send_recheck(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        contact: Nid,
        room: u32,
    ) {
        if !self.peers.is_member(key, &contact) {
            return;
        }
        let asked = self.send_ping(now, memory, key, contact, TaskKind::Recheck, room);
        self.peers.peers[key].recheck_in_flight = asked.is_ok();
    }

    /// Pushes to a peer, outside of a round. There is one such push at a time, so that a peer that
    /// does not confirm cannot make this node hold many.
    pub(in crate::shard) fn push_update(
        &mut self,
        now: Time,
        memory: &mut impl Memory,
        key: PeerKey,
        contact: Nid,
    ) {
        if self.peers.peers[key].update_in_flight || !self.peers.is_member(key, &contact) {
            return;
        }
        let sequence = self.discovery.ping.sequence;
        let pushed = self.send_push(now, memory, key, contact, TaskKind::Update { sequence });
        self.peers.peers[key].update_in_flight = pushed.is_ok();
    }

    fn push_confirmed(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey, sequence: u32) {
        let peer = &mut self.peers.peers[key];
        peer.confirmed = Some(sequence);
        let Phase::Pushing { left } = peer.phase else { return };
        if left == 0 && sequence == self.discovery.ping.sequence {
            self.discovered(now, key, Status::Ok);
        } else if left > 0 {
            let until = now + USERLAND_PAUSE;
            peer.phase = Phase::Pausing { left: left - 1, until };
            self.discovery.pauses.push_back((until, key));
        } else if let Err(status) = self.start_push(now, memory, key, 0) {
            self.discovery_failed(now, key, status);
        }
    }

    /// Sends the push that a pause has delayed.
    pub(super) fn end_pause(&mut self, now: Time, memory: &mut impl Memory, key: PeerKey) {
        let Some(peer) = self.peers.peers.get(key) else { return };
        let Phase::Pausing { left, until } = peer.phase else { return };
        if now < until {
            // An earlier round, which has failed, began this pause.
            return;
        }
        if !self.peers.is_member(key, &peer.contact) {
            // The NID was removed meanwhile.
            self.peers.peers[key].contact = self.peers.contact_nid(key);
        }
        if let Err(status) = self.start_push(now, memory, key, left) {
            self.discovery_failed(now, key, status);
        }
    }
}
