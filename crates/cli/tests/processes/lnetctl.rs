//! `lnetctl`, `lctl` and `routerstat` with running nodes.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::{
    Finished, Node, Running, Scratch, clean, finish, loopback, lustrine, may_be_node,
};

/// A link to the program, named for a tool.
fn link(scratch: &Scratch, name: &str) -> PathBuf {
    let link = scratch.file(name);
    symlink(env!("CARGO_BIN_EXE_lustrine"), &link).expect("a directory of ours");
    link
}

/// A tool under its own name, with a node.
fn tool(scratch: &Scratch, node: &Node, name: &str, words: &str) -> Command {
    let path = scratch.file(name);
    let path = if path.exists() { path } else { link(scratch, name) };
    let mut command = Command::new(path);
    clean(&mut command);
    command.args(words.split_whitespace()).env("LUSTRINE_CONTROL", node.control());
    command
}

#[test]
fn the_tools_show_the_state_of_a_node() {
    let node = Node::open();
    let other = node.beside(&["--accept", "all"]);
    let (nid, peer) = (node.nid(), other.nid());
    let scratch = Scratch::new();
    let run =
        |name: &str, words: &str| -> Finished { finish(&mut tool(&scratch, &node, name, words)) };
    let net = run("lnetctl", "net show --net tcp").ok().stdout;
    let ni = format!("      -     nid: {nid}\n            status: up\n");
    assert_eq!(net, format!("net:\n-     net type: tcp\n      local NI(s):\n{ni}"));
    assert_eq!(run("lnetctl", "peer show").ok().stdout, "");
    let peer_rows =
        format!("- primary nid: {peer}\n  Multi-Rail: true\n  peer_ni:\n  - nid: {peer}\n");
    // The first one connects, which takes time on a machine under load.
    let pinged = run("lnetctl", &format!("ping --timeo 60 {peer}")).ok().stdout;
    assert_eq!(pinged, format!("ping:\n{peer_rows}"));
    let found = run("lnetctl", &format!("discover {peer}")).ok().stdout;
    assert_eq!(found, format!("discover:\n{peer_rows}"));
    assert_eq!(run("lnetctl", "peer list").ok().stdout, format!("peer list:\n-     nid: {peer}\n"));
    let shown = run("lnetctl", "peer show -v").ok().stdout;
    // A userland node is not known to have several NIDs.
    let state = if may_be_node() { "up" } else { "NA" };
    let rows = format!("            state: {state}\n            max_ni_tx_credits: 8\n");
    assert!(shown.contains(&rows), "{shown}");
    let stats = run("lnetctl", "stats show").ok().stdout;
    let sent = stats.lines().find_map(|line| line.strip_prefix("    send_count: ")).expect("it");
    assert!(sent.parse::<u64>().expect("a number") > 0, "{stats}");
    let global = run("lnetctl", "global show").ok().stdout;
    assert!(global.contains("    transaction_timeout: 150\n    lnd_timeout: 49\n"), "{global}");

    let pinged = run("lctl", &format!("ping {peer} 60")).ok().stdout;
    assert_eq!(pinged, format!("12345-0@lo\n{peer}\n"));
    assert_eq!(run("lctl", "list_nids").ok().stdout, format!("{nid}\n"));
    let connections = run("lctl", "--net tcp conn_list").ok().stdout;
    let way = format!("[0]{}->{}", node.ip(), other.ip());
    let begins = format!("12345-{peer}");
    let whole = |line: &str| line.starts_with(&begins) && line.ends_with(&way);
    assert!(!connections.is_empty() && connections.lines().all(whole), "{connections}");
    let peers = run("lctl", "--net tcp peer_list").ok().stdout;
    assert!(peers.contains(&format!("{way}:{} #", node.port())), "{peers}");

    let totals = run("routerstat", "").ok().stdout;
    assert!(totals.starts_with("M 0(") && totals.ends_with(" F 0/0 D 0/0\n"), "{totals}");
}

#[test]
fn failures_have_lustres_forms_and_the_reason() {
    let node = Node::open();
    let scratch = Scratch::new();
    let absent = "127.255.255.250@tcp";
    let words = format!("ping --timeout 60 {absent}");
    let failed = finish(&mut tool(&scratch, &node, "lnetctl", &words)).expect_code(255);
    let start = format!(
        "manage:\n- ping:\n  errno: -111\n  descr: ! 'failed to ping {absent}: Connection refused ("
    );
    assert!(failed.stdout.starts_with(&start) && failed.stderr.is_empty(), "{failed:#?}");
    let refused = finish(&mut tool(&scratch, &node, "lnetctl", "set routing 1"));
    refused.expect_code(234).expect_stderr(&[
        "set:\n-     routing:\n",
        "errno: -95",
        "routing is not supported",
    ]);
    let control = node.control();
    node.stop();
    for (name, words, code) in
        [("lnetctl", "net show", 234), ("lctl", "list_nids", 100), ("routerstat", "", 1)]
    {
        let mut command = lustrine();
        command.arg(name).args(words.split_whitespace()).env("LUSTRINE_CONTROL", &control);
        finish(&mut command)
            .expect_code(code)
            .expect_stderr(&["no node answers at", "start one, for example with"]);
    }
}

#[test]
fn a_backup_is_a_configuration() {
    let ip = loopback();
    let metrics = format!("{ip}:0");
    let node = Node::start(
        &[
            &["--accept", "all", "--metrics", &metrics],
            &["--set", "peer_credits=16", "--set", "retry_count=1"][..],
        ]
        .concat(),
    );
    let scratch = Scratch::new();
    let file = scratch.file("saved.yaml");
    let words = format!("export --backup {}", file.display());
    assert_eq!(finish(&mut tool(&scratch, &node, "lnetctl", &words)).ok().stdout, "");
    let show = |control: &Path, words: &str| {
        let mut command = lustrine();
        command.arg("lnetctl").args(words.split_whitespace()).env("LUSTRINE_CONTROL", control);
        finish(&mut command).ok().stdout
    };
    let before = (show(&node.control(), "export --backup"), show(&node.control(), "global show"));
    assert!(before.0.contains("peer_credits: 16\n") && before.1.contains("retry_count: 1\n"));
    // The export also has paths, wherever they were set; importing the present configuration does
    // nothing.
    let place = |path: &Path| format!("    control: \"{}\"\n", path.display());
    assert!(before.0.contains(&place(&node.control())), "{}", before.0);
    assert!(before.0.contains(&format!("    metrics: \"{metrics}\"\n")), "{}", before.0);
    let words = format!("import --dry-run --diff {}", file.display());
    assert_eq!(show(&node.control(), &words), "nothing would change\n");
    assert_eq!(show(&node.control(), &format!("import {}", file.display())), "");

    let (old, control) = (node.control(), scratch.file("again.sock"));
    node.stop();
    let mut again = lustrine();
    again.args(["node", "--until-eof", "--accept", "all", "--control", "again.sock", "--config"]);
    again.arg(&file).current_dir(control.parent().expect("a directory"));
    let mut again = Running::start(&mut again);
    again.wait_for("control socket");
    let log = again.stderr();
    assert!(!log.contains("ignored") && log.contains(&format!("metrics address={ip}:")), "{log}");
    let moved = before.0.replace(&place(&old), &place(&control));
    assert_eq!(
        (show(&control, "export --backup"), show(&control, "global show")),
        (moved, before.1)
    );
}

#[test]
fn a_script_of_commands_runs() {
    let node = Node::open();
    let scratch = Scratch::new();
    let mut child = tool(&scratch, &node, "lctl", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a program of ours");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(b"network tcp\npeer_list\nlist_nids all\n").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text, format!("<no peers>\n0@lo\n{}\n", node.nid()));
    assert!(output.status.success());
}
