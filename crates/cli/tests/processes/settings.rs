//! Configuration files, several event loops, wait policies.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::thread::available_parallelism;

use lustrine_testing::{Need, not_run};

use crate::common::{Node, Running, Scratch, finish, free_port, loopback, lustrine};

/// `lustrine node` with this configuration.
fn configured(file: &Path) -> Command {
    let mut command = lustrine();
    command.args(["node", "--until-eof", "--config"]).arg(file);
    command
}

#[test]
fn a_file_describes_the_whole_node() {
    let (first, second) = (loopback(), loopback());
    let (port, other_port) = (free_port(first), free_port(second));
    let scratch = Scratch::new();
    let control = scratch.file("node.sock");
    let file = scratch.write(
        "node.yaml",
        &format!(
            "net:
-     net type: tcp
      local NI(s):
      -     nid: {first}@tcp
            port: {port}
            tunables:
                  peer_credits: 16
-     net type: tcp1
      local NI(s):
      -     nid: {second}@tcp1
            port: {other_port}
            lnd tunables:
                  conns_per_peer: 2
lustrine:
    accept: all
    identity: userland
    control: {}
    tunables: {{credits: 64}}
",
            control.display()
        ),
    );
    let mut node = Running::start(&mut configured(&file));
    node.wait_for("control socket");
    let show = |what: &str| {
        let mut command = lustrine();
        finish(command.args(["show", what, "--json", "--control"]).arg(&control)).ok().json()
    };
    let net = show("net");
    assert_eq!(
        (&net["identity"], &net["identity_reason"]),
        (&"userland".into(), &"asked for".into())
    );
    let nets = net["nets"].as_array().expect("a list");
    let found = nets.iter().map(|net| {
        let text = |key: &str| net[key].as_str().unwrap_or("").to_owned();
        (text("nid"), text("listening"), net["credits"].as_u64(), net["conns_per_peer"].as_u64())
    });
    let expected = [
        (format!("{first}@tcp"), format!("{first}:{port}"), Some(64), Some(1)),
        (format!("{second}@tcp1"), format!("{second}:{other_port}"), Some(64), Some(2)),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);

    // Each net is served, and announces both NIDs.
    for (nid, port) in [(&expected[0].0, port), (&expected[1].0, other_port)] {
        let mut ping = lustrine();
        ping.args(["ping", nid, "--port", &port.to_string(), "--json"]);
        let ping = finish(&mut ping).ok().json();
        let nids =
            [&expected[0].0, &expected[1].0].map(|nid| serde_json::json!({"nid": nid, "up": true}));
        assert_eq!(ping["primary_nid"], expected[0].0);
        assert_eq!(ping["peer_ni"], serde_json::json!(nids));
    }
    // Options on the command line have precedence.
    let mut narrowed = configured(&file);
    let taken = format!("tcp={first}:{port}");
    narrowed.args(["--net", &taken, "--control"]).arg(scratch.file("other.sock"));
    finish(&mut narrowed).expect_error(&[&format!("cannot listen on {first}:{port}")]);
}

#[test]
fn a_bad_file_is_refused_with_the_position() {
    let scratch = Scratch::new();
    let cases = [
        (
            "net:\n-     net type: tcp\n      local NI(s):\n      -     intefaces: {0: eth0}\n",
            "4:13: \"intefaces\" is not known",
            "did you mean \"interfaces\"?",
        ),
        (
            "net: [{net type: tcp}]\nlustrine:\n    tunables:\n        peer_credits: 1000000\n",
            "4:23: peer_credits cannot be \"1000000\"",
            "allowed: a number from 1 to 65535 messages",
        ),
        (
            "net: [{net type: tcp, local NI(s): [{tunables: {credits: 16, peer_credits: 32}}]}]",
            "1:37: peer_credits = 32 is more than credits = 16",
            "for example peer_credits: 16",
        ),
        ("net: [", "1:6: not YAML", "unclosed bracket"),
        ("net: [{net type: o2ib}]\n", "1:18:", "o2ib"),
        ("net: [{net type: tcp}]\nroute: [{net: tcp2, gateway: 10.0.0.1@tcp}]\n", "2:1:", "route"),
        ("net: [{net type: tcp}]\nnet: [{net type: tcp}]\n", "2:1:", "net"),
    ];
    for (text, place, words) in cases {
        let file = scratch.write("bad.yaml", text);
        let place = format!("{}:{place}", file.display());
        finish(&mut configured(&file)).expect_bad_input(&[&place, words]);
    }
    // The same file, read leniently, is a warning.
    let ip = loopback();
    let text = format!(
        "net: [{{net type: tcp, local NI(s): [{{nid: {ip}@tcp, port: {}}}]}}]\n\
         route: [{{net: tcp2, gateway: 10.0.0.1@tcp}}]\n",
        free_port(ip)
    );
    let file = scratch.write("kernel.yaml", &text);
    finish(&mut configured(&file)).expect_bad_input(&["kernel.yaml:2:1:", "route"]);
    let mut lenient = configured(&file);
    lenient.args(["--lenient", "--control"]).arg(scratch.file("node.sock"));
    let mut node = Running::start(&mut lenient);
    node.wait_for("control socket");
    let warned = |line: &str| line.contains(" WARN ") && line.contains("kernel.yaml:2:1: ignored:");
    assert!(node.stderr().lines().any(warned), "no warning in\n{}", node.stderr());

    finish(&mut configured(&scratch.file("none.yaml"))).expect_bad_input(&[
        "cannot read",
        "none.yaml",
        "No such file",
    ]);
}

#[test]
fn partitions_on_the_command_line_have_no_effect_and_a_warning() {
    let scratch = Scratch::new();
    let mut command = lustrine();
    command.args(["node", "--net", "tcp1(nosuch0)[0,1]", "--control"]);
    finish(command.arg(scratch.file("node.sock"))).expect_error(&[
        "--net tcp1: CPT [0,1] has no effect yet: every partition serves every interface",
        "no interface is called \"nosuch0\"",
    ]);
}

#[test]
fn bad_settings_are_refused_with_advice() {
    // Errors that the text alone shows.
    let cases: [(&[&str], &[&str]); 7] = [
        (&[], &["no net is configured; give one, for example --net tcp=eth0"]),
        (&["--net", "tcp9x"], &["is not a network", "tcp1=eth0"]),
        (&["--net", "tcp=127.0.0.9", "--net", "tcp=127.0.0.9"], &["has 127.0.0.9 twice"]),
        (
            &["--net", "tcp=127.0.0.9", "--set", "peer_credits"],
            &["'=' is missing", "--set peer_credits=32"],
        ),
        (&["--net", "tcp=127.0.0.9", "--set", "peer_credits=0"], &["allowed: 1 to 65535"]),
        (&["--net", "tcp=127.0.0.9", "--set", "perr_credits=9"], &["no tunable is called"]),
        (&["--net", "tcp=127.0.0.9", "--lenient"], &["--config"]),
    ];
    for (args, words) in cases {
        finish(lustrine().arg("node").args(args))
            .expect_code(2)
            .expect_stderr(words)
            .expect_stderr(&["--help"]);
    }
    // Errors that depend on this machine.
    let cases: [(&[&str], &[&str]); 2] = [
        (&["--net", "tcp=192.0.2.77"], &["is not an address of this machine; it has"]),
        (&["--net", "tcp=nosuch0"], &["no interface is called \"nosuch0\"; this machine has"]),
    ];
    let scratch = Scratch::new();
    for (args, words) in cases {
        let mut command = lustrine();
        command.arg("node").args(args).arg("--control").arg(scratch.file("node.sock"));
        finish(&mut command).expect_error(words);
    }
}

/// A client's measurement with all tests, short.
fn measured(node: &Node, ip: Ipv4Addr, settings: &[&str]) {
    let mut command = node.client_at("selftest", ip);
    command.args(["--size", "1M", "--concurrency", "8", "--time", "0.3", "--check", "full"]);
    let report = finish(command.args(["--json", "-"]).args(settings)).ok().json();
    assert_eq!(report["results"].as_array().map(Vec::len), Some(3), "{report:#}");
}

#[test]
fn two_event_loops_divide_the_peers() {
    if available_parallelism().map_or(1, usize::from) < 2 {
        return not_run(Need::TwoCpus, "two event loops need two CPUs");
    }
    let two = ["--set", "cpu_npartitions=2"];
    let node = Node::start(&[&["--accept", "all"][..], &two].concat());
    let net = finish(&mut node.controlled(&["show", "net", "--json"])).ok().json();
    assert_eq!(net["cpts"].as_array().map(Vec::len), Some(2), "{net:#}");

    // A peer's home follows from its NID; the first loop hands over the peers of the second.
    let (mut of_first, mut of_second) = (None, None);
    for _ in 0..64 {
        let (ip, before) = (loopback(), node.count("handed_off"));
        finish(&mut node.client_at("ping", ip)).ok();
        let home = if node.count("handed_off") == before { &mut of_first } else { &mut of_second };
        home.get_or_insert(ip);
        if of_first.is_some() && of_second.is_some() {
            break;
        }
    }
    let clients = [of_first, of_second].map(|ip| ip.expect("64 peers belong to two loops"));
    for ip in clients {
        measured(&node, ip, &[]);
        // The client's own loops: the node belongs to one of them.
        measured(&node, ip, &two);
        finish(node.client_at("discover", ip).args(two)).ok();
    }
    assert_eq!(node.count("handed_off"), node.count("adopted"));

    // Requests about peers of both loops, and about both loops together.
    let peers = finish(&mut node.controlled(&["show", "peer", "--json"])).ok().json();
    for ip in clients {
        let nid = format!("{ip}@tcp");
        let known = peers["peers"].as_array().expect("a list").iter().any(|p| p["nid"] == nid);
        assert!(known, "{nid} in {peers:#}");
    }
    assert_eq!(node.stats().lnet["msgs_alloc"], 0);
    node.stop().ok();
}

#[test]
fn two_loops_on_both_sides_work() {
    if available_parallelism().map_or(1, usize::from) < 2 {
        return not_run(Need::TwoCpus, "two event loops need two CPUs");
    }
    let scratch = Scratch::new();
    let mut command = lustrine();
    command.args(["selftest", "--set", "cpu_npartitions=2", "--time", "0.3", "--json", "-"]);
    command.args(["--concurrency", "8"]).env("TMPDIR", scratch.path());
    let report = finish(&mut command).ok().json();
    assert_eq!(report["results"].as_array().map(Vec::len), Some(5), "{report:#}");
}

#[test]
fn every_wait_policy_works() {
    for spin_us in ["0", "-1", "50"] {
        let setting = format!("spin_us={spin_us}");
        let node = Node::start(&["--accept", "all", "--set", &setting]);
        measured(&node, loopback(), &["--set", &setting]);
        finish(&mut node.controlled(&["show", "net"])).ok();
        node.stop().ok();
    }
}
