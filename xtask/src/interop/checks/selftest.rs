//! `lustrine selftest` towards kernel nodes.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Listed, holds, succeeded};
use crate::interop::node::Node;
use crate::interop::testbed::{KERNEL, OURS, Testbed};
use crate::kernel_lab::Modules;
use crate::process::Finished;

pub(super) const CHECKS: &[Listed] = &[
    (
        "selftest",
        "ping, read and write; 4 KiB and 1 MiB; 1, 8 and 64 in flight; every byte checked",
        "no errors",
        all_rows,
    ),
    ("selftest", "sizes of 8 to 1,000,000 bytes, every byte checked", "no errors", odd_sizes),
    ("selftest", "a kernel that damages data", "the client counts wrong data, exit 1", damaged),
    (
        "selftest",
        "an IPv6 NID of a kernel node",
        "a note at once that a kernel node does not answer; the run ends within 20 s",
        ipv6,
    ),
    ("versions", "protocol V1", "no errors", protocol_1),
    ("versions", "protocol V2 with checksums on both sides", "no errors", protocol_2),
    ("versions", "protocol V3, checksums asked for on both sides", "no errors", protocol_3),
    (
        "versions",
        "discovery switched off at Lustrine",
        "ping and selftest, no errors",
        no_discovery,
    ),
    (
        "versions",
        "discovery switched off at the kernel",
        "ping both ways and selftest, no errors",
        no_discovery_there,
    ),
];

/// What a run of the selftest measured.
pub(super) struct Measured {
    rows: Vec<Value>,
}

impl Measured {
    pub(super) fn of(done: &Finished) -> Result<Measured> {
        let report: Value = serde_json::from_str(&done.stdout)
            .with_context(|| format!("no results: {}", done.stderr.trim()))?;
        let rows = report["results"].as_array().context("no list of results")?.clone();
        Ok(Measured { rows })
    }

    pub(super) fn sum(&self, key: &str) -> u64 {
        self.rows.iter().filter_map(|row| row[key].as_u64()).sum()
    }

    /// There are rows, each did something, and none has errors.
    pub(super) fn without_errors(self) -> Result<String> {
        let (errors, ops) = (self.sum("errors"), self.sum("ops"));
        ensure!(errors == 0, "{errors} errors in {:?}", self.rows);
        let idle = self.rows.iter().filter(|row| row["ops"].as_u64() == Some(0)).count();
        ensure!(idle == 0 && ops > 0, "{idle} rows without an operation in {:?}", self.rows);
        Ok(format!("0 errors in {} rows, {ops} operations", self.rows.len()))
    }
}

/// Runs the selftest through a node; its results go to standard output.
pub(super) fn selftest(node: &Node, target: &str, args: &[&str]) -> Result<Finished> {
    let usual = ["selftest", "--to", target, "--check", "full", "--time", "1", "--json", "-"];
    node.run(&[&usual[..], args].concat())
}

fn clean(bed: &mut Testbed, modules: Modules, settings: &[&str], args: &[&str]) -> Result<String> {
    bed.kernel("node2", modules)?;
    let node = bed.node(OURS, settings)?;
    run_clean(&node, args)
}

fn run_clean(node: &Node, args: &[&str]) -> Result<String> {
    let done = selftest(node, KERNEL, args)?;
    let measured = Measured::of(&done)?.without_errors()?;
    succeeded(done)?;
    Ok(measured)
}

const SHORT: &[&str] = &["--size", "4k,1M", "--concurrency", "8"];

fn all_rows(bed: &mut Testbed) -> Result<String> {
    clean(bed, Modules::USUAL, &[], &["--size", "4k,1M", "--concurrency", "1,8,64"])
}

fn odd_sizes(bed: &mut Testbed) -> Result<String> {
    let sizes = "8,4088,20480,102400,1000000";
    clean(bed, Modules::USUAL, &[], &["--size", sizes, "--concurrency", "4"])
}

fn damaged(bed: &mut Testbed) -> Result<String> {
    bed.kernel("node2", Modules::USUAL)?;
    let parameter = "/sys/module/lnet_selftest/parameters/brw_inject_errors";
    bed.sh("node2", &format!("modprobe lnet_selftest; echo 3 > {parameter}"))?;
    let node = bed.node(OURS, &[])?;
    let done = selftest(&node, KERNEL, &["--test", "read", "--size", "4k", "--concurrency", "1"]);
    bed.sh("node2", &format!("echo 0 > {parameter}"))?;
    let done = done?;
    let errors = Measured::of(&done)?.sum("errors");
    ensure!(errors > 0, "no error was counted");
    let code = done.status.code();
    ensure!(code == Some(1), "{errors} errors, but exit status {code:?}");
    holds(&done.stdout, "wrong data")?;
    Ok(format!("{errors} x wrong data, exit 1"))
}

fn ipv6(bed: &mut Testbed) -> Result<String> {
    bed.large_nid("node2")?;
    bed.sh("node2", "modprobe lnet_selftest")?;
    let node = bed.node("fd77::1@tcp", &[])?;
    let begun = Instant::now();
    let done = node.run(&["selftest", "--to", "fd77::2@tcp", "--time", "1"]);
    bed.power_off("node2")?;
    let done = done?;
    let took = begun.elapsed();
    ensure!(!done.status.success(), "the run succeeded: {}", done.stdout);
    ensure!(took < Duration::from_secs(20), "the run took {took:.0?}");
    holds(&done.stderr, "a kernel node does not answer a selftest at an IPv6 NID")?;
    Ok(format!("noted, and ended after {:.1} s", took.as_secs_f64()))
}

fn protocol_1(bed: &mut Testbed) -> Result<String> {
    version(bed, Modules::USUAL, &["--set", "protocol=1"], "V1")
}

const CHECKSUMS: Modules = Modules { ksocklnd: "conns_per_peer=1 enable_csum=1", ..Modules::USUAL };

fn protocol_2(bed: &mut Testbed) -> Result<String> {
    version(bed, CHECKSUMS, &["--set", "protocol=2", "--set", "enable_csum=1"], "V2")
}

fn protocol_3(bed: &mut Testbed) -> Result<String> {
    version(bed, CHECKSUMS, &["--set", "enable_csum=1"], "V3")
}

/// A run with a version of the protocol that both ends have agreed on.
fn version(
    bed: &mut Testbed,
    modules: Modules,
    settings: &[&str],
    version: &str,
) -> Result<String> {
    bed.kernel("node2", modules)?;
    let node = bed.node(OURS, settings)?;
    let clean = run_clean(&node, SHORT)?;
    let found = succeeded(node.run(&["discover", KERNEL, "--json"])?)?;
    let found: Value = serde_json::from_str(&found)?;
    let agreed = &found["peer"]["version"];
    ensure!(agreed == version, "the connections have version {agreed}");
    Ok(format!("{version}; {clean}"))
}

fn no_discovery(bed: &mut Testbed) -> Result<String> {
    clean(bed, Modules::USUAL, &["--set", "discovery=0"], SHORT)
}

fn no_discovery_there(bed: &mut Testbed) -> Result<String> {
    let modules = Modules { lnet: "lnet_peer_discovery_disabled=1", ..Modules::USUAL };
    bed.kernel("node2", modules)?;
    let node = bed.node(OURS, &[])?;
    succeeded(node.run(&["ping", KERNEL])?)?;
    holds(&bed.sh("node2", &format!("lnetctl ping {OURS}"))?, OURS)?;
    drop(node);
    clean(bed, modules, &[], SHORT)
}
