//! What a mount does, for programs outside: an extended attribute of its root.
//!
//! The kernel asks the program of the mount, which answers without any server. So a mount whose
//! servers are gone shows its status too, and so does one in another container, at the same path.

use std::io;
use std::path::Path;

use lustrine_fs::Status;
use rustix::buffer::spare_capacity;
use serde::{Deserialize, Serialize};

use crate::error::{MountError, NOT_OURS};

/// The extended attribute of the root with a [`MountStatus`]. Behind a dot, the name of a target
/// may follow: then this is the only one, with its operations.
pub(crate) const NAME: &str = "lustrine.status";

/// The version of [`MountStatus`]. Fields may be added without another one.
const VERSION: u32 = 1;

/// The longest extended attribute that Linux reads is of 65,536 bytes.
const VALUE_MAX: usize = 64 << 10;

/// What a mount does now, and what it has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MountStatus {
    /// 1.
    pub version: u32,
    /// The release of the mount's program.
    pub release: String,
    /// The process ID of the mount's program, in its own namespace.
    pub pid: u32,
    /// What is mounted, such as 10.0.0.9@tcp:/lustre.
    pub source: String,
    /// Targets beyond those that an extended attribute has room for. They can be asked for by
    /// their names.
    pub targets_left_out: usize,
    /// What the client does.
    #[serde(flatten)]
    pub client: Status,
}

impl MountStatus {
    /// That of this process.
    pub(crate) fn new(source: String, client: Status) -> MountStatus {
        MountStatus {
            version: VERSION,
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            source,
            targets_left_out: 0,
            client,
        }
    }

    /// As JSON that is no longer than an extended attribute may be.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut shown = self.clone();
        loop {
            let json = serde_json::to_vec(&shown).unwrap_or_default();
            if json.len() <= VALUE_MAX || shown.client.targets.is_empty() {
                return json;
            }
            // A few rounds at most: what is left out is as much as is too long.
            let rows = shown.client.targets.len();
            let kept = (rows * VALUE_MAX / json.len()).min(rows - 1);
            shown.client.targets.truncate(kept);
            shown.targets_left_out = self.client.targets.len() - kept;
        }
    }
}

/// Asks the mount at a directory what it does; with the name of a target, only about that.
///
/// # Errors
/// When no mount of this program is there, or it belongs to another user.
pub fn status(dir: &Path, target: Option<&str>) -> Result<MountStatus, MountError> {
    let bad = |why: String| MountError::MountPoint { dir: dir.to_owned(), why };
    let name = match target {
        None => NAME.to_owned(),
        Some(target) => format!("{NAME}.{target}"),
    };
    let mut json = Vec::with_capacity(VALUE_MAX);
    match rustix::fs::getxattr(dir, &*name, spare_capacity(&mut json)) {
        Ok(_) => {}
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NODATA) => {
            return Err(bad(NOT_OURS.to_owned()));
        }
        Err(rustix::io::Errno::PERM) => {
            return Err(bad("only root and the user who mounted it may see its status".to_owned()));
        }
        Err(rustix::io::Errno::NOTCONN) => {
            return Err(bad("the program of this mount has ended".to_owned()));
        }
        Err(error) => return Err(bad(io::Error::from(error).to_string())),
    }
    let wrong = |what: String| bad(format!("the status of the mount cannot be read: {what}"));
    let status: MountStatus =
        serde_json::from_slice(&json).map_err(|error| wrong(error.to_string()))?;
    match status.version {
        VERSION => Ok(status),
        other => Err(wrong(format!("it has version {other}, and this program reads {VERSION}"))),
    }
}

/// The target that the name of an extended attribute asks for; the outer `None` if the attribute is
/// another one.
pub(crate) fn asked(name: &[u8]) -> Option<Option<String>> {
    let rest = name.strip_prefix(NAME.as_bytes())?;
    match rest {
        [] => Some(None),
        [b'.', target @ ..] => Some(Some(String::from_utf8_lossy(target).into_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lustrine_fs::TargetRow;

    use super::*;

    fn of_targets(count: usize) -> MountStatus {
        let targets = (0..count).map(|index| TargetRow {
            name: format!("lustre-OST{index:04x}"),
            state: "FULL".to_owned(),
            nid: "10.20.30.40@o2ib10".to_owned(),
            ..TargetRow::default()
        });
        let client = Status { targets: targets.collect(), ..Status::default() };
        MountStatus { version: VERSION, client, ..MountStatus::default() }
    }

    #[test]
    fn a_status_is_read_as_it_was_written() {
        let status = of_targets(3);
        let read: MountStatus = serde_json::from_slice(&status.to_json()).unwrap();
        assert_eq!(read, status);
    }

    #[test]
    fn targets_without_room_are_counted() {
        let status = of_targets(5000);
        let json = status.to_json();
        assert!(json.len() <= VALUE_MAX, "{}", json.len());
        let read: MountStatus = serde_json::from_slice(&json).unwrap();
        assert_eq!(read.client.targets.len() + read.targets_left_out, 5000);
        assert!(read.client.targets.len() > 200, "{}", read.client.targets.len());
    }

    #[test]
    fn names_that_ask_for_a_status() {
        assert_eq!(asked(b"lustrine.status"), Some(None));
        let target = "lustre-OST0001".to_owned();
        assert_eq!(asked(b"lustrine.status.lustre-OST0001"), Some(Some(target)));
        assert_eq!(asked(b"lustrine.statuses"), None);
        assert_eq!(asked(b"user.a"), None);
    }

    #[test]
    fn other_places_have_no_status() {
        let error = status(Path::new("/proc"), None).unwrap_err().to_string();
        assert!(error.contains("not the mount point"), "{error}");
    }
}
