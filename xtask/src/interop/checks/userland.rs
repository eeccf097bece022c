//! The userland identity towards kernel nodes that have `accept=all`.

use anyhow::{Result, ensure};

use super::identity::no_faults;
use super::selftest::{Measured, selftest};
use super::{Listed, holds, reason, succeeded};
use crate::interop::node::Node;
use crate::interop::testbed::{KERNEL, Testbed};
use crate::kernel_lab::Modules;

pub(super) const CHECKS: &[Listed] = &[
    (
        "userland",
        "a NID that the kernel does not know",
        "ping, discovery and selftest, no errors",
        unknown,
    ),
    (
        "userland",
        "a NID that the kernel knows as a node, 5 times",
        "ping, discovery and selftest, no errors",
        known_as_node,
    ),
    (
        "userland",
        "a NID at which nothing listened when the kernel pinged it",
        "ping, discovery and selftest, no errors",
        failed_before,
    ),
    (
        "userland",
        "a NID that the kernel tried to discover and could not",
        "the error names both workarounds, and each works",
        discovery_failed_before,
    ),
    (
        "userland",
        "a node that listens, conns_per_peer 1, has dialled the kernel; the kernel pings it",
        "an answer; the kernel does not crash",
        dialled_first,
    ),
    (
        "userland",
        "the same with conns_per_peer 2",
        "an answer; the kernel does not crash",
        dialled_first_twice,
    ),
    ("userland", "a dial over IPv6", "refused at once: some kernels crash on it", over_ipv6),
];

const NID: &str = "10.77.0.214@tcp";
const USERLAND: [&str; 2] = ["--identity", "userland"];

fn works(node: &Node) -> Result<String> {
    succeeded(node.run(&["ping", KERNEL])?)?;
    succeeded(node.run(&["discover", KERNEL])?)?;
    let done = selftest(node, KERNEL, &["--size", "4k,1M", "--concurrency", "8"])?;
    let clean = Measured::of(&done)?.without_errors()?;
    succeeded(done)?;
    Ok(clean)
}

fn unknown(bed: &mut Testbed) -> Result<String> {
    bed.fresh_kernel("node2", Modules::USUAL)?;
    bed.sh("node2", "modprobe lnet_selftest")?;
    let node = bed.node(NID, &[&USERLAND[..], &["--accept", "none"]].concat())?;
    works(&node)
}

fn known_as_node(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    bed.sh("node2", "modprobe lnet_selftest")?;
    let mut seen = String::new();
    // The kernel confirms the first push before it has deleted what it knew [USR-4].
    for _ in 0..5 {
        let node = bed.node(NID, &[])?;
        holds(&bed.sh("node2", &format!("lnetctl discover {NID}"))?, "Multi-Rail: true")?;
        drop(node);
        let node = bed.node(NID, &[&USERLAND[..], &["--accept", "none"]].concat())?;
        seen = works(&node)?;
    }
    Ok(format!("5 times, the last: {seen}"))
}

fn failed_before(bed: &mut Testbed) -> Result<String> {
    bed.fresh_kernel("node2", Modules::USUAL)?;
    drop(bed.node(NID, &[])?);
    let failed = bed.lab().sh("node2", &format!("lnetctl ping {NID}; modprobe lnet_selftest"))?;
    ensure!(failed.stdout.contains("errno"), "the kernel's ping worked: {}", failed.stdout);
    let node = bed.node(NID, &[&USERLAND[..], &["--accept", "none"]].concat())?;
    works(&node)
}

fn discovery_failed_before(bed: &mut Testbed) -> Result<String> {
    bed.fresh_kernel("node2", Modules::USUAL)?;
    bed.sh("node2", "modprobe lnet_selftest")?;
    drop(bed.node(NID, &[])?);
    let userland = [&USERLAND[..], &["--accept", "none"]].concat();
    let delete = format!("lnetctl peer del --prim_nid {NID}");
    let mut seen = String::new();
    for kernel_deletes in [false, true] {
        let failed = bed.lab().sh("node2", &format!("lnetctl discover {NID} 2>&1"))?;
        holds(&failed.stdout, "failed to discover")?;
        let node = bed.node(NID, &userland)?;
        let refused = node.run(&["selftest", "--to", KERNEL, "--time", "1", "--patience", "4"])?;
        ensure!(!refused.status.success(), "a selftest worked: {}", refused.stdout);
        let why = reason(&refused);
        holds(&why, &delete)?;
        holds(&why, &format!("`lustrine discover {KERNEL}`"))?;
        drop(node);
        if kernel_deletes {
            bed.sh("node2", &delete)?;
        } else {
            let node = bed.node(NID, &[])?;
            succeeded(node.run(&["discover", KERNEL])?)?;
        }
        // The request of the refused run did arrive: the kernel has its session for a while.
        bed.sh("node2", "rmmod lnet_selftest && modprobe lnet_selftest")?;
        let node = bed.node(NID, &userland)?;
        seen = works(&node)?;
        drop(node);
        // The kernel discovers the NID anew, with nothing there.
        bed.sh("node2", &delete)?;
    }
    Ok(format!("both work, the last: {seen}"))
}

fn dialled_first(bed: &mut Testbed) -> Result<String> {
    pinged_back(bed, "conns_per_peer=1")
}

fn dialled_first_twice(bed: &mut Testbed) -> Result<String> {
    pinged_back(bed, "conns_per_peer=2")
}

fn pinged_back(bed: &mut Testbed, connections: &str) -> Result<String> {
    bed.fresh_kernel("node2", Modules::USUAL)?;
    let settings = [&USERLAND[..], &["--accept", "all", "--set", connections]].concat();
    let node = bed.node(NID, &settings)?;
    succeeded(node.run(&["discover", KERNEL])?)?;
    holds(&bed.sh("node2", &format!("lnetctl ping {NID}"))?, NID)?;
    no_faults(bed)?;
    succeeded(node.run(&["ping", KERNEL])?)?;
    Ok("answered, both directions; no fault in the kernel's log".to_owned())
}

fn over_ipv6(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let node = bed.node("fd77::1@tcp", &[&USERLAND[..], &["--accept", "none"]].concat())?;
    let done = node.run(&["ping", "fd77::2@tcp"])?;
    ensure!(!done.status.success(), "the ping succeeded: {}", done.stdout);
    let why = reason(&done);
    holds(&why, "IPv6")?;
    Ok(why)
}
