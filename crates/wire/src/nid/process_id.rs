//! Process ids: a NID and a LNet pid [NID-6].

use core::fmt;
use core::str::FromStr;

use super::{Nid, ParseNidError};

/// The pid of every kernel node: 12345.
pub const PID_LUSTRE: u32 = 12345;
/// The wildcard pid.
pub const PID_ANY: u32 = u32::MAX;
/// A flag that a receiver sets in the pid of a peer that dialled from a source port above 1023.
/// Kernels never send it in their own pid.
pub const PID_USERLAND: u32 = 0x8000_0000;

/// A party to a message: a node's address and an LNet pid on it.
///
/// The text form is `12345-10.0.0.1@tcp`, with a `U` before the pid if its [`PID_USERLAND`] flag is
/// set; the number is then printed without the flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The address.
    pub nid: Nid,
    /// The LNet pid; 12345 on every kernel node.
    pub pid: u32,
}

impl ProcessId {
    /// The process of a kernel node: pid 12345 at `nid`.
    pub const fn lustre(nid: Nid) -> ProcessId {
        ProcessId { nid, pid: PID_LUSTRE }
    }

    /// Whether the pid carries the userland flag.
    pub const fn is_userland(&self) -> bool {
        self.pid & PID_USERLAND != 0
    }

    /// Whether what is awaited of it will not come now that `lost` is lost. A userland process has
    /// its own connections, so it is lost by itself. Of the others a NID has one, the node: what is
    /// sent to any plain pid goes to it.
    pub fn is_lost_with(&self, lost: &ProcessId) -> bool {
        let same = match lost.is_userland() {
            true => self.pid == lost.pid,
            false => !self.is_userland(),
        };
        same && self.nid == lost.nid
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = if self.is_userland() { "U" } else { "" };
        write!(f, "{flag}{}-{}", self.pid & !PID_USERLAND, self.nid)
    }
}

impl FromStr for ProcessId {
    type Err = ParseNidError;

    fn from_str(text: &str) -> Result<ProcessId, ParseNidError> {
        let (pid, nid) = text.split_once('-').ok_or(ParseNidError::BadPid)?;
        let (flag, digits) = match pid.strip_prefix('U') {
            Some(digits) => (PID_USERLAND, digits),
            None => (0, pid),
        };
        let number = super::text::decimal(digits).ok_or(ParseNidError::BadPid)?;
        if number & PID_USERLAND != 0 {
            return Err(ParseNidError::BadPid);
        }
        Ok(ProcessId { nid: nid.parse()?, pid: number | flag })
    }
}
