//! Links that are narrow, slow, or down for a while.

use lustrine_testing::{Need, not_run};
use serde_json::Value;

use super::netns::{NetNs, NetNsNode, whole_selftest};
use crate::common::{Finished, Running, eventually, finish};

const NODE: &str = "10.213.0.2@tcp";

/// Two namespaces with a cable between them, and a node in the second.
fn pair(mtu: u32, settings: &[&str]) -> Option<(NetNs, NetNs, NetNsNode)> {
    let [here, there] = NetNs::several()?;
    here.connect(&there, "eth0", mtu, ["10.213.0.1/24", "10.213.0.2/24"]);
    let node = there.node(&[&["--net", "tcp=eth0"], settings].concat());
    Some((here, there, node))
}

/// Rows of a report.
#[track_caller]
fn rows(done: &Finished) -> Vec<Value> {
    done.json()["results"].as_array().expect("a list of results").clone()
}

#[test]
fn all_tests_work_over_a_cable() {
    let Some((here, _there, node)) = pair(1500, &[]) else { return };
    let done = finish(&mut here.lustrine(&whole_selftest(NODE))).ok();
    let rows = rows(&done);
    assert_eq!(rows.len(), 5, "{rows:#?}");
    assert!(rows.iter().all(|row| row["errors"] == 0), "{rows:#?}");
    assert!(node.received() > 1 << 20);
}

/// The path is narrower in its middle than at its ends, which only the router can detect.
#[test]
fn all_tests_work_over_a_router_with_a_small_mtu() {
    let Some([here, router, there]) = NetNs::several() else { return };
    here.connect(&router, "eth0", 1500, ["10.213.0.1/24", "10.213.0.254/24"]);
    there.connect(&router, "eth1", 1500, ["10.213.1.2/24", "10.213.1.254/24"]);
    router.run("sysctl -qw net.ipv4.ip_forward=1");
    router.run("ip link set eth1 mtu 600");
    here.run("ip route add default via 10.213.0.254");
    there.run("ip route add default via 10.213.1.254");
    // Also towards the router, which would not accept larger packets there.
    there.run("ip link set eth1 mtu 600");
    let _node = there.node(&["--net", "tcp=eth1"]);
    let done = finish(&mut here.lustrine(&whole_selftest("10.213.1.2@tcp"))).ok();
    assert_eq!(rows(&done).len(), 5, "{done:#?}");
}

/// Traffic that is in flight when the link goes down, and stays down until `until` returns true for
/// the client's namespace, the node, and the segments that the client has sent again since the cut.
fn interrupted(
    settings: &[&str],
    until: fn(&NetNs, &NetNsNode, u64) -> bool,
) -> Option<(NetNs, Finished)> {
    let (here, there, node) = pair(1500, settings)?;
    let mut args = vec!["selftest", "--to", NODE, "--test", "write", "--size", "64k"];
    args.extend(["--concurrency", "8", "--check", "full", "--time", "20", "--json", "-"]);
    let client = Running::start(&mut here.lustrine(&[&args, settings].concat()));
    let before = node.received();
    eventually("traffic", || (node.received() > before + (1 << 20)).then_some(()));
    there.run("ip link set eth0 down");
    let cut = here.segments_retransmitted();
    eventually("an effect of the cut", || {
        until(&here, &node, here.segments_retransmitted() - cut).then_some(())
    });
    there.run("ip link set eth0 up");
    let done = client.end();
    // In any case, traffic continues. The client may have ended before it reached the node again,
    // and its session is still there then.
    finish(&mut here.lustrine(&[&whole_selftest(NODE)[..], &["--force"]].concat())).ok();
    Some((here, done))
}

#[test]
fn a_link_that_is_down_for_a_moment_causes_delay_only() {
    // What the client sends again was in flight, and waits for the link.
    let until = |_: &NetNs, _: &NetNsNode, retransmits| retransmits >= 3;
    let Some((_, done)) = interrupted(&[], until) else { return };
    let rows = rows(&done.ok());
    assert_eq!(rows[0]["errors"], 0, "{rows:#?}");
}

/// Longer than a connection may make no progress: both sides close it, and its operations fail.
/// Peers are dialled every second, so that the client reaches the node again before it ends, and
/// its session does not stay there.
#[test]
fn a_link_that_is_down_for_longer_causes_errors() {
    let settings = ["--set", "sock_timeout=1", "--set", "max_reconnectms=1000"];
    let until = |here: &NetNs, node: &NetNsNode, _| {
        node.stats().drivers["socklnd"]["closed"] > 0 && here.established() == 0
    };
    let Some((_, done)) = interrupted(&settings, until) else { return };
    let rows = rows(&done.expect_code(1));
    assert!(rows[0]["errors"].as_u64() > Some(0), "{rows:#?}");
}

#[test]
fn all_tests_work_over_a_long_link() {
    let Some((here, there, _node)) = pair(1500, &[]) else { return };
    if let Err(why) = there.attempt("tc qdisc add dev eth0 root netem delay 20ms") {
        return not_run(Need::Netem, &why);
    }
    let ping = finish(&mut here.lustrine(&["ping", NODE, "--json"])).ok().json();
    assert!(ping["rtt_us"].as_f64() >= Some(20_000.0), "{ping:#}");
    finish(&mut here.lustrine(&whole_selftest(NODE))).ok();
}

/// 64 KiB at 20 Mb/s, less what the link lets pass at once, take 22 ms.
#[test]
fn a_slow_link_limits_the_rate() {
    let Some((here, there, _node)) = pair(1500, &[]) else { return };
    let shape = "tc qdisc add dev eth0 root tbf rate 20mbit burst 8kb latency 400ms";
    if let Err(why) = there.attempt(shape) {
        return not_run(Need::Netem, &why);
    }
    let mut args = vec!["selftest", "--to", NODE, "--test", "read", "--size", "64k"];
    args.extend(["--concurrency", "1,8", "--check", "full", "--time", "0.5", "--json", "-"]);
    let done = finish(&mut here.lustrine(&args)).ok();
    for row in rows(&done) {
        assert_eq!(row["errors"], 0, "{row:#}");
        assert!(row["latency_us"]["p50"].as_f64() >= Some(22_000.0), "{row:#}");
    }
}
