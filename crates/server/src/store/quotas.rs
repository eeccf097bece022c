//! Quotas of space: how much users, groups and projects may have on a target.

use std::collections::BTreeMap;

use lustrine_fswire::ost::{Obdo, ObdoFlags};

/// Whose quota it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaHolder {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
    /// A project.
    Project(u32),
}

/// How much may be used, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Beyond this, replies to writes say that the quota is used up.
    pub soft: u64,
    /// Beyond this, writes are refused.
    pub hard: u64,
}

/// The limits of a target.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas {
    limits: BTreeMap<QuotaHolder, QuotaLimits>,
}

/// What an object takes, and whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) projid: u32,
    pub(crate) bytes: u64,
}

/// What quota says of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    /// Who is beyond the soft limit, as the reply says it.
    pub(crate) over: ObdoFlags,
    /// Whether somebody is beyond the hard limit.
    pub(crate) refused: bool,
}

impl Quotas {
    /// Sets limits.
    pub(crate) fn set(&mut self, holder: QuotaHolder, limits: QuotaLimits) {
        self.limits.insert(holder, limits);
    }

    /// What there is to say of a write of a file of these owners that takes so many bytes more.
    pub(crate) fn check(
        &self,
        owner: &Obdo,
        objects: impl Iterator<Item = Usage>,
        more: u64,
    ) -> Verdict {
        let mut verdict = Verdict { over: ObdoFlags::empty(), refused: false };
        let holders = [
            (QuotaHolder::User(owner.uid), ObdoFlags::NO_USRQUOTA),
            (QuotaHolder::Group(owner.gid), ObdoFlags::NO_GRPQUOTA),
            (QuotaHolder::Project(owner.projid), ObdoFlags::NO_PRJQUOTA),
        ];
        let limited = |(holder, flag)| Some((holder, flag, *self.limits.get(&holder)?));
        let limited: Vec<_> = holders.into_iter().filter_map(limited).collect();
        if limited.is_empty() {
            return verdict;
        }
        let objects: Vec<Usage> = objects.collect();
        for (holder, flag, limits) in limited {
            let owned = objects.iter().filter(|object| match holder {
                QuotaHolder::User(uid) => object.uid == uid,
                QuotaHolder::Group(gid) => object.gid == gid,
                QuotaHolder::Project(projid) => object.projid == projid,
            });
            let used = owned.map(|object| object.bytes).sum::<u64>().saturating_add(more);
            verdict.over.set(flag, used > limits.soft);
            verdict.refused |= used > limits.hard;
        }
        verdict
    }
}
