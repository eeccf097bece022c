//! After a connect: replay of changes and locks, and what was not answered [IMP-10] to [IMP-12].

use std::ops::Bound;

use lustrine_fswire::opcode::Opcode;
use lustrine_lnet::time::Time;

use super::{Action, Import, ImportState};
use crate::request::{Keep, Purpose, Reply, Request, RequestArgs, RequestKey, RpcError, Stage};
use crate::xid::XidSource;

impl Import {
    /// The first transaction that is to be replayed.
    pub(super) fn first_replay(&self) -> Option<u64> {
        self.next_replay(0).map(|(transno, _)| transno)
    }

    /// The first kept request after a transaction that the server may have lost.
    fn next_replay(&self, after: u64) -> Option<(u64, RequestKey)> {
        // What is committed has the lower numbers.
        let opens = self.opens.range((Bound::Excluded(after), Bound::Unbounded));
        let mut later = opens.chain(self.kept.after(&after));
        let wanted = |key: &RequestKey| {
            let request = &self.requests[*key];
            let is_open =
                request.args.keep == Keep::UntilReleased && !request.released && !request.closing;
            is_open || request.transno > self.last_committed
        };
        later.find(|(_, key)| wanted(key)).map(|(transno, key)| (*transno, *key))
    }

    /// Replays the next change; after the last one come the locks.
    pub(super) fn replay(&mut self, now: Time, xids: &mut XidSource) {
        self.set_state(ImportState::Replay);
        self.awaits_owner = false;
        match self.next_replay(self.replayed) {
            None => self.replay_locks(),
            Some((_, key)) => {
                let request = &mut self.requests[key];
                request.replaying = true;
                let replay = request.replay.take();
                if let Some(message) = replay.and_then(|replay| replay.make(&request.args.message))
                {
                    request.args.message = message;
                }
                self.transmit(now, xids, key);
            }
        }
    }

    /// The reply to a replay. The next one may name the file that this one has opened by its
    /// handle, so it waits for the owner.
    pub(super) fn on_replayed(&mut self, key: RequestKey, reply: Reply) {
        self.set_stage(key, Stage::Kept);
        let request = &mut self.requests[key];
        request.replaying = false;
        self.replayed = request.transno;
        let user = request.args.user;
        self.awaits_owner = true;
        self.actions.push_back(Action::Replayed { key, user, reply });
    }

    /// Goes on with the replay, after [`Action::Replayed`] and what the owner then had to
    /// [replace](Import::replace_open_handle).
    pub fn replay_next(&mut self, now: Time, xids: &mut XidSource) {
        if self.state == ImportState::Replay && core::mem::take(&mut self.awaits_owner) {
            self.replay(now, xids);
        }
    }

    /// The owner's locks come next.
    pub(super) fn replay_locks(&mut self) {
        self.set_state(ImportState::ReplayLocks);
        self.actions.push_back(Action::ReplayLocks);
    }

    /// Enqueues a lock again, after [`Action::ReplayLocks`].
    pub fn replay_lock(
        &mut self,
        now: Time,
        xids: &mut XidSource,
        args: RequestArgs,
    ) -> RequestKey {
        let key = self.requests.insert(Request::new(args, Purpose::LockReplay));
        match self.state {
            ImportState::ReplayLocks => self.transmit(now, xids, key),
            _ => self.finish(key, Err(RpcError::Canceled)),
        }
        key
    }

    /// All locks have been replayed: the final ping is answered when the server's recovery is over.
    pub fn locks_replayed(&mut self, now: Time, xids: &mut XidSource) {
        if self.state != ImportState::ReplayLocks {
            return;
        }
        self.set_state(ImportState::ReplayWait);
        let key = self.own_request(Purpose::FinalPing, Opcode::OBD_PING);
        self.awaits_ping = true;
        self.transmit(now, xids, key);
    }

    /// Sends again what was not answered, and then what waits.
    pub(super) fn recover(&mut self, now: Time, xids: &mut XidSource) {
        if self.state != ImportState::Evicted {
            self.set_state(ImportState::Recover);
        }
        for key in core::mem::take(&mut self.unsent).into_values() {
            self.transmit(now, xids, key);
        }
        (self.replayed, self.lock_rounds) = (0, 0);
        self.set_state(ImportState::Full);
        self.pump(now, xids);
    }

    /// Asks the server for a sign of life, and for what it has committed.
    pub(super) fn send_ping(&mut self, now: Time, xids: &mut XidSource) {
        let key = self.own_request(Purpose::Ping, Opcode::OBD_PING);
        self.awaits_ping = true;
        self.transmit(now, xids, key);
    }

    /// Gives a request the handle of an open that was replayed.
    pub fn replace_open_handle(&mut self, before: u64, now: u64) {
        for request in self.requests.values_mut() {
            let Some(at) = request.args.open_handle_at else { continue };
            let Some(place) = request.args.message.get_mut(at as usize..at as usize + 8) else {
                continue;
            };
            if *place == before.to_le_bytes() {
                place.copy_from_slice(&now.to_le_bytes());
            }
        }
    }

    /// Keeps a request for a replay. The other one that has the number of its transaction.
    pub(super) fn keep(&mut self, transno: u64, key: RequestKey) -> Option<RequestKey> {
        match transno > self.last_committed {
            true => self.kept.insert(transno, key),
            false => self.opens.insert(transno, key),
        }
    }

    /// Whether a request is answered, and is kept to be replayed.
    pub fn is_kept(&self, key: RequestKey) -> bool {
        self.requests.get(key).is_some_and(|request| matches!(request.stage, Stage::Kept))
    }

    /// Whether a transaction is known to be on stable storage; those of a connection that has ended
    /// are not.
    pub fn is_committed(&self, transno: u64) -> bool {
        transno <= self.last_committed
    }

    /// Forgets a kept request.
    pub(super) fn drop_kept(&mut self, key: RequestKey) {
        if let Some(request) = self.requests.get(key) {
            self.kept.remove(&request.transno);
            self.opens.remove(&request.transno);
            self.forget(key);
        }
    }

    /// Forgets a request that is not kept any more.
    fn forget(&mut self, key: RequestKey) {
        if let Some(request) = self.requests.remove(key) {
            self.actions.push_back(Action::Release { key, user: request.args.user });
        }
    }

    /// Notes what the server has on stable storage, and forgets what was kept for its sake.
    pub(super) fn committed(&mut self, last_committed: u64) {
        if last_committed <= self.last_committed {
            return;
        }
        self.last_committed = last_committed;
        while let Some((&transno, &key)) = self.kept.first()
            && transno <= last_committed
        {
            self.kept.pop_first();
            let request = &self.requests[key];
            if request.args.keep == Keep::UntilReleased && !request.released {
                self.opens.insert(transno, key);
            } else {
                self.forget(key);
            }
        }
    }
}
