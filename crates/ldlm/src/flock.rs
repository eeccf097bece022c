//! Flocks: locks of ranges of files for programs [LOCK-16].
//!
//! An owner has at most one lock on each byte. A new one replaces what the owner had there, and
//! grows together with neighbours of its mode. The server does the same on its side without a word,
//! so the client does it too: what it has is what a server gets again after a restart.

use lustrine_fswire::fid::Handle;
use lustrine_fswire::ldlm::{Flock, LockMode, LockType, Policy, Resource};

use crate::lock::{Lock, LockState};
use crate::namespace::Namespace;

impl Namespace {
    /// A flock was granted: the owner's other ones give way. One of the mode NL unlocks its range,
    /// and is forgotten. `spare` is a handle that is not in use, for a lock that is divided: there
    /// is one at most, since an owner has one lock on each byte.
    pub fn settle_flock(&mut self, handle: Handle, spare: Handle) {
        let Some((mode, mut range)) = self.get(handle).as_ref().and_then(flock_of) else { return };
        let resource = self.get(handle).map(|lock| lock.desc.resource).unwrap_or_default();
        let asked = range;
        let mut spare = Some(spare);
        let others: Vec<(Handle, LockMode, Flock)> = self
            .flocks_on(resource)
            .filter(|(other, lock)| *other != handle && lock.state == LockState::Granted)
            .filter_map(|(other, lock)| flock_of(&lock).map(|(mode, flock)| (other, mode, flock)))
            .filter(|(_, _, flock)| flock.owner == range.owner)
            .collect();
        for (other, other_mode, flock) in others {
            if other_mode == mode && mode != LockMode::NL {
                if touches(&asked, &flock) {
                    range.start = range.start.min(flock.start);
                    range.end = range.end.max(flock.end);
                    self.remove(other);
                }
                continue;
            }
            if !flock.overlaps(&asked) {
                continue;
            }
            let left = (flock.start < asked.start)
                .then(|| Flock { end: asked.start.saturating_sub(1), ..flock });
            let right = (flock.end > asked.end)
                .then(|| Flock { start: asked.end.saturating_add(1), ..flock });
            match (left, right) {
                (None, None) => {
                    self.remove(other);
                }
                (Some(rest), None) | (None, Some(rest)) => self.set_range(other, rest),
                (Some(left), Some(right)) => {
                    let part = self.get(other).map(|lock| lock.desc);
                    self.set_range(other, left);
                    if let (Some(mut desc), Some(spare)) = (part, spare.take()) {
                        desc.policy = Policy::Flock(right);
                        self.insert(spare, Lock::new(desc, Handle::NONE, LockState::Granted));
                    }
                }
            }
        }
        match mode {
            LockMode::NL => {
                self.remove(handle);
            }
            _ => self.set_range(handle, range),
        }
    }

    /// Whether an owner has a flock on a file, or has asked for one.
    pub fn has_flocks(&self, resource: Resource, owner: Handle) -> bool {
        let asked = |lock: &Lock| lock.desc.req_mode != LockMode::NL;
        self.flocks_on(resource).any(|(_, lock)| {
            asked(&lock) && matches!(lock.desc.policy, Policy::Flock(flock) if flock.owner == owner)
        })
    }
}

/// Mode and range of a flock that is granted.
fn flock_of(lock: &Lock) -> Option<(LockMode, Flock)> {
    match lock.desc.policy {
        Policy::Flock(flock) if lock.desc.kind == LockType::FLOCK => {
            Some((lock.desc.granted_mode, flock))
        }
        _ => None,
    }
}

/// Whether they overlap, or one begins right behind the other.
fn touches(a: &Flock, b: &Flock) -> bool {
    a.start <= b.end.saturating_add(1) && b.start <= a.end.saturating_add(1)
}
