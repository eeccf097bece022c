//! Nodes that are changed while they run: a request of `lnetctl` takes effect completely or not at
//! all.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;

use lustrine_control::{Answer, PeerRow, Request};
use lustrine_node::control;
use lustrine_testing::{Need, not_run};

use crate::common::{
    Finished, Node, Running, Scratch, eventually, finish, loopback, lustrine, may_be_node,
};

fn lnetctl_at(control: &Path, words: &str) -> Finished {
    let mut command = lustrine();
    command.arg("lnetctl").args(words.split_whitespace()).env("LUSTRINE_CONTROL", control);
    finish(&mut command)
}

fn lnetctl(node: &Node, words: &str) -> Finished {
    lnetctl_at(&node.control(), words)
}

/// The same, which must succeed and print nothing.
#[track_caller]
fn quietly(node: &Node, words: &str) {
    let done = lnetctl(node, words).ok();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""), "{words}");
}

#[track_caller]
fn peer(node: &Node, nid: &str) -> Option<PeerRow> {
    match control::ask(&node.control(), &Request::ShowPeer) {
        Ok(Answer::Peer { peers }) => peers.into_iter().find(|peer| peer.nid.to_string() == nid),
        other => panic!("{other:?}"),
    }
}

/// `lnetctl import`, of a file with this text.
fn import(node: &Node, words: &str, text: &str) -> Finished {
    let scratch = Scratch::new();
    let file = scratch.file("file.yaml");
    std::fs::write(&file, text).expect("a file");
    lnetctl(node, &format!("import {words} {}", file.display()))
}

/// A node with two networks and two event loops.
fn two_loops() -> Node {
    let first = Node::open();
    let port = format!("accept_port={}", first.port());
    let args = ["--accept", "all", "--set", "cpu_npartitions=2", "--set", port.as_str()];
    let node = first.beside(&args);
    first.stop();
    node
}

#[test]
fn settings_take_effect_and_their_ranges_are_checked() {
    let node = Node::open();
    let before = lnetctl(&node, "global show").ok().stdout;
    quietly(&node, "set transaction_timeout 60");
    quietly(&node, "set retry_count 0");
    quietly(&node, "set discovery 0");
    let global = lnetctl(&node, "global show").ok().stdout;
    for line in ["discovery: 0", "retry_count: 0", "transaction_timeout: 60", "lnd_timeout: 59"] {
        assert!(global.contains(&format!("    {line}\n")), "{global}");
    }
    for (words, says) in [
        ("set discovery 7", "discovery = 7; allowed: 0 to 1"),
        ("set transaction_timeout 0", "transaction_timeout = 0; allowed: 1 to 100000 s"),
        ("set retry_count 100", "a transaction timeout larger than the retry count"),
        ("set max_interfaces 5", "max_interfaces = 5; allowed: 16 to 4096"),
        ("set min_reconnectms 90000", "min_reconnectms = 90000 is more than max_reconnectms"),
    ] {
        lnetctl(&node, words).expect_code(234).expect_stderr(&["errno: -22", says]);
    }
    assert_eq!(
        lnetctl(&node, "global show").ok().stdout,
        global,
        "what is refused changes nothing"
    );
    for (words, says) in [
        ("set health_sensitivity 1", "no health values"),
        ("set tiny_buffers 1", "routing is not supported"),
    ] {
        lnetctl(&node, words).expect_code(234).expect_stderr(&["errno: -95", says]);
    }
    lnetctl(&node, "set transaction_timeout 100s").expect_code(234).expect_stderr(&[
        "errno: -22",
        "without a unit",
        "1 to 100000 s",
    ]);
    lnetctl(&node, "set peer_credits 16")
        .expect_code(234)
        .expect_stderr(&["errno: -95", "when a node starts"]);
    for words in ["set transaction_timeout 150", "set retry_count 2", "set discovery 1"] {
        quietly(&node, words);
    }
    assert_eq!(lnetctl(&node, "global show").ok().stdout, before);
}

#[test]
fn the_number_of_connections_follows_conns_per_peer() {
    let node = Node::open();
    let other = node.beside(&["--accept", "all"]);
    lnetctl(&node, &format!("ping --timeout 60 {}", other.nid())).ok();
    quietly(&other, "net set --all --conns-per-peer 3");
    quietly(&node, &format!("net set --nid {} --conns-per-peer 3", node.nid()));
    let shown = lnetctl(&node, "net show -v").ok().stdout;
    assert!(shown.contains("conns_per_peer: 3\n"), "{shown}");
    if may_be_node() {
        eventually("three connections of each bulk type", || {
            // Both sides open some, and a message makes the node dial the others.
            lnetctl(&node, &format!("ping --timeout 60 {}", other.nid())).ok();
            let row = peer(&node, &other.nid())?;
            let count = |kind: &str| row.connections.get(kind).copied().unwrap_or(0);
            (count("BULK_IN") == 3 && count("BULK_OUT") == 3).then_some(())
        });
    } else {
        not_run(Need::PrivilegedPorts, "a userland node has one connection to each peer");
    }
    quietly(&node, "net set --net tcp --lnd-timeout 20");
    let shown = lnetctl(&node, "net show -v").ok().stdout;
    assert!(shown.contains("timeout: 20\n"), "{shown}");
    lnetctl(&node, "net set --net tcp9 --conns-per-peer 2")
        .expect_code(234)
        .expect_stderr(&["has no tcp9"]);
    lnetctl(&node, "net set --all --health 5").expect_code(234).expect_stderr(&["no health value"]);
}

#[test]
fn a_configured_peer_is_shown_and_its_removal_ends_waiting_messages() {
    let node = two_loops();
    let silent = loopback();
    // It accepts connections, and sends nothing.
    let listener =
        TcpListener::bind(SocketAddr::from((silent, node.port()))).expect("a free place");
    let primary = format!("{silent}@tcp");
    let others = "10.99.0.1@tcp,10.99.0.2@tcp7";
    quietly(&node, &format!("peer add --prim_nid {primary} --nid {others} --lock_prim"));
    let shown = lnetctl(&node, &format!("peer show --nid {primary}")).ok().stdout;
    let wanted = format!(
        "peer:\n-     primary nid: {primary}\n      Multi-Rail: true\n      peer ni:\n      \
         -     nid: {primary}\n            state: up\n      -     nid: 10.99.0.1@tcp\n            \
         state: up\n      -     nid: 10.99.0.2@tcp7\n            state: up\n"
    );
    assert_eq!(shown, wanted);
    let mut ping = lustrine();
    ping.args(["lnetctl", "ping", "--timeout", "3000", &primary]);
    ping.env("LUSTRINE_CONTROL", node.control());
    let ping = Running::start(&mut ping);
    let (connection, _) = listener.accept().expect("the node dials");
    lnetctl(&node, &format!("peer del --prim_nid {primary}"))
        .expect_code(234)
        .expect_stderr(&["is locked"]);
    quietly(&node, &format!("peer del --prim_nid {primary} --nid 10.99.0.1@tcp --force"));
    assert!(peer(&node, "10.99.0.1@tcp").is_none());
    assert!(peer(&node, &primary).is_some());
    quietly(&node, &format!("peer del --prim_nid {primary} --force"));
    let ended = ping.end().expect_code(255);
    assert!(ended.stdout.contains("errno: -104"), "{ended:#?}");
    drop(connection);
    assert_eq!(lnetctl(&node, "peer show").ok().stdout, "");
    lnetctl(&node, &format!("peer del --prim_nid {primary}"))
        .expect_code(234)
        .expect_stderr(&["errno: -2"]);
    let own = format!("peer add --prim_nid {}", node.nid());
    lnetctl(&node, &own).expect_code(234).expect_stderr(&["is this node itself"]);
    let single = "peer add --prim_nid 10.99.0.1@tcp --nid 10.99.0.2@tcp --non_mr";
    lnetctl(&node, single).expect_code(234).expect_stderr(&["is not multi-rail"]);
}

#[test]
fn a_reset_clears_the_shown_counters() {
    let node = Node::open();
    let other = node.beside(&["--accept", "all"]);
    lnetctl(&node, &format!("ping --timeout 60 {}", other.nid())).ok();
    assert!(node.stats().lnet["send_count"] > 0);
    quietly(&node, "stats reset");
    let stats = node.stats().lnet;
    assert_eq!((stats["send_count"], stats["recv_count"], stats["send_length"]), (0, 0, 0));
    let row = peer(&node, &other.nid()).expect("it is known");
    assert_eq!((row.messages.sent, row.messages.received), (0, 0));
    let shown = lnetctl(&node, "net show -v").ok().stdout;
    assert!(shown.contains("send_count: 0\n"), "{shown}");
}

#[test]
fn interfaces_are_added_and_removed_while_a_node_runs() {
    let node = two_loops();
    let second = loopback();
    let nid = format!("{second}@tcp1");
    quietly(&node, &format!("net add --nid {nid} --credits 64 --peer-credits 4"));
    let shown = lnetctl(&node, "net show -v --net tcp1").ok().stdout;
    for line in [format!("nid: {nid}"), "peer_credits: 4".into(), "credits: 64".into()] {
        assert!(shown.contains(&line), "{shown}");
    }
    lnetctl(&node, &format!("net add --nid {nid}"))
        .expect_code(234)
        .expect_stderr(&["errno: -17", "already"]);
    let ping = || {
        let mut ping = lustrine();
        ping.args(["ping", &nid, "--timeout", "60", "--net"]);
        finish(ping.arg(format!("tcp1={}:{}", loopback(), node.port())))
    };
    // Several pings, whose NIDs belong to different loops.
    for _ in 0..4 {
        let answered = ping().ok();
        assert!(answered.stdout.contains(&node.nid()), "both NIDs are announced: {answered:#?}");
    }
    quietly(&node, "net del --net tcp1");
    assert_ne!(ping().code, Some(0), "the port is closed");
    lnetctl(&node, "net show --net tcp1").expect_code(234);
    lnetctl(&node, "net del --net tcp")
        .expect_code(234)
        .expect_stderr(&["a node needs an interface"]);
    lnetctl(&node, "net add --net tcp5 --if nosuch0")
        .expect_code(234)
        .expect_stderr(&["no interface is called"]);
    quietly(&node, &format!("net add --nid {nid}"));
    ping().ok();
    // The node does not need its first interface.
    quietly(&node, &format!("net del --nid {}", node.nid()));
    assert!(ping().ok().stdout.contains(&nid));
}

#[test]
fn an_export_configures_a_new_node_in_the_same_way() {
    let node = two_loops();
    let nid = format!("{}@tcp2", loopback());
    for words in [
        "set transaction_timeout 77".to_owned(),
        "set retry_count 1".to_owned(),
        "set keepalive_idle 0".to_owned(),
        "set spin_us 0".to_owned(),
        format!("net add --nid {nid} --conns-per-peer 2"),
        format!("net set --nid {} --conns-per-peer 2", node.nid()),
        "peer add --prim_nid 10.99.0.7@tcp --nid 10.99.1.7@tcp1".to_owned(),
        "peer add --prim_nid 10.99.0.8@tcp --non_mr".to_owned(),
    ] {
        quietly(&node, &words);
    }
    let scratch = Scratch::new();
    let file = scratch.file("saved.yaml");
    quietly(&node, &format!("export --backup {}", file.display()));
    let saved = std::fs::read_to_string(&file).expect("it was written");
    assert!(saved.contains("transaction_timeout: 77\n") && saved.contains(&nid), "{saved}");
    let import = |words: &str| lnetctl(&node, &format!("import {words} {}", file.display()));
    assert_eq!(import("--dry-run --diff").ok().stdout, "nothing would change\n");

    // Everything is removed again with the same file; the dry run shows what happens.
    for words in [
        "set transaction_timeout 150",
        "set retry_count 2",
        "set keepalive_idle 30",
        "set spin_us 200",
        "net del --net tcp2",
        "net set --all --conns-per-peer 1",
        "peer del --prim_nid 10.99.0.7@tcp",
        "peer del --prim_nid 10.99.0.8@tcp",
    ] {
        quietly(&node, words);
    }
    let printed = import("--dry-run").ok().stdout;
    for line in [
        "would set transaction_timeout to 77 s (was 150)\n",
        "would set spin_us to 0 us (was 200)\n",
        "would configure peer 10.99.0.7@tcp with 10.99.1.7@tcp1\n",
        "would add an interface to tcp2: ",
    ] {
        assert!(printed.contains(line), "{line} is not in {printed}");
    }
    let diff = import("--diff").ok().stdout;
    assert!(diff.contains("\n+    transaction_timeout: 77\n"), "{diff}");
    let now = lnetctl(&node, "export --backup").ok().stdout;
    assert!(!now.contains("transaction_timeout: 77"), "a trial changes nothing: {now}");
    let done = import("").ok();
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
    assert_eq!(lnetctl(&node, "export --backup").ok().stdout, saved);

    // And a node that is started with it, with another control socket.
    let (before, control) = (node.control(), scratch.file("again.sock"));
    let place = |path: &Path| format!("    control: \"{}\"\n", path.display());
    assert!(saved.contains(&place(&before)), "{saved}");
    node.stop();
    let mut again = lustrine();
    again.args(["node", "--until-eof", "--config"]).arg(&file).arg("--control").arg(&control);
    let mut again = Running::start(&mut again);
    again.wait_for("control socket");
    let moved = saved.replace(&place(&before), &place(&control));
    assert_eq!(lnetctl_at(&control, "export --backup").ok().stdout, moved);
    let peers = lnetctl_at(&control, "peer list").ok().stdout;
    assert!(peers.contains("10.99.0.7@tcp") && peers.contains("10.99.0.8@tcp"), "{peers}");
}

#[test]
fn a_file_with_an_error_changes_nothing_and_the_error_has_a_position() {
    let node = Node::open();
    let before = lnetctl(&node, "export --backup").ok().stdout;
    let import = |words: &str, text: &str| {
        let mut command = lustrine();
        command.arg("lnetctl").arg("import").args(words.split_whitespace());
        command.env("LUSTRINE_CONTROL", node.control()).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a program of ours");
        child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    for (text, says) in [
        ("retry_count: 1\nretry_cuont: 2\n", "stdin:2:1: \\\"retry_cuont\\\" is not known"),
        ("retry_count: 1\nroute: [{net: tcp9}]\n", "this release does not route"),
        (
            "retry_count: 1\nlustrine: {tunables: {peers_max: 99}}\n",
            "stdin:2:23: peers_max is 131072 and a running node cannot change it to 99",
        ),
        ("retry_count: 1\nlustrine: {cpu_pattern: C}\n", "cpu_pattern is"),
        ("retry_count: 1\nnet: [{net type: tcp, local NI(s): [{interfaces: {0: no0}}]}]\n", "no0"),
    ] {
        let (code, out, err) = import("", text);
        assert_eq!((code, out.as_str()), (Some(234), ""), "{text}: {err}");
        assert!(err.contains(says), "{says} is not in {err}");
        assert_eq!(lnetctl(&node, "export --backup").ok().stdout, before);
    }
    let text = "retry_count: 1\nretry_cuont: 2\nhealth_sensitivity: 100\n\
                lustrine: {tunables: {peers_max: 99}}\n";
    let (code, out, err) = import("--lenient", text);
    assert_eq!((code, out.as_str()), (Some(0), ""), "{err}");
    assert_eq!(err.matches(": ignored: ").count(), 3, "{err}");
    let after = lnetctl(&node, "export --backup").ok().stdout;
    assert_eq!(after, before.replace("retry_count: 2", "retry_count: 1"));
}

#[test]
fn concurrent_changes_are_applied_one_after_the_other() {
    let node = two_loops();
    let changers: Vec<Running> = (0..8)
        .map(|index| {
            let mut command = lustrine();
            command.args(["lnetctl", "peer", "add", "--prim_nid", "10.99.0.1@tcp", "--nid"]);
            command.arg(format!("10.99.1.{index}@tcp")).env("LUSTRINE_CONTROL", node.control());
            Running::start(&mut command)
        })
        .collect();
    for changer in changers {
        changer.end().ok();
    }
    let saved = lnetctl(&node, "export --backup").ok().stdout;
    for index in 0..8 {
        assert!(saved.contains(&format!("nid: 10.99.1.{index}@tcp\n")), "{saved}");
    }
    let shown = lnetctl(&node, "peer show --nid 10.99.1.5@tcp").ok().stdout;
    assert_eq!(shown.matches("-     nid: ").count(), 9, "{shown}");
}

#[test]
fn networks_share_an_address_and_a_listener() {
    let node = two_loops();
    let port = format!("accept_port={}", node.port());
    let other = node.beside(&["--accept", "all", "--set", &port]);
    let (ip, port) = (node.ip(), node.port());
    let second = format!("{ip}@tcp7");
    quietly(&node, &format!("net add --nid {second}"));
    quietly(&other, &format!("net add --nid {}@tcp7", other.ip()));
    for nid in [&node.nid(), &second] {
        lnetctl(&other, &format!("ping --timeout 60 {nid}")).ok();
    }
    // One is removed: the listener stays, until the last one is removed as well.
    quietly(&node, "net del --net tcp");
    lnetctl(&other, &format!("ping --timeout 60 {second}")).ok();
    let first = node.nid();
    lnetctl(&other, &format!("ping --timeout 5 {first}")).expect_code(255);
    let place = SocketAddr::from((ip, port));
    TcpListener::bind(place).expect_err("it listens there");
    let elsewhere = loopback();
    quietly(&node, &format!("net add --nid {elsewhere}@tcp"));
    quietly(&node, "net del --net tcp7");
    TcpListener::bind(place).expect("the port is closed");

    // A node can also be started like this.
    let both = node.beside(&["--accept", "all", "--net", &format!("tcp7={}:{port}", loopback())]);
    both.stop();
}

#[test]
fn an_interface_is_added_once() {
    let node = Node::open();
    let nid = format!("{}@tcp7", node.ip());
    lnetctl(&node, &format!("net add --net tcp7 --nid {nid} --if lo"))
        .expect_code(234)
        .expect_stderr(&["not both"]);
    let before = lnetctl(&node, "net show").ok().stdout;
    lnetctl(&node, "net add --net tcp7 --if lo,lo").expect_code(234);
    assert_eq!(lnetctl(&node, "net show").ok().stdout, before);
}

#[test]
fn an_export_is_imported_by_a_node_with_two_loops() {
    let node = two_loops();
    let (peer, other) = (format!("{}@tcp", loopback()), format!("{}@tcp9", loopback()));
    let net = format!("net add --nid {other} --credits 100 --peer-credits 32");
    quietly(&node, &net);
    quietly(&node, &format!("peer add --prim_nid {peer}"));
    let scratch = Scratch::new();
    let file = scratch.file("export.yaml");
    for words in ["export", "export --backup"] {
        let text = lnetctl(&node, words).ok().stdout;
        assert!(text.contains("credits: 100\n"), "{text}");
        std::fs::write(&file, &text).expect("a file");
        let done = lnetctl(&node, &format!("import --diff {}", file.display())).ok();
        assert_eq!(done.stdout, "", "{words}");
        lnetctl(&node, &format!("import {}", file.display())).ok();
        assert_eq!(lnetctl(&node, words).ok().stdout, text);
    }
}

#[test]
fn a_node_cannot_be_its_own_peer() {
    let node = Node::open();
    let (own, fresh) = (node.nid(), format!("{}@tcp8", loopback()));
    let refused =
        |done: Finished| drop(done.expect_code(234).expect_stderr(&["is this node itself"]));
    refused(lnetctl(&node, &format!("peer add --prim_nid {own}")));
    let peer = format!("peer: [{{primary nid: {fresh}}}]\n");
    let net = format!("net: [{{net type: tcp8, local NI(s): [{{nid: {fresh}}}]}}]\n");
    refused(import(&node, "", &(net + &peer)));
    import(&node, "", &peer).ok();
    refused(lnetctl(&node, &format!("net add --nid {fresh}")));
    let scratch = Scratch::new();
    let file = scratch.file("own.yaml");
    let port = node.port();
    let text =
        format!("net: [{{net type: tcp, local NI(s): [{{nid: {fresh}, port: {port}}}]}}]\n{peer}")
            .replace("@tcp8", "@tcp");
    std::fs::write(&file, text).expect("a file");
    let mut command = lustrine();
    command.args(["node", "--config"]).arg(&file).arg("--control").arg(scratch.file("own.sock"));
    finish(&mut command).expect_code(1).expect_stderr(&["is this node itself"]);
}

/// It is a peer of its own then.
#[test]
fn a_node_that_has_pinged_itself_takes_its_export() {
    let node = Node::open();
    let ping = format!("ping --timeout 60 {}", node.nid());
    lnetctl(&node, &ping).ok();
    assert_ne!(lnetctl(&node, "peer list").ok().stdout, "");
    let export = lnetctl(&node, "export").ok().stdout;
    import(&node, "", &export).ok();
    // As of a kernel, with a peer more.
    let peers = format!("peer: [{{primary nid: 0@lo}}, {{primary nid: {}}}]\n", node.nid());
    import(&node, "--lenient", &peers).ok().expect_stderr(&["is this node itself"]);
}

/// A change that does not fit ends nothing that existed before.
#[test]
fn a_change_without_room_leaves_existing_peers_unchanged() {
    let other = Node::open();
    let node = other.beside(&["--accept", "all", "--set", "peers_max=16"]);
    lnetctl(&node, &format!("ping --timeout 60 {}", other.nid())).ok();
    // The answer may come before the last connection is open.
    let before = eventually("a connection of each type", || {
        let connections = peer(&node, &other.nid()).expect("it is known").connections;
        (connections.len() == 3).then_some(connections)
    });
    let mut file = format!("peer:\n- primary nid: {}\n", other.nid());
    for last in 1..=20 {
        file += &format!("- primary nid: 10.99.1.{last}@tcp\n");
    }
    import(&node, "", &file).expect_code(234).expect_stderr(&["nothing was changed"]);
    let after = peer(&node, &other.nid()).expect("it is still known");
    assert_eq!(after.connections, before);
    assert_eq!(after.configured, None);
    assert_eq!(lnetctl(&node, "export --backup").ok().stdout.matches("primary nid").count(), 0);
    lnetctl(&node, &format!("ping --timeout 60 {}", other.nid())).ok();
}

#[test]
fn import_removes_what_it_can_and_names_the_rest() {
    let node = Node::open();
    quietly(&node, "peer add --prim_nid 10.99.0.1@tcp --lock_prim");
    quietly(&node, "peer add --prim_nid 10.99.0.2@tcp");
    let file = "peer: [{primary nid: 10.99.0.2@tcp}, {primary nid: 10.99.0.1@tcp}, \
                {primary nid: 10.99.0.3@tcp}]\n";
    let before = lnetctl(&node, "export").ok().stdout;
    import(&node, "--del", file)
        .expect_code(234)
        .expect_stderr(&["1:38", "10.99.0.1@tcp is locked"]);
    assert_eq!(lnetctl(&node, "export").ok().stdout, before);
    let tried = import(&node, "--del --lenient --dry-run", file).ok();
    assert_eq!(tried.stdout.matches("10.99.0.2@tcp").count(), 1, "{tried:#?}");
    let done = import(&node, "--del --lenient", file).ok();
    for text in ["10.99.0.1@tcp is locked", "no peer has the primary NID 10.99.0.3@tcp"] {
        assert!(done.stderr.contains(text), "{done:#?}");
    }
    assert!(peer(&node, "10.99.0.1@tcp").is_some() && peer(&node, "10.99.0.2@tcp").is_none());
}

/// The path of the control socket is not changed by an import.
#[test]
fn a_file_of_another_node_does_not_change_the_control_socket() {
    let node = Node::open();
    let file = "lustrine: {control: /somewhere/else}\nretry_count: 1\n";
    for words in ["", "--exact --dry-run"] {
        let (nid, port) = (node.nid(), node.port());
        let net =
            format!("net: [{{net type: tcp, local NI(s): [{{nid: {nid}, port: {port}}}]}}]\n");
        let done = import(&node, words, &(net + file)).ok();
        assert!(done.stderr.contains("ignored: control is "), "{done:#?}");
    }
    assert!(lnetctl(&node, "global show").ok().stdout.contains("retry_count: 1\n"));
}
