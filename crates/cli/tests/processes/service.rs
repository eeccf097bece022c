//! `lustrine node` as a service of systemd: its notifications to the service manager, over a real
//! socket.

use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;

use lustrine_testing::{Need, not_run};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use rustix::process::Signal;

use crate::common::{Running, Scratch, eventually, finish, free_port, loopback, lustrine};

/// A node under a service manager, which this test is.
struct Service {
    node: Running,
    manager: UnixDatagram,
    scratch: Scratch,
}

impl Service {
    fn start(variables: &[(&str, &str)]) -> Service {
        let scratch = Scratch::new();
        let path = scratch.file("notify");
        let manager = UnixDatagram::bind(&path).expect("the test's directory has room");
        manager.set_nonblocking(true).expect("a socket of this test");
        let ip = loopback();
        let mut command = lustrine();
        command
            .args(["node", "--until-eof", "--accept", "all"])
            .args(["--net", &format!("tcp={ip}:{}", free_port(ip))])
            .arg("--control")
            .arg(scratch.file("node.sock"))
            .env("NOTIFY_SOCKET", &path)
            .envs(variables.iter().copied());
        Service { node: Running::start(&mut command), manager, scratch }
    }

    /// A message that has arrived.
    fn message(&self) -> Option<String> {
        let mut buffer = [0; 512];
        match self.manager.recv(&mut buffer) {
            Ok(len) => Some(String::from_utf8_lossy(&buffer[..len]).into_owned()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("the test's own socket: {error}"),
        }
    }

    fn next(&self, what: &str) -> String {
        eventually(what, || self.message())
    }
}

#[test]
fn a_service_says_when_it_answers_and_when_it_stops() {
    let service = Service::start(&[]);
    let ready = service.next("the node is ready");
    assert!(ready.starts_with("READY=1\nSTATUS=127."), "{ready:?}");
    // It is ready only once others can ask it.
    assert!(service.scratch.file("node.sock").exists());
    service.node.signal(Signal::TERM);
    assert_eq!(service.next("it stops"), "STOPPING=1");
    service.node.end().ok();
}

#[test]
fn a_service_does_not_take_a_hangup_for_its_end() {
    let service = Service::start(&[]);
    assert!(service.next("the node is ready").starts_with("READY=1"));
    service.node.signal(Signal::HUP);
    eventually("the log says so", || said(&service.node, "SIGHUP has no effect", 1));
    service.node.signal(Signal::TERM);
    assert_eq!(service.next("it stops"), "STOPPING=1");
    service.node.end().ok();
}

/// systemd starts a node again whose interface is not there yet, and not one with a bad file: the
/// exit status tells them apart.
#[test]
fn the_unit_waits_for_interfaces_and_not_for_files() {
    let unit = include_str!("../../../../packaging/lustrine-node.service");
    let set = |line: &str| unit.lines().any(|other| other == line);
    assert!(set("Restart=on-failure") && set("RestartPreventExitStatus=2"), "{unit}");
    assert!(set("StartLimitIntervalSec=0"), "there is no last attempt: {unit}");
    let scratch = Scratch::new();
    let file = scratch.file("node.yaml");
    for (text, status) in [
        (Some("net: [{net type: tcp, local NI(s): [{interfaces: {0: absent0}}]}]\n"), 1),
        (Some("net: [{net type: tcp, local NI(s): [{nid: 192.0.2.77@tcp}]}]\n"), 1),
        (Some("net: [{net type: tpc}]\n"), 2),
        (Some("lustrine: {accept: all}\nnet: [\n"), 2),
        (None, 2),
    ] {
        let file = match text {
            Some(text) => {
                std::fs::write(&file, text).expect("the test's directory has room");
                file.clone()
            }
            None => scratch.file("absent.yaml"),
        };
        let mut command = lustrine();
        command.args(["node", "--config"]).arg(file);
        command.arg("--control").arg(scratch.file("node.sock"));
        finish(&mut command).expect_code(status);
    }
}

#[test]
fn the_watchdog_is_fed_by_the_event_loops_and_by_nothing_else() {
    let service = Service::start(&[("WATCHDOG_USEC", "1000000")]);
    assert!(service.next("the node is ready").starts_with("READY=1"));
    for _ in 0..3 {
        assert_eq!(service.next("the watchdog is fed"), "WATCHDOG=1");
    }
    // A stopped thread is what a loop that hangs looks like to the others.
    let Some(thread) = event_loop(service.node.pid()) else {
        panic!("the node has no event loop");
    };
    let stopped = match Stopped::thread(thread) {
        Ok(stopped) => stopped,
        Err(error) => {
            not_run(Need::Root, &format!("threads of other processes cannot be stopped: {error}"));
            return;
        }
    };
    let complaint = "event loops do not answer";
    eventually("the log says so", || said(&service.node, complaint, 1));
    while let Some(before) = service.message() {
        assert_eq!(before, "WATCHDOG=1");
    }
    // Another half of the patience later.
    eventually("the log says so again", || said(&service.node, complaint, 2));
    assert_eq!(service.message(), None, "a loop hangs");

    drop(stopped);
    assert_eq!(service.next("the loop goes on"), "WATCHDOG=1");
    service.node.signal(Signal::TERM);
    service.node.end().ok().expect_stderr(&["cpts=[0]"]);
}

/// A thread of another process that does not run until this value is dropped.
struct Stopped(Pid);

impl Stopped {
    fn thread(thread: Pid) -> nix::Result<Stopped> {
        ptrace::seize(thread, ptrace::Options::empty())?;
        let stopped = Stopped(thread);
        ptrace::interrupt(thread)?;
        waitpid(thread, Some(WaitPidFlag::__WALL))?;
        Ok(stopped)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It fails if the process has ended.
        let _ = ptrace::detach(self.0, None);
    }
}

/// A thread of this process that runs an event loop.
fn event_loop(process: u32) -> Option<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    tasks.map_while(Result::ok).find_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let id = task.file_name().to_str()?.parse().ok()?;
        (name.trim_end() == "lustrine-cpt0").then(|| Pid::from_raw(id))
    })
}

fn said(node: &Running, words: &str, times: usize) -> Option<()> {
    (node.stderr().matches(words).count() >= times).then_some(())
}

#[test]
fn a_service_manager_that_nobody_can_reach_does_not_stop_a_node() {
    let service = Service::start(&[("NOTIFY_SOCKET", "vsock:2:1234")]);
    let why = "NOTIFY_SOCKET is \"vsock:2:1234\"";
    eventually("the log says so", || said(&service.node, why, 1));
    eventually("it answers", || service.scratch.file("node.sock").exists().then_some(()));
}
