//! `lustrine watch` over links of a laboratory: what changes on the way is said, and so is its end.

use super::doctor::{TCP, WEST, lustrine, node, run};
use super::lab::Laboratory;
use crate::common::{self, Running, eventually, finish};

/// Two ways between two hosts, a short one, and one that is longer than what a busy machine adds.
const TWO_WAYS: &str = "\
hosts: {east: {}, west: {}}
links:
- {between: [east, west], rate: 1 Gb/s, delay: 2 ms}
- {between: [east, west], rate: 1 Gb/s, delay: 200 ms}
";

/// A daemon on host `east`, which has learnt what is usual.
fn watch(lab: &Laboratory, args: &[&str]) -> (Running, String) {
    let db = lab.scratch("watch.db");
    let mut words = vec!["watch", "--no-node", "--until-eof", "--to", WEST, "--db", &db];
    words.extend(["--every", "100ms", "--pings", "3", "--timeout", "1s"]);
    let running = Running::start(&mut lustrine(lab, "east", &[&words, args].concat()));
    eventually("it has learnt", || {
        let report = std::path::Path::new(&db).exists().then(|| report(&db))?;
        let rows = report["peers"].as_array()?.iter().filter_map(|peer| peer["rows"].as_array());
        let samples: u64 = rows.flatten().filter_map(|row| row["answered"].as_u64()).sum();
        (samples >= 40).then_some(())
    });
    (running, db)
}

fn report(db: &str) -> serde_json::Value {
    finish(common::lustrine().args(["watch", "report", "--json", "--db", db])).ok().json()
}

#[test]
fn another_way_is_an_alarm_until_packets_take_the_first_again() {
    let Some(lab) = Laboratory::up(TWO_WAYS) else { return };
    let _node = node(&lab, "west", &TCP);
    let (mut daemon, db) = watch(&lab, &["--path-every", "off"]);
    run(&lab, "east", "ip route replace 10.99.0.2/32 dev eth1 src 10.99.0.1");
    daemon.wait_for("rtt: the shortest round trip rose from ");
    run(&lab, "east", "ip route replace 10.99.0.2/32 dev eth0 src 10.99.0.1");
    daemon.wait_for("rtt is over: as before");
    let alarms = report(&db)["peers"][0]["alarms"].clone();
    let of_rtt = alarms.as_array().expect("alarms").iter().filter(|one| one["kind"] == "rtt");
    let over: Vec<bool> = of_rtt.map(|alarm| alarm["over"][1] == "back").collect();
    assert_eq!(over, [true], "{alarms:#}");
}

/// Changes the route of host `east` to `west`, and waits for the alarm.
fn another_route(route: &str, alarm: &str) {
    let Some(lab) = Laboratory::up(TWO_WAYS) else { return };
    let _node = node(&lab, "west", &TCP);
    let (mut daemon, _) = watch(&lab, &["--path-every", "500ms"]);
    run(&lab, "east", &format!("ip route replace 10.99.0.2/32 {route}"));
    daemon.wait_for(&format!("route: outgoing route: {alarm} instead of 10.99.0.1 (eth0)"));
}

/// The node of the daemon keeps its address.
#[test]
fn a_route_from_another_address_is_an_alarm() {
    another_route("dev eth1 src 10.99.1.1", "10.99.1.1 (eth1)");
}

#[test]
fn another_router_of_the_same_address_is_an_alarm() {
    another_route("via 10.99.1.2 dev eth1 src 10.99.0.1", "10.99.0.1 (eth1, via 10.99.1.2)");
}

#[test]
fn a_peer_without_a_route_holds_up_no_other() {
    let Some(lab) = Laboratory::up(TWO_WAYS) else { return };
    let _node = node(&lab, "west", &TCP);
    let (mut daemon, db) = watch(&lab, &["--to", "10.77.0.2@tcp", "--path-every", "off"]);
    daemon.wait_for("10.77.0.2@tcp: no answer: no route from this machine to 10.77.0.2: ");
    daemon.wait_for("10.77.0.2@tcp: unreachable: ");
    let report = report(&db);
    let peers = report["peers"].as_array().expect("peers");
    let lost = peers.iter().find(|peer| peer["nid"] == "10.77.0.2@tcp").expect("the peer");
    assert_eq!(lost["rows"][0]["answered"], 0, "{report:#}");
    run(&lab, "east", "ip route add 10.77.0.0/24 via 10.99.0.2");
    daemon.wait_for("10.77.0.2@tcp: there is a route now");
}

#[test]
fn a_smaller_mtu_is_an_alarm_until_it_is_as_before() {
    let Some(lab) = Laboratory::up(TWO_WAYS) else { return };
    let _node = node(&lab, "west", &TCP);
    let (mut daemon, db) = watch(&lab, &["--path-every", "500ms"]);
    run(&lab, "east", "ip link set eth0 mtu 1300");
    daemon.wait_for("mtu: path MTU to the peer: 1300 bytes instead of 1500 bytes");
    run(&lab, "east", "ip link set eth0 mtu 1500");
    daemon.wait_for("mtu is over: as before (1500 bytes)");
    let report = report(&db);
    let rows = &report["peers"][0]["rows"];
    let least = rows.as_array().expect("rows").iter().filter_map(|row| row["mtu_out"].as_u64());
    assert_eq!(least.min(), Some(1300), "{rows:#}");
    assert!(rows[0]["hops_out"] == 1, "{rows:#}");
}
