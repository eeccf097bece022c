//! The log of the program of a mount: what it says of servers, data and the configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use lustrine_fs::{Fid, ImportState, LostWrites};
use lustrine_fuse::Mount;

use crate::output::{Failure, note};

/// The name of the management server among the targets.
const MGS: &str = "MGS";

/// What the log has said.
#[derive(Debug, Default)]
pub(super) struct Seen {
    imports: BTreeMap<String, Target>,
    lost: u64,
    /// Files that have lost data, each with the errors that were named.
    named: BTreeSet<(Fid, String)>,
    changes: u64,
}

/// Most files and errors that a mount names in its life.
const NAMED_MAX: usize = 1000;

/// Logs what has happened since the last call.
pub(super) fn watch(mount: &Mount, seen: &mut Seen) {
    watch_imports(mount, &mut seen.imports);
    watch_lost(mount, seen);
    watch_configuration(mount, &mut seen.changes);
}

/// What the log has last said of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    state: String,
    evictions: u64,
}

/// Logs imports whose states have changed, and evictions.
fn watch_imports(mount: &Mount, seen: &mut BTreeMap<String, Target>) {
    let Ok(imports) = mount.imports() else { return };
    for import in imports {
        // That a target was not used for a while is no news.
        let state = match import.state {
            ImportState::Idle => ImportState::Full,
            other => other,
        };
        let state = format!("{} at {}", state.name(), import.peer.nid);
        let now = Target { state, evictions: import.evictions };
        let before = seen.insert(import.target.clone(), now.clone());
        for line in before.iter().flat_map(|before| news(&import.target, before, &now)) {
            say(&line);
        }
    }
}

/// What has happened to a target. An eviction may begin and end between two looks.
fn news(target: &str, before: &Target, now: &Target) -> Vec<String> {
    let mut lines = Vec::new();
    // The MGS has no memory of its clients: it takes them as new ones after each restart.
    if now.evictions > before.evictions && target != MGS {
        let count = match now.evictions - before.evictions {
            1 => String::new(),
            count => format!(" {count} times"),
        };
        lines.push(format!(
            "{target}: this client was evicted{count}, and its locks there are void"
        ));
    }
    if now.state != before.state {
        lines.push(format!("{target}: {}, was {}", now.state, before.state));
    }
    lines
}

/// Logs data that cannot be written any more.
fn watch_lost(mount: &Mount, seen: &mut Seen) {
    let Ok(now) = mount.lost() else { return };
    if now > seen.lost {
        say(&format!("{} bytes that programs have written are LOST", now - seen.lost));
        name_losses(&mount.take_losses().unwrap_or_default(), seen);
    }
    seen.lost = now;
}

/// Logs the files that have lost data, each of them once for each error.
pub(super) fn name_losses(losses: &[LostWrites], seen: &mut Seen) {
    losses.iter().filter_map(|loss| named(loss, &mut seen.named)).for_each(|line| say(&line));
}

/// The line that names a file, unless it was named with this error, or too many were.
fn named(loss: &LostWrites, named: &mut BTreeSet<(Fid, String)>) -> Option<String> {
    let LostWrites { fid, uid, error, bytes } = loss;
    let error = error.to_string();
    if named.len() > NAMED_MAX || !named.insert((*fid, error.clone())) {
        return None;
    }
    Some(match named.len() > NAMED_MAX {
        true => "no more files with lost data are named".to_owned(),
        false => format!(
            "file {fid}: {bytes} bytes written by user {uid} are LOST: {}",
            error.escape_debug()
        ),
    })
}

/// Logs the last change of the configuration, if there was one.
fn watch_configuration(mount: &Mount, changes: &mut u64) {
    let Ok(view) = mount.configuration() else { return };
    if let Some((what, _)) = view.last_change.filter(|_| view.changes > *changes) {
        let more = match view.changes - *changes {
            1 => String::new(),
            count => format!(", the last of {count} changes"),
        };
        say(&format!("configuration: {}{more}", what.escape_debug()));
    }
    *changes = view.changes;
}

/// A line of the log, with the time.
pub(super) fn say(text: &str) {
    let now = jiff::Timestamp::now();
    note(&format!("{now:.3} {text}"));
}

/// Opens the file to which messages are appended.
pub(super) fn open(path: &Path) -> Result<File, Failure> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file =
        file.map_err(|error| format!("cannot write the log {}: {error}", path.display()))?;
    // A full disk is found out now.
    file.flush().map_err(|error| format!("cannot write the log {}: {error}", path.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use lustrine_fs::ClientError;

    use super::*;

    #[test]
    fn an_eviction_that_ends_between_two_looks_is_logged() {
        let seen = |state: &str, evictions| Target { state: state.to_owned(), evictions };
        let (full, full_again) = (seen("FULL at a", 1), seen("FULL at a", 2));
        let void = "OST: this client was evicted, and its locks there are void".to_owned();
        assert_eq!(news("OST", &full, &full_again), std::slice::from_ref(&void));
        assert_eq!(
            news("OST", &full, &seen("FULL at b", 2)),
            [void, "OST: FULL at b, was FULL at a".to_owned()]
        );
        assert_eq!(news("OST", &full, &full), [""; 0]);
        assert_eq!(news(MGS, &full, &full_again), [""; 0], "it restarted");
    }

    #[test]
    fn a_file_that_has_lost_data_is_named_once_for_each_error() {
        let loss = |oid, error| LostWrites {
            fid: Fid { seq: 0x2_0000_0401, oid, ver: 0 },
            uid: 1000,
            error: ClientError::Errno(error),
            bytes: 4096,
        };
        let mut seen = BTreeSet::new();
        let first = named(&loss(5, 28), &mut seen).expect("a line");
        let words = "file [0x200000401:0x5:0x0]: 4096 bytes written by user 1000 are LOST: ";
        assert!(first.starts_with(words) && first.contains("no space left"), "{first}");
        assert_eq!(named(&loss(5, 28), &mut seen), None);
        assert!(named(&loss(5, 122), &mut seen).is_some());
        let lines = (6..5000).filter_map(|oid| named(&loss(oid, 28), &mut seen));
        let lines: Vec<String> = lines.collect();
        assert_eq!(lines.len(), NAMED_MAX - 2 + 1);
        assert_eq!(
            lines.last().map(String::as_str),
            Some("no more files with lost data are named")
        );
    }
}
