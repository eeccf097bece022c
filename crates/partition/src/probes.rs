//! Ping and discovery on request, as a service.

use std::collections::VecDeque;

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{Md, MdOptions, Owner};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::service::{Service, Turn};
use lustrine_lnet::shard::{GetArgs, PING_BITS, PING_PORTAL, PeerInfo, PeerState};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::ping::{NiStatus, PingInfo};

/// Length of the sink of a ping, in bytes: that of `lnetctl ping`.
const SINK_LEN: u32 = 3960;

/// How often discoveries under way are checked.
const LOOK_AGAIN: Nanos = Nanos::from_millis(5);

/// How long after its time-out a ping waits for the core to end it.
const GRACE: Nanos = Nanos::from_millis(400);

/// The caller's number of a ping or discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeId(pub u64);

/// How a probe ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// Of a ping.
    Ping(Result<PingAnswer, Status>),
    /// Of a discovery.
    Discover(Result<PeerInfo, Status>),
}

/// The answer to a ping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingAnswer {
    /// The peer's primary NID.
    pub primary: Nid,
    /// Its NIDs and whether they are up.
    pub nids: Vec<(Nid, bool)>,
    /// Its feature bits [PING-10].
    pub features: u32,
    /// Its sequence number.
    pub sequence: u32,
    /// From sending the GET until its REPLY was stored; the first one to a peer includes the time
    /// to connect.
    pub round_trip: Nanos,
}

/// Pings and discoveries under way.
#[derive(Debug)]
pub(crate) struct Probes {
    owner: Owner,
    pings: Vec<Option<Ping>>,
    discoveries: Vec<Discovery>,
    look_at: Option<Time>,
    results: VecDeque<(ProbeId, ProbeResult)>,
}

#[derive(Debug)]
struct Ping {
    /// `None` once its result was given: the driver may still hold the message.
    id: Option<ProbeId>,
    buffer: Span,
    started: Time,
    give_up: Time,
    answered: Option<(u32, Time)>,
    failure: Option<Status>,
}

#[derive(Debug)]
struct Discovery {
    id: ProbeId,
    nid: Nid,
    /// Discovery rounds of the peer that had ended when this one began.
    before: u64,
    give_up: Time,
}

impl Discovery {
    /// The result, once there is one.
    fn answer(&self, now: Time, peer: Option<PeerInfo>) -> Option<Result<PeerInfo, Status>> {
        match peer.filter(|peer| peer.rounds > self.before) {
            // A round that succeeded counts, even if the peer has become doubtful since.
            Some(peer) if peer.outcome.is_ok() || peer.state == PeerState::Ready => Some(Ok(peer)),
            Some(peer) if peer.state == PeerState::Unknown => Some(Err(peer.outcome)),
            // None has ended, or another one is in flight after a failure.
            _ => (now >= self.give_up).then_some(Err(Status::TimedOut)),
        }
    }
}

impl Probes {
    /// No probes yet. The descriptors of pings belong to `owner`.
    pub(crate) fn new(owner: Owner) -> Probes {
        Probes {
            owner,
            pings: Vec::new(),
            discoveries: Vec::new(),
            look_at: None,
            results: VecDeque::new(),
        }
    }

    pub(crate) fn ping(&mut self, turn: &mut Turn<'_>, id: ProbeId, nid: &Nid, timeout: Nanos) {
        let Some(buffer) = turn.memory.alloc(SINK_LEN) else {
            self.results.push_back((id, ProbeResult::Ping(Err(Status::NoMemory))));
            return;
        };
        let slot = self.pings.iter().position(Option::is_none).unwrap_or_else(|| {
            self.pings.push(None);
            self.pings.len() - 1
        });
        let md = Md {
            spans: [buffer].into_iter().collect(),
            threshold: Some(2),
            max_size: None,
            options: MdOptions::empty(),
            owner: self.owner,
            user: slot as u64,
        };
        let md = turn.shard.bind(md).expect("the sink of a ping is a legal descriptor");
        let args = GetArgs {
            md,
            local: None,
            target: ProcessId { nid: *nid, pid: PID_LUSTRE },
            portal: PING_PORTAL,
            match_bits: PING_BITS,
            offset: 0,
            timeout: Some(timeout),
        };
        self.pings[slot] = Some(Ping {
            id: Some(id),
            buffer,
            started: turn.now,
            give_up: turn.now + timeout + GRACE,
            answered: None,
            failure: None,
        });
        if turn.shard.get(turn.now, args).is_err() {
            turn.shard.unlink(turn.now, md);
        }
    }

    pub(crate) fn discover(&mut self, turn: &mut Turn<'_>, id: ProbeId, nid: &Nid, timeout: Nanos) {
        let before = turn.shard.peer(nid).map_or(0, |peer| peer.rounds);
        if let Err(status) = turn.shard.discover(turn.now, nid) {
            self.results.push_back((id, ProbeResult::Discover(Err(status))));
            return;
        }
        let give_up = turn.now + timeout;
        self.discoveries.push(Discovery { id, nid: *nid, before, give_up });
        self.look_at = Some(turn.now + LOOK_AGAIN);
    }

    pub(crate) fn next_result(&mut self) -> Option<(ProbeId, ProbeResult)> {
        self.results.pop_front()
    }
}

impl Service for Probes {
    fn on_event(&mut self, turn: &mut Turn<'_>, event: &Event) {
        let slot = event.user as usize;
        let Some(ping) = self.pings.get_mut(slot).and_then(Option::as_mut) else { return };
        if !event.status.is_ok() {
            ping.failure.get_or_insert(event.status);
        } else if event.kind == EventKind::Reply {
            ping.answered = Some((event.moved, turn.now));
        }
        if !event.unlinked {
            return;
        }
        let Some(ping) = self.pings[slot].take() else { return };
        let answer = match ping.answered {
            Some((length, at)) => {
                let mut bytes = vec![0; length as usize];
                turn.memory.read(ping.buffer, &mut bytes);
                parse_answer(&bytes, at.since(ping.started))
            }
            None => Err(ping.failure.unwrap_or(Status::TimedOut)),
        };
        turn.memory.free(ping.buffer);
        if let Some(id) = ping.id {
            self.results.push_back((id, ProbeResult::Ping(answer)));
        }
    }

    /// The core ends pings and discoveries of a lost peer itself.
    fn on_peer_down(&mut self, _turn: &mut Turn<'_>, _peer: &ProcessId, _status: Status) {}

    /// Checks whether discoveries have ended, and whether the time of pings is up.
    fn drive(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now;
        for ping in self.pings.iter_mut().flatten() {
            if now >= ping.give_up
                && let Some(id) = ping.id.take()
            {
                let failure = ping.failure.unwrap_or(Status::TimedOut);
                self.results.push_back((id, ProbeResult::Ping(Err(failure))));
            }
        }
        if self.discoveries.is_empty() {
            return;
        }
        let results = &mut self.results;
        self.discoveries.retain(|discovery| {
            let Some(answer) = discovery.answer(now, turn.shard.peer(&discovery.nid)) else {
                return true;
            };
            results.push_back((discovery.id, ProbeResult::Discover(answer)));
            false
        });
        self.look_at = (!self.discoveries.is_empty()).then(|| now + LOOK_AGAIN);
    }

    fn next_deadline(&self) -> Time {
        let pings = self.pings.iter().flatten().filter(|ping| ping.id.is_some());
        let give_up = pings.map(|ping| ping.give_up).min().unwrap_or(Time::NEVER);
        self.look_at.unwrap_or(Time::NEVER).min(give_up)
    }
}

fn parse_answer(bytes: &[u8], round_trip: Nanos) -> Result<PingAnswer, Status> {
    let info = PingInfo::parse_limited(bytes, u32::MAX).map_err(|_| Status::Protocol)?;
    let nids: Vec<_> =
        info.entries().map(|entry| (entry.nid, entry.status != NiStatus::Down)).collect();
    Ok(PingAnswer {
        primary: info.primary().ok_or(Status::Protocol)?,
        nids,
        features: info.features().bits(),
        sequence: info.sequence(),
        round_trip,
    })
}

#[cfg(test)]
mod tests;
