//! Pings through a running node.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Condvar, Mutex};

use lustrine_control::{LineResponse, NodeAbout, PeerIdentity, Session};
use tempfile::TempDir;

use super::*;
use crate::commands::watch::slots::{SILENT_SLOTS, SLOTS};

/// The longest wait for a condition, and the time-outs of what is not to time out.
const LIMIT: Duration = Duration::from_secs(60);

/// What the callers of a node do.
#[derive(Debug, Default)]
struct Callers {
    /// Pings in flight, the most at once, and those of them to peers that do not answer.
    now: usize,
    most: usize,
    silent: usize,
    /// Whether those are answered: they count as lost.
    is_released: bool,
}

type Shared = Arc<(Mutex<Callers>, Condvar)>;

fn nid(text: &str) -> Nid {
    text.parse().expect("a NID")
}

/// The answer of a peer; those of network `tcp1` do not answer until they are released.
fn answer(request: &Request, shared: &Shared) -> Answer {
    let Request::Ping { nid: peer, .. } = request else { panic!("{request:?}") };
    let is_silent = peer.net() == nid("10.0.0.1@tcp1").net();
    let (callers, changed) = &**shared;
    let mut now = callers.lock().expect("no panic");
    now.now += 1;
    now.most = now.most.max(now.now);
    now.silent += usize::from(is_silent);
    changed.notify_all();
    if is_silent {
        now = changed.wait_while(now, |now| !now.is_released).expect("no panic");
    }
    now.now -= 1;
    now.silent -= usize::from(is_silent);
    if is_silent {
        return Answer::Error { errno: -110, message: "lost".to_owned(), hint: String::new() };
    }
    let identity = PeerIdentity { primary_nid: *peer, multi_rail: true, peer_ni: Vec::new() };
    Answer::Ping { identity, features: 0, sequence: 0, rtt_us: 100.0 }
}

/// Serves a caller.
fn serve(stream: &UnixStream, shared: &Shared) {
    let mut session = Session::of(NodeAbout::default());
    for line in BufReader::new(stream).lines() {
        let text = match session.on_line(&line.expect("a line")) {
            LineResponse::Call(request) => answer(&request, shared).to_line(),
            LineResponse::Reply(text) | LineResponse::Close(text) => text,
        };
        (&*stream).write_all(text.as_bytes()).expect("the caller waits");
    }
}

fn wanted(path: &std::path::Path, slots: &Arc<Slots>, peer: &str) -> Wanted {
    Wanted {
        asker: Asker::Running(path.to_owned(), Arc::clone(slots)),
        nid: nid(peer),
        count: 3,
        timeout: LIMIT,
        every: LIMIT,
        first: First::Nothing,
        stopped: Arc::default(),
    }
}

#[test]
fn peers_that_answer_do_not_wait_for_those_that_do_not() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("control.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let shared = Shared::default();
    let server = Arc::clone(&shared);
    // It ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, server) = (stream.expect("a caller"), Arc::clone(&server));
            thread::spawn(move || serve(&stream, &server));
        }
    });
    let slots = Arc::new(Slots::default());
    let sample = |peer: String, first| {
        let wanted = Wanted { first, ..wanted(&path, &slots, &peer) };
        thread::spawn(move || wanted.pings())
    };
    let silent = (1..=40).map(|host| sample(format!("10.0.0.{host}@tcp1"), First::Ping));
    let silent: Vec<_> = silent.collect();
    let (callers, changed) = &*shared;
    let now = callers.lock().expect("no panic");
    let waited = changed.wait_timeout_while(now, LIMIT, |now| now.silent < SILENT_SLOTS);
    drop(waited.expect("no panic"));
    let answered = (1..=24).map(|host| sample(format!("10.0.0.{host}@tcp"), First::Nothing));
    let answered: Vec<_> = answered.collect();
    for sample in answered {
        let pinged = sample.join().expect("no panic").expect("a sample");
        assert_eq!((pinged.times.len(), pinged.sent, pinged.lost), (3, 3, 0));
    }
    let mut now = callers.lock().expect("no panic");
    assert_eq!(now.silent, SILENT_SLOTS, "the others wait for them alone");
    now.is_released = true;
    drop(now);
    changed.notify_all();
    for sample in silent {
        let pinged = sample.join().expect("no panic").expect("a sample");
        assert_eq!((pinged.times.len(), pinged.sent, pinged.lost), (0, 3, 3));
    }
    let most = callers.lock().expect("no panic").most;
    assert!(most <= SLOTS, "{most} at once");
}

#[test]
fn what_was_measured_before_the_node_ended_counts() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("control.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let file = path.clone();
    let server = thread::spawn(move || {
        for _ in 0..2 {
            serve(&listener.accept().expect("a caller").0, &Shared::default());
        }
        fs::remove_file(file).expect("it is there");
    });
    let wanted = wanted(&path, &Arc::default(), "10.0.0.1@tcp");
    let pinged = wanted.pings().expect("a part of a sample");
    assert_eq!((pinged.times, pinged.sent, pinged.lost), (vec![100_000; 2], 2, 0));
    server.join().expect("no panic");
    let none = wanted.pings().expect_err("the node has ended");
    assert!(matches!(none, NoSample::Node(_)), "{none:?}");
}
