//! What a target has on its disk of its clients: who they are, and the replies to their changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lustrine_fswire::fid::Fid;
use lustrine_ptlrpc::SortedMap;

use crate::offers::MOD_RPCS_MAX;
use crate::table::{Rows, Table};

/// Most replies that are kept for a client which never says what it has received: more than there
/// are slots.
const REPLIES_MAX: usize = 1024;

/// The reply to a change: a request that is sent again gets it once more [RPC-13].
#[derive(Clone, Debug)]
pub(crate) struct SavedReply {
    /// The slot of the request; 0 for none.
    pub(crate) tag: u16,
    /// The message.
    pub(crate) message: Arc<[u8]>,
    /// The life of the target in which it was made.
    pub(crate) life: u64,
    /// Whether it speaks of locks, which are void after a restart: the request is done again then.
    pub(crate) of_locks: bool,
    /// The file that was opened: its handle is void after a restart.
    pub(crate) opened: Option<Fid>,
}

/// The clients of a target, as its disk has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    /// By the names that they give themselves; on the disk at once.
    known: BTreeMap<Vec<u8>, Known>,
    last_number: u32,
    replies: Table<Replies>,
}

/// The replies that are kept for each client that has any, by the number of the client and the xid.
#[derive(Clone, Debug, Default)]
struct Replies {
    of_clients: BTreeMap<u32, SortedMap<u64, SavedReply>>,
    count: usize,
}

impl Replies {
    /// Those of a client, the oldest first.
    fn of(&self, number: u32) -> impl Iterator<Item = (u64, &SavedReply)> {
        let own = self.of_clients.get(&number).into_iter().flat_map(SortedMap::iter);
        own.map(|(xid, saved)| (*xid, saved))
    }

    fn get(&self, number: u32, xid: u64) -> Option<&SavedReply> {
        self.of_clients.get(&number)?.get(&xid)
    }

    /// The xid of the oldest one of a client.
    fn oldest(&self, number: u32) -> Option<u64> {
        self.of(number).next().map(|(xid, _)| xid)
    }
}

impl Rows for Replies {
    type Key = (u32, u64);
    type Value = SavedReply;

    fn insert(&mut self, (number, xid): (u32, u64), reply: SavedReply) -> Option<SavedReply> {
        let before = self.of_clients.entry(number).or_default().insert(xid, reply);
        self.count += usize::from(before.is_none());
        before
    }

    fn remove(&mut self, (number, xid): &(u32, u64)) -> Option<SavedReply> {
        let own = self.of_clients.get_mut(number)?;
        let removed = own.remove(xid);
        self.count -= usize::from(removed.is_some());
        if own.is_empty() {
            self.of_clients.remove(number);
        }
        removed
    }
}

/// A client, and what follows from the replies that are kept for it.
#[derive(Clone, Debug, Default)]
struct Known {
    number: u32,
    /// How many there are.
    replies: usize,
    /// The xid of the last one of each slot that there can be. It may be gone.
    slots: BTreeMap<u16, u64>,
    /// There is none below this xid.
    lowest: u64,
}

impl Known {
    /// Forgets a reply. What a client has received it does not ask for again, whatever is lost.
    fn forget(&mut self, replies: &mut Table<Replies>, xid: u64) {
        replies.forget(&(self.number, xid));
        self.replies -= 1;
    }

    /// Forgets all replies up to an xid.
    fn received(&mut self, replies: &mut Table<Replies>, upto: u64) {
        while self.lowest <= upto {
            let oldest = replies.rows().oldest(self.number);
            match oldest.filter(|xid| *xid <= upto) {
                Some(xid) => self.forget(replies, xid),
                None => {
                    self.lowest = oldest.unwrap_or(u64::MAX);
                    return;
                }
            }
        }
    }

    /// The oldest one of no slot.
    fn oldest_without_slot(&self, replies: &Table<Replies>) -> Option<u64> {
        replies.rows().of(self.number).find(|(_, saved)| saved.tag == 0).map(|(xid, _)| xid)
    }
}

impl Clients {
    /// A client connects for the first time, or comes back after it was removed.
    pub(crate) fn add(&mut self, uuid: &[u8]) {
        if !self.knows(uuid) {
            self.last_number += 1;
            let known = Known { number: self.last_number, ..Known::default() };
            self.known.insert(uuid.to_vec(), known);
        }
    }

    /// A client is gone.
    pub(crate) fn remove(&mut self, uuid: &[u8]) {
        if let Some(mut known) = self.known.remove(uuid) {
            known.received(&mut self.replies, u64::MAX);
        }
    }

    /// Whether a client may come back after a restart with what it had.
    pub(crate) fn knows(&self, uuid: &[u8]) -> bool {
        self.known.contains_key(uuid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.known.keys()
    }

    /// The reply to a request.
    pub(crate) fn reply(&self, uuid: &[u8], xid: u64) -> Option<&SavedReply> {
        self.replies.rows().get(self.known.get(uuid)?.number, xid)
    }

    /// Keeps the reply to a change of a client that is known. The one of the same slot before it
    /// has arrived. Where there are too many, the oldest one of no slot goes: the reply to a change
    /// that is lost holds up what the client says that it has, and is the oldest then.
    pub(crate) fn save(&mut self, step: u64, uuid: &[u8], xid: u64, mut reply: SavedReply) {
        let Some(known) = self.known.get_mut(uuid) else { return };
        if reply.tag > MOD_RPCS_MAX {
            // No client was granted such a slot.
            reply.tag = 0;
        }
        let (number, tag) = (known.number, reply.tag);
        if tag != 0
            && let Some(before) = known.slots.insert(tag, xid)
            && before != xid
            && self.replies.rows().get(number, before).is_some_and(|saved| saved.tag == tag)
        {
            known.forget(&mut self.replies, before);
        }
        let is_new = self.replies.rows().get(number, xid).is_none();
        if is_new
            && known.replies >= REPLIES_MAX
            && let Some(oldest) = known.oldest_without_slot(&self.replies)
        {
            known.forget(&mut self.replies, oldest);
        }
        known.replies += usize::from(is_new);
        known.lowest = known.lowest.min(xid);
        self.replies.set(step, (number, xid), Some(reply));
    }

    /// The client has the replies to all requests up to an xid. Whether it is known.
    pub(crate) fn received(&mut self, uuid: &[u8], upto: u64) -> bool {
        let Some(known) = self.known.get_mut(uuid) else { return false };
        known.received(&mut self.replies, upto);
        true
    }

    pub(crate) fn commit(&mut self, upto: u64) {
        self.replies.commit(upto);
    }

    /// What is not committed is lost, except that clients have come and gone.
    pub(crate) fn roll_back(&mut self) {
        self.replies.roll_back();
        let mut gone: BTreeSet<u32> = self.replies.rows().of_clients.keys().copied().collect();
        for known in self.known.values_mut() {
            gone.remove(&known.number);
            let own = || self.replies.rows().of(known.number);
            known.replies = own().count();
            known.lowest = 0;
            // The later ones of a slot come last.
            let of_slots = own().filter(|(_, saved)| saved.tag != 0);
            known.slots = of_slots.map(|(xid, saved)| (saved.tag, xid)).collect();
        }
        for number in gone {
            let xids: Vec<u64> = self.replies.rows().of(number).map(|(xid, _)| xid).collect();
            xids.iter().for_each(|xid| self.replies.forget(&(number, *xid)));
        }
    }

    /// Number of replies that are kept.
    pub(crate) fn replies(&self) -> usize {
        self.replies.rows().count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(tag: u16) -> SavedReply {
        SavedReply { tag, message: Arc::from([0u8]), life: 1, of_locks: false, opened: None }
    }

    fn xids(clients: &Clients, uuid: &[u8]) -> Vec<u64> {
        (0..5000).filter(|xid| clients.reply(uuid, *xid).is_some()).collect()
    }

    #[test]
    fn a_reply_is_kept_until_the_client_has_it() {
        let mut clients = Clients::default();
        clients.add(b"a");
        clients.add(b"b");
        clients.save(1, b"a", 10, reply(1));
        clients.save(2, b"a", 11, reply(2));
        clients.save(3, b"b", 10, reply(1));
        // The next one of a slot says that the one before has arrived.
        clients.save(4, b"a", 12, reply(1));
        assert_eq!(xids(&clients, b"a"), [11, 12]);
        clients.received(b"a", 11);
        assert_eq!(xids(&clients, b"a"), [12]);
        assert_eq!(xids(&clients, b"b"), [10]);
        // Nothing of a client that is not known is kept.
        clients.remove(b"b");
        clients.save(5, b"b", 13, reply(1));
        clients.add(b"b");
        assert_eq!((xids(&clients, b"b"), clients.replies()), (vec![], 1));
    }

    #[test]
    fn a_client_that_never_says_what_it_has_loses_the_oldest() {
        let mut clients = Clients::default();
        clients.add(b"a");
        for xid in 0..2 * REPLIES_MAX as u64 {
            clients.save(xid, b"a", xid, reply(0));
            clients.save(xid, b"a", xid, reply(0));
        }
        let kept = xids(&clients, b"a");
        assert_eq!((kept.len(), kept[0]), (REPLIES_MAX, REPLIES_MAX as u64));
    }

    #[test]
    fn the_reply_to_a_change_outlives_those_that_only_speak_of_locks() {
        let mut clients = Clients::default();
        clients.add(b"a");
        clients.save(1, b"a", 10, reply(1));
        // The reply of 10 is lost: the client cannot say that it has those of later requests.
        for xid in 11..=10 + REPLIES_MAX as u64 {
            clients.save(xid, b"a", xid, reply(0));
            clients.received(b"a", 9);
        }
        let kept = xids(&clients, b"a");
        assert_eq!((kept.len(), kept[0], kept[1]), (REPLIES_MAX, 10, 12));
        // Its slot is used again: it has arrived.
        clients.save(2000, b"a", 2000, reply(1));
        assert_eq!(xids(&clients, b"a")[0], 12);
    }

    #[test]
    fn a_client_that_makes_slots_up_keeps_no_more() {
        let mut clients = Clients::default();
        clients.add(b"a");
        for tag in 1..=u16::MAX {
            clients.save(u64::from(tag), b"a", u64::from(tag), reply(tag));
        }
        assert_eq!(clients.replies(), REPLIES_MAX);
        assert_eq!(clients.known[&b"a"[..]].slots.len(), usize::from(MOD_RPCS_MAX));
    }

    #[test]
    fn a_crash_undoes_what_is_not_committed() {
        let mut clients = Clients::default();
        clients.add(b"a");
        clients.add(b"b");
        clients.save(1, b"a", 10, reply(1));
        clients.save(2, b"b", 20, reply(1));
        clients.commit(2);
        clients.save(3, b"a", 11, reply(2));
        clients.save(4, b"b", 21, reply(2));
        clients.remove(b"b");
        clients.roll_back();
        assert_eq!((xids(&clients, b"a"), clients.replies()), (vec![10], 1));
        assert_eq!(clients.known[&b"a"[..]].replies, 1);
        // The slots are those of what is left.
        clients.save(3, b"a", 12, reply(2));
        clients.save(4, b"a", 13, reply(1));
        assert_eq!(xids(&clients, b"a"), [12, 13]);
    }

    #[test]
    fn nothing_is_left_of_a_client_that_is_gone() {
        let mut clients = Clients::default();
        clients.add(b"a");
        clients.save(1, b"a", 10, reply(1));
        clients.commit(1);
        // A crash undoes a change of what was kept, and the client has gone meanwhile.
        clients.save(2, b"a", 10, reply(1));
        clients.remove(b"a");
        clients.roll_back();
        assert_eq!(clients.replies(), 0);
        assert!(clients.replies.rows().of_clients.is_empty());
    }
}
