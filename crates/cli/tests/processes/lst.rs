//! `lst` over real sockets: consoles in separate processes, and in nodes.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use lustrine_control::Request;
use lustrine_node::control;
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Node, Running, Scratch, eventually, finish, loopback, lustrine, unprivileged};

/// A user of `lst`, with a session key and a directory for consoles.
struct User {
    key: String,
    scratch: Scratch,
    net: String,
}

impl User {
    /// A user whose consoles reach nodes at this node's port.
    fn beside(node: &Node) -> User {
        static KEYS: AtomicU32 = AtomicU32::new(1);
        User {
            key: KEYS.fetch_add(1, Ordering::Relaxed).to_string(),
            scratch: Scratch::new(),
            net: format!("tcp={}:{}", loopback(), node.port()),
        }
    }

    /// `lst` with a temporary node.
    fn lst(&self, words: &[&str]) -> Command {
        let mut command = lustrine();
        command.args(["lst", "--net", &self.net]).args(words);
        command.env("LST_SESSION", &self.key).env("LUSTRINE_LST_DIR", self.scratch.path());
        command
    }

    /// The output of `lst`, which must succeed.
    #[track_caller]
    fn prints(&self, words: &[&str]) -> String {
        finish(&mut self.lst(words)).ok().stdout
    }

    /// A session with groups `clients` and `servers`, if they are not empty.
    #[track_caller]
    fn session(&self, clients: &[&Node], servers: &[&Node]) {
        let begun = self.prints(&["new_session", "--timeout", "120", "test"]);
        assert_eq!(begun, "SESSION: test FEATURES: 1 TIMEOUT: 120 FORCE: No\n");
        let groups = [("clients", clients), ("servers", servers)];
        for (group, nodes) in groups.into_iter().filter(|(_, nodes)| !nodes.is_empty()) {
            let nids: Vec<String> = nodes.iter().map(|node| node.nid()).collect();
            let words: Vec<&str> = nids.iter().map(String::as_str).collect();
            let added = self.prints(&[&["add_group", group], &words[..]].concat());
            let expected: String =
                nids.iter().map(|nid| format!("{nid} are added to session\n")).collect();
            assert_eq!(added, expected);
        }
    }

    fn socket(&self) -> std::path::PathBuf {
        self.scratch.file(&format!("lustrine-lst-{}.sock", self.key))
    }

    /// Waits until the console's process has ended, and left no files.
    #[track_caller]
    fn console_is_gone(&self) {
        eventually("the end of the console", || {
            let left = fs::read_dir(self.scratch.path()).expect("a directory").count();
            (left == 0).then_some(())
        });
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // No console outlives its test.
        let _ = self.lst(&["end_session"]).output();
    }
}

/// A field of a line that begins with a word, counted from 1 as in awk.
fn field(text: &str, begins: &str, number: usize) -> f64 {
    let line = text.lines().find(|line| line.starts_with(begins));
    let line = line.unwrap_or_else(|| panic!("no line {begins:?} in {text}"));
    let word = line.split_whitespace().nth(number - 1);
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("field {number} of {line}"))
}

/// Arguments of a node that sends load for any console.
const DRIVEN: &[&str] = &["--accept", "all", "--selftest", "full"];

#[test]
fn a_node_sends_no_load_for_an_unknown_console() {
    let node = Node::open();
    let user = User::beside(&node);
    user.session(&[&node], &[]);
    let add = ["add_test", "--from", "clients", "--to", "clients", "ping"];
    finish(&mut user.lst(&add)).expect_code(253).expect_stderr(&[
        "Operation not permitted",
        "set `selftest: full`, or add this console's NID to `selftest_consoles`",
    ]);
    let scratch = Scratch::new();
    let file = scratch.file("full.yaml");
    fs::write(&file, "lustrine:\n    selftest: full\n").expect("a file");
    let import = ["lnetctl", "import", file.to_str().expect("UTF-8")];
    finish(lustrine().args(import).env("LUSTRINE_CONTROL", node.control())).ok();
    let shown = finish(&mut node.controlled(&["show", "net"])).ok().stdout;
    assert!(shown.contains("\nselftest: full (any console, without --force)\n"), "{shown}");
    user.prints(&["end_session"]);
    user.session(&[&node], &[]);
    assert_eq!(user.prints(&add), "Test was added successfully\n");
    user.prints(&["end_session"]);
}

#[test]
fn a_session_with_a_console_daemon_works() {
    let server = Node::open();
    let (one, two) = (server.beside(DRIVEN), server.beside(DRIVEN));
    let user = User::beside(&server);
    user.session(&[&one, &two], &[&server]);
    let shown = user.prints(&["show_session"]);
    assert!(shown.starts_with("test ID: ") && shown.ends_with("FEATURES: 1 NODES: 3\n"), "{shown}");
    let counts = user.prints(&["list_group", "clients"]);
    assert_eq!(counts, "\tACTIVE\tBUSY\tDOWN\tUNKNOWN\tTOTAL\n\t2\t0\t0\t0\t2\tclients\n");
    user.prints(&["add_batch", "bulk"]);
    for test in [&["brw", "read", "check=full", "size=64K"][..], &["ping"]] {
        let to = ["add_test", "--batch", "bulk", "--concurrency", "4", "--distribute", "2:1"];
        let groups = ["--from", "clients", "--to", "servers"];
        let added = user.prints(&[&to[..], &groups, test].concat());
        assert_eq!(added, "Test was added successfully\n");
    }
    assert_eq!(user.prints(&["run", "bulk"]), "bulk is running now\n");
    assert_eq!(user.prints(&["query", "bulk"]), "bulk [0] is running\n");
    let stat = user.prints(&["stat", "--count", "1", "--delay", "1", "--bw", "servers"]);
    assert!(field(&stat, "[W]", 3) > 0.1, "{stat}");
    // It read 64 KiB for each request of 160 bytes, and pings; it received much less.
    assert!(field(&stat, "[W]", 3) > 10.0 * field(&stat, "[R]", 3), "{stat}");
    let errors = user.prints(&["show_error", "clients", "servers"]);
    let none = |group| format!("{group}:\nTotal 0 error nodes in {group}\n");
    assert_eq!(errors, none("clients") + &none("servers"));
    let stopped = user.prints(&["stop", "bulk"]);
    assert!(stopped.ends_with("Batch is stopped\n"), "{stopped}");
    assert_eq!(user.prints(&["query", "bulk"]), "bulk [0] is stopped\n");
    assert_eq!(user.prints(&["end_session"]), "");
    user.console_is_gone();
    for node in [&server, &one, &two] {
        assert_eq!(node.stats().lnet["errors"], 0);
    }
    finish(&mut user.lst(&["list_group"])).expect_code(255).expect_stderr(&["No session exists"]);
}

#[test]
fn a_session_with_the_console_of_a_node_works() {
    let node = Node::open();
    let other = node.beside(DRIVEN);
    let scratch = Scratch::new();
    let lst = |key: &str, words: &[&str]| {
        let mut command = lustrine();
        command.arg("lst").args(words).env("LUSTRINE_CONTROL", node.control());
        command.env("LST_SESSION", key).env("LUSTRINE_LST_DIR", scratch.path());
        command
    };
    let prints = |words: &[&str]| finish(&mut lst("7", words)).ok().stdout;
    prints(&["new_session", "one"]);
    // The node itself may be in its session.
    prints(&["add_group", "g", &node.nid(), &other.nid()]);
    let list = prints(&["list_group", "--all", "g"]);
    assert!(list.contains(&format!("\t12345-{}: Active\n", node.nid())), "{list}");
    prints(&["add_test", "--from", "g", "--to", "g", "--loop", "50", "brw", "write", "size=1M"]);
    prints(&["run"]);
    eventually("the end of the batch", || {
        (prints(&["query"]) == "batch [0] is stopped\n").then_some(())
    });
    // Another key belongs to another user.
    finish(&mut lst("8", &["list_group"]))
        .expect_code(255)
        .expect_stderr(&["Unmatched session key"]);
    finish(&mut lst("8", &["new_session", "two"]))
        .expect_code(255)
        .expect_stderr(&["already exists"]);
    let shown = finish(&mut lst("8", &["show_session"])).ok().stdout;
    assert!(shown.starts_with("one ID: ") && shown.contains(", KEY: 7 "), "{shown}");
    finish(&mut lst("8", &["new_session", "--force", "two"])).ok();
    finish(&mut lst("7", &["list_group"]))
        .expect_code(255)
        .expect_stderr(&["Unmatched session key"]);
    finish(&mut lst("8", &["end_session"])).ok();
    assert_eq!(fs::read_dir(scratch.path()).expect("a directory").count(), 0, "no process of lst");
}

#[test]
fn scripts_of_administrators_work() {
    let node = Node::start(DRIVEN);
    let other = node.beside(DRIVEN);
    let scratch = Scratch::new();
    symlink(env!("CARGO_BIN_EXE_lustrine"), scratch.file("lst")).expect("a link");
    let run = |script: &str| {
        let mut command = Command::new("bash");
        crate::common::clean(&mut command);
        let path = std::env::var("PATH").unwrap_or_default();
        command.args(["-e", "-u", "-o", "pipefail", "-c", script]);
        command.env("PATH", format!("{}:{path}", scratch.path().display()));
        command.env("LUSTRINE_CONTROL", node.control());
        command.env("LUSTRINE_LST_DIR", scratch.path());
        command.env("CLIENT", other.nid()).env("SERVER", node.nid());
        finish(&mut command).ok().stdout
    };
    // The style of the manual: one call for each step, and values extracted with awk.
    let manual = r#"
        export LST_SESSION=$$
        lst new_session --timeo 100000 hh
        trap 'lst end_session' EXIT
        lst add_group c $CLIENT
        lst add_group s $SERVER
        lst add_batch b
        lst add_test --batch b --loop -1 --concurrency 8 --distribute 1:1 \
            --from c --to s brw write check=simple size=1M
        lst run b
        lst stat --bw --mbs --delay 1 --count 2 s | awk '/^\[R\]/ { print "MB/s", $3 }'
        lst show_error c s | awk '/^Total.*nodes/ { print "errors", $2 }'
        lst stop b
        key=$(lst show_session | awk '{ print $5 }')
        [ "$key" = "$LST_SESSION" ] && echo same key
    "#;
    let said = run(manual);
    assert_eq!(said.matches("MB/s ").count(), 2, "{said}");
    assert!(field(&said, "MB/s", 2) > 1.0, "{said}");
    assert!(said.contains("errors 0\nerrors 0\n") && said.ends_with("same key\n"), "{said}");
    // Everything in one script on standard input.
    let lines = r#"
        export LST_SESSION=123
        lst <<END
new_session "one script"
add_group c $CLIENT
add_group s $SERVER
add_test --from c --to s --loop 10 ping   # a comment
run
query --delay 1 --loop 1
stop
show_session
end_session
END
    "#;
    let said = run(lines);
    assert!(said.starts_with("SESSION: one script FEATURES: 1"), "{said}");
    assert!(
        said.contains("\nbatch is running now\n") && said.contains("Batch is stopped\n"),
        "{said}"
    );
    // The style of a test suite: it runs in the background, and is polled while it does.
    let suite = r#"
        export LST_SESSION=$$
        lst end_session || true
        lst new_session --timeout 100 --force suite
        lst add_group all $CLIENT $SERVER
        for size in 4k 64K 1m; do
            lst add_test --from all --to all --distribute 1:2 --loop 20 --concurrency 2 \
                brw read size=$size check=full
        done
        lst run
        lst stat --delay 1 --count 1 all > stat.log & stat=$!
        while lst query | grep -q running; do sleep 0.1; done
        wait $stat
        lst list_batch batch --active
        lst --list-commands | grep -c .
        lst end_session
    "#;
    let script = format!("cd {}\n{suite}", scratch.path().display());
    let said = run(&script);
    let stat = fs::read_to_string(scratch.file("stat.log")).expect("the statistics");
    assert!(stat.starts_with("[LNet Rates of all]\n[R] Avg: "), "{stat}");
    assert!(said.contains(&format!("\t12345-{}: Active\n", other.nid())), "{said}");
}

#[test]
fn a_killed_console_and_an_unused_console_leave_no_obstacle() {
    let node = Node::open();
    let user = User::beside(&node);
    user.session(&[], &[&node]);
    let pids = pids_of(&user);
    assert_eq!(pids.len(), 1);
    kill_process(Pid::from_raw(pids[0]).expect("a process"), Signal::KILL).expect("it is ours");
    eventually("its end", || pids_of(&user).is_empty().then_some(()));
    finish(&mut user.lst(&["list_group"])).expect_code(255).expect_stderr(&["No session exists"]);
    // Its files are no obstacle; its node stays in the session until another takes it over, or a
    // time-out.
    user.prints(&["new_session", "--timeout", "1", "next"]);
    let busy = finish(&mut user.lst(&["add_group", "servers", &node.nid()])).expect_code(253);
    busy.expect_stderr(&["create session failed on", "Device or resource busy (session test of"]);
    user.console_is_gone();
    // Long enough for the next command on a busy machine.
    user.prints(&["new_session", "--force", "--timeout", "4", "taken"]);
    user.prints(&["add_group", "servers", &node.nid()]);
    user.console_is_gone();
    finish(&mut user.lst(&["list_group"])).expect_code(255).expect_stderr(&["No session exists"]);
    // It has reported its end to the node.
    user.prints(&["new_session", "--timeout", "60", "last"]);
    user.prints(&["add_group", "servers", &node.nid()]);
}

/// Processes of the consoles of a user.
fn pids_of(user: &User) -> Vec<i32> {
    let socket = user.socket().display().to_string();
    let entries = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_console = |pid: &i32| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.contains("lst-console") && words.contains(&socket)
    };
    pids.filter(is_console).collect()
}

#[test]
fn an_ordinary_user_needs_no_option_to_begin_a_session() {
    let scratch = Scratch::new();
    let Some(program) = unprivileged(&scratch) else { return };
    let private = scratch.file("lst");
    fs::create_dir(&private).expect("a directory");
    if lustrine_sys::process::is_root() {
        chown(&private, Some(65534), Some(65534)).expect("root may");
    }
    let (here, node) = (loopback(), Node::open());
    let lst = |net: String, words: &[&str]| {
        let mut command = Command::new(program.get_program());
        command.args(program.get_args()).args(["lst", "--net", &net]).args(words);
        command.env("LST_SESSION", "7").env("LUSTRINE_LST_DIR", &private);
        finish(&mut command)
    };
    // Port 988 is above the user's rights; a port that the user may have is listened on.
    for net in [format!("tcp={here}"), format!("tcp={here}:{}", node.port())] {
        let begun = lst(net.clone(), &["new_session", "mine"]).ok();
        begun.expect_stderr(&[&format!("{here}@tcp"), "userland identity"]);
        if net.contains(':') {
            lst(net.clone(), &["add_group", "g", &node.nid()]).ok();
        }
        lst(net, &["end_session"]).ok();
    }
    let net = format!("tcp={here}");
    let refused = lst(net, &["--accept", "secure", "new_session", "mine"]).expect_code(255);
    refused.expect_stderr(&["cannot listen on", "--accept none"]);
}

#[test]
fn missing_nodes_are_reported() {
    let node = Node::start(DRIVEN);
    let user = User::beside(&node);
    user.session(&[], &[&node]);
    let absent = format!("{}@tcp", loopback());
    let failed = finish(&mut user.lst(&["add_group", "others", &absent])).expect_code(254);
    let failed = failed.expect_stderr(&["create session RPC failed on", "Connection refused"]);
    assert!(failed.stdout.contains("Group is deleted"), "{failed:#?}");
    // A node that disappears is named by every command that queries it.
    let nid = node.nid();
    let home = node.kill();
    let failed = finish(&mut user.lst(&["stat", "--count", "1", "--delay", "1", "servers"]))
        .expect_code(254);
    assert!(failed.stdout.contains("Failed to stat on 1 nodes"), "{failed:#?}");
    let counts = user.prints(&["list_group", "servers"]);
    assert!(counts.ends_with("\t0\t0\t1\t0\t1\tservers\n"), "{counts}");
    finish(&mut user.lst(&["add_test", "--from", "servers", "--to", "servers", "ping"]))
        .expect_code(255)
        .expect_stderr(&["not active", &nid, "Down"]);
    let node = home.start();
    user.prints(&["update_group", "--refresh", "servers"]);
    let counts = user.prints(&["list_group", "servers"]);
    assert!(counts.ends_with("\t1\t0\t0\t0\t1\tservers\n"), "{counts}");
    drop(node);
}

#[test]
fn the_log_of_a_console_is_not_written_through_a_link() {
    let node = Node::open();
    let user = User::beside(&node);
    let target = user.scratch.file("target");
    fs::write(&target, "precious").expect("a file");
    let log = user.socket().with_extension("log");
    std::os::unix::fs::symlink(&target, log).expect("a link");
    let failed = finish(&mut user.lst(&["new_session", "x"])).expect_code(255);
    assert!(failed.stderr.contains("is a symbolic link"), "{failed:#?}");
    assert_eq!(fs::read_to_string(&target).expect("a file"), "precious");
}

#[test]
fn sessions_with_other_keys_follow_each_other_at_once() {
    let node = Node::open();
    let mut user = User::beside(&node);
    for round in 0..4 {
        user.key = (1000 + round).to_string();
        user.session(&[], &[&node]);
        user.prints(&["end_session"]);
        assert!(pids_of(&user).len() <= 1, "an ending process at most");
        assert!(!user.socket().exists(), "its console is still there");
    }
    // A session that its console refuses leaves no process that holds the address.
    for round in 4..6 {
        user.key = (1000 + round).to_string();
        let long = "n".repeat(40);
        finish(&mut user.lst(&["new_session", &long])).expect_code(255);
    }
    user.session(&[], &[&node]);
    // Two at once need two addresses, and the message says who has the first.
    let first = std::mem::replace(&mut user.key, "1010".to_owned());
    finish(&mut user.lst(&["new_session", "second"])).expect_code(255).expect_stderr(&[
        "Address already in use",
        &format!("Consoles of other sessions run on this machine, with LST_SESSION {first}"),
    ]);
    user.key = first;
    user.prints(&["end_session"]);
    user.console_is_gone();
}

#[test]
fn a_session_without_a_key_ends_as_its_warning_says() {
    let node = Node::open();
    let user = User::beside(&node);
    let mut nameless = user.lst(&["new_session", "nameless"]);
    let begun = finish(nameless.env_remove("LST_SESSION")).ok();
    assert!(begun.stderr.contains("begin again with new_session --force"), "{begun:#?}");
    finish(&mut user.lst(&["new_session", "named"]))
        .expect_code(255)
        .expect_stderr(&["begun without LST_SESSION", "new_session --force ends it"]);
    let forced = user.prints(&["new_session", "--force", "named"]);
    assert!(forced.starts_with("SESSION: named "), "{forced}");
    user.prints(&["end_session"]);
    user.console_is_gone();
}

#[test]
fn a_new_session_says_where_its_console_is() {
    let node = Node::open();
    let user = User::beside(&node);
    let own = finish(&mut user.lst(&["new_session", "own"])).ok();
    own.expect_stderr(&["lst: through a console of this session's own: 127.", "identity"]);
    user.prints(&["end_session"]);
    let lst = |args: &[&str], words: &[&str]| {
        let mut command = lustrine();
        command.arg("lst").args(args).args(words).env("LUSTRINE_CONTROL", node.control());
        command.env("LST_SESSION", "5").env("LUSTRINE_LST_DIR", user.scratch.path());
        finish(&mut command)
    };
    let through = format!("lst: through the running node {} (", node.nid());
    lst(&[], &["new_session", "through"]).ok().expect_stderr(&[&through]);
    lst(&[], &["end_session"]).ok();
    // A node that the user names and that does not run is not replaced by another.
    lst(&["--control", "/nonexistent/node.sock"], &["new_session", "x"])
        .expect_code(255)
        .expect_stderr(&["no node answers at /nonexistent/node.sock"]);
    lst(&["--no-node", "--control", "/nonexistent/node.sock"], &["show_session"]).expect_code(2);
}

#[test]
fn all_tools_print_json() {
    let node = Node::open();
    let json = |tool: &str, words: &[&str]| {
        let mut command = node.controlled_tool(tool, &[&["--json"], words].concat());
        finish(command.env("LST_SESSION", "4"))
    };
    let shown = json("lnetctl", &["net", "show"]).ok().json();
    assert_eq!(shown["answers"][0]["nets"][0]["nid"], node.nid(), "{shown:#}");
    assert!(shown["output"].as_str().is_some_and(|text| text.starts_with("net:\n")), "{shown:#}");
    let listed = json("lctl", &["list_nids"]).ok().json();
    assert_eq!(listed["output"], format!("{}\n", node.nid()));
    let stats = json("routerstat", &[]).ok().json();
    assert!(stats["send_count"].is_u64(), "{stats:#}");
    json("lst", &["new_session", "s"]).ok().json();
    let added = json("lst", &["add_group", "g", &node.nid()]).ok().json();
    assert_eq!(added["command"][0], "add_group");
    assert_eq!(added["status"], 0, "{added:#}");
    // A failure is in the document too, and its status is that of the program.
    let failed = json("lst", &["list_group", "none"]).expect_code(255);
    assert_eq!(failed.json()["status"], 255);
    assert!(failed.json()["errors"].as_str().is_some_and(|text| text.contains("none")));
    json("lst", &["end_session"]).ok().json();
    let ping = json("lnetctl", &["ping", &node.nid()]).ok().json();
    let answers = ping["answers"].as_array().expect("a list");
    assert!(answers.iter().any(|answer| answer["primary_nid"] == node.nid()), "{ping:#}");
}

#[test]
fn a_console_that_cannot_start_reports_the_reason() {
    let node = Node::open();
    let user = User::beside(&node);
    let mut command = lustrine();
    command.args(["lst", "--net", "tcp=192.0.2.7", "new_session", "x"]);
    command.env("LST_SESSION", "1").env("LUSTRINE_LST_DIR", user.scratch.path());
    let failed = finish(&mut command).expect_code(255);
    assert!(failed.stderr.contains("192.0.2.7"), "{failed:#?}");
    assert_eq!(fs::read_dir(user.scratch.path()).expect("a directory").count(), 0);
    let mut command = lustrine();
    command.args(["lst", "new_session", "x"]).env("LUSTRINE_LST_DIR", "/nonexistent");
    let failed = finish(&mut command).expect_code(255);
    assert!(failed.stderr.contains("/nonexistent"), "{failed:#?}");
}

#[test]
fn stat_ends_when_its_reader_has_gone() {
    let node = Node::open();
    let user = User::beside(&node);
    user.session(&[], &[&node]);
    let mut stat = Command::new("bash");
    let program = env!("CARGO_BIN_EXE_lustrine");
    let script = format!("{program} lst stat --delay 1 servers | head -1");
    stat.args(["-c", &script]).env("LST_SESSION", &user.key);
    stat.env("LUSTRINE_LST_DIR", user.scratch.path());
    let said = Running::start(&mut stat).end().ok().stdout;
    assert_eq!(said, "[LNet Rates of servers]\n");
}

#[test]
fn a_console_answers_requests_like_any_node() {
    let node = Node::open();
    let user = User::beside(&node);
    user.session(&[], &[&node]);
    let answer = control::ask(&user.socket(), &Request::ShowPeer).expect("an answer");
    let text = format!("{answer:?}");
    assert!(text.contains(&node.nid()), "{text}");
}
