//! The number of connections, and nodes with several NIDs.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::selftest::{Measured, selftest};
use super::{Listed, eventually, holds, succeeded};
use crate::interop::testbed::{KERNEL, OURS, Testbed};
use crate::kernel_lab::Modules;

pub(super) const CHECKS: &[Listed] = &[
    ("connections", "conns_per_peer 4 at both ends", "9 connections, no errors", four_and_four),
    (
        "connections",
        "conns_per_peer 4 at Lustrine, 1 at the kernel",
        "3 connections, no errors",
        four_and_one,
    ),
    (
        "connections",
        "conns_per_peer 1 at Lustrine, 4 at the kernel",
        "3 connections, no errors",
        one_and_four,
    ),
    (
        "multi-rail",
        "a kernel with two networks, Lustrine with the same two",
        "both know both NIDs; selftest over each, no errors",
        two_networks,
    ),
    (
        "multi-rail",
        "a network is added to a running kernel",
        "Lustrine learns the new NID",
        network_added,
    ),
];

const FOUR: Modules = Modules { ksocklnd: "conns_per_peer=4", ..Modules::USUAL };

fn four_and_four(bed: &mut Testbed) -> Result<String> {
    settle(bed, FOUR, "conns_per_peer=4", 9)
}

fn four_and_one(bed: &mut Testbed) -> Result<String> {
    settle(bed, Modules::USUAL, "conns_per_peer=4", 3)
}

fn one_and_four(bed: &mut Testbed) -> Result<String> {
    settle(bed, FOUR, "conns_per_peer=1", 3)
}

/// Both ends agree on a number of connections, and keep it under load.
fn settle(bed: &mut Testbed, modules: Modules, ours: &str, expected: usize) -> Result<String> {
    bed.kernel("node2", modules)?;
    let node = bed.node(OURS, &["--set", ours])?;
    bed.sh("node2", &format!("modprobe lnet_selftest; lnetctl ping {OURS}"))?;
    let args = ["--test", "write", "--size", "1M", "--concurrency", "8"];
    let done = selftest(&node, KERNEL, &args)?;
    let clean = Measured::of(&done)?.without_errors()?;
    succeeded(done)?;
    let mut count = 0;
    eventually("the number of connections", Duration::from_secs(10), || {
        let established = "ss -Htn state established '( sport = :988 or dport = :988 )'";
        count = bed.lab().on_host(established)?.lines().count();
        Ok((count == expected).then_some(()))
    })
    .map_err(|error| error.context(format!("{count} connections")))?;
    Ok(format!("{count} connections; {clean}"))
}

const TWO: Modules = Modules { lnet: "networks=tcp(eth0),tcp1(eth1)", ..Modules::USUAL };

fn two_networks(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", TWO)?;
    bed.sh("node2", "modprobe lnet_selftest")?;
    let node = bed.node_on("tcp=10.77.0.1", &["--net", "tcp1=10.77.1.1"])?;
    let theirs = bed.sh("node2", &format!("lnetctl discover {OURS}"))?;
    holds(&theirs, "10.77.1.1@tcp1")?;
    let found = succeeded(node.run(&["discover", KERNEL])?)?;
    holds(&found, "10.77.1.2@tcp1")?;
    let mut seen = Vec::new();
    for target in [KERNEL, "10.77.1.2@tcp1"] {
        let done = selftest(&node, target, &["--size", "64k", "--concurrency", "8"])?;
        seen.push(format!("{target}: {}", Measured::of(&done)?.without_errors()?));
    }
    Ok(seen.join("; "))
}

fn network_added(bed: &mut Testbed) -> Result<String> {
    bed.fresh_kernel("node2", Modules::USUAL)?;
    let node = bed.node(OURS, &[])?;
    let before = succeeded(node.run(&["discover", KERNEL])?)?;
    ensure!(!before.contains("10.77.1.2@tcp1"), "known too early: {before}");
    bed.sh("node2", "lnetctl net add --net tcp1 --if eth1")?;
    let learned = eventually("the new NID", Duration::from_secs(10), || {
        let shown = succeeded(node.run(&["show", "peer"])?)?;
        Ok(shown.contains("10.77.1.2@tcp1").then_some(()))
    });
    // No other check wants this machine with two networks.
    bed.power_off("node2")?;
    learned?;
    Ok("learned from the kernel's push".to_owned())
}
