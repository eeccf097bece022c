//! Healthy paths: there is nothing to find.

use std::path::Path;

use super::*;

fn looked_at(file: &str, args: &[&str]) {
    let Some(lab) = Laboratory::up(file) else { return };
    let _node = node(&lab, "west", &TCP);
    let report = healthy(&to_west(&lab, args));
    let peer = &report["observed"]["peers"][0];
    assert!(!peer["out"]["yes"].is_null() && !peer["bulk"]["yes"].is_null(), "{peer:#}");
}

#[test]
fn a_short_link() {
    looked_at(PAIR, &RATE);
}

#[test]
fn a_long_fat_path_with_the_buffers_and_credits_for_it() {
    let file = "\
sysctl: {net.ipv4.tcp_rmem: 4096 131072 67108864, net.ipv4.tcp_wmem: 4096 65536 67108864}
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 1 Gb/s, delay: 25 ms, mtu: 9000}]
";
    looked_at(file, &[&RATE[..], &["--set", "peer_credits=64"]].concat());
}

#[test]
fn a_path_that_loses_some_packets() {
    let file = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 1 Gb/s, delay: 1 ms, loss: 1 %}]
";
    looked_at(file, &RATE);
}

#[test]
fn a_path_with_jitter_on_which_packets_overtake_each_other() {
    let file = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 1 Gb/s, delay: 1 ms, jitter: 2 ms, order: free}]
";
    looked_at(file, &RATE);
}

#[test]
fn a_small_mtu_everywhere() {
    let file = "\
hosts: {east: {}, west: {}}
links: [{between: [east, west], rate: 1 Gb/s, mtu: 700}]
";
    looked_at(file, &RATE);
}

const SMALL_IN_THE_MIDDLE: &str = "\
hosts: {east: {}, middle: {}, other: {}, west: {}}
links:
- {between: [east, middle], rate: 1 Gb/s, mtu: 1500}
- {between: [middle, other], rate: 1 Gb/s, mtu: 1300}
- {between: [other, west], rate: 1 Gb/s, mtu: 1500}
";

/// The router says what is too long, and both ends follow it.
#[test]
fn a_small_mtu_in_the_middle() {
    let Some(lab) = Laboratory::up(SMALL_IN_THE_MIDDLE) else { return };
    let _west = node(&lab, "west", &TCP);
    let look = |args: &[&str]| {
        let all = [&["--to", "10.99.2.2@tcp"], &RATE[..], args].concat();
        healthy(&doctor(&lab, &all))["observed"]["peers"][0].clone()
    };
    let peer = look(&[]);
    assert_eq!(peer["icmp"]["hops_out"], 3, "{peer:#}");
    assert_eq!(peer["stream"]["path_mtu"], 1300, "{peer:#}");
    // Beside a node, ICMP shows it.
    run(&lab, "east", "ip route flush cache");
    let (_east, socket) = node(&lab, "east", &TCP);
    let peer = look(&["--control", &socket]);
    let full = &peer["icmp"]["full"];
    assert!(full["bytes"] == 1300 && full["is_answered"] == true, "{peer:#}");
}

#[test]
fn a_userland_process_where_all_are_accepted() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let _node = node(&lab, "west", &[&TCP[..], &["--accept", "all"]].concat());
    healthy(&to_west(&lab, &[&RATE[..], &["--identity", "userland"]].concat()));
}

/// The node of this host has the address: it is asked, and not disturbed.
#[test]
fn a_host_whose_node_runs() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let _west = node(&lab, "west", &TCP);
    let (_east, socket) = node(&lab, "east", &TCP);
    let ping = ["ping", WEST, "--control", &socket];
    finish(&mut lustrine(&lab, "east", &ping)).ok();
    let report = healthy(&to_west(&lab, &[&RATE[..], &["--control", &socket]].concat()));
    assert!(report["observed"]["peers"][0]["rtt_ns"].is_array(), "{report:#}");
    let stats = ["show", "peer", "--json", "--control", &socket];
    let peers = finish(&mut lustrine(&lab, "east", &stats)).ok().json();
    assert!(!peers["peers"][0]["connections"].is_null(), "{peers:#}");
}

/// A node that does not listen has its NID all the same: the peer would take a look with this NID
/// for a restart, and close the node's connections.
#[test]
fn a_host_whose_node_does_not_listen() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let _west = node(&lab, "west", &TCP);
    let (_east, socket) = node(&lab, "east", &[&TCP[..], &["--accept", "none"]].concat());
    let ping =
        |args: &[&str]| finish(&mut lustrine(&lab, "east", &[&["ping", WEST], args].concat())).ok();
    ping(&["--control", &socket]);
    // Those that are established at port 988, by the port at the other end.
    let connections = || -> BTreeSet<String> {
        let all = || fs::read_to_string("/proc/thread-self/net/tcp").expect("a table");
        let table = lab.at("west", all).join().expect("it does not panic");
        let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let open = rows.filter(|row| row[1].ends_with(":03DC") && row[3] == "01");
        open.map(|row| row[2].to_owned()).collect()
    };
    let before = connections();
    assert!(!before.is_empty());
    // Whether its control socket is known or not.
    healthy(&to_west(&lab, &[&RATE[..], &["--control", &socket]].concat()));
    let alone = to_west(&lab, &RATE);
    let unseen = alone.json()["unseen"].to_string();
    assert!(unseen.contains("an LNet node of this host has the address"), "{alone:#?}");
    let other =
        finish(&mut lustrine(&lab, "east", &["ping", WEST, "--no-node", "--net", "tcp=eth0"]));
    assert!(other.stderr.contains("this command appears as userland"), "{other:#?}");
    assert_eq!(connections(), before, "the same connections");
    ping(&["--control", &socket]);
    // And no other node can have the NID.
    let (words, place) = (["--until-eof", "--accept", "none"], lab.scratch("another.sock"));
    let another = [&["node", "--control", &place], &TCP[..], &words].concat();
    finish(&mut lustrine(&lab, "east", &another)).expect_code(1).expect_stderr(&["in use"]);
}

/// The address is given back before the other end is asked: what is started meanwhile has it.
#[test]
fn a_node_that_is_started_while_the_other_end_is_asked() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    let _west = node(&lab, "west", &TCP);
    let asked = lab.scratch("asked");
    let command = format!("sh -c 'touch {asked}; sleep 5' sh");
    let args = ["doctor", "--json", "--to", WEST, "--both-ends", &command, "--rate", "1G"];
    let mut looks = lustrine(&lab, "east", &args);
    let looks = std::thread::spawn(move || finish(&mut looks));
    crate::common::eventually("the other end is asked", || {
        Path::new(&asked).exists().then_some(())
    });
    let _east = node(&lab, "east", &TCP);
    assert!(!looks.is_finished(), "it still looks");
    // The command gives no report.
    partly_healthy(&looks.join().expect("it does not panic"));
}

#[test]
fn a_host_by_itself() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    healthy(&doctor(&lab, &[]));
    healthy(&doctor(&lab, &TCP));
}
