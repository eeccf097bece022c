//! Which addresses a node uses.

use lustrine_control::{Answer, NetInfo, NetRow, Request};
use lustrine_testing::{Need, not_run};

use super::netns::{NetNs, whole_selftest};
use crate::common::{Running, Scratch, eventually, finish, unprivileged};

#[test]
fn interfaces_are_found_by_name() {
    let Some([here, there]) = NetNs::several() else { return };
    here.connect(&there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    here.connect(&there, "eth1", 1500, ["10.213.1.1/24", "10.213.1.2/24"]);
    // An interface may have several addresses; LNet uses the first one.
    there.run("ip address add 10.213.0.77/24 dev eth0");
    let node = there.node(&["--net", "tcp=eth0", "--net", "tcp1=eth1:7988"]);
    let Answer::Net(NetInfo { nets, .. }) = node.ask(&Request::ShowNet) else { panic!("no nets") };
    let listening = |net: &NetRow| net.listening.expect("it listens");
    let found: Vec<_> = nets
        .iter()
        .map(|net| format!("{} {:?} {}", net.nid, net.interface, listening(net)))
        .collect();
    let expected = [
        "10.213.0.2@tcp Some(\"eth0\") 10.213.0.2:988",
        "10.213.1.2@tcp1 Some(\"eth1\") 10.213.1.2:7988",
    ];
    assert_eq!(found, expected);

    // Each net is served on its own interface; the net determines the client's interface.
    finish(&mut here.lustrine(&["ping", "10.213.0.2@tcp"])).ok();
    let on_second = ["--net", "tcp1=eth1:7988", "--net", "tcp=eth0"];
    let second = whole_selftest("10.213.1.2@tcp1");
    finish(&mut here.lustrine(&[&second, &on_second[..]].concat())).ok();
    let Answer::Net(NetInfo { nets, .. }) = node.ask(&Request::ShowNet) else { panic!("no nets") };
    assert!(nets[1].messages.received > nets[0].messages.received, "{nets:#?}");
    // Without an address, it is the oldest interface that is up.
    there.run("ip link set eth0 down");
    drop(node);
    let node = there.node(&["--net", "tcp"]);
    let Answer::Net(NetInfo { nets, .. }) = node.ask(&Request::ShowNet) else { panic!("no nets") };
    assert_eq!(nets[0].nid.to_string(), "10.213.1.2@tcp");
}

#[test]
fn the_default_interface_has_a_link() {
    let Some([here, there]) = NetNs::several() else { return };
    // It is the older one, the last one by name, and the other end is switched off.
    there.run("ip link add zz0 type veth peer name zz1");
    there.run("ip address add 172.17.0.1/16 dev zz0");
    there.run("ip link set zz0 up");
    eventually("zz0 has no link", || {
        let mut read = std::process::Command::new("cat");
        let seen = finish(&mut there.inside(read.arg("/sys/class/net/zz0/operstate")));
        seen.ok().stdout.trim().contains("down").then_some(())
    });
    here.connect(&there, "veth9", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    here.connect(&there, "a0", 1500, ["10.213.1.1/24", "10.213.1.2/24"]);
    let node = there.node(&["--net", "tcp"]);
    let Answer::Net(NetInfo { nets, .. }) = node.ask(&Request::ShowNet) else { panic!("no nets") };
    assert_eq!(nets[0].nid.to_string(), "10.213.0.2@tcp");
    assert!(node.stderr().contains("default one is used"), "{}", node.stderr());
}

#[test]
fn an_interface_is_down_without_its_link_or_its_address() {
    let Some([here, there]) = NetNs::several() else { return };
    here.connect(&there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    let node = there.node(&["--net", "tcp=eth0"]);
    let lnetctl = |words: &[&str]| {
        let control = node.control();
        let control = control.to_str().expect("a path of text");
        finish(&mut there.lustrine(&[&["lnetctl", "--control", control], words].concat()))
    };
    let status = |nid: &str| {
        let Answer::Net(NetInfo { nets, .. }) = node.ask(&Request::ShowNet) else { panic!("none") };
        let nids: Vec<String> = nets.iter().map(|net| net.nid.to_string()).collect();
        assert_eq!(nids, [nid]);
        nets[0].down.clone().unwrap_or_default()
    };
    let shows = |word: &str| {
        let shown = lnetctl(&["net", "show", "--net", "tcp"]).ok().stdout;
        assert!(shown.contains(word), "{shown}");
    };
    let first = "10.213.0.2@tcp";
    assert_eq!(status(first), "");
    shows("status: up");
    here.run("ip link set eth0 down");
    eventually("the link is lost", || (status(first) == "eth0 has no link").then_some(()));
    // The number of connections does not follow from the device.
    there.run("ip link set eth0 down");
    assert_eq!(status(first), "eth0 is switched off");
    shows("status: down");
    lnetctl(&["net", "set", "--all", "--conns-per-peer", "4"]).ok();
    let refused = lnetctl(&["net", "set", "--all", "--conns-per-peer", "0"]).expect_code(234);
    refused.expect_stderr(&["errno: -100"]);
    here.run("ip link set eth0 up");
    there.run("ip link set eth0 up");
    eventually("the link is back", || status(first).is_empty().then_some(()));

    // Another address beside it changes nothing; in its place it has the interface.
    there.run("ip address add 10.213.1.3/24 dev eth0");
    there.run("ip address del 10.213.0.2/24 dev eth0");
    assert_eq!(status(first), "eth0 does not have this address any more");
    lnetctl(&["net", "add", "--net", "tcp", "--if", "eth0"]).ok();
    assert_eq!(status("10.213.1.3@tcp"), "");
    here.run("ip address add 10.213.1.1/24 dev eth0");
    let ping = ["ping", "10.213.1.3@tcp", "--net", "tcp=10.213.1.1", "--no-node"];
    finish(&mut here.lustrine(&ping)).ok();
    there.run("ip address add 10.213.1.4/24 dev eth0");
    lnetctl(&["net", "add", "--net", "tcp", "--if", "eth0"])
        .expect_code(234)
        .expect_stderr(&["this node has 10.213.1.3@tcp already"]);
}

#[test]
fn an_alias_is_an_interface() {
    let Some([here, there]) = NetNs::several() else { return };
    here.connect(&there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    there.run("ip address add 10.213.0.7/24 dev eth0 label eth0:1");
    there.run("ip address add 10.213.0.8/24 dev eth0 label eth0:lab");
    let node = there.node(&["--net", "tcp(eth0:1)"]);
    let control = node.control();
    let control = control.to_str().expect("a path of text");
    let lnetctl =
        |words: &[&str]| there.lustrine(&[&["lnetctl", "--control", control], words].concat());
    finish(&mut lnetctl(&["net", "add", "--net", "tcp1", "--if", "eth0:lab"])).ok();
    let Answer::Net(NetInfo { nets, .. }) = node.ask(&Request::ShowNet) else { panic!("no nets") };
    let found: Vec<_> = nets.iter().map(|net| (net.nid.to_string(), &net.interface)).collect();
    let alias = |name: &str| Some(name.to_owned());
    assert_eq!(
        found,
        [
            ("10.213.0.7@tcp".to_owned(), &alias("eth0:1")),
            ("10.213.0.8@tcp1".to_owned(), &alias("eth0:lab")),
        ]
    );
    // Its backup is one that it takes.
    let scratch = Scratch::new();
    let file = scratch.file("backup.yaml");
    let file = file.to_str().expect("a path of text");
    finish(&mut lnetctl(&["export", "--backup", file])).ok();
    let done = finish(&mut lnetctl(&["import", "--exact", "--dry-run", file])).ok();
    assert_eq!(done.stdout, "nothing would change\n");
}

#[test]
fn a_node_in_another_namespace_is_not_the_running_node() {
    let Some([here, there]) = NetNs::several() else { return };
    here.connect(&there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    // Both namespaces have the same directory for control sockets, as those of one machine do.
    let scratch = Scratch::new();
    for space in [&here, &there] {
        space.run(&format!("mount --bind {} /run", scratch.path().display()));
    }
    let mut node = there.lustrine(&["node", "--until-eof", "--accept", "all", "--net", "tcp=eth0"]);
    let mut node = Running::start(&mut node);
    node.wait_for("control socket");
    let nid = "10.213.0.2@tcp";
    // In its own namespace it is the running node, and pings itself.
    let done = finish(&mut there.lustrine(&["ping", nid, "--json"])).ok();
    assert_eq!(done.json()["node"]["kind"], "running", "{}", done.stdout);
    done.expect_stderr(&["through the running node 10.213.0.2@tcp (node identity, /run/lustrine"]);
    // In the other one, a command has a node of its own, at the other address.
    let done = finish(&mut here.lustrine(&["ping", nid, "--json"])).ok();
    assert_eq!(done.json()["node"]["nid"], "10.213.0.1@tcp", "{}", done.stdout);
    assert_eq!(done.json()["node"]["kind"], "temporary");
    let elsewhere = "the node at /run/lustrine.sock is in another network namespace";
    done.expect_stderr(&[elsewhere, "this command uses a node of its own"]);
    for words in [&["show", "net"][..], &["lnetctl", "net", "show"], &["routerstat"]] {
        let refused = finish(&mut here.lustrine(words));
        assert_ne!(refused.code, Some(0), "{words:?}");
        refused.expect_stderr(&[elsewhere]);
    }
    // Named, it is asked.
    let control = ["--control", "/run/lustrine.sock"];
    finish(&mut here.lustrine(&[&["ping", nid], &control[..]].concat())).ok().expect_stderr(&[
        "through the running node 10.213.0.2@tcp",
        "in another network namespace",
    ]);
    finish(&mut here.lustrine(&[&["show", "net"], &control[..]].concat())).ok();
    // `lst` makes a console in its own namespace, and says at which interface.
    let lst = |words: &[&str]| {
        let mut command = here.lustrine(&[&["lst"], words].concat());
        finish(command.env("LST_SESSION", "3"))
    };
    let made = lst(&["new_session", "here"]).ok();
    made.expect_stderr(&[elsewhere, "10.213.0.1@tcp on eth0, the first interface (--net chooses)"]);
    lst(&["end_session"]).ok();
}

/// What every tool says of a host that does not answer.
const ADVICE: &str = "TCP port 988 there does not accept a connection: the host is down, or a \
                      firewall drops the packets";

#[test]
fn the_tools_agree_about_a_dead_host() {
    let Some([here, there]) = NetNs::several() else { return };
    here.connect(&there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    let node = here.node(&["--net", "tcp=eth0"]);
    let tool = |words: &[&str]| {
        let control = node.control();
        let control = ["--control", control.to_str().expect("UTF-8")];
        let mut command = here.lustrine(&[&words[..1], &control, &words[1..]].concat());
        finish(command.env("LST_SESSION", "7"))
    };
    let fails = |words: &[&str]| {
        let done = tool(words);
        assert_ne!(done.code, Some(0), "{done:#?}");
        done.stdout + &done.stderr
    };
    // No host has this address: the kernel gives up ARP after three seconds, and the long pings
    // see that.
    let dead = "10.213.0.99@tcp";
    for words in [
        ["lctl", "ping", dead].as_slice(),
        &["lctl", "ping", dead, "20"],
        &["lnetctl", "ping", dead],
        &["lnetctl", "ping", "--timeout", "20", dead],
    ] {
        let said = fails(words);
        let expected = format!("Connection timed out ({ADVICE})");
        assert!(said.contains(&expected), "{words:?}: {said}");
    }
    // A console says which errno it is, as that of a kernel, and the same advice.
    tool(&["lst", "new_session", "s"]).ok();
    let said = fails(&["lst", "add_group", "g", dead]);
    let expected = format!(
        "No route to host (the request could not be sent: the peer's host does not answer; \
         {ADVICE})"
    );
    assert!(said.contains(&expected), "{said}");
    tool(&["lst", "end_session"]).ok();
    let scratch = Scratch::new();
    let plan = scratch.file("plan.yaml");
    let text = "name: p\ngroups: {c: 1, s: 1}\nsteps:\n- tests: [{do: ping, from: c, to: s}]\n";
    std::fs::write(&plan, text).expect("a plan");
    let plan = plan.to_str().expect("UTF-8");
    let groups = ["--group", "c=10.213.0.1@tcp", "--group", "s=10.213.0.99@tcp"];
    for words in [&[&["--plan", plan], &groups[..]].concat()[..], &["--to", dead]] {
        let said = fails(&[&["selftest"], words].concat());
        assert!(said.contains(ADVICE), "{words:?}: {said}");
    }
    // Without a route it is another matter.
    let said = fails(&["lctl", "ping", "10.99.0.1@tcp", "20"]);
    assert!(said.contains("No route to host"), "{said}");
}

#[test]
fn a_node_works_with_ipv6_only() {
    let Some([here, there]) = NetNs::several() else { return };
    if let Err(why) = there.attempt("ip -6 address add fd77::9/128 dev lo") {
        return not_run(Need::Ipv6, &why);
    }
    here.connect(&there, "eth0", 1500, ["fd77::1/64", "fd77::2/64"]);
    let node = there.node(&["--net", "tcp=eth0"]);
    let Answer::Net(NetInfo { nets, .. }) = node.ask(&Request::ShowNet) else { panic!("no nets") };
    assert_eq!(nets[0].nid.to_string(), "fd77::2@tcp");
    assert_eq!(nets[0].listening, Some("[fd77::2]:988".parse().unwrap()));

    let discover = ["discover", "fd77::2@tcp", "--net", "tcp=eth0", "--json"];
    let found = finish(&mut here.lustrine(&discover)).ok().json();
    assert_eq!(found["peer"]["version"], "V4", "{found:#}");
    let more = ["--net", "tcp=eth0"];
    finish(&mut here.lustrine(&[&whole_selftest("fd77::2@tcp"), &more[..]].concat())).ok();
}

#[test]
fn a_user_without_privilege_runs_a_userland_node() {
    let Some([here, there]) = NetNs::several() else { return };
    here.connect(&there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    let scratch = Scratch::new();
    let Some(mut command) = unprivileged(&scratch) else { return };
    let node = there.node(&["--net", "tcp=eth0"]);
    command.args(whole_selftest("10.213.0.2@tcp"));
    let report = finish(&mut here.inside(&command)).ok().json();
    assert_eq!(report["identity"], "userland", "{report:#}");
    // A namespace may permit all users to bind privileged ports.
    here.run("sysctl -qw net.ipv4.ip_unprivileged_port_start=0");
    let report = finish(&mut here.inside(&command)).ok().json();
    assert_eq!(report["identity"], "node", "{report:#}");
    assert_eq!(node.stats().lnet["errors"], 0);
}
