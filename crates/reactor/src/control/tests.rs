use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use lustrine_lnet::topology::Identity;
use tempfile::TempDir;

use super::*;
use crate::node::NodeInfo;

/// A node of which nothing runs; it can tell about itself.
fn handle() -> NodeHandle {
    let info = NodeInfo {
        nids: Vec::new(),
        interfaces: Vec::new(),
        listening: Vec::new(),
        conns_per_peer: Vec::new(),
        identity: Identity::Userland,
        identity_reason: "a test",
        partitions: Vec::new(),
    };
    NodeHandle { info: Arc::new(info), loops: [].into() }
}

fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("control.sock");
    (dir, path)
}

#[test]
fn the_socket_answers_its_owner_and_goes_with_the_server() {
    let (_dir, path) = place();
    let server = ControlServer::start(&path, handle()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let answer = ask(&path, &Request::ShowNet).unwrap();
    assert!(matches!(answer, Answer::Net { ref identity, .. } if identity == "userland"));
    drop(server);
    assert!(!path.exists());
    assert!(matches!(ask(&path, &Request::ShowNet), Err(ControlError::NoNode { .. })));
}

#[test]
fn a_server_ends_without_its_file_and_leaves_that_of_another_alone() {
    let (_dir, path) = place();
    let server = ControlServer::start(&path, handle()).unwrap();
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    other.set_nonblocking(true).unwrap();
    drop(server);
    assert!(path.exists());
    assert!(other.accept().is_err(), "the server bothered another one");
}

#[test]
fn callers_are_hung_up_on_when_the_server_ends() {
    let (_dir, path) = place();
    let server = ControlServer::start(&path, handle()).unwrap();
    let mut caller = UnixStream::connect(&path).unwrap();
    caller.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // Make sure it has been accepted.
    ask(&path, &Request::ShowNet).unwrap();
    drop(server);
    assert_eq!(caller.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn callers_that_left_make_room_for_others() {
    let (_dir, path) = place();
    let _server = ControlServer::start(&path, handle()).unwrap();
    let mut served = 0;
    // Some are turned away when those before them take their time to leave.
    for _ in 0..CALLERS_MAX * 100 {
        match ask(&path, &Request::ShowNet) {
            Ok(_) => served += 1,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
        if served > CALLERS_MAX * 2 {
            return;
        }
    }
    panic!("only {served} callers were served");
}

#[test]
fn only_a_socket_that_nobody_serves_is_replaced() {
    let (_dir, path) = place();
    fs::write(&path, "precious").unwrap();
    let refused = ControlServer::start(&path, handle());
    assert!(matches!(refused, Err(ControlError::NotASocket(_))));
    fs::remove_file(&path).unwrap();

    let listener = UnixListener::bind(&path).unwrap();
    let refused = ControlServer::start(&path, handle());
    assert!(matches!(refused, Err(ControlError::InUse(_))));
    drop(listener);

    let _server = ControlServer::start(&path, handle()).unwrap();
    ask(&path, &Request::ShowNet).unwrap();
}
