//! `lustrine top`: a terminal that belongs to the test, and output for scripts.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, LocalModes, Termios, Winsize, tcflow, tcgetattr, tcsetwinsize};

use crate::common::{Node, eventually, finish, lustrine};

/// A terminal, and what was written to it.
struct Terminal {
    controller: OwnedFd,
    user: OwnedFd,
    written: Arc<Mutex<String>>,
}

impl Terminal {
    fn new() -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&controller).expect("a terminal");
        unlockpt(&controller).expect("a terminal");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let user = rustix::fs::open(&*name, flags, Mode::empty()).expect("a terminal");
        let written = Arc::new(Mutex::new(String::new()));
        let (mut from, into) =
            (File::from(controller.try_clone().expect("a copy")), Arc::clone(&written));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..len]);
                into.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            }
        });
        let terminal = Terminal { controller, user, written };
        terminal.resize(30, 120);
        terminal
    }

    fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.controller, size).expect("a size");
    }

    fn modes(&self) -> Termios {
        tcgetattr(&self.user).expect("modes")
    }

    fn start(&self, command: &mut Command) -> Top {
        let copy = || Stdio::from(self.user.try_clone().expect("a copy"));
        command.stdin(copy()).stdout(copy()).stderr(Stdio::piped());
        Top(command.env("TERM", "xterm").spawn().expect("it starts"))
    }

    fn text(&self) -> String {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until this was written since it had so many bytes.
    fn wait_for(&self, words: &str, from: usize) {
        eventually(&format!("{words:?} on the terminal"), || {
            self.text().get(from..)?.contains(words).then_some(())
        });
    }

    /// Waits until this word is on the screen. Only cells that differ are written, so that neither
    /// a word over another one nor a space need be there; a new size is drawn whole, word by word,
    /// so there is one from time to time.
    fn wait_for_drawn(&self, word: &str) {
        let (from, mut looks) = (self.text().len(), 0);
        eventually(&format!("{word:?} on the terminal"), || {
            if looks % 50 == 0 {
                self.resize(30 + looks / 50 % 2, 120);
            }
            looks += 1;
            self.text().get(from..)?.contains(word).then_some(())
        });
    }

    fn type_in(&self, keys: &str) {
        let mut into = File::from(self.controller.try_clone().expect("a copy"));
        into.write_all(keys.as_bytes()).expect("keys");
    }
}

/// The program; dropping it kills it.
struct Top(Child);

impl Top {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Its exit status, once it has ended.
    fn end(mut self) -> Option<i32> {
        eventually("the end of top", || self.0.try_wait().expect("a child")).code()
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // Both fail if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn top(node: &Node, args: &[&str]) -> Command {
    let mut command = lustrine();
    command.args(["top", "--interval", "0.2", "--control"]).arg(node.control()).args(args);
    command
}

#[test]
fn one_interval_as_text_and_as_json() {
    let node = Node::open();
    finish(&mut node.client("ping")).ok();
    let text = finish(&mut top(&node, &["--once"])).ok().stdout;
    assert!(text.contains("identity") && text.contains("\n1 interface\nNID "), "{text}");
    assert!(text.contains(&format!("{} ", node.nid())), "{text}");
    assert!(text.contains("\n1 peer\n"), "{text}");
    let view = finish(&mut top(&node, &["--once", "--json"])).ok().json();
    let line = &view["node"]["nets"][0];
    assert_eq!(line["nid"].as_str(), Some(node.nid().as_str()));
    assert_eq!(line["credits_available"], line["credits"], "{view:#}");
    assert!(view["date"].as_str().is_some_and(|date| date.ends_with('Z')), "{view:#}");
    // No node sends anything, and that is known.
    assert_eq!(view["node"]["sent_per_s"].as_f64(), Some(0.0), "{view:#}");
    assert_eq!(view["node"]["restarted"], false);
    assert!(view["interval_s"].as_f64() >= Some(0.1), "{view:#}");
}

#[test]
fn what_a_load_does_is_seen() {
    let node = Node::open();
    let mut load = node.client("selftest");
    load.args(["--size", "4k", "--time", "600", "--concurrency", "4", "--json", "-"]);
    let load = crate::common::Running::start(&mut load);
    eventually("a rate", || {
        let view = finish(&mut top(&node, &["--once", "--json"])).ok().json();
        let peers = view["node"]["peers"].as_array().expect("peers");
        let busy = peers.iter().any(|peer| peer["received_per_s"].as_f64() > Some(1.0));
        let bytes = view["node"]["received_bytes_per_s"].as_f64() > Some(1.0);
        (busy && bytes).then_some(())
    });
    load.signal(Signal::INT);
    load.end();
}

#[test]
fn lines_of_json_come_until_a_signal() {
    let node = Node::open();
    let running = crate::common::Running::start(&mut top(&node, &["--json"]));
    let three = || (running.stdout().matches('\n').count() >= 3).then_some(());
    eventually("three lines", three);
    running.signal(Signal::TERM);
    let done = running.end().expect_code(130);
    let mut before = None;
    for line in done.stdout.lines() {
        let view: serde_json::Value = serde_json::from_str(line).expect("a line is a document");
        assert!(view["node"]["nets"].is_array(), "{line}");
        // Each line is of an interval of its own: no two last the same nanoseconds.
        let interval = view["interval_s"].as_f64();
        assert!(interval.is_some() && interval != before, "{}", done.stdout);
        before = interval;
    }
}

#[test]
fn a_terminal_is_drawn_on_and_given_back() {
    let node = Node::open();
    let terminal = Terminal::new();
    let before = terminal.modes();
    assert!(before.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
    let running = terminal.start(&mut top(&node, &[]));
    terminal.wait_for("sorted by name", 0);
    terminal.wait_for(&node.nid(), 0);
    assert!(!terminal.modes().local_modes.contains(LocalModes::ICANON));
    let drawn = terminal.text().len();
    terminal.type_in("s");
    // Of "received", where "name" was: the letter that was there already is not written again.
    terminal.wait_for("ived", drawn);
    terminal.type_in("p");
    terminal.wait_for("PAUSED", drawn);
    // A new size is drawn whole.
    let drawn = terminal.text().len();
    terminal.resize(12, 50);
    terminal.wait_for("lustrine top", drawn);
    terminal.type_in("q");
    assert_eq!(running.end(), Some(0));
    is_given_back(&terminal, &before);
}

#[test]
fn a_signal_and_control_c_give_the_terminal_back() {
    let node = Node::open();
    for (keys, code) in [("", Some(130)), ("\x03", Some(0))] {
        let terminal = Terminal::new();
        let before = terminal.modes();
        let running = terminal.start(&mut top(&node, &[]));
        terminal.wait_for(&node.nid(), 0);
        match keys {
            "" => running.signal(Signal::TERM),
            keys => terminal.type_in(keys),
        }
        assert_eq!(running.end(), code);
        is_given_back(&terminal, &before);
    }
}

#[test]
fn a_terminal_that_takes_nothing_does_not_hold_up_the_end() {
    let node = Node::open();
    let terminal = Terminal::new();
    let before = terminal.modes();
    let running = terminal.start(&mut top(&node, &[]));
    terminal.wait_for(&node.nid(), 0);
    // As Ctrl-S does outside of raw mode.
    tcflow(&terminal.user, Action::OOff).expect("it is stopped");
    running.signal(Signal::TERM);
    assert_eq!(running.end(), Some(130));
    assert_eq!(terminal.modes().local_modes, before.local_modes);
}

/// Whether the terminal has its modes and its other screen again, with a cursor.
fn is_given_back(terminal: &Terminal, before: &Termios) {
    let after = terminal.modes();
    assert_eq!(after.local_modes, before.local_modes);
    assert_eq!(after.input_modes, before.input_modes);
    terminal.wait_for("\x1b[?1049l", 0);
    terminal.wait_for("\x1b[?25h", 0);
}

#[test]
fn a_node_that_is_started_again_is_shown_again() {
    let mut node = Node::open();
    let terminal = Terminal::new();
    let running = terminal.start(&mut top(&node, &[]));
    terminal.wait_for("identity", 0);
    let home = node.kill();
    // "no node answers; Tab shows mounts"
    terminal.wait_for_drawn("answers;");
    node = home.start();
    terminal.wait_for_drawn("identity");
    terminal.wait_for_drawn(&node.nid());
    terminal.type_in("q");
    assert_eq!(running.end(), Some(0));
}

/// A terminal that is drawn larger sends many signals.
#[test]
fn a_key_is_not_lost_between_new_sizes() {
    let node = Node::open();
    let terminal = Terminal::new();
    let running = terminal.start(&mut top(&node, &[]));
    terminal.wait_for(&node.nid(), 0);
    let process = Pid::from_child(&running.0);
    let (stop, stopped) = mpsc::channel::<()>();
    let signals = thread::spawn(move || {
        let wait = Duration::from_micros(100);
        while stopped.recv_timeout(wait) == Err(mpsc::RecvTimeoutError::Timeout) {
            kill_process(process, Signal::WINCH).expect("it runs");
        }
    });
    let drawn = terminal.text().len();
    terminal.type_in("p");
    terminal.wait_for("PAUSED", drawn);
    drop(stop);
    signals.join().expect("it ends");
    terminal.type_in("q");
    assert_eq!(running.end(), Some(0));
}

#[test]
fn without_a_terminal_or_a_node_it_says_what_to_do() {
    let node = Node::open();
    finish(&mut top(&node, &[])).expect_bad_input(&["is not a terminal", "--once", "--json"]);
    let mut without_node = lustrine();
    without_node.args(["top", "--once", "--control", "/nonexistent/x.sock"]);
    finish(&mut without_node).expect_error(&["no node answers at /nonexistent/x.sock"]);
    for how in [&["--once"][..], &["--json"]] {
        finish(top(&node, how).args(["--mount", "/nonexistent"]))
            .expect_error(&["no mount of `lustrine mount` at /nonexistent", "fs status"]);
    }
    let mut wrong = lustrine();
    finish(wrong.args(["top", "--once", "--sort", "size"])).expect_code(2);
}
