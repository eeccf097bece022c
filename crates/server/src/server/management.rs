//! Requests to the management server: changes of configurations, and targets that start.

use lustrine_fswire::ldlm::{LockDesc, Resource};
use lustrine_fswire::opcode::{Opcode, Target as Kind};
use lustrine_lnet::service::Turn;

use super::{Server, Slot};
use crate::disk::{Disk, Store};
use crate::mgs::{ConfigChange, FsTarget, MgsStore};
use crate::running::{Job, Work};
use crate::server::jobs::of_no_client;

impl Server {
    /// Adds the target of a disk, and starts it. Its index among the targets.
    pub fn add_disk(&mut self, disk: Disk) -> usize {
        self.slots.push(Slot::Stopped(Box::new(disk)));
        self.start_target(self.slots.len() - 1);
        self.slots.len() - 1
    }

    /// Changes the configuration of a file system, as an administrator or a target that registers
    /// does. Who has the lock of what changed is called back. It is stored also if the management
    /// server does not run. Whether there is such a file system.
    pub fn configure(&mut self, turn: &mut Turn<'_>, fsname: &str, change: &ConfigChange) -> bool {
        let changed = self.change_mgs(|store| store.change(fsname, change));
        if let (true, ConfigChange::AddTarget(FsTarget { kind: Kind::Ost, index, .. })) =
            (changed, change)
        {
            // Metadata targets follow their configuration too.
            self.use_ost(fsname, *index);
        }
        self.settle(turn);
        changed
    }

    /// Whether the management server notifies clients of targets that start: imperative recovery.
    /// It does so from the beginning.
    pub fn set_imperative_recovery(&mut self, on: bool) {
        self.imperative_recovery = on;
    }

    /// A target has started: the management server learns where it is [MGS-17].
    pub(super) fn announce(&mut self, index: usize) {
        let Some(Slot::Running(target)) = self.slots.get(index) else { return };
        if target.kind == Kind::Mgs || !self.imperative_recovery {
            return;
        }
        let (kind, number, instance) = (target.kind, target.index, target.disk.lives as u32);
        let name = target.disk.name().to_owned();
        let Some((fsname, _)) = name.rsplit_once('-') else { return };
        self.change_mgs(|store| {
            let nids = store.nids_of(fsname, kind, number)?;
            store.started(fsname, &FsTarget { kind, index: number, nids }, instance)
        });
    }

    /// Has the metadata targets of a file system make objects on one more object target.
    fn use_ost(&mut self, fsname: &str, index: u32) {
        for slot in &mut self.slots {
            let disk = match slot {
                Slot::Running(target) => &mut target.disk,
                Slot::Stopped(disk) => disk.as_mut(),
            };
            let of_this = disk.name().rsplit_once('-').is_some_and(|(name, _)| name == fsname);
            if let (Store::Mdt(store), true) = (&mut disk.store, of_this) {
                store.add_ost(index);
            }
        }
    }

    /// Changes what the management server has stored. The locks that follow from it are called back
    /// when the server is driven next. Whether there was anything to change.
    fn change_mgs(&mut self, change: impl FnOnce(&mut MgsStore) -> Option<LockDesc>) -> bool {
        for (index, slot) in self.slots.iter_mut().enumerate() {
            let disk = match slot {
                Slot::Running(target) => &mut target.disk,
                Slot::Stopped(disk) => disk.as_mut(),
            };
            if let Store::Mgs(store) = &mut disk.store {
                let Some(lock) = change(store) else { return false };
                self.revocations.push((index, lock.resource));
                return true;
            }
        }
        false
    }

    /// Calls the locks of configurations back that have changed. Whether there were any.
    pub(super) fn revoke(&mut self, turn: &mut Turn<'_>) -> bool {
        let due: Vec<(usize, Resource)> = core::mem::take(&mut self.revocations);
        let busy = !due.is_empty();
        for (index, resource) in due {
            self.next_job += 1;
            let received = of_no_client(turn, Opcode::LDLM_ENQUEUE);
            let job = Job::new(self.next_job, Work::Revoke(resource), received, 0);
            self.run(turn, index, job);
        }
        busy
    }
}
