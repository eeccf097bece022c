//! Matching an incoming PUT or GET, entry by entry in list order ([CORE-7] to [CORE-9]).

use lustrine_wire::header::{Body, Header};
use lustrine_wire::nid::ProcessId;

use super::{Msg, PING_BITS, PING_PORTAL, Purpose, Shard, Stage};
use crate::journal::DropReason;
use crate::lnd::{Arrival, Verdict};
use crate::md::{MdKey, MdOptions};
use crate::memory::part_of;
use crate::peer::PeerNiKey;
use crate::portal::{MatchEntry, Me, Origin, PORTALS, Parked, Waiter, sender_matches};
use crate::time::Time;

/// The part of an incoming PUT or GET that is matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) operation: MdOptions,
    pub(super) from: ProcessId,
    /// The peer whose connection it came by; the sender itself writes `from`.
    pub(super) hop: ProcessId,
    pub(super) portal: u32,
    pub(super) match_bits: u64,
    pub(super) offset: u32,
    pub(super) length: u32,
}

/// The outcome of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// `length` bytes at `offset` of the descriptor.
    Match { md: MdKey, offset: u32, length: u32 },
    /// The entry that matches has too little space and does not truncate: the search ends.
    TooLong,
    /// Nothing matches.
    Nothing,
}

impl Shard {
    pub(super) fn find_match(&mut self, wanted: &Wanted) -> Found {
        if wanted.portal >= PORTALS {
            return Found::Nothing;
        }
        let matches = |me: &Me| {
            let state = &self.mds[me.md];
            let differing = (me.entry.match_bits ^ wanted.match_bits) & !me.entry.ignore_bits;
            differing == 0
                && !state.exhausted()
                && state.md.options.contains(wanted.operation)
                && sender_matches(&me.entry.from, &wanted.from, &wanted.hop, |one, other| {
                    self.peers.same_peer(one, other)
                })
        };
        let found = self.portals.find(wanted.portal, wanted.match_bits, matches);
        let Some(md) = found else { return Found::Nothing };
        let state = &mut self.mds[md];
        let remote = state.md.options.contains(MdOptions::MANAGE_REMOTE);
        let offset = if remote { wanted.offset } else { state.local_offset };
        let room = state.length.saturating_sub(offset);
        let space = state.md.max_size.map_or(room, |max| max.min(room));
        if wanted.length > space && !state.md.options.contains(MdOptions::TRUNCATE) {
            return Found::TooLong;
        }
        let length = wanted.length.min(space);
        // Nothing is stored behind the end: keep the offset inside the descriptor.
        let offset = offset.min(state.length);
        state.count_operation();
        state.local_offset = offset + length;
        if state.goes_when_idle()
            && let Some(key) = state.me.take()
        {
            self.portals.remove(key);
        }
        Found::Match { md, offset, length }
    }

    /// Tries the parked PUTs that a newly attached entry may match, in the order of arrival, while
    /// it accepts more.
    pub(super) fn try_parked(
        &mut self,
        now: Time,
        portal: u32,
        entry: &MatchEntry,
        attached: MdKey,
    ) {
        let mut next = self.portals.first_parked_for(portal, entry);
        while self.mds.get(attached).is_some_and(|state| !state.exhausted())
            && let Some(key) = next
        {
            next = self.portals.parked.after_for(entry, key);
            let parked = self.portals.parked.get(key);
            let hop = match parked.origin {
                Origin::Driver(arrival) => arrival.from,
                Origin::Loopback(_) => parked.header.src,
            };
            let wanted = put_wanted(&parked.header, hop).expect("only PUTs are parked");
            let found = self.find_match(&wanted);
            if found == Found::Nothing {
                continue;
            }
            self.portals.remove_parked(portal, key);
            match (found, parked.origin) {
                (Found::Nothing, _) => unreachable!("it waits on"),
                (Found::TooLong, Origin::Driver(arrival)) => {
                    self.drop_counted(&arrival, &parked.header);
                    let verdict = Verdict::Drop;
                    self.note_drop(DropReason::TooLong);
                    self.note_rx_resumed(now, arrival.rx, &verdict);
                    self.reports.resume(arrival.ni, arrival.rx, verdict);
                }
                (Found::Match { md, offset, length }, Origin::Driver(arrival)) => {
                    let (header, peer_ni) = (&parked.header, self.peers.find(&arrival.from.nid));
                    let verdict = self.receive_put(&arrival, header, peer_ni, md, offset, length);
                    self.note_rx_resumed(now, arrival.rx, &verdict);
                    self.reports.resume(arrival.ni, arrival.rx, verdict);
                }
                (found, Origin::Loopback(op)) => self.matched_loopback(op, found),
            }
        }
    }

    /// Drops the PUTs parked on a portal.
    pub(super) fn drop_parked(&mut self, portal: u32) {
        while let Some(key) = self.portals.first_parked(portal) {
            let parked = self.portals.parked.get(key);
            self.portals.remove_parked(portal, key);
            match parked.origin {
                Origin::Driver(arrival) => {
                    self.drop_counted(&arrival, &parked.header);
                    let verdict = Verdict::Drop;
                    self.note_rx_dropped(arrival.rx, DropReason::NoMatch);
                    self.reports.resume(arrival.ni, arrival.rx, verdict);
                }
                Origin::Loopback(op) => self.matched_loopback(op, Found::Nothing),
            }
        }
    }

    /// Removes a PUT whose sender is gone, if it is parked.
    pub(super) fn withdraw_parked(&mut self, waiter: Waiter) {
        let Some((key, parked)) = self.portals.parked.of(waiter) else { return };
        let Body::Put { portal, .. } = parked.header.body else { return };
        self.portals.remove_parked(portal, key);
        if let Origin::Driver(arrival) = parked.origin {
            self.note_rx_dropped(arrival.rx, DropReason::ConnectionGone);
        }
    }

    /// Parks a PUT that matched nothing on a lazy portal.
    pub(super) fn park(&mut self, header: &Header, origin: Origin) -> bool {
        let Body::Put { portal, match_bits, .. } = header.body else { return false };
        if portal == PING_PORTAL && match_bits != PING_BITS {
            // No entry of the core's own portal will ever match it.
            return false;
        }
        self.portals.park(portal, Parked { header: *header, match_bits, origin })
    }

    /// Creates the message that receives a PUT that matched. The ACK goes to the previous hop,
    /// `peer_ni`, on its credits.
    pub(super) fn receive_put(
        &mut self,
        arrival: &Arrival,
        header: &Header,
        peer_ni: Option<PeerNiKey>,
        md: MdKey,
        offset: u32,
        length: u32,
    ) -> Verdict {
        let Body::Put { portal, match_bits, .. } = header.body else {
            unreachable!("only PUTs are received here");
        };
        let spans = part_of(&self.mds[md].md.spans, offset, length);
        let op = self.new_msg(Msg {
            stage: Stage::Receiving,
            purpose: Purpose::PutIn,
            header: *header,
            ni: arrival.ni,
            hop: arrival.from,
            peer_ni,
            md: Some(md),
            payload: Default::default(),
            offset,
            moved: length,
            time: Time::NEVER,
            portal,
            match_bits,
            requested: header.payload_len,
        });
        Verdict::Into { op, spans }
    }
}

/// The request of a PUT header that came from `hop`; `None` for other types.
pub(super) fn put_wanted(header: &Header, hop: ProcessId) -> Option<Wanted> {
    let Body::Put { match_bits, portal, offset, .. } = header.body else { return None };
    Some(Wanted {
        operation: MdOptions::OP_PUT,
        from: header.src,
        hop,
        portal,
        match_bits,
        offset,
        length: header.payload_len,
    })
}

/// The request of a GET header that came from `hop`; `None` for other types. Its length is that of
/// the sink; a descriptor with less and without TRUNCATE does not match ([CORE-8]).
pub(super) fn get_wanted(header: &Header, hop: ProcessId) -> Option<Wanted> {
    let Body::Get { match_bits, portal, offset, sink_len, .. } = header.body else { return None };
    Some(Wanted {
        operation: MdOptions::OP_GET,
        from: header.src,
        hop,
        portal,
        match_bits,
        offset,
        length: sink_len,
    })
}
