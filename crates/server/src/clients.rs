//! What a target has on its disk of its clients: who they are, and the replies to their changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use lustrine_fswire::fid::Fid;

use crate::table::Table;

/// Most replies that are kept for a client which never says what it has received.
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
    /// On the disk at once.
    known: BTreeSet<Vec<u8>>,
    /// By client and xid.
    replies: Table<(Name, u64), SavedReply>,
}

/// How a client names itself.
type Name = Arc<[u8]>;

impl Clients {
    /// A client connects for the first time, or comes back after it was removed.
    pub(crate) fn add(&mut self, uuid: &[u8]) {
        self.known.insert(uuid.to_vec());
    }

    /// A client is gone.
    pub(crate) fn remove(&mut self, step: u64, uuid: &[u8]) {
        self.known.remove(uuid);
        self.forget(step, uuid, |_, _| true);
    }

    /// Whether a client may come back after a restart with what it had.
    pub(crate) fn knows(&self, uuid: &[u8]) -> bool {
        self.known.contains(uuid)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.known.iter()
    }

    /// The reply to a request.
    pub(crate) fn reply(&self, uuid: &[u8], xid: u64) -> Option<&SavedReply> {
        self.replies.get(&(uuid.into(), xid))
    }

    /// Keeps the reply to a change. The one of the same slot before it has arrived.
    pub(crate) fn save(&mut self, step: u64, uuid: &[u8], xid: u64, reply: SavedReply) {
        let tag = reply.tag;
        if tag != 0 {
            self.forget(step, uuid, |_, saved| saved.tag == tag);
        }
        let key: (Name, u64) = (uuid.into(), xid);
        let first = (key.0.clone(), 0);
        let count = self.replies.range(first.clone()..=(key.0.clone(), u64::MAX)).count();
        if count >= REPLIES_MAX {
            let oldest = self.replies.range(first..).next().map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.replies.set(step, oldest, None);
            }
        }
        self.replies.set(step, key, Some(reply));
    }

    /// The client has the replies to all requests up to an xid.
    pub(crate) fn received(&mut self, step: u64, uuid: &[u8], upto: u64) {
        self.forget(step, uuid, |xid, _| xid <= upto);
    }

    fn forget(&mut self, step: u64, uuid: &[u8], which: impl Fn(u64, &SavedReply) -> bool) {
        let uuid: Name = uuid.into();
        let own = self.replies.range((uuid.clone(), 0)..=(uuid, u64::MAX));
        let gone: Vec<(Name, u64)> = own
            .filter(|((_, xid), saved)| which(*xid, saved))
            .map(|(key, _)| key.clone())
            .collect();
        for key in gone {
            self.replies.set(step, key, None);
        }
    }

    pub(crate) fn commit(&mut self, upto: u64) {
        self.replies.commit(upto);
    }

    pub(crate) fn roll_back(&mut self) {
        self.replies.roll_back();
    }

    /// Number of replies that are kept.
    pub(crate) fn replies(&self) -> usize {
        self.replies.len()
    }
}
