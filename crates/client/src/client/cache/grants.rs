//! Space that an object server has promised: data are dirty only if there is room for them [OST-7].
//! What is not needed for long is given back [OST-18].

use core::ops::Range;

use lustrine_fswire::codec::Wire;
use lustrine_fswire::connect::{ConnectData, ConnectFlags};
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::{Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Request, obd};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::ImportKey;

use super::{Cache, TargetIo};
use crate::client::{CallArgs, Client};
use crate::error::malformed;
use crate::reply::reply_of;

/// What the client could use, as it tells the server: so much that a server which has the room lets
/// several transfers become dirty while others are on their way.
const WANTED: u64 = 128 << 20;

/// After so long without a request for data the grant of a target is too much (Lustre's
/// `grant_shrink_interval`).
const SHRINK_INTERVAL: Nanos = Nanos::from_secs(1200);

/// The key of the request that gives grant back.
const SHRINK_KEY: &[u8] = b"grant_shrink\0";

/// The grant of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// Bytes that the server has promised, those for dirty data included.
    held: u64,
    /// Bytes for what is dirty now.
    reserved: u64,
    /// Bytes that writes in flight have used up.
    sent: u64,
    /// Bytes of a block of the server.
    block: u64,
    /// Bytes that each extent costs beside its data.
    tax: u64,
    /// Bytes of the largest extent.
    extent: u64,
    /// How often the target was connected.
    connects: u32,
}

impl Grant {
    /// What a server granted at connect. What is in flight counts against it.
    pub(super) fn connected(&mut self, granted: &ConnectData) {
        let flags = granted.flags;
        let held = if flags.contains(ConnectFlags::GRANT) { granted.grant.into() } else { 0 };
        self.held = u64::saturating_sub(held, self.sent);
        self.connects = self.connects.wrapping_add(1);
        if flags.contains(ConnectFlags::GRANT_PARAM) {
            self.block = 1 << granted.grant_blkbits.clamp(12, 20);
            self.tax = u64::from(granted.grant_tax_kb) << 10;
            self.extent = u64::from(granted.grant_max_blks).max(1) * self.block;
        } else {
            (self.block, self.tax, self.extent) = (4096, 0, u64::MAX);
        }
    }

    /// What a reconnect asks for: the cost of what is dirty and of what is in flight [OST-17].
    fn claim(&self) -> u32 {
        u32::try_from(self.reserved.saturating_add(self.sent)).unwrap_or(u32::MAX)
    }

    /// What may be given back after a time without requests, so that what is dirty and `enough`
    /// stay; if there is not more than that, only `least` stays.
    fn excess(&self, enough: u64, least: u64) -> u64 {
        let kept = if self.held > enough { enough } else { least };
        self.held.saturating_sub(kept.max(self.reserved))
    }

    /// Gives bytes back.
    fn give_back(&mut self, bytes: u64) {
        self.held = self.held.saturating_sub(bytes);
    }

    /// The server has not taken all that was given back.
    fn take_back(&mut self, bytes: u64) {
        self.held = self.held.saturating_add(bytes);
    }

    /// What a dirty range costs: its blocks, and a tax for each extent.
    pub(super) fn cost(&self, range: &Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let block = self.block.max(4096);
        let blocks = (range.end.div_ceil(block) - range.start / block).saturating_mul(block);
        let extents = if self.extent == 0 { 1 } else { blocks.div_ceil(self.extent) };
        blocks.saturating_add(extents.saturating_mul(self.tax))
    }

    /// What is reserved when ranges that were `before` are `after`.
    fn reserved_with(&self, before: &[Range<u64>], after: &[Range<u64>]) -> u64 {
        let cost = |ranges: &[Range<u64>]| ranges.iter().map(|range| self.cost(range)).sum::<u64>();
        self.reserved.saturating_sub(cost(before)).saturating_add(cost(after))
    }

    /// Reserves for ranges that became `after` where there was `before`. Whether there is room: if
    /// there is not, nothing has changed. A write of `transfer` bytes may end within an extent, and
    /// the rest pays the tax once more.
    pub(super) fn reserve(
        &mut self,
        before: &[Range<u64>],
        after: &[Range<u64>],
        transfer: u64,
    ) -> bool {
        let reserved = self.reserved_with(before, after);
        let cuts = reserved / transfer.max(1) + 1;
        if reserved.saturating_add(cuts.saturating_mul(self.tax)) > self.held {
            return false;
        }
        self.reserved = reserved;
        true
    }

    /// Ranges are not dirty as before, but as after: less is reserved.
    pub(super) fn release(&mut self, before: &[Range<u64>], after: &[Range<u64>]) {
        self.reserved = self.reserved_with(before, after);
    }

    /// A write of ranges is about to be sent, and nothing is reserved for it any more: it is paid
    /// from what is left, if that suffices. What it costs; none if the server has to find the space
    /// when it executes the write.
    pub(super) fn spend(&mut self, parts: &[Range<u64>]) -> Option<u64> {
        let cost = parts.iter().map(|part| self.cost(part)).fold(0, u64::saturating_add);
        if self.held.saturating_sub(self.reserved) < cost {
            return None;
        }
        self.held -= cost;
        self.sent = self.sent.saturating_add(cost);
        Some(cost)
    }

    /// A write that cost so much is going to be made again. If it has not left, the server has not
    /// taken the space.
    pub(super) fn refund(&mut self, cost: u64, not_sent: bool) {
        if not_sent {
            self.held = self.held.saturating_add(cost);
        }
    }

    /// A write is over, which cost so much.
    pub(super) fn settled(&mut self, cost: u64) {
        self.sent = self.sent.saturating_sub(cost);
    }

    /// The connection that a request is for which is made now.
    pub(super) fn connection(&self) -> u32 {
        self.connects
    }

    /// The server says how much more it promises. What it said to a request of an earlier
    /// connection does not count: the reply can be one that it made before this one, which began
    /// with what the client claimed [OST-17].
    pub(super) fn extended(&mut self, reply: &Obdo, connection: u32) {
        if reply.valid.contains(MdValid::GRANT) && connection == self.connects {
            self.held = self.held.saturating_add(reply.grant);
        }
    }

    /// What a write says of the grant, which costs `used` of it.
    pub(super) fn report(&self, body: &mut Obdo, used: u64) {
        // Both bits, or the server looks at none of it.
        body.valid |= MdValid::BLOCKS | MdValid::GRANT;
        body.grant = self.held;
        body.data_version = used;
        // The fields of dirty and of wanted bytes.
        body.blocks = self.reserved.saturating_add(used);
        body.mode = WANTED as u32;
        body.misc = 0;
    }
}

impl Cache {
    /// The grant of a target, to change it.
    pub(super) fn grant(&mut self, import: ImportKey) -> &mut Grant {
        self.grants_changed.insert(import);
        &mut self.targets.entry(import).or_default().grant
    }

    /// What a target has promised and data have not used, in bytes.
    pub(in crate::client) fn granted(&self, import: ImportKey) -> u64 {
        self.targets.get(&import).map_or(0, |target| target.grant.held)
    }

    /// A request for data of a target is made: its grant is in use.
    pub(super) fn uses_grant(&mut self, import: ImportKey, now: Time) {
        self.targets.entry(import).or_default().last_io = now;
        self.shrink_at.get_or_insert(now + SHRINK_INTERVAL);
    }
}

impl Client {
    /// Sets what the imports claim when they connect again.
    pub(in crate::client) fn claim_grants(&mut self, turn: &mut Turn<'_>) {
        while let Some(import) = self.cache.grants_changed.pop_first() {
            let target = self.cache.targets.get(&import);
            let claim = target.map_or(0, |target| target.grant.claim());
            self.rpc.with(turn, import, |import, _, _| import.set_grant_claim(claim));
        }
    }

    /// Gives grant of targets back that were not used for long.
    pub(super) fn shrink_grants(&mut self, turn: &mut Turn<'_>) {
        if self.cache.shrink_at.is_none_or(|at| turn.now < at) {
            return;
        }
        self.cache.shrink_at = None;
        for import in self.cache.targets.keys().copied().collect::<Vec<_>>() {
            self.shrink_grant(turn, import);
        }
    }

    fn shrink_grant(&mut self, turn: &mut Turn<'_>, import: ImportKey) {
        let Some(at) = self.rpc.import(import) else { return };
        let shrinks = at.granted().flags.contains(ConnectFlags::GRANT_SHRINK);
        let brw = self.object_brw(import);
        let enough = (u64::from(self.rpcs_in_flight(import)) + 1).saturating_mul(brw);
        let full = self.is_full(import);
        let target: &mut TargetIo = self.cache.targets.entry(import).or_default();
        let excess = target.grant.excess(enough, brw);
        if !shrinks || excess == 0 {
            return;
        }
        let due = target.last_io + SHRINK_INTERVAL;
        if due > turn.now || !full {
            let next = due.max(turn.now + Nanos::from_secs(60));
            let before = self.cache.shrink_at.unwrap_or(Time::NEVER);
            self.cache.shrink_at = Some(before.min(next));
            return;
        }
        self.cache.uses_grant(import, turn.now);
        let grant = self.cache.grant(import);
        grant.give_back(excess);
        let mut body = Obdo { valid: MdValid::FLAGS, ..Obdo::default() };
        body.flags = ObdoFlags::SHRINK_GRANT;
        grant.report(&mut body, 0);
        body.grant = excess;
        let value = body.to_bytes();
        let request = Request::OstSetInfo(obd::SetInfo { key: SHRINK_KEY, value: &value });
        self.call(turn, import, CallArgs::from(request), move |client, _, answer| {
            let kept = answer.and_then(|answer| {
                let reply = reply_of!(&answer.reply, OstSetInfo)?;
                reply.body.ok_or_else(|| malformed("a reply without a grant"))
            });
            // Without an answer it is not known, and less is claimed than there may be.
            if let Ok(body) = kept {
                client.cache.grant(import).take_back(body.grant.min(excess));
            }
        });
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges are meant")]
mod tests {
    use super::*;

    /// Bytes of a write.
    const TRANSFER: u64 = 4 << 20;

    fn connected(grant: u32) -> Grant {
        let granted = ConnectData {
            flags: ConnectFlags::GRANT | ConnectFlags::GRANT_PARAM,
            grant,
            grant_blkbits: 12,
            grant_tax_kb: 24,
            grant_max_blks: 16384,
            ..ConnectData::default()
        };
        let mut found = Grant::default();
        found.connected(&granted);
        found
    }

    /// The numbers of a kernel client (golden/fs s04 and s06, ost.md): 4 KiB cost 28,672, 4 MiB
    /// cost 4,218,880.
    #[test]
    fn a_range_costs_its_blocks_and_a_tax() {
        let grant = connected(8_437_760);
        assert_eq!(grant.cost(&(0..4096)), 28_672);
        assert_eq!(grant.cost(&(0..4 << 20)), 4_218_880);
        assert_eq!(grant.cost(&(10..20)), 28_672);
        assert_eq!(grant.cost(&(4095..4097)), 8192 + 24_576);
        assert_eq!(grant.cost(&(7..7)), 0);
    }

    #[test]
    fn what_is_dirty_never_costs_more_than_is_promised() {
        let mut grant = connected(60_000);
        assert!(grant.reserve(&[], &[0..4096], TRANSFER));
        // The same extent, one block longer.
        assert!(grant.reserve(&[0..4096], &[0..8192], TRANSFER));
        assert_eq!((grant.held, grant.reserved), (60_000, 32_768));
        assert!(!grant.reserve(&[], &[1 << 20..(1 << 20) + 4096], TRANSFER));
        assert_eq!((grant.held, grant.reserved), (60_000, 32_768));
        grant.release(&[0..8192], &[]);
        assert_eq!(grant.spend(&[0..8192]), Some(32_768));
        assert_eq!((grant.held, grant.reserved), (27_232, 0));
        assert_eq!(grant.spend(&[0..8192]), None);
        let mut body = Obdo::default();
        grant.report(&mut body, 32_768);
        assert_eq!((body.grant, body.dirty(), body.grant_used()), (27_232, 32_768, 32_768));
        let more = Obdo { valid: MdValid::GRANT, grant: 5000, ..Obdo::default() };
        let connection = grant.connection();
        grant.extended(&more, connection);
        grant.extended(&Obdo { grant: 5000, ..Obdo::default() }, connection);
        assert_eq!(grant.held, 32_232);
        // After a reconnect, what is in flight is still to be paid.
        grant.connected(&ConnectData {
            flags: ConnectFlags::GRANT,
            grant: 40_000,
            ..ConnectData::default()
        });
        assert_eq!(grant.held, 7232);
        grant.settled(32_768);
        // The reply to it can be from before (seed 900000070).
        grant.extended(&more, connection);
        assert_eq!(grant.held, 7232);
        grant.extended(&more, grant.connection());
        assert_eq!(grant.held, 12_232);
    }

    /// Seen with a live server: what had been taken into memory was refused when it was sent, since
    /// the second write began within an extent.
    #[test]
    fn what_is_reserved_suffices_for_all_writes_that_send_it() {
        const PIECE: u64 = 1 << 20;
        for gap in [0, 4096] {
            let mut grant = connected(20_000_000);
            let (mut dirty, mut end) = (Vec::<Range<u64>>::new(), 0);
            // Extents of 1 MiB with gaps, or a single one.
            loop {
                let (mut before, piece) = (Vec::new(), end..end + PIECE);
                let mut after = vec![piece.clone()];
                if let Some(last) = dirty.last().filter(|last| last.end == piece.start) {
                    before.push(last.clone());
                    after = vec![last.start..piece.end];
                }
                if !grant.reserve(&before, &after, TRANSFER) {
                    break;
                }
                dirty.truncate(dirty.len() - before.len());
                dirty.extend(after);
                end = piece.end + gap;
            }
            while !dirty.is_empty() {
                // Each write but the last one is full.
                let (mut parts, mut left) = (Vec::new(), TRANSFER);
                while left > 0 && !dirty.is_empty() {
                    let first = dirty.remove(0);
                    let at = first.end.min(first.start + left / 4096 * 4096);
                    let rest: Vec<Range<u64>> =
                        [at..first.end].into_iter().filter(|rest| !rest.is_empty()).collect();
                    left = if rest.is_empty() { left - (at - first.start) } else { 0 };
                    grant.release(core::slice::from_ref(&first), &rest);
                    parts.push(first.start..at);
                    dirty.splice(0..0, rest);
                }
                assert!(grant.spend(&parts).is_some(), "{parts:?} of gaps of {gap}: {grant:?}");
            }
        }
    }

    #[test]
    fn a_server_that_promises_nothing_gets_everything_at_once() {
        let mut grant = Grant::default();
        grant.connected(&ConnectData { grant: 1 << 20, ..ConnectData::default() });
        assert!(!grant.reserve(&[], &[0..1], TRANSFER));
        assert_eq!(grant.spend(&[0..1]), None);
    }
}
