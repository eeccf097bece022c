//! What a shard has for others to take: actions, events, lost peers. The queues are mostly empty.

use std::collections::VecDeque;

use lustrine_wire::nid::ProcessId;

use super::Shard;
use crate::event::{Event, Stray};
use crate::lnd::{Action, NiIndex, OpKey, RxId, SendAction, Verdict};
use crate::lost::LostPeers;
use crate::memory::copy_of;
use crate::status::Status;
use crate::time::Time;

/// Messages with so many bytes of payload are large, for [`Shard::gathered_bytes`].
const LARGE: u32 = 128 << 10;

/// Most messages that were passed on and not taken.
const STRAYS_MAX: usize = 64;

/// What a driver is to do next. A message stays in its slot until the driver takes the action, so
/// that it is copied once.
#[derive(Debug)]
pub(super) enum Queued {
    /// To send a message, and when to give up.
    Send { op: OpKey, deadline: Time },
    /// To continue with a parked message.
    Resume(Box<Resumed>),
}

/// The parts of [`Action::Resume`].
#[derive(Debug)]
pub(super) struct Resumed {
    ni: NiIndex,
    rx: RxId,
    pub(super) verdict: Verdict,
}

/// Actions for drivers and events for users.
#[derive(Debug, Default)]
pub struct Queues {
    outbox: VecDeque<Queued>,
    /// Payload of large messages in the outbox since it was found empty, in bytes.
    gathered: u64,
    events: VecDeque<Event>,
}

impl Queues {
    fn are_empty(&self) -> bool {
        self.events.is_empty() && self.outbox.is_empty()
    }
}

/// Actions, events and reports of lost peers that were not taken yet.
#[derive(Debug)]
pub(super) struct Reports {
    queues: Queues,
    lost: LostPeers,
    /// Messages for other users than those that received them.
    strays: VecDeque<Stray>,
    /// Number of events that users have taken.
    taken: u64,
}

impl Reports {
    pub(super) fn new(seed: u64) -> Reports {
        Reports {
            queues: Queues::default(),
            lost: LostPeers::new(seed),
            strays: VecDeque::new(),
            taken: 0,
        }
    }

    /// Has a driver send a message with so many bytes of payload.
    #[inline]
    pub(super) fn send(&mut self, op: OpKey, deadline: Time, payload_len: u32) {
        if payload_len >= LARGE {
            self.queues.gathered += u64::from(payload_len);
        }
        self.queues.outbox.push_back(Queued::Send { op, deadline });
    }

    /// Has a driver continue with a parked message.
    pub(super) fn resume(&mut self, ni: NiIndex, rx: RxId, verdict: Verdict) {
        self.queues.outbox.push_back(Queued::Resume(Box::new(Resumed { ni, rx, verdict })));
    }

    #[inline]
    pub(super) fn raise(&mut self, event: Event) {
        self.queues.events.push_back(event);
    }

    /// Reports a lost peer, behind the events that were raised before.
    pub(super) fn lost(&mut self, peer: ProcessId, status: Status) {
        let raised = self.taken + self.queues.events.len() as u64;
        self.lost.add(peer, status, raised);
    }

    /// Actions that no driver has taken.
    pub(super) fn actions(&self) -> impl Iterator<Item = &Queued> {
        self.queues.outbox.iter()
    }

    #[inline]
    pub(super) fn are_empty(&self) -> bool {
        self.queues.are_empty()
    }

    #[inline]
    fn next_event(&mut self) -> Option<Event> {
        let event = self.queues.events.pop_front()?;
        self.taken += 1;
        Some(event)
    }
}

impl Shard {
    /// Takes the next action for a driver.
    #[inline]
    pub fn next_action(&mut self) -> Option<Action> {
        let queues = &mut self.reports.queues;
        match queues.outbox.pop_front() {
            Some(Queued::Send { op, deadline }) => {
                let msg = &self.msgs[op];
                Some(Action::Send(SendAction {
                    op,
                    ni: msg.ni,
                    to: msg.hop,
                    header: msg.header,
                    payload: copy_of(&msg.payload),
                    deadline,
                }))
            }
            Some(Queued::Resume(resumed)) => {
                let Resumed { ni, rx, verdict } = *resumed;
                Some(Action::Resume { ni, rx, verdict })
            }
            None => {
                queues.gathered = 0;
                None
            }
        }
    }

    /// Whether [`Shard::next_action`] has something.
    #[inline]
    pub fn has_actions(&self) -> bool {
        !self.reports.queues.outbox.is_empty()
    }

    /// Whether [`Shard::next_action`] has exactly one, and no message waits for credits, which the
    /// end of that one could give it, or for discovery.
    #[inline]
    pub fn has_lone_action(&self) -> bool {
        self.reports.queues.outbox.len() == 1 && !self.msgs.any_queued()
    }

    /// Payload of the large messages (from 128 KiB up) for drivers that have gathered since
    /// [`Shard::next_action`] had none the last time, in bytes.
    #[inline]
    pub fn gathered_bytes(&self) -> u64 {
        self.reports.queues.gathered
    }

    /// Whether [`Shard::next_event`] or [`Shard::next_lost_peer`] has something.
    #[inline]
    pub fn has_events(&self) -> bool {
        !(self.reports.queues.events.is_empty() && self.reports.lost.is_empty())
    }

    /// Takes the next event for a user.
    pub fn next_event(&mut self) -> Option<Event> {
        self.reports.next_event()
    }

    /// A user passes on what is not for it: a partition offers it to its other services, after each
    /// event. If 64 are not taken, it is dropped.
    pub fn pass_on(&mut self, stray: Stray) {
        if self.reports.strays.len() < STRAYS_MAX {
            self.reports.strays.push_back(stray);
        }
    }

    /// Whether [`Shard::next_stray`] has one.
    #[inline]
    pub fn has_strays(&self) -> bool {
        !self.reports.strays.is_empty()
    }

    /// Takes the next message that a user has passed on.
    pub fn next_stray(&mut self) -> Option<Stray> {
        self.reports.strays.pop_front()
    }

    /// Takes the next peer that lost its last connection or restarted, and the reason. Answers that
    /// a user awaits of it, beyond what the core tracks, will not arrive. Returns `None` while
    /// events from before the loss are in the queue: they are still valid, and have to be taken
    /// first. If a peer is lost several times before this is taken, the last loss is reported.
    pub fn next_lost_peer(&mut self) -> Option<(ProcessId, Status)> {
        self.reports.lost.next(self.reports.taken)
    }

    /// Swaps the shard's queues with others if all are empty. A simulator that runs thousands of
    /// shards in turn uses the same queues for all of them, which stay in the processor's caches.
    pub fn swap_queues(&mut self, others: &mut Queues) {
        if self.reports.are_empty() && others.are_empty() {
            core::mem::swap(&mut self.reports.queues, others);
        }
    }
}
