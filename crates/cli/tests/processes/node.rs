//! `lustrine node`: its log, its control socket, its start and its end.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use lustrine_control::Greeting;
use rustix::process::Signal;
use serde_json::Value;

use lustrine_testing::{Need, not_run};

use crate::common::{
    Finished, Node, Running, Scratch, eventually, finish, free_port, loopback, lustrine,
    own_identity, unprivileged,
};

#[test]
fn the_log_announces_addresses_and_identity() {
    let node = Node::open();
    let (nid, listening) = (node.nid(), format!("listening={}:{}", node.ip(), node.port()));
    let control =
        format!("control socket path={} chosen_by=\"--control\"", node.control().display());
    let done = node.stop().ok();
    let identity = format!("identity=\"{}\" reason=\"this process may", own_identity());
    let done =
        done.expect_stderr(&[&nid, &listening, &identity, &control, "stopping: received a signal"]);
    assert!(!done.stderr.contains('\u{1b}'), "colours in a file: {done:#?}");
    assert_eq!(done.stdout, "");
}

#[test]
fn the_log_can_be_json() {
    let node = Node::start(&["--log", "json", "--identity", "userland"]);
    let (nid, addr) = (node.nid(), format!("{}:{}", node.ip(), node.port()));
    let log = json_lines(&node.stop().ok());
    let about = |message: &str| {
        let found = log.iter().find(|line| line["fields"]["message"] == message);
        &found.unwrap_or_else(|| panic!("no {message:?} in {log:#?}"))["fields"]
    };
    assert_eq!(about("interface")["nid"], nid);
    assert_eq!(about("interface")["listening"], addr);
    assert_eq!(about("identity")["identity"], "userland");
    assert_eq!(about("identity")["reason"], "asked for");
    assert_eq!(log.last().expect("a log")["level"], "INFO");

    // The last message of a node that cannot start has the same form.
    let failed = finish(lustrine().args(["node", "--log", "json"])).expect_code(2);
    let log = json_lines(&failed);
    assert_eq!(log.last().expect("an error")["level"], "ERROR", "{failed:#?}");
}

/// Whatever is to be logged, a node that does not start says why.
#[test]
fn a_filter_of_the_log_hides_no_failure() {
    let why = "no net is configured";
    for (value, form) in [
        ("off", "json"),
        ("off", "text"),
        ("lustrine_lnet=trace", "json"),
        ("verbose", "json"),
        ("node=loud", "text"),
        ("", "json"),
    ] {
        let mut command = lustrine();
        command.args(["node", "--log", form]).env("LUSTRINE_LOG", value);
        let done = finish(&mut command).expect_code(2).expect_stderr(&[why]);
        let names_value = done.stderr.contains("LUSTRINE_LOG is");
        assert_eq!(names_value, ["verbose", "node=loud"].contains(&value), "{done:#?}");
        if form == "json" && ["verbose", ""].contains(&value) {
            let log = json_lines(&done);
            assert_eq!(log.last().expect("an error")["level"], "ERROR");
        }
    }
}

#[test]
fn a_node_whose_terminal_is_gone_ends() {
    let mut node = Node::open();
    node.running().signal(Signal::HUP);
    let (done, _) = node.end();
    done.ok().expect_stderr(&["stopping: received SIGHUP"]);
}

/// Standard error as JSON, one object per line.
fn json_lines(done: &Finished) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line:?}"));
    done.stderr.lines().map(parse).collect()
}

#[test]
fn the_control_socket_answers() {
    let node = Node::open();
    let nid = node.nid();
    let meta = fs::symlink_metadata(node.control()).expect("it is there");
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o600, "it is for the owner only");

    let nothing = finish(&mut node.controlled(&["show", "peer"])).ok();
    assert_eq!(nothing.stdout, "no peers yet\n");
    let client = loopback();
    finish(&mut node.client_at("ping", client)).ok();

    let net = finish(&mut node.controlled(&["show", "net", "--json"])).ok().json();
    assert_eq!(net["answer"], "net");
    assert_eq!(net["identity"], own_identity());
    assert_eq!(net["nets"][0]["nid"], nid);
    assert_eq!(net["nets"][0]["listening"], format!("{}:{}", node.ip(), node.port()));
    assert_eq!(net["nets"][0]["credits_available"], net["nets"][0]["credits"]);
    assert!(net["nets"][0]["received"].as_u64() > Some(0), "{net:#}");

    let peers = finish(&mut node.controlled(&["show", "peer", "--json"])).ok().json();
    let peer = &peers["peers"][0];
    assert_eq!(peer["nid"], format!("{client}@tcp"));
    assert_eq!(peer["credits_available"], peer["credits"], "{peers:#}");

    let stats = finish(&mut node.controlled(&["show", "stats", "--json"])).ok().json();
    assert!(stats["stats"]["lnet"]["recv_count"].as_u64() > Some(0), "{stats:#}");
    assert!(stats["stats"]["socklnd"]["accepted"].as_u64() > Some(0), "{stats:#}");

    // The same as text.
    let lines: [(&str, &[&str]); 3] = [
        ("net", &[&nid, "identity: ", "listening: ", "credits: 256 of 256 free"]),
        ("peer", &[&client.to_string(), "credits: 8 of 8 free", "messages: "]),
        ("stats", &["recv_count: ", "accepted: ", "connections: "]),
    ];
    for (what, words) in lines {
        let done = finish(&mut node.controlled(&["show", what])).ok();
        words.iter().for_each(|word| assert!(done.stdout.contains(word), "{word:?}: {done:#?}"));
    }
    // Counters that are 0 are shown only on request.
    let zero = "    bad_frame: 0\n";
    let short = finish(&mut node.controlled(&["show", "stats"])).ok();
    assert!(!short.stdout.contains(zero) && short.stdout.contains("--all"), "{short:#?}");
    let long = finish(&mut node.controlled(&["show", "stats", "--all"])).ok();
    assert!(long.stdout.contains(zero), "{long:#?}");
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_not() {
    let node = Node::open();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    for args in [&["show", "stats"][..], &["show", "net", "--json"], &["ping", &node.nid()]] {
        let done = node.controlled(args).stdout(full()).output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
        let words = "lustrine: cannot write to standard output: No space left on device";
        assert!(without_node(&said).starts_with(words), "{args:?}: {said}");
        // Without standard error it is an error as well.
        let done = node.controlled(args).stdout(full()).stderr(full()).status().expect("it starts");
        assert_eq!(done.code(), Some(1), "{args:?}");

        let (reader, writer) = std::io::pipe().expect("there are pipes");
        drop(reader);
        let done = node.controlled(args).stdout(writer).output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!((done.status.code(), without_node(&said)), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for args in [&["--help"][..], &["--version"], &["fs", "ls", "--help"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let done = lustrine().args(args).stdout(full).output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.starts_with("lustrine: cannot write to standard output"), "{said}");
    }
}

/// Standard error without the first line, which says through which node the command went.
fn without_node(said: &str) -> &str {
    match said.split_once('\n') {
        Some((line, rest)) if line.starts_with("through the running node ") => rest,
        _ => said,
    }
}

#[test]
fn a_log_that_cannot_be_written_does_not_end_a_node() {
    let (scratch, ip) = (Scratch::new(), loopback());
    let control = scratch.file("node.sock");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut command = lustrine();
    command.args(["node", "--until-eof", "--net", &format!("tcp={ip}:{}", free_port(ip))]);
    command.arg("--control").arg(&control).stdin(Stdio::piped()).stderr(full);
    // The node ends when this test does, in any case.
    let mut node = command.spawn().expect("it starts");
    eventually("an answer", || {
        assert_eq!(node.try_wait().expect("a child can be waited for"), None);
        let mut show = lustrine();
        show.args(["show", "net", "--control"]).arg(&control);
        (finish(&mut show).code == Some(0)).then_some(())
    });
    drop(node.stdin.take());
    assert_eq!(node.wait().expect("a child can be waited for").code(), Some(0));
}

#[test]
fn only_the_owner_may_use_the_control_socket() {
    let scratch = Scratch::new();
    let Some(mut show) = unprivileged(&scratch) else { return };
    // Without a path for a control socket there is none, and both sides report it.
    finish(show.args(["show", "net"])).expect_error(&[
        "the control socket of the node is unknown: XDG_RUNTIME_DIR is not set",
        "--control",
    ]);
    let ip = loopback();
    let mut command = unprivileged(&scratch).expect("there was one before");
    command.args(["node", "--until-eof", "--net", &format!("tcp={ip}:{}", free_port(ip))]);
    let mut node = Running::start(&mut command);
    node.wait_for("WARN the tools cannot reach this node: no control socket path is set");
    node.close_stdin();
    node.end().ok();

    if !lustrine_sys::process::is_root() {
        return not_run(Need::Root, "another user's control socket needs another user");
    }
    let node = Node::open();
    let mut show = unprivileged(&scratch).expect("there was one before");
    finish(show.args(["show", "net", "--control"]).arg(node.control())).expect_error(&[
        &node.control().display().to_string(),
        "permission denied; only root and the user of the node may use it",
    ]);
}

/// The connections of a node that has pinged this peer.
fn connections_are_shown(node: &Node, peer: &str) {
    let shown = finish(&mut node.controlled(&["show", "conn", "--json", "--nid", peer])).ok();
    let shown = shown.json();
    let conn = &shown["conns"][0];
    assert_eq!((&conn["nid"], &conn["local_nid"]), (&peer.into(), &node.nid().into()));
    assert!(conn["tcp"]["segments_sent"].as_u64() > Some(0), "{shown:#}");
    assert!(conn["tcp"]["path_mtu"].as_u64() >= Some(576), "{shown:#}");
    // As many as the list of peers counts.
    let peers = finish(&mut node.controlled(&["show", "peer", "--json"])).ok().json();
    let of_peer = peers["peers"].as_array().expect("peers").iter().find(|row| row["nid"] == peer);
    let counts = of_peer.expect("the peer")["connections"].as_object().expect("types").values();
    let open: u64 = counts.filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(shown["conns"].as_array().map(|conns| conns.len() as u64), Some(open), "{peers:#}");

    let text = finish(&mut node.controlled(&["show", "conn"])).ok().stdout;
    for words in [peer, "path MTU: ", "round trip: ", "received: "] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let none = finish(&mut node.controlled(&["show", "conn", "--nid", "10.99.99.99@tcp"])).ok();
    assert_eq!(none.stdout, "no open connections\n");
    finish(&mut node.controlled(&["show", "stats", "--nid", peer]))
        .expect_bad_input(&["--nid goes with latency and conn only"]);
}

#[test]
fn pings_go_through_the_running_node() {
    let near = Node::open();
    let far = near.beside(&["--accept", "all"]);
    for count in ["1", "3"] {
        let done = finish(&mut near.controlled(&["ping", &far.nid(), "--count", count])).ok();
        assert_eq!(done.stdout.matches(&format!("{}  up", far.nid())).count().to_string(), count);
    }
    let ping = finish(&mut near.controlled(&["ping", &far.nid(), "--json"])).ok().json();
    assert_eq!(ping["primary_nid"], far.nid());
    assert_eq!(ping["peer_ni"][0], serde_json::json!({"nid": far.nid(), "up": true}));
    assert!(ping["rtt_us"].as_f64() > Some(0.0), "{ping:#}");
    assert_eq!(ping.get("with_connecting"), None, "the node may have been connected");

    let found = finish(&mut near.controlled(&["discover", &far.nid(), "--json"])).ok().json();
    assert_eq!(found["peer"]["state"], "ready");
    assert_eq!(found["peer"]["primary_nid"], far.nid());
    assert_eq!(found["peer"]["version"], "V3");
    // The running node sent it, not a temporary one.
    let peers = finish(&mut far.controlled(&["show", "peer", "--json"])).ok().json();
    assert_eq!(peers["peers"].as_array().map(Vec::len), Some(1), "{peers:#}");
    assert_eq!(peers["peers"][0]["nid"], near.nid());

    connections_are_shown(&near, &far.nid());

    let ip = loopback();
    finish(&mut near.controlled(&["ping", &format!("{ip}@tcp")]))
        .expect_error(&[&format!("ping {ip}@tcp: connection refused; nothing listens on TCP port")])
        .expect_stderr(&[&format!("(reported by the running node {} (", near.nid())]);
    // A node can ping itself.
    finish(&mut near.controlled(&["ping", &near.nid()])).ok();
    finish(&mut near.controlled(&["discover", &near.nid()])).ok();
}

#[test]
fn no_request_harms_the_control_socket() {
    let node = Node::open();
    let ask = |lines: &[u8]| {
        let mut stream = UnixStream::connect(node.control()).expect("the node listens");
        // The node may close the connection before all of it is written.
        let _ = stream.write_all(lines);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        BufReader::new(stream).lines().map_while(Result::ok).last().unwrap_or_default()
    };
    let hello = Greeting::line().into_bytes();
    let nonsense: [&[u8]; 8] = [
        b"\n",
        b"show net\n",
        b"{\"cmd\":\"reboot\"}\n",
        b"{\"cmd\":\"ping\",\"nid\":\"10.0.0.1@tcp\",\"timeout_ms\":1,\"more\":1}\n",
        b"{\"cmd\":\"ping\",\"nid\":\"10.0.0.1@tcp\",\"timeout_ms\":-1}\n",
        b"{\"cmd\":\"ping\",\"nid\":\"not a nid\",\"timeout_ms\":1}\n",
        b"{\"cmd\":\"ping\"",
        &[b'['; 100_000],
    ];
    for line in nonsense {
        let answer = ask(&[&hello, line].concat());
        assert!(answer.contains("\"error\"") && answer.contains("invalid request"), "{answer:?}");
        // Requests are refused before the versions were exchanged.
        let answer = ask(line);
        assert!(answer.contains("the node speaks control version"), "{answer:?}");
    }
    let answer = ask(&[&hello, &b"{\"cmd\":\"show_net\"}\n"[..]].concat());
    assert!(answer.contains("\"answer\":\"net\""), "{answer:?}");
    // Not UTF-8: no answer is sent.
    ask(b"\xff\xfe\n");
    // Silent callers occupy a limited number of slots.
    let caller = || UnixStream::connect(node.control()).expect("the node listens");
    let mut idlers: Vec<_> = (0..64).map(|_| caller()).collect();
    let refused = eventually("all slots are taken", || {
        let done = finish(&mut node.controlled(&["show", "net"]));
        // One of the callers before may have left its slot only after an idler was refused.
        idlers.push(caller());
        (done.code != Some(0)).then_some(done)
    });
    refused.expect_error(&["closed the control socket: it is stopping, or has too many callers"]);
    drop(idlers);
    eventually("places for callers", || {
        (finish(&mut node.controlled(&["show", "net"])).code == Some(0)).then_some(())
    });
}

#[test]
fn the_wait_for_a_stopped_node_has_a_limit() {
    let mut node = Node::open();
    node.running().signal(Signal::STOP);
    finish(&mut node.controlled(&["show", "net"]))
        .expect_error(&["does not answer: its process is stopped, or the machine is overloaded"]);
    node.running().signal(Signal::CONT);
    finish(&mut node.controlled(&["show", "net"])).ok();
}

#[test]
fn both_signals_end_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut node = Node::open();
        // A client that is working does not keep the node running.
        let mut command = node.client("selftest");
        command.args(["--test", "write", "--size", "1M", "--time", "60", "--patience", "1"]);
        let client = Running::start(&mut command);
        eventually("traffic", || (node.stats().lnet["recv_length"] > 1 << 20).then_some(()));
        node.running().signal(signal);
        let (done, home) = node.end();
        done.ok();
        assert!(!home.control().exists(), "{signal:?} leaves the control socket behind");
        client.end().expect_code(1);
    }
}

#[test]
fn the_end_of_standard_input_ends_it() {
    let mut node = Node::open();
    node.running().close_stdin();
    let (done, home) = node.end();
    assert!(!home.control().exists());
    done.ok().expect_stderr(&["stopping: standard input was closed"]);
}

#[test]
fn addresses_and_sockets_in_use_are_not_taken_over() {
    let first = Node::open();
    let control = first.control();
    let other = format!("tcp={}:{}", loopback(), first.port());
    // The control socket is checked first, so that a node that cannot run dials no peer.
    let mut same_control = lustrine();
    same_control.args(["node", "--net", &format!("tcp={}:{}", first.ip(), first.port())]);
    same_control.arg("--control").arg(&control);
    finish(&mut same_control).expect_error(&[
        "another node is running with control socket",
        &control.display().to_string(),
        "choose another with --control",
    ]);

    let scratch = Scratch::new();
    let addr = format!("{}:{}", first.ip(), first.port());
    let mut same_port = lustrine();
    same_port.args(["node", "--net", &format!("tcp={addr}"), "--control"]);
    finish(same_port.arg(scratch.file("second.sock"))).expect_error(&[
        &format!("cannot listen on {addr}"),
        "another node, or a kernel's LNet, has it",
    ]);

    let file = scratch.write("precious", "data");
    let mut on_a_file = lustrine();
    on_a_file.args(["node", "--net", &other, "--control"]);
    finish(on_a_file.arg(&file)).expect_error(&["exists and is not a socket"]);
    assert_eq!(fs::read_to_string(&file).expect("it is still there"), "data");

    // The first node is not affected.
    finish(&mut first.controlled(&["show", "net"])).ok();
    finish(&mut first.client("ping")).ok();
}

#[test]
fn a_stale_socket_is_replaced() {
    let home = Node::open().kill();
    assert!(home.control().exists(), "a killed process cannot tidy up");
    let node = home.start();
    finish(&mut node.controlled(&["show", "net"])).ok();
}

#[test]
fn a_file_with_a_control_socket_selects_the_running_node() {
    let node = Node::open();
    let scratch = Scratch::new();
    // Its net differs from the running node's, so that a temporary node would be another one.
    let (ours, control) = (loopback(), node.control());
    let yaml = |control: &Path| {
        let net = format!("net: [{{net type: tcp, local NI(s): [{{nid: {ours}@tcp}}]}}]");
        format!("{net}\nlustrine: {{control: {}, accept: none}}\n", control.display())
    };
    let file = scratch.write("node.yaml", &yaml(&control));
    let with_file = |args: &[&str]| {
        let mut command = lustrine();
        command.args(args).arg("--config").arg(&file);
        command
    };
    let net = finish(&mut with_file(&["show", "net", "--json"])).ok().json();
    assert_eq!(net["nets"][0]["nid"], node.nid());
    finish(&mut with_file(&["ping", &node.nid()])).ok();
    let peers = finish(&mut with_file(&["show", "peer", "--json"])).ok().json();
    assert_eq!(peers["peers"].as_array().map(Vec::len), Some(1), "{peers:#}");
    assert_eq!(peers["peers"][0]["nid"], node.nid(), "the node pinged itself");
    // Options in addition to the file describe another node, which the command starts.
    let port = node.port().to_string();
    let own = ["ping", &node.nid(), "--json", "--set", "peer_credits=9", "--port", &port];
    let ping = finish(&mut with_file(&own)).ok().json();
    assert_eq!(ping["node"]["nid"], format!("{ours}@tcp"));
    assert_eq!(ping["with_connecting"], true, "{ping:#}");

    let absent = scratch.file("absent.sock");
    let file = scratch.write("absent.yaml", &yaml(&absent));
    let words = format!("start it with `lustrine node --config {}`", file.display());
    finish(lustrine().args(["show", "net", "--config"]).arg(&file))
        .expect_error(&["no node answers at", &words]);

    let directory = scratch.file("missing");
    let mut homeless = lustrine();
    homeless.args(["node", "--net", &format!("tcp={ours}:{}", free_port(ours)), "--control"]);
    finish(homeless.arg(directory.join("node.sock"))).expect_error(&[
        &format!("there is no directory {}; make the directory", directory.display()),
        "--control",
    ]);
}

#[test]
fn a_missing_node_is_reported() {
    let scratch = Scratch::new();
    let path = scratch.file("absent.sock");
    let words = format!(
        "start one, for example with `lustrine node --net tcp=eth0 --control {}`",
        path.display()
    );
    for args in [&["show", "stats"][..], &["ping", "10.0.0.1@tcp"]] {
        finish(lustrine().args(args).arg("--control").arg(&path))
            .expect_error(&["no node answers at", &words]);
    }
    let file = scratch.write("file", "not a socket");
    finish(lustrine().args(["show", "net", "--control"]).arg(&file))
        .expect_error(&["exists and is not a socket; choose another path with --control"]);
    // A command that names a running node does not start a temporary one.
    let mut both = lustrine();
    both.args(["ping", "10.0.0.1@tcp", "--port", "9", "--control"]).arg(&path);
    finish(&mut both)
        .expect_code(2)
        .expect_stderr(&["--control names a running node", "one or the other"]);
}
