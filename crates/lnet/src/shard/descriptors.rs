//! Memory descriptors: attach, bind, unlink, and overdue answers ([CORE-2], [CORE-5]).

use core::ops::{Deref, DerefMut};

use lustrine_wire::header::MdHandle;
use lustrine_wire::nid::{Nid, ProcessId};
use slotmap::{Key, KeyData, SlotMap};

use super::{PAYLOAD_MAX, Shard};
use crate::error::LnetError;
use crate::event::{Event, EventKind};
use crate::md::{
    Awaiting, FRAGMENTS_MAX, Md, MdKey, MdOptions, MdState, OnLinkLoss, Owner, Unlink,
};
use crate::peer::PeerNiKey;
use crate::portal::{Laziness, MatchEntry, PORTALS};
use crate::status::Status;
use crate::time::Time;

/// All memory descriptors of a shard.
#[derive(Debug)]
pub(super) struct Descriptors {
    slots: SlotMap<MdKey, MdState>,
    /// First half of all handles on the wire: differs between starts and between partitions.
    cookie: u64,
}

impl Descriptors {
    pub(super) fn new(cookie: u64) -> Descriptors {
        Descriptors { slots: SlotMap::with_key(), cookie }
    }

    /// The handle of a descriptor on the wire.
    pub(super) fn handle_of(&self, md: MdKey) -> MdHandle {
        MdHandle { interface: self.cookie, object: md.data().as_ffi() }
    }

    /// The descriptor that a handle from the wire names, if there is one.
    pub(super) fn find(&self, handle: MdHandle) -> Option<MdKey> {
        let key = MdKey::from(KeyData::from_ffi(handle.object));
        (handle.interface == self.cookie
            && key.data().as_ffi() == handle.object
            && self.slots.contains_key(key))
        .then_some(key)
    }
}

impl Deref for Descriptors {
    type Target = SlotMap<MdKey, MdState>;

    #[inline]
    fn deref(&self) -> &SlotMap<MdKey, MdState> {
        &self.slots
    }
}

impl DerefMut for Descriptors {
    #[inline]
    fn deref_mut(&mut self) -> &mut SlotMap<MdKey, MdState> {
        &mut self.slots
    }
}

impl Shard {
    /// Puts a descriptor on a portal, where incoming PUTs and GETs can match it. PUTs parked there
    /// are tried at once.
    ///
    /// # Errors
    /// When the portal does not exist or has entries of the other kind, or when the descriptor
    /// accepts no operation or has more than 256 fragments.
    pub fn attach(
        &mut self,
        now: Time,
        portal: u32,
        entry: MatchEntry,
        md: Md,
    ) -> Result<MdKey, LnetError> {
        if portal >= PORTALS {
            return Err(LnetError::BadPortal(portal));
        }
        if !md.options.intersects(MdOptions::OP_PUT | MdOptions::OP_GET) {
            return Err(LnetError::NoOperation);
        }
        if md.spans.len() > FRAGMENTS_MAX {
            return Err(LnetError::MdTooLarge);
        }
        if !self.portals.admits(portal, &entry) {
            return Err(LnetError::PortalKind(portal));
        }
        let mut state = MdState::new(md, entry.unlink);
        state.attached = true;
        let md = self.mds.insert_with_key(|md| {
            state.me = Some(self.portals.attach(portal, entry, md));
            state
        });
        if self.portals.has_parked(portal) {
            self.try_parked(now, portal, &entry, md);
        }
        Ok(md)
    }

    /// Registers a descriptor to send from, or to receive a REPLY in. It is unlinked when its
    /// threshold is used up and no message refers to it.
    ///
    /// # Errors
    /// When it has more than 256 fragments or is longer than 1 MiB.
    #[inline]
    pub fn bind(&mut self, md: Md) -> Result<MdKey, LnetError> {
        if md.spans.len() > FRAGMENTS_MAX {
            return Err(LnetError::MdTooLarge);
        }
        let state = MdState::new(md, Unlink::Auto);
        if state.length > PAYLOAD_MAX {
            return Err(LnetError::MdTooLarge);
        }
        Ok(self.mds.insert(state))
    }

    /// Unlinks a descriptor. Its memory is free when its last event comes, which may be an UNLINK
    /// event. Nothing happens if the descriptor is already gone.
    pub fn unlink(&mut self, now: Time, md: MdKey) {
        self.abort_md(now, md, Status::Canceled);
    }

    /// Sets what a portal does with PUTs that match nothing. Making it strict drops the parked ones
    /// ([CORE-9]).
    ///
    /// # Errors
    /// When the portal does not exist.
    pub fn set_lazy(&mut self, portal: u32, laziness: Laziness) -> Result<(), LnetError> {
        if portal >= PORTALS {
            return Err(LnetError::BadPortal(portal));
        }
        self.portals.set_lazy(portal, laziness);
        if laziness == Laziness::Strict {
            self.drop_parked(portal);
        }
        Ok(())
    }

    /// Sets what becomes of the answers that an owner awaits when the peer's last connection is
    /// lost, from now on. The default is [`OnLinkLoss::Fail`].
    pub fn set_on_link_loss(&mut self, owner: Owner, policy: OnLinkLoss) {
        self.answers.set_on_link_loss(owner, policy);
    }

    /// Unlinks a descriptor for a reason. Messages that wait to be sent from it fail.
    pub(super) fn abort_md(&mut self, now: Time, md: MdKey, reason: Status) {
        let Some(state) = self.mds.get_mut(md) else { return };
        if state.aborted.is_some() {
            return;
        }
        state.aborted = Some(reason);
        self.note_md_unlinked(now, md, reason);
        self.end_wait_for_answer(md);
        self.remove_from_portal(md);
        let state = &self.mds[md];
        if state.pending == 0 {
            let no_process = ProcessId { nid: Nid::ANY, pid: 0 };
            let event = Event {
                kind: EventKind::Unlink,
                status: if reason == Status::Canceled { Status::Ok } else { reason },
                owner: state.md.owner,
                user: state.md.user,
                md,
                unlinked: true,
                peer: no_process,
                hop: no_process,
                local: no_process,
                portal: 0,
                match_bits: 0,
                hdr_data: 0,
                requested: 0,
                moved: 0,
                offset: 0,
            };
            if event.status.is_ok() {
                self.mds[md].aborted = Some(Status::Ok);
            }
            self.post(event);
        } else {
            self.cancel_waiting(now, md, reason);
        }
    }

    /// Takes the descriptor's entry off its portal.
    pub(super) fn remove_from_portal(&mut self, md: MdKey) {
        let Some(key) = self.mds[md].me.take() else { return };
        self.portals.remove(key);
    }

    pub(super) fn remove_md(&mut self, md: MdKey) {
        let state = &mut self.mds[md];
        let entry = state.me.take();
        if state.answer_by != Time::NEVER {
            self.end_wait_for_answer(md);
        }
        if let Some(key) = entry {
            self.portals.remove(key);
        }
        self.mds.remove(md);
    }

    /// Awaits an answer until `by`: a REPLY, or an ACK.
    pub(super) fn await_answer(&mut self, md: MdKey, from: ProcessId, by: Time, reply: bool) {
        let state = &mut self.mds[md];
        if state.answer_by == Time::NEVER {
            self.answers.begin();
        }
        state.answer_by = by;
        state.answer_from = from;
        state.awaits_reply = reply;
        state.asked = Time::NEVER;
    }

    /// Ends the wait for an answer.
    pub(super) fn end_wait_for_answer(&mut self, md: MdKey) {
        let state = &mut self.mds[md];
        if state.answer_by != Time::NEVER {
            state.answer_by = Time::NEVER;
            self.answers.end();
            self.leave_answers(md);
        }
    }

    /// Adds a descriptor to the list of those that await an answer of a NID.
    #[inline]
    pub(super) fn join_answers(&mut self, md: MdKey, peer_ni: PeerNiKey) {
        let first = core::mem::replace(&mut self.peers.nis[peer_ni].awaiting, md);
        self.mds[md].awaiting =
            Awaiting { of: Some(peer_ni), before: MdKey::null(), behind: first };
        if let Some(behind) = self.mds.get_mut(first) {
            behind.awaiting.before = md;
        }
        self.answers.touch();
    }

    #[inline]
    fn leave_answers(&mut self, md: MdKey) {
        let Awaiting { of, before, behind } = core::mem::take(&mut self.mds[md].awaiting);
        let Some(peer_ni) = of else { return };
        match self.mds.get_mut(before) {
            Some(before) => before.awaiting.behind = behind,
            None => self.peers.nis[peer_ni].awaiting = behind,
        }
        if let Some(behind) = self.mds.get_mut(behind) {
            behind.awaiting.before = before;
        }
        self.answers.touch();
    }

    /// The descriptors that await an answer of a NID, in the order of their keys.
    pub(super) fn awaiting_answers_of(&self, peer_ni: PeerNiKey) -> Vec<MdKey> {
        let first = Some(self.peers.nis[peer_ni].awaiting).filter(|md| !md.is_null());
        let mut all: Vec<MdKey> = core::iter::successors(first, |md| {
            self.answers.touch();
            Some(self.mds[*md].awaiting.behind).filter(|md| !md.is_null())
        })
        .collect();
        all.sort_unstable();
        all
    }

    /// The request failed: the operation of its answer counts as used, so that the failed SEND
    /// event is the last one ([CORE-11]).
    pub(super) fn answer_will_not_come(&mut self, md: MdKey) {
        if self.mds[md].answer_by != Time::NEVER {
            self.end_wait_for_answer(md);
            if !self.mds[md].exhausted() {
                self.mds[md].count_operation();
            }
        }
    }

    /// Unlinks every descriptor whose answer is overdue.
    pub(super) fn expire_answers(&mut self, now: Time) {
        let overdue: Vec<MdKey> = self
            .mds
            .iter()
            .filter(|(_, state)| state.answer_by <= now)
            .map(|(key, _)| key)
            .collect();
        for md in overdue {
            // Unlinking one may continue, and end, messages of others on the list.
            let Some(state) = self.mds.get(md) else { continue };
            let from = state.answer_from;
            self.telemetry.stats.response_timeouts += 1;
            self.abort_md(now, md, Status::TimedOut);
            self.invalidate(&from.nid);
        }
    }

    /// Unlinks every descriptor that awaits an answer of this peer, whose NID has entry `peer_ni`.
    pub(super) fn fail_answers(
        &mut self,
        now: Time,
        peer_ni: PeerNiKey,
        peer: ProcessId,
        reason: Status,
    ) {
        for md in self.awaiting_answers_of(peer_ni) {
            // Unlinking one may continue, and end, messages of others on the list.
            let Some(state) = self.mds.get(md) else { continue };
            // A request that has not left yet goes over the next connection.
            let leaving = state.request.is_some_and(|op| self.msgs.contains_key(op));
            let kept = reason == Status::ConnectionLost && self.answers.keeps(state.md.owner);
            if state.answer_by != Time::NEVER && state.answer_from == peer && !leaving && !kept {
                self.abort_md(now, md, reason);
            }
        }
    }
}
