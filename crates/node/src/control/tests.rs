use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

use lustrine_config::NodeConfig;
use lustrine_lnet::topology::Identity;
use lustrine_partition::tunables::Tunables;
use lustrine_sys::Sender;
use tempfile::TempDir;

use super::*;
use crate::handle::{Current, NodeInfo};
use crate::mailbox::LoopMessage;

/// A node without event loops, which can only describe itself.
fn handle() -> NodeHandle {
    handle_to(&[])
}

/// A node whose event loops are these mailboxes.
pub(crate) fn handle_to(loops: &[Sender<LoopMessage>]) -> NodeHandle {
    let info = NodeInfo {
        nids: Vec::new(),
        interfaces: Vec::new(),
        listening: Vec::new(),
        ports: Vec::new(),
        conns_per_peer: Vec::new(),
        peer_credits: Vec::new(),
        tunables: Tunables::default(),
        config: NodeConfig::default(),
        identity: Identity::Userland,
        identity_reason: "a test",
        partitions: Vec::new(),
    };
    NodeHandle {
        current: Arc::new(Current::of(info)),
        loops: loops.into(),
        console: Arc::default(),
        loads: Arc::default(),
    }
}

fn place() -> (TempDir, PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("control.sock");
    (dir, path)
}

fn start(path: &Path) -> Result<ControlServer, ControlError> {
    ControlSocket::bind(path)?.serve(handle())
}

#[test]
fn the_socket_answers_its_owner_and_is_removed_with_the_server() {
    let (_dir, path) = place();
    let server = start(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let answer = ask(&path, &Request::ShowNet).unwrap();
    let Answer::Net(net) = answer else { panic!("{answer:?}") };
    assert_eq!(net.identity, "userland");
    drop(server);
    assert!(!path.exists());
    assert!(matches!(ask(&path, &Request::ShowNet), Err(ControlError::NotRunning { .. })));
}

/// Without a lock, two of them could find the socket of a node that was killed, and the second one
/// would remove that of the first.
#[test]
fn of_nodes_that_start_together_one_has_the_socket() {
    const NODES: usize = 8;
    let (dir, path) = place();
    for _ in 0..20 {
        drop(UnixListener::bind(&path).unwrap());
        let gate = std::sync::Barrier::new(NODES);
        let sockets: Vec<ControlSocket> = std::thread::scope(|scope| {
            let bind = || {
                gate.wait();
                match ControlSocket::bind(&path) {
                    Ok(socket) => Some(socket),
                    Err(ControlError::InUse(_)) => None,
                    Err(other) => panic!("{other}"),
                }
            };
            let threads: Vec<_> = (0..NODES).map(|_| scope.spawn(bind)).collect();
            threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(sockets.len(), 1);
        assert!(is_served(&path).unwrap(), "it is the one at the path");
        drop(sockets);
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_process_that_ends_is_no_running_node() {
    // It closes the connection first and the listening socket later, as a killed process may.
    let (_dir, path) = place();
    let listener = UnixListener::bind(&path).unwrap();
    let ending = std::thread::spawn(move || drop(listener.accept().unwrap()));
    assert!(matches!(ask(&path, &Request::ShowNet), Err(ControlError::NotRunning { .. })));
    ending.join().unwrap();
}

#[test]
fn a_server_without_its_file_does_not_remove_that_of_another() {
    let (_dir, path) = place();
    let server = start(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    other.set_nonblocking(true).unwrap();
    drop(server);
    assert!(path.exists());
    assert!(other.accept().is_err(), "the server bothered another one");
}

#[test]
fn callers_are_disconnected_when_the_server_ends() {
    let (_dir, path) = place();
    let server = start(&path).unwrap();
    let mut caller = UnixStream::connect(&path).unwrap();
    caller.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // Make sure it has been accepted.
    ask(&path, &Request::ShowNet).unwrap();
    drop(server);
    assert_eq!(caller.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn disconnected_callers_make_room_for_others() {
    let (_dir, path) = place();
    let _server = start(&path).unwrap();
    let mut served = 0;
    // Some are refused if earlier ones need time to leave.
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
fn only_a_stale_socket_is_replaced() {
    let (_dir, path) = place();
    fs::write(&path, "precious").unwrap();
    let refused = start(&path);
    assert!(matches!(refused, Err(ControlError::NotASocket(_))));
    fs::remove_file(&path).unwrap();

    let listener = UnixListener::bind(&path).unwrap();
    let refused = start(&path);
    assert!(matches!(refused, Err(ControlError::InUse(_))));
    drop(listener);

    let _server = start(&path).unwrap();
    ask(&path, &Request::ShowNet).unwrap();
}

#[test]
fn callers_wait_for_a_node_that_is_starting() {
    let (_dir, path) = place();
    let socket = ControlSocket::bind(&path).unwrap();
    assert!(matches!(ControlSocket::bind(&path), Err(ControlError::InUse(_))));
    let asking = std::thread::spawn({
        let path = path.clone();
        move || ask(&path, &Request::ShowNet)
    });
    let server = socket.serve(handle()).unwrap();
    asking.join().unwrap().unwrap();
    drop(server);
    // One that was never served removes its socket as well.
    drop(ControlSocket::bind(&path).unwrap());
    assert!(!path.exists());
}

#[test]
fn the_wait_for_a_stopped_node_has_a_limit() {
    let (_dir, path) = place();
    // It listens and accepts no connections, like a stopped process.
    let _socket = ControlSocket::bind(&path).unwrap();
    let patience = Duration::from_millis(20);
    let mut waiting = Vec::new();
    // Linux accepts one more than the backlog.
    for _ in 0..=BACKLOG {
        waiting.push(connect(&path, patience).unwrap());
    }
    let refused = ask_within(&path, &Request::ShowNet, patience);
    assert!(matches!(refused, Err(ControlError::TimedOut(_))), "{refused:?}");
}

#[test]
fn a_node_of_the_version_before_is_named_as_the_older_one() {
    let (_dir, path) = place();
    let listener = UnixListener::bind(&path).unwrap();
    let node = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        BufReader::new(&stream).read_line(&mut String::new()).unwrap();
        stream.write_all(b"{\"hello\":{\"control\":2,\"release\":\"0.0.9\"}}\n").unwrap();
    });
    let refused = Connection::open(&path).unwrap_err();
    assert!(matches!(refused, ControlError::Version { .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("the node is older: restart it"), "{text}");
    node.join().unwrap();
}
