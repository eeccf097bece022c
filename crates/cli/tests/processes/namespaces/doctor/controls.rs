//! Healthy paths: there is nothing to find.

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

/// The router says what is too long, and both ends follow it.
#[test]
fn a_small_mtu_in_the_middle() {
    let Some(lab) = Laboratory::up(
        "hosts: {east: {}, middle: {}, west: {}}\n\
         links:\n\
         - {between: [east, middle], rate: 1 Gb/s, mtu: 1500}\n\
         - {between: [middle, other], rate: 1 Gb/s, mtu: 1300}\n\
         - {between: [other, west], rate: 1 Gb/s, mtu: 1500}\n"
            .replace("west: {}}", "other: {}, west: {}}")
            .as_str(),
    ) else {
        return;
    };
    let _node = node(&lab, "west", &TCP);
    let report = healthy(&doctor(&lab, &[&["--to", "10.99.2.2@tcp"], &RATE[..]].concat()));
    let peer = &report["observed"]["peers"][0];
    assert_eq!(peer["icmp"]["hops_out"], 3, "{peer:#}");
    assert_eq!(peer["stream"]["path_mtu"], 1300, "{peer:#}");
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

#[test]
fn a_host_by_itself() {
    let Some(lab) = Laboratory::up(PAIR) else { return };
    healthy(&doctor(&lab, &[]));
    healthy(&doctor(&lab, &TCP));
}
