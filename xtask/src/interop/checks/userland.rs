//! The userland identity towards kernel nodes that have `accept=all`.

use anyhow::{Result, ensure};

use super::selftest::{Measured, selftest};
use super::{Listed, holds, reason, succeeded};
use crate::interop::lab::Modules;
use crate::interop::node::Node;
use crate::interop::testbed::{KERNEL, Testbed};

pub(super) const CHECKS: &[Listed] = &[
    (
        "userland",
        "a NID that the kernel does not know",
        "ping, discovery and selftest, no errors",
        unknown,
    ),
    (
        "userland",
        "a NID that the kernel knows as a node",
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
        "a node that listens, conns_per_peer 1, has dialled the kernel; the kernel pings it",
        "an answer; the kernel lives on",
        dialled_first,
    ),
    (
        "userland",
        "the same with conns_per_peer 2",
        "an answer; the kernel lives on",
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
    let node = bed.node(NID, &[])?;
    holds(&bed.sh("node2", &format!("lnetctl discover {NID}"))?, "Multi-Rail: true")?;
    drop(node);
    let node = bed.node(NID, &[&USERLAND[..], &["--accept", "none"]].concat())?;
    works(&node)
}

fn failed_before(bed: &mut Testbed) -> Result<String> {
    bed.fresh_kernel("node2", Modules::USUAL)?;
    drop(bed.node(NID, &[])?);
    let failed = bed.lab().sh("node2", &format!("lnetctl ping {NID}; modprobe lnet_selftest"))?;
    ensure!(failed.stdout.contains("errno"), "the kernel's ping worked: {}", failed.stdout);
    let node = bed.node(NID, &[&USERLAND[..], &["--accept", "none"]].concat())?;
    works(&node)
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
    let oops = bed.sh("node2", "dmesg | grep -cE 'Oops:|BUG:|NULL pointer dereference' || true")?;
    ensure!(oops.trim() == "0", "the kernel reports {} faults", oops.trim());
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
