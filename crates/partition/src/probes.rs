//! Pings and discoveries that a person asked for.

use std::collections::VecDeque;

use lustrine_lnet::event::{Event, EventKind};
use lustrine_lnet::md::{Md, MdOptions, Owner};
use lustrine_lnet::memory::{Memory, Span};
use lustrine_lnet::shard::{GetArgs, PING_BITS, PING_PORTAL, PeerInfo, PeerState, Shard};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::ping::{NiStatus, PingInfo};

/// Room a ping offers for the answer, in bytes; what `lnetctl ping` offers (capture a1).
const SINK_LEN: u32 = 3960;

/// How often discoveries under way are looked at.
const LOOK_AGAIN: Nanos = Nanos::from_millis(5);

/// How much longer than its time a ping waits for the core to give it up in good order.
const GRACE: Nanos = Nanos::from_millis(400);

/// The caller's mark of a ping or discovery.
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

/// What a ping brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingAnswer {
    /// The peer's primary NID.
    pub primary: Nid,
    /// Its NIDs and whether they are up.
    pub nids: Vec<(Nid, bool)>,
    /// Its feature bits (wire 6.2).
    pub features: u32,
    /// Its sequence number.
    pub sequence: u32,
    /// From sending the GET until its REPLY was stored; the first one to a peer includes
    /// connecting.
    pub round_trip: Nanos,
}

/// Pings and discoveries under way.
#[derive(Default)]
pub(crate) struct Probes {
    pings: Vec<Option<Ping>>,
    discoveries: Vec<Discovery>,
    look_at: Option<Time>,
    results: VecDeque<(ProbeId, ProbeResult)>,
}

struct Ping {
    /// `None` once its result was given: the driver may still hold the message.
    ticket: Option<ProbeId>,
    buffer: Span,
    started: Time,
    give_up: Time,
    answered: Option<(u32, Time)>,
    failure: Option<Status>,
}

struct Discovery {
    ticket: ProbeId,
    nid: Nid,
    /// Rounds the peer had behind it when we asked.
    before: u64,
    give_up: Time,
}

impl Discovery {
    /// How it ended, if it has.
    fn answer(&self, now: Time, peer: Option<PeerInfo>) -> Option<Result<PeerInfo, Status>> {
        match peer.filter(|peer| peer.rounds > self.before) {
            // A round that ended well counts, even if something has cast doubt on the peer since.
            Some(peer) if peer.outcome.is_ok() || peer.state == PeerState::Ready => Some(Ok(peer)),
            Some(peer) if peer.state == PeerState::Unknown => Some(Err(peer.outcome)),
            // None has ended, or another one is under way after a failure.
            _ => (now >= self.give_up).then_some(Err(Status::TimedOut)),
        }
    }
}

impl Probes {
    pub(crate) fn ping(
        &mut self,
        now: Time,
        shard: &mut Shard,
        memory: &mut impl Memory,
        ticket: ProbeId,
        nid: &Nid,
        timeout: Nanos,
    ) {
        let Some(buffer) = memory.alloc(SINK_LEN) else {
            self.results.push_back((ticket, ProbeResult::Ping(Err(Status::NoMemory))));
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
            owner: Owner::APP,
            user: slot as u64,
        };
        let md = shard.bind(md).expect("a ping's sink is a legal descriptor");
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
            ticket: Some(ticket),
            buffer,
            started: now,
            give_up: now + timeout + GRACE,
            answered: None,
            failure: None,
        });
        if shard.get(now, args).is_err() {
            shard.unlink(now, md);
        }
    }

    /// An event of one of the pings.
    pub(crate) fn handle(&mut self, now: Time, memory: &mut impl Memory, event: &Event) {
        let slot = event.user as usize;
        let Some(ping) = self.pings.get_mut(slot).and_then(Option::as_mut) else { return };
        if !event.status.is_ok() {
            ping.failure.get_or_insert(event.status);
        } else if event.kind == EventKind::Reply {
            ping.answered = Some((event.moved, now));
        }
        if !event.unlinked {
            return;
        }
        let Some(ping) = self.pings[slot].take() else { return };
        let answer = match ping.answered {
            Some((length, at)) => {
                let mut bytes = vec![0; length as usize];
                memory.read(ping.buffer, &mut bytes);
                understand(&bytes, at.since(ping.started))
            }
            None => Err(ping.failure.unwrap_or(Status::TimedOut)),
        };
        memory.free(ping.buffer);
        if let Some(ticket) = ping.ticket {
            self.results.push_back((ticket, ProbeResult::Ping(answer)));
        }
    }

    pub(crate) fn discover(
        &mut self,
        now: Time,
        shard: &mut Shard,
        ticket: ProbeId,
        nid: &Nid,
        timeout: Nanos,
    ) {
        let before = shard.peer(nid).map_or(0, |peer| peer.rounds);
        if let Err(status) = shard.discover(now, nid) {
            self.results.push_back((ticket, ProbeResult::Discover(Err(status))));
            return;
        }
        let give_up = now + timeout;
        self.discoveries.push(Discovery { ticket, nid: *nid, before, give_up });
        self.look_at = Some(now + LOOK_AGAIN);
    }

    /// Looks whether discoveries have ended, and whether the time of pings is up.
    pub(crate) fn drive(&mut self, now: Time, shard: &mut Shard) {
        for ping in self.pings.iter_mut().flatten() {
            if now >= ping.give_up
                && let Some(ticket) = ping.ticket.take()
            {
                let failure = ping.failure.unwrap_or(Status::TimedOut);
                self.results.push_back((ticket, ProbeResult::Ping(Err(failure))));
            }
        }
        if self.discoveries.is_empty() {
            return;
        }
        let results = &mut self.results;
        self.discoveries.retain(|discovery| {
            let Some(answer) = discovery.answer(now, shard.peer(&discovery.nid)) else {
                return true;
            };
            results.push_back((discovery.ticket, ProbeResult::Discover(answer)));
            false
        });
        self.look_at = (!self.discoveries.is_empty()).then(|| now + LOOK_AGAIN);
    }

    pub(crate) fn next_deadline(&self) -> Time {
        let pings = self.pings.iter().flatten().filter(|ping| ping.ticket.is_some());
        let give_up = pings.map(|ping| ping.give_up).min().unwrap_or(Time::NEVER);
        self.look_at.unwrap_or(Time::NEVER).min(give_up)
    }

    pub(crate) fn next_result(&mut self) -> Option<(ProbeId, ProbeResult)> {
        self.results.pop_front()
    }
}

fn understand(bytes: &[u8], round_trip: Nanos) -> Result<PingAnswer, Status> {
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
