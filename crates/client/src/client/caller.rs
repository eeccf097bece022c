//! The user whose rights count.

use lustrine_fswire::mdt::{CreateRecord, MdtBody, NameRecord, SetattrRecord, SetxattrRecord};

/// A user whose rights count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// One more group that matters for the operation; `u32::MAX` for none.
    pub suppgid: u32,
    /// The same once more, for operations on two directories; others have no room for it.
    pub suppgid2: u32,
    /// Effective capabilities, bits 0 to 31.
    pub capabilities: u32,
}

impl Caller {
    /// The superuser of this machine, with all capabilities.
    pub const ROOT: Caller =
        Caller { uid: 0, gid: 0, suppgid: u32::MAX, suppgid2: u32::MAX, capabilities: u32::MAX };

    /// Whether quota and reserved space do not stop it: the capability CAP_SYS_RESOURCE of Linux.
    pub(super) const fn may_exceed(&self) -> bool {
        self.capabilities & 1 << 24 != 0
    }

    pub(super) fn body(&self, body: MdtBody) -> MdtBody {
        MdtBody {
            fsuid: self.uid,
            fsgid: self.gid,
            uid: self.uid,
            gid: self.gid,
            capability: self.capabilities,
            suppgid: self.suppgid,
            ..body
        }
    }

    pub(super) fn create_record(&self, record: CreateRecord) -> CreateRecord {
        CreateRecord {
            cap: self.capabilities,
            fsuid: self.uid,
            fsgid: self.gid,
            suppgid1: self.suppgid,
            suppgid2: self.suppgid2,
            ..record
        }
    }

    pub(super) fn name_record(&self, record: NameRecord) -> NameRecord {
        NameRecord {
            cap: self.capabilities,
            fsuid: self.uid,
            fsgid: self.gid,
            suppgid1: self.suppgid,
            suppgid2: self.suppgid2,
            ..record
        }
    }

    pub(super) fn setattr_record(&self, record: SetattrRecord) -> SetattrRecord {
        SetattrRecord {
            cap: self.capabilities,
            fsuid: self.uid,
            fsgid: self.gid,
            suppgid: self.suppgid,
            ..record
        }
    }

    pub(super) fn setxattr_record(&self, record: SetxattrRecord) -> SetxattrRecord {
        SetxattrRecord {
            cap: self.capabilities,
            fsuid: self.uid,
            fsgid: self.gid,
            suppgid1: self.suppgid,
            suppgid2: self.suppgid2,
            ..record
        }
    }
}
