//! Zero-copy cookies, the sending side: which payloads the peer has not yet acknowledged
//! [FRM-7], [FRM-12].

use std::collections::VecDeque;

use lustrine_lnet::lnd::OpKey;
use lustrine_lnet::time::Time;
use lustrine_wire::frame::{FIRST_ZC_COOKIE, ZcAck};

use crate::close_reason::ProtocolViolation;

/// A message sent with a cookie. It is finished when it is written, acknowledged, and its memory
/// is no longer referred to by the system.
#[derive(Clone, Copy, Debug)]
struct Pending {
    cookie: u64,
    op: OpKey,
    acknowledged: bool,
    written: bool,
    /// Zero-copy writes whose memory the system has not released.
    in_system: u32,
    /// When it was written completely.
    since: Time,
}

impl Pending {
    fn finished(&self) -> bool {
        self.acknowledged && self.written && self.in_system == 0
    }
}

/// The cookies of one peer: they count up from 2 and are matched per peer, not per connection.
#[derive(Debug)]
pub(crate) struct ZeroCopy {
    next: u64,
    /// In ascending order of cookies; as many as messages are in flight.
    pending: VecDeque<Pending>,
}

impl ZeroCopy {
    pub(crate) fn new() -> ZeroCopy {
        ZeroCopy { next: FIRST_ZC_COOKIE, pending: VecDeque::new() }
    }

    /// The cookie for a new message.
    pub(crate) fn issue(&mut self, op: OpKey) -> u64 {
        let cookie = self.next;
        self.next += 1;
        self.pending.push_back(Pending {
            cookie,
            op,
            acknowledged: false,
            written: false,
            in_system: 0,
            since: Time::NEVER,
        });
        cookie
    }

    /// Takes back the cookie issued last: its message could not be queued.
    pub(crate) fn withdraw(&mut self, cookie: u64) {
        let last = self.pending.pop_back();
        assert!(last.is_some_and(|last| last.cookie == cookie), "not the last cookie");
        self.next = cookie;
    }

    /// The message is written completely; `in_system` of its writes are still referred to.
    /// Returns its operation if that finishes it.
    pub(crate) fn written(&mut self, cookie: u64, in_system: usize, now: Time) -> Option<OpKey> {
        let index = self.find(cookie)?;
        let pending = &mut self.pending[index];
        pending.written = true;
        pending.in_system = in_system as u32;
        pending.since = now;
        self.retire(index)
    }

    /// The system has released the memory of one write of a message. Returns its operation if
    /// that finishes it.
    pub(crate) fn released(&mut self, cookie: u64) -> Option<OpKey> {
        let index = self.find(cookie)?;
        let pending = &mut self.pending[index];
        if pending.written {
            pending.in_system = pending.in_system.saturating_sub(1);
        }
        self.retire(index)
    }

    /// The peer acknowledges; operations that this finishes are appended to `finished`.
    ///
    /// # Errors
    /// [`ProtocolViolation::UnknownCookie`] when a cookie it names is not pending.
    pub(crate) fn acknowledge(
        &mut self,
        ack: ZcAck,
        finished: &mut Vec<OpKey>,
    ) -> Result<(), ProtocolViolation> {
        let count = match ack {
            ZcAck::Nothing | ZcAck::Keepalive => return Ok(()),
            ZcAck::One(cookie) => self.acknowledge_range(cookie, cookie, finished),
            ZcAck::Pair(one, other) => {
                self.acknowledge_range(one, one, finished)
                    + self.acknowledge_range(other, other, finished)
            }
            ZcAck::Range(low, high) => self.acknowledge_range(low, high, finished),
        };
        if count == ack.count() { Ok(()) } else { Err(ProtocolViolation::UnknownCookie) }
    }

    /// Acknowledges what is pending from `low` to `high`; returns how many that were.
    fn acknowledge_range(&mut self, low: u64, high: u64, finished: &mut Vec<OpKey>) -> u64 {
        let mut index = self.pending.partition_point(|pending| pending.cookie < low);
        let mut count = 0;
        while let Some(pending) = self.pending.get_mut(index) {
            if pending.cookie > high {
                break;
            }
            if !pending.acknowledged {
                pending.acknowledged = true;
                count += 1;
            }
            match self.retire(index) {
                Some(op) => finished.push(op),
                None => index += 1,
            }
        }
        count
    }

    /// Whether a message was written completely before `limit` and is not acknowledged.
    pub(crate) fn overdue(&self, limit: Time) -> bool {
        self.pending.iter().any(|pending| !pending.acknowledged && pending.since < limit)
    }

    /// Number of messages in flight.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// The connections are gone: all operations in flight.
    pub(crate) fn abandoned(&mut self) -> impl Iterator<Item = OpKey> + '_ {
        self.pending.drain(..).map(|pending| pending.op)
    }

    fn find(&self, cookie: u64) -> Option<usize> {
        self.pending.binary_search_by_key(&cookie, |pending| pending.cookie).ok()
    }

    fn retire(&mut self, index: usize) -> Option<OpKey> {
        if !self.pending[index].finished() {
            return None;
        }
        self.pending.remove(index).map(|pending| pending.op)
    }
}

#[cfg(test)]
mod tests;
