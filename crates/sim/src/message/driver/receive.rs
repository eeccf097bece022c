//! What arrives.

use lustrine_lnet::lnd::{Arrival, Core, GetVerdict, LinkEvent, NiIndex, RxId, Verdict};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};

use lustrine_wire::header::Body;

use super::super::packet::{Content, LinkId, Packet};
use super::peer::{Dial, unmark};
use super::{DriverIo, MessageDriver};

impl MessageDriver {
    pub(super) fn arrive<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        packet: Box<Packet>,
    ) {
        let Some(ni) = self.config.nids.iter().position(|nid| *nid == packet.remote) else {
            return;
        };
        let slot = self.peer_of(NiIndex(ni as u16), packet.local);
        let link = packet.link;
        let known = self.peers[slot].links.contains(&link);
        match packet.content {
            Content::Message { .. } if known => {
                let kind = usize::from(!packet.is_small());
                let parked = self.peers[slot].parked(kind);
                if parked.is_empty() {
                    self.receive(now, core, out, slot, packet);
                } else {
                    parked.push_back(packet);
                }
            }
            Content::Message { .. } => self.turn_away(now, out, packet, Content::Closed),
            Content::Dial { incarnation } => {
                if self.shut.is_some() || !self.config.listens {
                    self.turn_away(now, out, packet, Content::Refused(Status::Refused));
                    return;
                }
                self.meet(now, core, out, slot, incarnation);
                if self.open(now, core, out, slot, link) {
                    let content = Content::Answer { incarnation: self.config.incarnation };
                    self.reply(now, out, slot, link, content);
                    self.pump(now, core, out, slot);
                }
            }
            Content::Answer { incarnation } => {
                if self.peers[slot].dial != Dial::Active(link) {
                    return self.turn_away(now, out, packet, Content::Closed);
                }
                self.peers[slot].dial = Dial::Idle;
                self.peers[slot].interval = Nanos::ZERO;
                self.meet(now, core, out, slot, incarnation);
                if self.open(now, core, out, slot, link) {
                    self.pump(now, core, out, slot);
                }
            }
            Content::Refused(status) => {
                if self.peers[slot].dial == Dial::Active(link) {
                    self.dial_failed(now, core, slot, status);
                }
            }
            Content::Closed if known => {
                let links = &mut self.peers[slot].links;
                links.retain(|other| *other != link);
                self.closed += 1;
                if self.peers[slot].links.is_empty() {
                    self.down(now, core, out, slot, Status::ConnectionLost);
                }
            }
            Content::Broken if known => self.down(now, core, out, slot, Status::TimedOut),
            Content::Broken | Content::Closed => {
                if self.peers[slot].dial == Dial::Active(link) {
                    self.dial_failed(now, core, slot, Status::TimedOut);
                }
            }
            Content::Room(len) if known => {
                let in_stream = &mut self.peers[slot].in_stream;
                *in_stream = in_stream.saturating_sub(len);
                out.wire.packets.discard(packet);
                self.refill(now, core, out, slot);
            }
            Content::Released(op) if known => {
                out.wire.packets.discard(packet);
                let lent = &mut self.peers[slot].lent;
                let Some(at) = lent.iter().position(|lent| lent.op == op) else { return };
                let lent = lent.remove(at);
                self.lent -= 1;
                let mut held = crate::memory::Rope::default();
                for span in &lent.spans {
                    held.append(out.memory.rope(*span));
                }
                if held.digest() != lent.digest {
                    self.complaints.push(format!("{now:?}: {op:?} was changed while in use"));
                }
                core.done(now, op, Status::Ok);
            }
            Content::Room(_) | Content::Released(_) => {}
        }
    }

    /// The peer says who it is. One of another life is another one.
    fn meet<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        slot: usize,
        incarnation: u64,
    ) {
        let peer = &mut self.peers[slot];
        let before = peer.incarnation.replace(incarnation);
        if before.is_none_or(|before| before == incarnation) {
            return;
        }
        core.link(now, peer.ni, peer.id(), LinkEvent::Restarted);
        if !peer.links.is_empty() {
            self.down(now, core, out, slot, Status::PeerRestarted);
        }
    }

    /// A connection stands; `false` when there is no way back.
    fn open<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        slot: usize,
        link: LinkId,
    ) -> bool {
        let (host, streams) = (self.config.host, self.streams);
        let peer = &mut self.peers[slot];
        if !peer.find_way(out.wire, host, streams) {
            return false;
        }
        peer.links.push(link);
        self.opened += 1;
        if peer.links.len() == 1 {
            core.link(now, peer.ni, peer.id(), LinkEvent::Up);
        }
        true
    }

    /// Answers a peer with which there is no connection.
    fn turn_away(
        &mut self,
        now: Time,
        out: &mut DriverIo<'_>,
        packet: Box<Packet>,
        content: Content,
    ) {
        out.wire.turn_away(now, packet, content);
    }

    fn receive<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        slot: usize,
        packet: Box<Packet>,
    ) {
        let kind = usize::from(!packet.is_small());
        let Content::Message { header, .. } = &packet.content else { return };
        let peer = &self.peers[slot];
        let arrival = Arrival { ni: peer.ni, from: peer.id(), rx: peer.mark(slot, kind) };
        let verdict = match header.body {
            Body::Get { .. } if self.config.answers_gets => {
                match core.recv_get(now, arrival, header) {
                    GetVerdict::Reply(reply) => {
                        self.route(now, core, out, &reply);
                        Verdict::Done
                    }
                    GetVerdict::Other(verdict) => verdict,
                }
            }
            _ => core.recv_header(now, arrival, header),
        };
        match verdict {
            Verdict::Park => self.peers[slot].parked(kind).push_front(packet),
            verdict => self.obey(now, core, out, slot, packet, &verdict),
        }
    }

    /// Does what the core said about a message.
    fn obey<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        slot: usize,
        mut packet: Box<Packet>,
        verdict: &Verdict,
    ) {
        let Content::Message { payload, lent, .. } = &mut packet.content else { return };
        match verdict {
            Verdict::Into { op, spans } => {
                self.regions.check(spans);
                let mut rest = core::mem::take(payload);
                let mut right = true;
                for span in spans {
                    let part = rest.split_to(u64::from(span.len));
                    out.memory.put(*span, &part);
                    right &= out.memory.holds(*span, &part);
                }
                if !right {
                    self.complaints.push(format!("{now:?}: {op:?} is not what was sent"));
                }
                core.done(now, *op, Status::Ok);
            }
            Verdict::Done | Verdict::Drop => {}
            Verdict::Park => unreachable!("what is parked is resumed with something else"),
            Verdict::Refuse(_) => {
                return self.close(now, core, out, slot, Status::Protocol);
            }
        }
        match *lent {
            Some(op) => out.wire.confirm(now, packet, op),
            None => out.wire.packets.discard(packet),
        }
    }

    /// Goes on with a parked message, and with what waited behind it.
    pub(super) fn resume<C: Core>(
        &mut self,
        now: Time,
        core: &mut C,
        out: &mut DriverIo<'_>,
        rx: RxId,
        verdict: &Verdict,
    ) {
        let (slot, kind) = unmark(rx);
        let peer = self.peers.get_mut(slot).filter(|peer| peer.mark(slot, kind) == rx);
        let Some(peer) = peer else { return too_late(now, core, verdict) };
        let Some(packet) = peer.parked(kind).pop_front() else {
            return too_late(now, core, verdict);
        };
        let mut waiting = core::mem::take(peer.parked(kind));
        self.obey(now, core, out, slot, packet, verdict);
        while let Some(packet) = waiting.pop_front() {
            if !self.peers[slot].links.contains(&packet.link) {
                continue;
            }
            self.receive(now, core, out, slot, packet);
            let parked = self.peers[slot].parked(kind);
            if !parked.is_empty() {
                parked.append(&mut waiting);
            }
        }
    }
}

/// The core has decided about a parked message whose connection is gone.
fn too_late<C: Core>(now: Time, core: &mut C, verdict: &Verdict) {
    if let Verdict::Into { op, .. } = verdict {
        core.done(now, *op, Status::ConnectionLost);
    }
}
