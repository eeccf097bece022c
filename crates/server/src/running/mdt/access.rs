//! Who may do what to a file.

use lustrine_fswire::mdt::{
    CreateRecord, MdtBody, NameRecord, SetattrRecord, SetxattrRecord, allowed,
};

use super::acl;
use crate::errno;
use crate::store::files::Inode;

const CAP_CHOWN: u32 = 1 << 0;
const CAP_DAC_OVERRIDE: u32 = 1 << 1;
const CAP_DAC_READ_SEARCH: u32 = 1 << 2;
const CAP_FOWNER: u32 = 1 << 3;
const CAP_FSETID: u32 = 1 << 4;
const CAP_SYS_ADMIN: u32 = 1 << 21;

/// What is to be done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access(pub(crate) u32);

impl Access {
    pub(crate) const READ: Access = Access(4);
    pub(crate) const WRITE: Access = Access(2);
    pub(crate) const EXECUTE: Access = Access(1);
    /// To change the names of a directory.
    pub(crate) const CHANGE: Access = Access(3);
}

/// The user whose rights count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    groups: [u32; 2],
    capabilities: u32,
}

impl From<&MdtBody> for Caller {
    fn from(body: &MdtBody) -> Caller {
        let groups = [body.suppgid, u32::MAX];
        Caller { uid: body.fsuid, gid: body.fsgid, groups, capabilities: body.capability }
    }
}

macro_rules! of_records {
    ($($record:ident)+) => {$(
        impl From<&$record> for Caller {
            fn from(record: &$record) -> Caller {
                let groups = [record.suppgid1, record.suppgid2];
                let (uid, gid) = (record.fsuid, record.fsgid);
                Caller { uid, gid, groups, capabilities: record.cap }
            }
        }
    )+};
}

of_records! { CreateRecord NameRecord SetxattrRecord }

impl From<&SetattrRecord> for Caller {
    fn from(record: &SetattrRecord) -> Caller {
        let groups = [record.suppgid, u32::MAX];
        Caller { uid: record.fsuid, gid: record.fsgid, groups, capabilities: record.cap }
    }
}

impl Caller {
    fn has(&self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }

    pub(crate) fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether the permissions of a file, or its access control list, allow something.
    ///
    /// # Errors
    /// EACCES.
    pub(crate) fn check(&self, inode: &Inode, access: Access) -> Result<(), i32> {
        let entries = acl::entries(inode);
        let owner = (inode.uid, inode.gid);
        let in_group = |gid| self.in_group(gid);
        let allowed = allowed(&entries, (inode.mode, owner), self.uid, in_group, access.0);
        if access.0 & !allowed == 0 {
            return Ok(());
        }
        let executable = inode.is_dir() || inode.mode & 0o111 != 0;
        if self.has(CAP_DAC_OVERRIDE) && (access.0 & 1 == 0 || executable) {
            return Ok(());
        }
        let reads = access.0 & Access::WRITE.0 == 0;
        if self.has(CAP_DAC_READ_SEARCH) && reads && (inode.is_dir() || access.0 & 1 == 0) {
            return Ok(());
        }
        Err(errno::EACCES)
    }

    /// Whether the caller may take a name away.
    ///
    /// # Errors
    /// EACCES, or EPERM in a directory where only owners may.
    pub(crate) fn check_removal(&self, dir: &Inode, victim: &Inode) -> Result<(), i32> {
        self.check(dir, Access::CHANGE)?;
        let sticky = dir.mode & 0o1000 != 0;
        let own = self.uid == victim.uid || self.uid == dir.uid || self.has(CAP_FOWNER);
        if sticky && !own { Err(errno::EPERM) } else { Ok(()) }
    }

    pub(crate) fn owns(&self, inode: &Inode) -> bool {
        self.uid == inode.uid || self.has(CAP_FOWNER)
    }

    pub(crate) fn may_chown(&self) -> bool {
        self.has(CAP_CHOWN)
    }

    pub(crate) fn keeps_setgid(&self) -> bool {
        self.has(CAP_FSETID)
    }

    pub(crate) fn administers(&self) -> bool {
        self.has(CAP_SYS_ADMIN)
    }
}
