//! Who is over quota at a target: what they write goes to the server before the program goes on.

use std::collections::BTreeMap;

use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::{Obdo, ObdoFlags};
use lustrine_lnet::time::Time;

use crate::attr::FileOwner;

/// Whose quota it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    User(u32),
    Group(u32),
    Project(u32),
}

/// Users, groups and projects that are over their quota at a target, as replies to writes of their
/// files have said last [OST-21].
#[derive(Debug, Default)]
pub(super) struct OverQuota {
    /// With the time when the target last said so.
    over: BTreeMap<Holder, Time>,
}

/// The owners of a file, with the bits about each in a reply: that something is said, and that it
/// is over.
fn holders(owner: FileOwner) -> [(Holder, MdValid, ObdoFlags); 3] {
    [
        (Holder::User(owner.uid), MdValid::USRQUOTA, ObdoFlags::NO_USRQUOTA),
        (Holder::Group(owner.gid), MdValid::GRPQUOTA, ObdoFlags::NO_GRPQUOTA),
        (Holder::Project(owner.projid), MdValid::PRJQUOTA, ObdoFlags::NO_PRJQUOTA),
    ]
}

impl OverQuota {
    /// Takes what the reply to a write of a file says of its owners. Whether that is news.
    pub(super) fn update(&mut self, now: Time, owner: FileOwner, reply: &Obdo) -> bool {
        let mut is_news = false;
        let flags = match reply.valid.contains(MdValid::FLAGS) {
            true => reply.flags,
            false => ObdoFlags::empty(),
        };
        for (holder, said, over) in holders(owner) {
            match (reply.valid.contains(said), flags.contains(over)) {
                (false, _) => {}
                (true, true) => is_news |= self.over.insert(holder, now).is_none(),
                (true, false) => is_news |= self.over.remove(&holder).is_some(),
            }
        }
        is_news
    }

    /// Whether anybody is over quota.
    pub(super) fn has_any(&self) -> bool {
        !self.over.is_empty()
    }

    /// Whether an owner of a file is over quota.
    pub(super) fn has(&self, owner: FileOwner) -> bool {
        self.has_since(owner, Time::ZERO)
    }

    /// Whether one is, as far as the target has said so at this time or later.
    pub(super) fn has_since(&self, owner: FileOwner, time: Time) -> bool {
        let is_over = |holder: &Holder| self.over.get(holder).is_some_and(|heard| *heard >= time);
        !self.over.is_empty() && holders(owner).iter().any(|(holder, ..)| is_over(holder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reply_counts() {
        let owner = FileOwner { uid: 1000, gid: 100, projid: 7 };
        let other = FileOwner { uid: 1000, gid: 5, projid: 0 };
        let valid = MdValid::FLAGS | MdValid::USRQUOTA | MdValid::GRPQUOTA | MdValid::PRJQUOTA;
        let reply = |flags| Obdo { valid, flags, ..Obdo::default() };
        let mut over = OverQuota::default();
        assert!(over.update(
            Time::ZERO,
            owner,
            &reply(ObdoFlags::NO_GRPQUOTA | ObdoFlags::NO_USRQUOTA)
        ));
        assert!(!over.update(
            Time::ZERO,
            owner,
            &reply(ObdoFlags::NO_GRPQUOTA | ObdoFlags::NO_USRQUOTA)
        ));
        assert!(over.has(owner) && over.has(other));
        // A reply that says nothing, and one of a file of other owners.
        over.update(Time::ZERO, owner, &Obdo { valid: MdValid::FLAGS, ..Obdo::default() });
        over.update(Time::ZERO, other, &reply(ObdoFlags::empty()));
        assert!(over.has(owner) && !over.has(other));
        over.update(Time::ZERO, owner, &reply(ObdoFlags::NO_PRJQUOTA));
        assert!(over.has(FileOwner { uid: 0, gid: 0, projid: 7 }) && !over.has(other));
        over.update(Time::ZERO, owner, &reply(ObdoFlags::empty()));
        assert!(!over.has(owner));
        // Flags without the bit that says so are not valid.
        let flags = ObdoFlags::NO_USRQUOTA;
        over.update(
            Time::ZERO,
            owner,
            &Obdo { valid: MdValid::USRQUOTA, flags, ..Obdo::default() },
        );
        assert!(!over.has(owner));
    }
}
