//! Which start of a running node answers.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lustrine_node::control::{Connection, ControlError};
use lustrine_tune::apply::NodeStart;

/// Connects to a running node. What it answers on this connection is of the start that is named
/// with it: the file was looked at while that node held the connection open.
///
/// # Errors
/// When no node answers there, or it has just ended.
pub(in crate::commands) fn connect(socket: &Path) -> Result<(Connection, NodeStart), ControlError> {
    let connection = Connection::open(socket)?;
    let start = start_of(socket).map_err(|error| {
        let path = socket.to_owned();
        match error.kind() {
            ErrorKind::NotFound => ControlError::NotRunning { path, error },
            _ => ControlError::System { path, error },
        }
    })?;
    Ok((connection, start))
}

fn start_of(socket: &Path) -> io::Result<NodeStart> {
    let about = fs::metadata(socket)?;
    // Connecting and changing the owner or the mode leave the time of the last change alone.
    Ok(NodeStart { inode: about.ino(), made_s: about.mtime(), made_ns: about.mtime_nsec() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn each_listener_at_a_path_is_another_start() {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join("node.sock");
        let first = UnixListener::bind(&socket).unwrap();
        let start = start_of(&socket).unwrap();
        let _caller = UnixStream::connect(&socket).unwrap();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o660)).unwrap();
        assert_eq!(start_of(&socket).unwrap(), start);
        // It keeps its inode, so that the second one has another, however fast this is.
        fs::rename(&socket, scratch.path().join("old.sock")).unwrap();
        drop(first);
        let _second = UnixListener::bind(&socket).unwrap();
        assert_ne!(start_of(&socket).unwrap(), start);
    }

    #[test]
    fn a_node_that_is_not_there_does_not_run() {
        let scratch = tempfile::tempdir().unwrap();
        let refused = connect(&scratch.path().join("node.sock")).map(|(_, start)| start);
        assert!(matches!(refused, Err(ControlError::NotRunning { .. })));
    }
}
