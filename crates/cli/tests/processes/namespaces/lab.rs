//! `lustrine lab`: hosts in namespaces of their own, joined by links that the program emulates.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lustrine_sys::namespaces::{Namespace, enter};
use lustrine_testing::{Need, not_run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Running, Scratch, eventually, finish, lustrine};

/// The limit of a wait that must not pass.
const PATIENCE: Duration = Duration::from_secs(60);

/// A laboratory of one test, which ends with it.
pub(super) struct Laboratory {
    scratch: Scratch,
}

impl Laboratory {
    /// `None`, with the reason recorded, if this machine cannot have one.
    #[track_caller]
    pub(super) fn up(file: &str) -> Option<Laboratory> {
        if !lustrine_sys::process::is_root() {
            not_run(Need::Root, "network namespaces are made by root");
            return None;
        }
        if let Err(error) = File::open(lustrine_sys::TUN_DEVICE) {
            not_run(Need::Namespaces, &format!("{}: {error}", lustrine_sys::TUN_DEVICE));
            return None;
        }
        let scratch = Scratch::new();
        fs::write(scratch.file("one.yaml"), file).expect("a file");
        let private = fs::Permissions::from_mode(0o700);
        fs::create_dir(scratch.file("labs")).expect("a directory");
        fs::set_permissions(scratch.file("labs"), private).expect("permissions");
        let laboratory = Laboratory { scratch };
        let started = finish(&mut laboratory.command(&["up", &laboratory.file()]));
        if started.code != Some(0) && started.stderr.contains("Operation not permitted") {
            not_run(Need::Namespaces, started.stderr.trim());
            return None;
        }
        started.ok();
        Some(laboratory)
    }

    fn file(&self) -> String {
        self.scratch.file("one.yaml").to_string_lossy().into_owned()
    }

    /// A path in the directory of the test.
    pub(super) fn scratch(&self, name: &str) -> String {
        self.scratch.file(name).to_string_lossy().into_owned()
    }

    /// A command of `lustrine lab` that knows this laboratory alone.
    pub(super) fn command(&self, args: &[&str]) -> std::process::Command {
        let mut command = lustrine();
        command.env("LUSTRINE_LAB_DIR", self.scratch.file("labs")).arg("lab").args(args);
        command
    }

    pub(super) fn status(&self) -> Value {
        let all = finish(&mut self.command(&["status", "--json"])).ok().json();
        all["up"][0].clone()
    }

    /// What a direction of a link has counted, once it has counted as many packets.
    fn counted(&self, link: usize, direction: usize, packets: u64) -> Value {
        eventually(&format!("{packets} packets on link {link}"), || {
            let counted = self.status()["links"][link]["directions"][direction].clone();
            (counted["packets"].as_u64() >= Some(packets)).then_some(counted)
        })
    }

    /// Runs something in the network of a host.
    pub(super) fn at<T: Send + 'static>(
        &self,
        host: &str,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let status = self.status();
        let hosts = status["hosts"].as_array().expect("hosts");
        let found = hosts.iter().find(|known| known["name"] == host).expect("a host");
        let path = format!("/proc/{}/task/{}/ns/net", status["pid"], found["thread"]);
        let network = File::open(path).expect("a namespace");
        thread::spawn(move || {
            enter(&network, Namespace::Network).expect("root enters it");
            run()
        })
    }

    /// A socket in the network of a host.
    fn udp(&self, host: &str) -> UdpSocket {
        let bind = || {
            let socket = UdpSocket::bind("0.0.0.0:7007").expect("a port");
            socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
            socket
        };
        self.at(host, bind).join().expect("it does not panic")
    }
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        let _ = self.command(&["down", "--all"]).output();
    }
}

/// One datagram there and back; how long it took.
fn round_trip(one: &UdpSocket, other: &UdpSocket, to: &str) -> Duration {
    let mut buffer = [0; 100];
    let begin = Instant::now();
    one.send_to(b"there", to).expect("it is sent");
    let (len, from) = other.recv_from(&mut buffer).expect("it arrives");
    assert_eq!(&buffer[..len], b"there");
    other.send_to(b"back", from).expect("it is sent");
    let len = one.recv(&mut buffer).expect("it arrives");
    assert_eq!(&buffer[..len], b"back");
    begin.elapsed()
}

const PAIR: &str = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 1 Gb/s, delay: 5 ms, back: {delay: 7 ms}}]
";

#[test]
fn packets_are_not_faster_than_the_link() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let (east, west) = (lab.udp("east"), lab.udp("west"));
    for _ in 0..3 {
        let took = round_trip(&east, &west, "10.99.0.2:7007");
        assert!(took >= Duration::from_millis(12), "{took:?}");
    }
    assert_eq!(lab.counted(0, 0, 3)["lost"], 0);
    lab.counted(0, 1, 3);
}

#[test]
fn each_host_has_a_node_that_commands_there_use() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let program = env!("CARGO_BIN_EXE_lustrine");
    let on = |host, words: &[&str]| lab.command(&[&["exec", host, "--", program], words].concat());
    let mut nodes = ["east", "west"]
        .map(|host| Running::start(&mut on(host, &["node", "--until-eof", "--net", "tcp=eth0"])));
    for (host, nid) in [("east", "10.99.0.1@tcp"), ("west", "10.99.0.2@tcp")] {
        eventually("the node answers", || {
            let shown = finish(&mut on(host, &["show", "net"]));
            (shown.code == Some(0) && shown.stdout.contains(nid)).then_some(())
        });
    }
    finish(&mut on("east", &["ping", "10.99.0.2@tcp"])).ok();
    for node in &mut nodes {
        node.close_stdin();
    }
    nodes.into_iter().for_each(|node| drop(node.end()));
}

#[test]
fn programs_run_on_hosts() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let run = |host, script| finish(&mut lab.command(&["exec", host, "--", "sh", "-c", script]));
    assert_eq!(run("east", "exit 7").code, Some(7));
    assert_eq!(run("east", "kill -9 $$").code, Some(137));
    let hosts = run("west", "cat /etc/hosts; cat /proc/net/dev; echo $LUSTRINE_LAB_HOST").ok();
    for words in ["10.99.0.1 east", "10.99.0.2 west west.eth0", "eth0:", "\nwest\n"] {
        assert!(hosts.stdout.contains(words), "{words:?} is not in {}", hosts.stdout);
    }
    finish(&mut lab.command(&["exec", "north", "--", "true"])).expect_error(&["no host north"]);
    // As in a shell: not found, and not executable.
    for (program, status) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        let done = finish(&mut lab.command(&["exec", "east", "--", program])).expect_code(status);
        let words = format!("cannot start {program} on host east: ");
        assert!(done.stderr.contains(&words), "{done:#?}");
    }
    let program = env!("CARGO_BIN_EXE_lustrine");
    let inside = |words: &[&str]| {
        finish(&mut lab.command(&[&["exec", "east", "--", program, "lab"], words].concat()))
    };
    for words in [&["exec", "west", "--", "true"][..], &["down"], &["up", &lab.file()]] {
        inside(words).expect_error(&["this runs on host east of a laboratory"]);
    }
    inside(&["status"]).ok();
    finish(&mut lab.command(&["up", &lab.file()])).expect_error(&["one is up already"]);
}

/// The whole stream arrives in spite of losses in the middle of trains of segments, which the
/// link cuts out of them.
#[test]
fn streams_survive_losses() {
    let Some(lab) = Laboratory::up(
        "hosts: {east: {}, west: {}}\n\
         links: [{between: [east, west], rate: 2 Gb/s, delay: 200 us, loss: 0.5 %}]\n",
    ) else {
        return;
    };
    const BYTES: usize = 8 << 20;
    let byte = |at: usize| (at % 251) as u8;
    let listener = lab.at("west", || TcpListener::bind("0.0.0.0:7007").expect("a port"));
    let listener = listener.join().expect("it does not panic");
    let sender = lab.at("east", move || {
        let mut stream = TcpStream::connect("10.99.0.2:7007").expect("a connection");
        let bytes: Vec<u8> = (0..BYTES).map(byte).collect();
        stream.write_all(&bytes).expect("all is sent");
    });
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the stream ends");
    sender.join().expect("it does not panic");
    assert_eq!(bytes.len(), BYTES);
    let wrong = bytes.iter().enumerate().find(|(at, found)| **found != byte(*at));
    assert_eq!(wrong, None);
    let counted = lab.counted(0, 0, BYTES as u64 / 1448);
    assert!(counted["lost"].as_u64() > Some(0), "{counted}");
    assert_eq!((&counted["malformed"], &counted["refused"]), (&0.into(), &0.into()), "{counted}");
}

#[test]
fn a_black_hole_passes_small_packets_and_says_nothing_about_large_ones() {
    let file = include_str!("../../../../../labs/black-hole.yaml");
    let Some(lab) = Laboratory::up(file) else { return };
    let (east, west) = (lab.udp("east"), lab.udp("west"));
    east.connect("10.99.0.2:7007").expect("an address");
    let large = [1; 1500];
    let small = [2; 1400];
    east.send(&large).expect("it is sent");
    east.send(&small).expect("it is sent");
    let mut buffer = [0; 2000];
    let (len, _) = west.recv_from(&mut buffer).expect("the small one arrives");
    assert_eq!(buffer[..len], small, "packets keep their order, and the large one was the first");
    let counted = lab.counted(0, 0, 1);
    assert_eq!((&counted["packets"], &counted["too_large"]), (&1.into(), &1.into()), "{counted}");
    let command = ["exec", "east", "--", "cat", "/proc/net/snmp"];
    let snmp = finish(&mut lab.command(&command)).ok().stdout;
    let mut icmp = snmp.lines().filter(|line| line.starts_with("Icmp:"));
    let words = icmp.nth(1).map(|line| line.split_whitespace().nth(1).map(str::to_owned));
    assert_eq!(words, Some(Some("0".to_owned())), "messages of ICMP received: {snmp}");
    assert!(east.take_error().expect("it is known").is_none());
}

#[test]
fn answers_can_take_another_way() {
    let file = include_str!("../../../../../labs/asymmetric.yaml");
    let Some(lab) = Laboratory::up(file) else { return };
    let (west, east) = (lab.udp("west"), lab.udp("east"));
    let took = round_trip(&west, &east, "10.99.1.2:7007");
    assert!(took >= Duration::from_millis(2 + 3 + 20 + 15), "{took:?}");
    // Links: west - north, north - east, west - south, south - east.
    for (link, forward, back) in [(0, 1, 0), (1, 1, 0), (2, 0, 1), (3, 0, 1)] {
        for (direction, packets) in [(0, forward), (1, back)] {
            let counted = lab.counted(link, direction, packets);
            assert_eq!(counted["packets"], packets, "link {link}, direction {direction}");
        }
    }
}

/// A program that runs on a host until it is killed.
fn sleeper(lab: &Laboratory) -> Running {
    let script = "echo sleeps >&2; exec sleep 1000000";
    let mut command = lab.command(&["exec", "east", "--", "sh", "-c", script]);
    let mut running = Running::start(&mut command);
    running.wait_for("sleeps");
    running
}

/// A node that `timeout` ends leaves its peers in order.
#[test]
fn a_program_gets_sigterm() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let script = "trap 'exit 3' TERM; echo waits >&2; while :; do sleep 0.1; done";
    let mut running = Running::start(&mut lab.command(&["exec", "east", "--", "sh", "-c", script]));
    running.wait_for("waits");
    running.signal(Signal::TERM);
    assert_eq!(running.end().code, Some(3));
}

#[test]
fn programs_end_with_the_laboratory() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let running = sleeper(&lab);
    let ended = finish(&mut lab.command(&["down"])).ok();
    assert!(ended.stdout.contains("laboratory one has ended"), "{ended:?}");
    assert_eq!(running.end().code, Some(137));
    finish(&mut lab.command(&["down"])).expect_error(&["no laboratory is up"]);
    let left = fs::read_dir(lab.scratch.file("labs")).expect("a directory").count();
    assert_eq!(left, 0);
}

#[test]
fn nothing_remains_of_a_laboratory_that_is_killed() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let running = sleeper(&lab);
    let status = lab.status();
    let pid = status["pid"].as_i64().and_then(|pid| Pid::from_raw(pid as i32)).expect("a pid");
    kill_process(pid, Signal::KILL).expect("root kills it");
    assert_eq!(running.end().code, Some(137), "the kernel kills what ran inside");
    let all = eventually("a dead laboratory", || {
        let all = finish(&mut lab.command(&["status", "--json"])).ok().json();
        (all["dead"] == serde_json::json!(["one"])).then_some(all)
    });
    assert_eq!(all["up"], serde_json::json!([]));
    // The next one takes the place of the dead one.
    finish(&mut lab.command(&["up", &lab.file()])).ok();
    assert_eq!(lab.status()["hosts"].as_array().map(Vec::len), Some(2));
    let ended = finish(&mut lab.command(&["down", "one"])).ok();
    assert!(ended.stdout.contains("laboratory one has ended"), "{ended:?}");
}

#[test]
fn a_dry_run_shows_what_a_file_means() {
    let scratch = Scratch::new();
    fs::write(scratch.file("one.yaml"), PAIR).expect("a file");
    let file = scratch.file("one.yaml");
    let mut command = lustrine();
    command.args(["lab", "up", "--dry-run"]).arg(&file);
    let shown = finish(&mut command).ok().stdout;
    for words in ["10.99.0.1", "east > west  1 Gb/s, 5 ms", "west > east  1 Gb/s, 7 ms"] {
        assert!(shown.contains(words), "{words:?} is not in {shown}");
    }
    fs::write(&file, "hosts: {east: {}, west: {}}\nlinks: [{between: [east, wset]}]\n")
        .expect("ok");
    finish(&mut command).expect_bad_input(&["one.yaml:2:26", "did you mean \"west\"?"]);
}
