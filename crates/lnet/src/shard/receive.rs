//! The driver's calls: received headers, completions, links ([HDR-9] to [HDR-13]).

use lustrine_wire::header::{Body, Header};
use lustrine_wire::nid::{PID_USERLAND, ProcessId};

use super::matching::{Found, get_wanted, put_wanted};
use super::send::ReplyPlan;
use super::{Msg, PAYLOAD_MAX, PING_PORTAL, Purpose, Shard, Stage};
use crate::journal::DropReason;
use crate::latency::Operation;
use crate::lnd::{
    Arrival, Core, GetVerdict, HeaderViolation, LinkEvent, NiIndex, OpKey, RxId, Verdict,
};
use crate::memory::part_of;
use crate::peer::PeerNiKey;
use crate::portal::{Origin, Waiter, is_of};
use crate::status::Status;
use crate::time::Time;

impl Core for Shard {
    fn recv_header(&mut self, now: Time, arrival: Arrival, header: &Header) -> Verdict {
        match self.journal_enabled() {
            true => self.on_header_journaled(now, &arrival, header),
            false => self.on_header(now, &arrival, header),
        }
    }

    fn recv_get(&mut self, now: Time, arrival: Arrival, header: &Header) -> GetVerdict {
        let verdict = self.on_get(now, &arrival, header);
        if let GetVerdict::Other(verdict) = &verdict {
            self.note_verdict(now, &arrival, header, verdict);
        }
        verdict
    }

    fn done(&mut self, now: Time, op: OpKey, status: Status) {
        self.retire(now, op, status);
    }

    fn journal_enabled(&self) -> bool {
        self.journal_enabled()
    }

    fn tx_started(&mut self, now: Time, op: OpKey) {
        self.note_tx_started(now, op);
    }

    fn link(&mut self, now: Time, ni: NiIndex, peer: ProcessId, event: LinkEvent) {
        let max = || self.topology.peer_credits_of(ni);
        let Some(key) = self.peers.obtain(now, &peer.nid, max) else { return };
        let userland = peer.pid & PID_USERLAND != 0;
        match event {
            LinkEvent::Up => {
                self.peers.count_link(key, userland, true);
            }
            LinkEvent::Down { status } => {
                let left = self.peers.count_link(key, userland, false);
                // A node may still have connections to another local interface.
                if userland || left == 0 {
                    self.link_lost(now, key, peer);
                    self.reports.lost(peer, status);
                }
            }
            LinkEvent::Restarted => {
                self.reports.lost(peer, Status::PeerRestarted);
                self.fail_answers(now, key, peer, Status::PeerRestarted);
                self.invalidate(&peer.nid);
            }
        }
    }

    fn forget(&mut self, ni: NiIndex, rx: RxId) {
        self.withdraw_parked(Waiter::Driver(ni, rx));
    }
}

impl Shard {
    /// Decides about a header.
    #[inline]
    pub(super) fn on_header(&mut self, now: Time, arrival: &Arrival, header: &Header) -> Verdict {
        let peer_ni = match self.admit(now, arrival, header) {
            Ok(peer_ni) => peer_ni,
            Err(verdict) => return verdict,
        };
        let verdict = match header.body {
            Body::Put { .. } => self.recv_put(arrival, header, peer_ni),
            Body::Get { .. } => self.recv_get(now, arrival, header, peer_ni),
            Body::Reply { md } => self.recv_reply(arrival, header, md, peer_ni),
            Body::Ack { md, .. } => self.recv_ack(now, arrival, header, md, peer_ni),
            Body::Hello { .. } => unreachable!("check_header refuses it"),
        };
        if verdict == Verdict::Drop {
            self.drop_counted(arrival, header);
        }
        verdict
    }

    /// Decides about a GET that its driver can answer in place.
    fn on_get(&mut self, now: Time, arrival: &Arrival, header: &Header) -> GetVerdict {
        assert!(matches!(header.body, Body::Get { .. }), "only GETs are answered in place");
        let peer_ni = match self.admit(now, arrival, header) {
            Ok(peer_ni) => peer_ni,
            Err(verdict) => return GetVerdict::Other(verdict),
        };
        match self.match_get(now, arrival, header, peer_ni) {
            Some(plan) if self.admits_reply_in_place(peer_ni, &arrival.from) => {
                GetVerdict::Reply(self.reply_in_place(now, header, plan))
            }
            Some(plan) => {
                self.send_reply(now, header, plan);
                GetVerdict::Other(Verdict::Done)
            }
            None => {
                self.drop_counted(arrival, header);
                GetVerdict::Other(Verdict::Drop)
            }
        }
    }

    /// What every header must pass before its type counts; the verdict if it does not.
    #[inline(always)]
    fn admit(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &Header,
    ) -> Result<PeerNiKey, Verdict> {
        let local = match self.check_header(arrival, header) {
            Ok(local) => local,
            Err(wrong) => {
                self.telemetry.stats.misbehaved += 1;
                return Err(Verdict::Refuse(wrong));
            }
        };
        if !local {
            // For another node, and this one does not route ([HDR-13]).
            self.drop_counted(arrival, header);
            self.note_drop(DropReason::NotForUs);
            return Err(Verdict::Drop);
        }
        let max = || self.topology.peer_credits_of(arrival.ni);
        let Some(peer_ni) = self.peers.obtain(now, &arrival.from.nid, max) else {
            self.drop_counted(arrival, header);
            self.note_drop(DropReason::TooManyPeers);
            return Err(Verdict::Drop);
        };
        self.telemetry.stats.received.count(&header.body);
        self.nis[usize::from(arrival.ni.0)].counters.received += 1;
        self.peers.nis[peer_ni].counters.received += 1;
        Ok(peer_ni)
    }

    /// The rules whose violation closes the peer's connections ([HDR-12]); whether the message is
    /// for this node.
    #[inline]
    fn check_header(&self, arrival: &Arrival, header: &Header) -> Result<bool, HeaderViolation> {
        match header.body {
            Body::Ack { .. } | Body::Get { .. } if header.payload_len != 0 => {
                return Err(HeaderViolation::PayloadOnAckOrGet);
            }
            Body::Hello { .. } => return Err(HeaderViolation::UnexpectedHello),
            _ if header.payload_len > PAYLOAD_MAX => return Err(HeaderViolation::PayloadTooLong),
            _ => {}
        }
        if header.src.nid.is_any() || header.src.nid.is_lo() {
            return Err(HeaderViolation::BadSource);
        }
        let arrived_on = &self.topology.ni(arrival.ni).nid;
        if header.dst.nid == *arrived_on {
            // An interface that was removed has no NID any more.
            return Ok(!arrived_on.is_any());
        }
        let same_net = header.dst.nid.net() == arrived_on.net();
        let mine = self.is_local(&header.dst.nid);
        // Local on another network, or on this network and not local.
        if same_net != mine { Err(HeaderViolation::WrongDestination) } else { Ok(mine) }
    }

    pub(super) fn drop_counted(&mut self, arrival: &Arrival, header: &Header) {
        self.telemetry.stats.dropped.count(&header.body);
        self.telemetry.stats.drop_length += u64::from(header.payload_len);
        self.nis[usize::from(arrival.ni.0)].counters.dropped += 1;
        if let Some(peer_ni) = self.peers.find(&arrival.from.nid) {
            self.peers.nis[peer_ni].counters.dropped += 1;
        }
    }

    fn recv_put(&mut self, arrival: &Arrival, header: &Header, peer_ni: PeerNiKey) -> Verdict {
        let wanted = put_wanted(header, arrival.from).expect("the caller looked");
        if wanted.portal == PING_PORTAL && !self.admits_push(arrival, header) {
            self.note_drop(DropReason::UnwantedPush);
            return Verdict::Drop;
        }
        match self.find_match(&wanted) {
            Found::Match { md, offset, length } => {
                self.receive_put(arrival, header, Some(peer_ni), md, offset, length)
            }
            Found::Nothing if self.park(header, Origin::Driver(*arrival)) => Verdict::Park,
            found => {
                self.note_unmatched(found);
                Verdict::Drop
            }
        }
    }

    fn recv_get(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &Header,
        peer_ni: PeerNiKey,
    ) -> Verdict {
        match self.match_get(now, arrival, header, peer_ni) {
            Some(plan) => {
                self.send_reply(now, header, plan);
                Verdict::Done
            }
            None => Verdict::Drop,
        }
    }

    /// The REPLY to a GET; `None` drops the GET.
    #[inline(always)]
    fn match_get(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &Header,
        peer_ni: PeerNiKey,
    ) -> Option<ReplyPlan> {
        if !self.admits_response(peer_ni, &arrival.from) {
            self.note_drop(DropReason::TooManyResponses);
            return None;
        }
        let wanted = get_wanted(header, arrival.from).expect("the caller looked");
        let found = self.find_match(&wanted);
        let Found::Match { md, offset, length } = found else {
            self.note_unmatched(found);
            return None;
        };
        let Body::Get { return_md, match_bits, portal, sink_len, .. } = header.body else {
            unreachable!("the caller looked");
        };
        self.note_done(now, arrival, header);
        Some(ReplyPlan {
            md,
            return_md,
            offset,
            length,
            ni: arrival.ni,
            hop: arrival.from,
            peer_ni,
            portal,
            match_bits,
            requested: sink_len,
        })
    }

    /// A REPLY names its descriptor by a handle. Besides, it must come from the peer that was
    /// asked, so that a handle that another peer has seen or guessed is useless ([HDR-11]).
    fn recv_reply(
        &mut self,
        arrival: &Arrival,
        header: &Header,
        handle: lustrine_wire::header::MdHandle,
        peer_ni: PeerNiKey,
    ) -> Verdict {
        let Some(md) = self.answering(handle, arrival, header, true) else {
            self.note_drop(DropReason::NotAwaited);
            return Verdict::Drop;
        };
        if header.payload_len > self.mds[md].length {
            self.note_drop(DropReason::TooLong);
            return Verdict::Drop;
        }
        // The header ends the wait, not the last byte: a repeated header that arrives during the
        // payload must match nothing.
        self.end_wait_for_answer(md);
        let state = &mut self.mds[md];
        state.count_operation();
        let spans = part_of(&state.md.spans, 0, header.payload_len);
        let (requested, asked) = (state.length, state.asked);
        let op = self.new_msg(Msg {
            stage: Stage::Receiving,
            purpose: Purpose::ReplyIn,
            header: *header,
            ni: arrival.ni,
            hop: arrival.from,
            peer_ni: Some(peer_ni),
            md: Some(md),
            payload: Default::default(),
            offset: 0,
            moved: header.payload_len,
            time: asked,
            portal: 0,
            match_bits: 0,
            requested,
        });
        Verdict::Into { op, spans }
    }

    fn recv_ack(
        &mut self,
        now: Time,
        arrival: &Arrival,
        header: &Header,
        handle: lustrine_wire::header::MdHandle,
        peer_ni: PeerNiKey,
    ) -> Verdict {
        let Some(md) = self.answering(handle, arrival, header, false) else {
            self.note_drop(DropReason::NotAwaited);
            return Verdict::Drop;
        };
        let Body::Ack { match_bits, mlength, .. } = header.body else {
            unreachable!("the caller looked");
        };
        self.note_done(now, arrival, header);
        self.end_wait_for_answer(md);
        self.mds[md].count_operation();
        let asked = self.mds[md].asked;
        self.record_latency(now, asked, Operation::PutAck, arrival.ni, peer_ni);
        let state = &self.mds[md];
        self.post(crate::event::Event {
            kind: crate::event::EventKind::Ack,
            status: Status::Ok,
            owner: state.md.owner,
            user: state.md.user,
            md,
            unlinked: false,
            peer: header.src,
            hop: arrival.from,
            local: header.dst,
            portal: 0,
            match_bits,
            hdr_data: 0,
            requested: state.length,
            moved: mlength,
            offset: 0,
        });
        Verdict::Done
    }

    /// The descriptor that awaits this answer, a REPLY or an ACK: the memory of a PUT is not
    /// written. A sender can write any source NID into a header, so the connection must be one of
    /// the peer that was asked, too ([HDR-11]).
    fn answering(
        &self,
        handle: lustrine_wire::header::MdHandle,
        arrival: &Arrival,
        header: &Header,
        reply: bool,
    ) -> Option<crate::md::MdKey> {
        let md = self.mds.find(handle)?;
        let state = &self.mds[md];
        let of_asked = |one: &ProcessId| {
            is_of(&state.answer_from, one, |one, other| self.peers.same_peer(one, other))
        };
        let expected = !state.attached
            && state.answer_by != Time::NEVER
            && state.awaits_reply == reply
            && state.aborted.is_none()
            && !state.exhausted()
            && of_asked(&header.src)
            && of_asked(&arrival.from);
        expected.then_some(md)
    }
}
