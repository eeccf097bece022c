//! What programs have written and servers are not going to have, by file.

use core::ops::Range;

use lustrine_fswire::fid::Fid;
use lustrine_ptlrpc::RpcError;

use super::ObjectKey;
use super::object::ObjectData;
use super::unstable::total;
use crate::client::Client;
use crate::error::ClientError;

/// Bytes of a file that a user has written, and that cannot be written any more.
#[derive(Clone, Debug, PartialEq)]
pub struct LostWrites {
    /// The file.
    pub fid: Fid,
    /// Who has written the first of them, as the servers know this user.
    pub uid: u32,
    /// Why they cannot be written.
    pub error: ClientError,
    /// How many.
    pub bytes: u64,
}

/// Most losses that are kept until somebody asks for them.
const LOSSES_MAX: usize = 1000;

/// Losses that nobody has asked for yet.
#[derive(Default)]
pub(super) struct Losses(Vec<LostWrites>);

impl Losses {
    fn note(&mut self, loss: LostWrites) {
        let is_same = |known: &&mut LostWrites| {
            (known.fid, known.uid, &known.error) == (loss.fid, loss.uid, &loss.error)
        };
        if let Some(known) = self.0.iter_mut().find(is_same) {
            known.bytes = known.bytes.saturating_add(loss.bytes);
        } else if self.0.len() < LOSSES_MAX {
            self.0.push(loss);
        }
    }
}

impl ObjectData {
    /// Who has written a byte that is dirty, or else who wrote last.
    pub(super) fn user_at(&self, at: u64) -> u32 {
        let last = || self.writer.map(|writer| writer.caller);
        self.writers.get(&at).copied().or_else(last).map_or(0, |caller| caller.uid)
    }
}

impl Client {
    /// What was lost since the last call, of at most 1,000 files and errors. [`CacheCounts::lost`]
    /// counts all.
    ///
    /// [`CacheCounts::lost`]: super::CacheCounts::lost
    pub fn take_losses(&mut self) -> Vec<LostWrites> {
        core::mem::take(&mut self.cache.losses).0
    }

    /// What is lost if the client ends now, or may be: the files of which servers lack something,
    /// or have something that is not committed; at most 1,000.
    pub fn unwritten(&self) -> Vec<LostWrites> {
        let mut losses = Losses::default();
        let keys =
            self.cache.unwritten.iter().flat_map(|(fid, keys)| keys.iter().map(|key| (*fid, key)));
        for (fid, key) in keys {
            let Some(object) = self.cache.objects.get(key) else { continue };
            let dirty = object.data.pages.dirty(&(0..u64::MAX));
            let parts = dirty.into_iter().chain(object.data.writing.values().flatten().cloned());
            for part in parts {
                let error = ClientError::Rpc(RpcError::TimedOut);
                let bytes = part.end - part.start;
                losses.note(LostWrites { fid, uid: object.data.user_at(part.start), error, bytes });
            }
        }
        for (fid, write) in self.cache.unstable.needed() {
            let Some(fid) = fid else { continue };
            let error = ClientError::Rpc(RpcError::TimedOut);
            let bytes = total(&write.parts);
            losses.note(LostWrites { fid, uid: write.uid, error, bytes });
        }
        losses.0
    }

    /// Parts of an object that a user has written are lost.
    pub(super) fn note_losses<'r>(
        &mut self,
        key: ObjectKey,
        uid: u32,
        error: &ClientError,
        parts: impl IntoIterator<Item = &'r Range<u64>>,
    ) {
        let bytes: u64 = parts.into_iter().map(|part| part.end - part.start).sum();
        self.cache.counts.lost += bytes;
        let fid = self.cache.objects.get(&key).and_then(|object| object.data.fid);
        if let Some(fid) = fid.filter(|_| bytes > 0) {
            self.cache.losses.note(LostWrites { fid, uid, error: error.clone(), bytes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_and_error_is_kept_once_and_not_too_many() {
        let mut losses = Losses::default();
        for oid in (0..2000).chain(0..2000) {
            let fid = Fid { seq: 1, oid, ver: 0 };
            losses.note(LostWrites { fid, uid: 7, error: ClientError::Errno(28), bytes: 5 });
        }
        assert_eq!(losses.0.len(), LOSSES_MAX);
        assert!(losses.0.iter().all(|loss| loss.bytes == 10));
    }
}
