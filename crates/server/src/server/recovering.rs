//! Recovery: replays in their order, then locks, then everything else.

use lustrine_fswire::opcode::Target as Kind;
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::server::Phase;

use super::{Server, Waiting, Waits};

impl Server {
    /// Goes on with the recovery of a target. Whether anything happened.
    pub(super) fn drive_recovery(&mut self, turn: &mut Turn<'_>, index: usize) -> bool {
        let now = turn.now;
        let Some(target) = self.running(index) else { return false };
        let Some(recovery) = &mut target.recovery else { return false };
        let late = recovery.overdue(now);
        let mut busy = !late.is_empty();
        for uuid in late {
            let Some(target) = self.running(index) else { return busy };
            match target.exports.find(&uuid).map(|export| export.cookie) {
                Some(cookie) => self.evict_client(now, index, cookie),
                None => {
                    target.disk.clients.remove(&uuid);
                    target.evictions += 1;
                    if let Some(recovery) = &mut target.recovery {
                        recovery.remove(&uuid);
                    }
                }
            }
        }
        // One replay after the other.
        if self.replaying.contains_key(&index) {
            return busy;
        }
        let Some(recovery) = self.running(index).and_then(|target| target.recovery.as_mut()) else {
            return busy;
        };
        match recovery.phase() {
            Phase::Requests => {
                if let Some(id) = recovery.next_replay(now) {
                    busy = true;
                    self.replaying.insert(index, id);
                    match self.jobs.contains_key(&id) {
                        true => self.resume(turn, id),
                        false => {
                            self.replaying.remove(&index);
                        }
                    }
                }
            }
            Phase::Locks => {
                for id in self.waiting_for(index, |waits| matches!(waits, Waits::LockReplay)) {
                    busy = true;
                    self.resume(turn, id);
                }
            }
            Phase::Over => {
                busy = true;
                self.end_recovery(turn, index);
            }
        }
        busy
    }

    fn waiting_for(&self, index: usize, which: impl Fn(&Waits) -> bool) -> Vec<u64> {
        let wanted = |waiting: &Waiting| waiting.target == index && which(&waiting.waits);
        self.jobs.iter().filter(|(_, waiting)| wanted(waiting)).map(|(id, _)| *id).collect()
    }

    /// All clients are done, or given up.
    fn end_recovery(&mut self, turn: &mut Turn<'_>, index: usize) {
        let now = turn.now;
        let late = self.waiting_for(index, |waits| matches!(waits, Waits::LockReplay));
        for id in late {
            self.resume(turn, id);
        }
        let Some(target) = self.running(index) else { return };
        target.recovery = None;
        target.exports.forgive_silence(now);
        target.locks.end_replay(now.0);
        target.disk.journal.begin_epoch();
        if target.kind == Kind::Mdt {
            target.remove_orphans(now);
        }
        for id in self.waiting_for(index, |waits| matches!(waits, Waits::RecoveryEnd)) {
            self.resume(turn, id);
        }
    }
}
