//! One lock of a client, and the short form in which it is kept.

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::ldlm::{
    Extent, Ibits, IbitsPolicy, LockDesc, LockMode, LockType, Policy, Resource,
};

/// Where a lock is [LOCK-14].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockState {
    /// The enqueue is not answered.
    Enqueued,
    /// The server will grant it when others have given way.
    Waiting,
    /// The client has it.
    Granted,
    /// The client is giving it back.
    Canceling,
}

/// A lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// What it covers and in which mode, as it was asked for, and then as it was granted.
    pub desc: LockDesc,
    /// The server's handle; none before the first answer, and for a part of a flock that the client
    /// itself has divided.
    pub remote: Handle,
    /// Where it is.
    pub state: LockState,
    /// Whether somebody else wants what it covers: nothing new begins under it, and it is given
    /// back when what uses it is over.
    pub blocked: bool,
    /// Whether the object is being destroyed: what was not written under it is not needed.
    pub discard: bool,
    /// Whether it may have been enqueued again after a restart without an answer: the server may
    /// have it by a handle that is not known.
    pub(crate) uncertain: bool,
}

impl Lock {
    pub(crate) fn new(desc: LockDesc, remote: Handle, state: LockState) -> Lock {
        Lock { desc, remote, state, blocked: false, discard: false, uncertain: false }
    }
}

/// A lock as it is kept: clients keep one for each file and each object.
#[derive(Clone, Debug)]
pub(crate) struct KeptLock {
    scope: Scope,
    pub(crate) remote: Handle,
    pub(crate) req_mode: LockMode,
    pub(crate) granted_mode: LockMode,
    pub(crate) state: LockState,
    pub(crate) blocked: bool,
    pub(crate) discard: bool,
    pub(crate) uncertain: bool,
}

/// What a lock covers.
#[derive(Clone, Debug)]
enum Scope {
    /// Properties of a file by its FID, without a group.
    Ibits { fid: Fid, bits: Ibits },
    /// A range of an object by its FID, without a group; both ends are included.
    Extent { fid: Fid, start: u64, end: u64 },
    /// Anything else.
    Other(Box<(LockType, Resource, Policy)>),
}

impl From<&LockDesc> for Scope {
    fn from(desc: &LockDesc) -> Scope {
        let fid = desc.resource.fid();
        if Resource::of_fid(fid) == desc.resource {
            match (desc.kind, desc.policy) {
                (
                    LockType::IBITS,
                    Policy::Ibits(IbitsPolicy { bits, try_bits, gid, initiator }),
                ) if (try_bits, gid, initiator) == (Ibits::empty(), 0, 0) => {
                    return Scope::Ibits { fid, bits };
                }
                (LockType::EXTENT, Policy::Extent(Extent { start, end, gid: 0 })) => {
                    return Scope::Extent { fid, start, end };
                }
                _ => {}
            }
        }
        Scope::Other(Box::new((desc.kind, desc.resource, desc.policy)))
    }
}

impl From<Lock> for KeptLock {
    fn from(lock: Lock) -> KeptLock {
        KeptLock {
            scope: Scope::from(&lock.desc),
            remote: lock.remote,
            req_mode: lock.desc.req_mode,
            granted_mode: lock.desc.granted_mode,
            state: lock.state,
            blocked: lock.blocked,
            discard: lock.discard,
            uncertain: lock.uncertain,
        }
    }
}

impl KeptLock {
    pub(crate) fn kind(&self) -> LockType {
        match &self.scope {
            Scope::Ibits { .. } => LockType::IBITS,
            Scope::Extent { .. } => LockType::EXTENT,
            Scope::Other(other) => other.0,
        }
    }

    pub(crate) fn resource(&self) -> Resource {
        match &self.scope {
            Scope::Ibits { fid, .. } | Scope::Extent { fid, .. } => Resource::of_fid(*fid),
            Scope::Other(other) => other.1,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        match &self.scope {
            Scope::Ibits { bits, .. } => {
                Policy::Ibits(IbitsPolicy { bits: *bits, ..IbitsPolicy::default() })
            }
            Scope::Extent { start, end, .. } => {
                Policy::Extent(Extent { start: *start, end: *end, gid: 0 })
            }
            Scope::Other(other) => other.2,
        }
    }

    pub(crate) fn desc(&self) -> LockDesc {
        LockDesc {
            kind: self.kind(),
            resource: self.resource(),
            req_mode: self.req_mode,
            granted_mode: self.granted_mode,
            policy: self.policy(),
        }
    }

    /// Covers something else of the same kind now.
    pub(crate) fn cover(&mut self, resource: Resource, policy: Policy) {
        self.scope = Scope::from(&LockDesc { resource, policy, ..self.desc() });
    }

    pub(crate) fn lock(&self) -> Lock {
        Lock {
            desc: self.desc(),
            remote: self.remote,
            state: self.state,
            blocked: self.blocked,
            discard: self.discard,
            uncertain: self.uncertain,
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::ldlm::Flock;

    use super::*;

    /// There is one for each file and each object that a client keeps.
    #[test]
    fn a_kept_lock_is_small() {
        assert!(size_of::<KeptLock>() <= 64, "{}", size_of::<KeptLock>());
    }

    #[test]
    fn a_lock_is_kept_as_it_is() {
        let fid = Fid { seq: 0x2_0000_0401, oid: 3, ver: 7 };
        let resources = [
            Resource::of_fid(fid),
            Resource::of_flock(fid),
            Resource::of_config(b"lustre", 0),
            Resource([1, 2, 3, 0]),
        ];
        let ibits = IbitsPolicy { bits: Ibits::UPDATE, ..IbitsPolicy::default() };
        let policies = [
            (LockType::IBITS, Policy::Ibits(ibits)),
            (LockType::IBITS, Policy::Ibits(IbitsPolicy { try_bits: Ibits::LOOKUP, ..ibits })),
            (LockType::IBITS, Policy::Ibits(IbitsPolicy { gid: 1, ..ibits })),
            (LockType::IBITS, Policy::Ibits(IbitsPolicy { initiator: 1, ..ibits })),
            (LockType::EXTENT, Policy::Extent(Extent { start: 1, end: 2, gid: 0 })),
            (LockType::EXTENT, Policy::Extent(Extent { start: 1, end: 2, gid: 3 })),
            (LockType::EXTENT, Policy::Ibits(ibits)),
            (LockType::FLOCK, Policy::Flock(Flock { start: 1, end: 2, owner: Handle(3), pid: 4 })),
            (LockType::PLAIN, Policy::Other([1, 2, 3, 4])),
        ];
        for resource in resources {
            for (kind, policy) in policies {
                let (req_mode, granted_mode) = (LockMode::PR, LockMode::PW);
                let desc = LockDesc { kind, resource, req_mode, granted_mode, policy };
                let lock = Lock {
                    blocked: true,
                    discard: true,
                    uncertain: true,
                    ..Lock::new(desc, Handle(9), LockState::Waiting)
                };
                assert_eq!(KeptLock::from(lock).lock(), lock);
            }
        }
    }
}
