//! Which peers a node accepts, and the errors when it accepts none.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use rustix::process::Signal;

use lustrine_config::{AcceptPolicy, InterfaceChoice, NetConfig, NodeConfig};
use lustrine_node::{NID_IN_USE, Node as OwnNode};
use lustrine_testing::{Need, not_run};
use lustrine_wire::nid::Net;

use crate::common::{
    Finished, Node, Running, Scratch, eventually, finish, free_port, loopback, lustrine,
    may_be_node, unprivileged,
};

/// The commands of a client. Their long time-outs show that none is waited for.
fn client_commands(node: &Node, identity: &str) -> [Command; 3] {
    let mut commands = ["ping", "discover", "selftest"].map(|name| node.client(name));
    for command in &mut commands {
        command.args(["--identity", identity]);
    }
    for command in &mut commands[..2] {
        command.args(["--timeout", "3600"]);
    }
    commands[2].args(["--test", "ping,write", "--size", "1M", "--concurrency", "8"]);
    commands[2].args(["--time", "0.1", "--patience", "3600"]);
    commands
}

#[test]
fn a_node_is_accepted_under_both_policies() {
    if !may_be_node() {
        return not_run(Need::PrivilegedPorts, "the user may not have node identity");
    }
    for policy in ["secure", "all"] {
        let node = Node::start(&["--accept", policy, "--identity", "node"]);
        for mut command in client_commands(&node, "node") {
            finish(&mut command).ok();
        }
        assert_eq!(node.count("bad_source_port"), 0);
    }
}

#[test]
fn a_userland_client_is_accepted_with_accept_all() {
    // The default policy is LNet's: secure.
    for args in [&["--accept", "all"][..], &["--accept", "all", "--identity", "userland"]] {
        let node = Node::start(args);
        for mut command in client_commands(&node, "userland") {
            finish(&mut command).ok();
        }
    }
}

#[test]
fn a_userland_client_discovers_the_node_and_is_shown_there_as_userland() {
    let node = Node::open();
    let nid = node.nid();
    let asks = |name: &str| {
        let mut command = node.client(name);
        command.args(["--identity", "userland"]);
        command
    };
    let found = finish(asks("discover").arg("--json")).ok().json();
    assert_eq!(found["peer"]["state"], "ready");
    let ping = finish(asks("ping").arg("--json")).ok().json();
    assert!(ping["features"].is_u64(), "{ping:#}");
    assert_eq!(found["peer"]["features"], ping["features"], "{found:#}");
    assert_eq!(found["peer"]["peer_ni"][0], serde_json::json!({"nid": nid, "up": true}));

    let mut load = asks("selftest");
    load.args(["--test", "ping", "--concurrency", "1", "--time", "60"]);
    let load = Running::start(&mut load);
    eventually("a userland peer", || {
        let shown = finish(&mut node.controlled(&["show", "peer"])).ok().stdout;
        shown.contains("    userland: 1 (dialled from source ports above 1023)").then_some(())
    });
    load.signal(Signal::INT);
    load.end().expect_code(130);
}

#[test]
fn a_refused_userland_client_gets_the_reason() {
    for args in [&[][..], &["--accept", "secure"]] {
        let node = Node::start(args);
        let hint = format!(
            "the peer closed the connection before its HELLO; the node at TCP port {} accepts \
             only source ports below 1024: run as root, or set accept=all there",
            node.port()
        );
        for mut command in client_commands(&node, "userland") {
            let done = finish(&mut command).expect_error(&[&node.nid(), &hint]);
            assert_eq!(done.stdout, "", "{done:#?}");
        }
        // So do the commands with a console, of which each has a node of its own.
        let scratch = Scratch::new();
        let own = ["--net", &format!("tcp={}:{}", loopback(), node.port())];
        let own = [&own[..], &["--accept", "none", "--identity", "userland"]].concat();
        let lst = |words: &[&str]| {
            let mut command = lustrine();
            command.arg("lst").args(&own).args(words);
            finish(command.env("LST_SESSION", "7").env("LUSTRINE_LST_DIR", scratch.path()))
        };
        lst(&["new_session", "s"]).ok();
        lst(&["add_group", "g", &node.nid()]).expect_code(254).expect_stderr(&[&hint]);
        lst(&["end_session"]).ok();
        let plan = scratch.file("plan.yaml");
        let text = "name: p\ngroups: {g: 1}\nsteps:\n- tests: [{do: ping, from: g, to: g}]\n";
        fs::write(&plan, text).expect("a plan");
        let mut command = lustrine();
        command.args(["selftest", "--group", &format!("g={}", node.nid()), "--plan"]);
        let own = own.iter().filter(|word| !["--accept", "none"].contains(word));
        finish(command.arg(&plan).args(own)).expect_error(&[&hint]);
        assert!(node.count("bad_source_port") >= 3);
        assert_eq!(node.stats().connections, 0);
        // The line says who it was.
        node.stop()
            .ok()
            .expect_stderr(&["INFO connections refused cpt=0 counted=\"bad_source_port="])
            .expect_stderr(&["\" latest=\"127."]);
    }
}

#[test]
fn node_identity_without_privilege_is_refused_with_advice() {
    let scratch = Scratch::new();
    let Some(mut command) = unprivileged(&scratch) else { return };
    command.args(["ping", "127.0.0.9@tcp", "--port", "9", "--identity", "node"]);
    finish(&mut command).expect_error(&[
        "node identity needs source ports below 1024",
        "run as root, grant CAP_NET_BIND_SERVICE",
        "or use --identity userland",
    ]);
}

#[test]
fn a_port_without_privilege_is_refused_with_advice() {
    let scratch = Scratch::new();
    let Some(mut command) = unprivileged(&scratch) else { return };
    let ip = loopback();
    command.args(["node", "--net", &format!("tcp={ip}")]);
    finish(&mut command).expect_error(&[
        &format!("cannot listen on {ip}:988"),
        "ports below 1024 need root or CAP_NET_BIND_SERVICE",
        "--net tcp=ADDR:PORT",
        "--accept none",
    ]);
}

/// Every command of a client at an address where nothing usable listens.
fn all_fail(nid: &str, port: u16, words: &[&str]) {
    for name in ["ping", "discover", "selftest"] {
        let mut command = lustrine();
        command.arg(name).args(if name == "selftest" { &["--to"][..] } else { &[] }).arg(nid);
        command.args(["--port", &port.to_string()]);
        let done: Finished = finish(&mut command).expect_error(&[nid]).expect_error(words);
        assert_eq!(done.stdout, "", "{done:#?}");
    }
}

#[test]
fn a_closed_port_is_reported() {
    let nothing_there = |nid: &str, port| {
        let words = format!("connection refused; nothing listens on TCP port {port} there");
        all_fail(nid, port, &[&words, "is the port right?"]);
    };
    let ip = loopback();
    nothing_there(&format!("{ip}@tcp"), free_port(ip));

    // A node that accepts no peers does not listen.
    let node = Node::start(&["--accept", "none"]);
    nothing_there(&node.nid(), node.port());
}

#[test]
fn a_silent_listener_is_reported() {
    let ip = loopback();
    // Linux opens the connections, and nothing ever reads from them.
    let listener = TcpListener::bind((ip, 0)).expect("an address of the loopback can be bound");
    let port = listener.local_addr().expect("a listener has an address").port();
    for identity in [&[][..], &["--identity", "userland"]] {
        for name in ["ping", "discover"] {
            let mut command = lustrine();
            command.args([name, &format!("{ip}@tcp"), "--timeout", "0.5"]);
            command.args(["--port", &port.to_string()]).args(identity);
            let words = format!(
                "timed out; TCP port {port} there accepts the connection but does not answer"
            );
            let done = finish(&mut command).expect_error(&[&words]);
            assert!(!done.stderr.contains("host is down"), "it answers TCP: {done:#?}");
        }
    }
    drop(listener);
}

#[test]
fn a_command_does_not_query_its_own_address() {
    let ip = std::net::Ipv4Addr::LOCALHOST;
    let port = free_port(ip).to_string();
    let mut command = lustrine();
    command.args(["ping", "127.0.0.1@tcp", "--port", &port]);
    let finished = finish(&mut command).expect_error(&["connection refused"]);
    // Any other address of the loopback is as good.
    assert!(!finished.stderr.contains("two nodes"), "{}", finished.stderr);
}

/// As a trial of a file system on one machine has several programs.
#[test]
fn a_command_takes_an_address_of_the_loopback_that_is_free() {
    let port = free_port(Ipv4Addr::LOCALHOST);
    let other = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 77), port)).expect("an address");
    let mut command = lustrine();
    command.args(["ping", "127.0.0.1@tcp", "--port", &port.to_string()]);
    let finished = finish(&mut command).expect_error(&["connection refused"]);
    // It was 127.0.0.77, as userland.
    let said = &finished.stderr;
    assert!(!said.contains(NID_IN_USE) && !said.contains("127.0.0.77@tcp"), "{said}");
    drop(other);
}

#[test]
fn a_node_with_another_nid_is_reported() {
    let node = Node::open();
    let words = ["the peer closed the connection before its HELLO"];
    all_fail(&format!("{}@tcp7", node.ip()), node.port(), &words);
    assert!(node.count("wrong_target") >= 3);
}

#[test]
fn a_net_without_interface_is_reported() {
    let (ours, theirs) = (loopback(), loopback());
    for name in ["ping", "discover"] {
        let mut command = lustrine();
        command.args([name, &format!("{theirs}@tcp7"), "--net", &format!("tcp={ours}:9")]);
        finish(&mut command)
            .expect_error(&["no route to the peer; no interface of this node is on that net"]);
    }
    // The loopback's addresses have no route to others.
    finish(lustrine().args(["ping", "192.0.2.1@tcp", "--net", &format!("tcp={ours}:9")]))
        .expect_error(&["no route to the peer", "or the host has no route to it"]);
    finish(lustrine().args(["ping", "10.0.0.1@o2ib", "--port", "9"]))
        .expect_error(&["o2ib", "only peers on tcp networks can be reached"]);
}

#[test]
fn another_service_on_the_port_is_reported() {
    let ip = loopback();
    let listener = TcpListener::bind((ip, 0)).expect("an address of the loopback can be bound");
    let port = listener.local_addr().expect("a listener has an address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // As a web server does: it reads the request, answers in its own protocol and closes.
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    all_fail(
        &format!("{ip}@tcp"),
        port,
        &[&format!("protocol error; the program at TCP port {port} there does not speak LNet")],
    );
}

/// Two processes with one NID look like one that restarts.
#[test]
fn two_commands_with_the_same_address_do_not_disturb_the_node() {
    if !may_be_node() {
        return not_run(Need::PrivilegedPorts, "the user may not have node identity");
    }
    let (node, ip) = (Node::open(), loopback());
    let mut load = node.client_at("selftest", ip);
    load.args(["--test", "read", "--size", "1M", "--concurrency", "8", "--time", "2"]);
    let mut load = Running::start(load.args(["--json", "-"]));
    load.wait_for("[1/1] read");
    eventually("traffic", || (node.stats().lnet["send_length"] > 8 << 20).then_some(()));
    let ping = finish(&mut node.client_at("ping", ip)).ok();
    assert!(ping.stderr.contains("appears as userland"), "{ping:#?}");
    // A command that sets the address explicitly gets the reason of the failure.
    let mut insists = node.client_at("ping", ip);
    insists.args(["--identity", "node"]);
    finish(&mut insists).expect_error(&["cannot listen on", "another node", "has it"]);
    let report = load.end().ok().json();
    assert_eq!(report["identity"], "node");
    assert_eq!(report["results"][0]["errors"], 0, "{report:#}");
    assert_eq!(node.count("restarts_seen"), 0);
}

/// A peer that dials back reaches the right process.
#[test]
fn a_command_can_be_dialled_back() {
    if !may_be_node() {
        return not_run(Need::PrivilegedPorts, "the user may not have node identity");
    }
    let node = Node::start(&["--accept", "all", "--set", "conns_per_peer=4"]);
    let mut load = node.client("selftest");
    load.args(["--test", "read,write", "--size", "1M", "--concurrency", "8", "--time", "0.5"]);
    let report = finish(load.args(["--json", "-"])).ok().json();
    assert_eq!(report["identity"], "node");
    // It has BULK_IN and BULK_OUT once already and accepts no more: NONE is an answer too.
    let answered = node.count("opened_active") + node.count("none_received");
    assert!(answered > 0, "the node has not dialled, so nothing is shown");
    assert_eq!(node.count("dials_failed"), 0);
}

/// A mount that follows another one at once would be userland, which a peer may refuse, or answer
/// only once the other one is forgotten ([USR-6], [USR-10]).
#[test]
fn a_node_that_leaves_is_waited_for() {
    if !may_be_node() {
        return not_run(Need::PrivilegedPorts, "the user may not have node identity");
    }
    let ip = loopback();
    let mut net = NetConfig::new(Net::TCP, InterfaceChoice::Address(IpAddr::V4(ip)));
    net.port = Some(free_port(ip));
    let accept = AcceptPolicy::None;
    let config = NodeConfig { nets: vec![net], accept, ..NodeConfig::default() };
    let start = move || OwnNode::start_for_command(&config).expect("the node starts");
    let reason = |node: &OwnNode| node.info().identity_reason;
    let old = start();
    assert_ne!(reason(&old), NID_IN_USE);
    assert_eq!(reason(&start()), NID_IN_USE, "it stays: nobody waits for it");
    let leaving = old.leaving();
    let (begins, begun) = mpsc::channel();
    let next = thread::spawn(move || {
        begins.send(()).expect("the test waits");
        start()
    });
    begun.recv().expect("the thread runs");
    old.stop();
    drop(leaving);
    let next = next.join().expect("the node starts");
    assert_ne!(reason(&next), NID_IN_USE);
}
