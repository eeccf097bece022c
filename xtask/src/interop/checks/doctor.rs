//! `lustrine doctor` at kernel nodes: what is healthy has no finding, and who refuses whom is said.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Listed;
use crate::interop::testbed::{KERNEL, Testbed};
use crate::kernel_lab::Modules;

pub(super) const CHECKS: &[Listed] = &[
    ("doctor", "a healthy kernel node, as a node and as userland", "no finding", healthy),
    ("doctor", "the kernel node by its NID on another net", "wrong-net", another_net),
    (
        "doctor",
        "a kernel node with accept=secure, from a high port",
        "userland-refused",
        privileged_ports_alone,
    ),
    ("doctor", "a kernel node without LNet", "port-closed", no_lnet),
];

/// Kernel nodes take connections from privileged ports alone, as without the laboratory's options.
const SECURE: Modules = Modules { lnet: "accept=secure", ksocklnd: "" };

/// The findings of a look at a NID, each by its name.
fn findings(testbed: &Testbed, nid: &str, options: &[&str]) -> Result<Vec<String>> {
    // The interface has no speed to judge credits by, and the laboratory is slow.
    let args = [&["doctor", "--json", "--to", nid, "--rate", "10M"], options].concat();
    let done = testbed.lustrine(&args)?;
    let report: Value = serde_json::from_str(&done.stdout)
        .with_context(|| format!("no report: {}", done.stderr.trim()))?;
    let found = report["findings"].as_array().context("no findings")?;
    let name = |finding: &Value| finding["code"].as_str().unwrap_or_default().to_owned();
    // The clock of an emulated machine goes as fast as the emulator.
    Ok(found.iter().map(name).filter(|name| name != "clock-skew").collect())
}

/// One finding, and no other.
fn finds(testbed: &Testbed, nid: &str, options: &[&str], code: &str) -> Result<String> {
    let found = findings(testbed, nid, options)?;
    ensure!(found == [code], "{found:?}");
    Ok(code.to_owned())
}

fn healthy(testbed: &mut Testbed) -> Result<String> {
    testbed.kernel("node2", Modules::USUAL)?;
    for identity in ["node", "userland"] {
        let found = findings(testbed, KERNEL, &["--identity", identity])?;
        ensure!(found.is_empty(), "{identity}: {found:?}");
    }
    Ok("no finding".to_owned())
}

fn another_net(testbed: &mut Testbed) -> Result<String> {
    testbed.kernel("node2", Modules::USUAL)?;
    finds(testbed, &KERNEL.replace("@tcp", "@tcp5"), &[], "wrong-net")
}

fn privileged_ports_alone(testbed: &mut Testbed) -> Result<String> {
    testbed.kernel("node2", SECURE)?;
    finds(testbed, KERNEL, &["--identity", "userland"], "userland-refused")
}

fn no_lnet(testbed: &mut Testbed) -> Result<String> {
    testbed.fresh_kernel("node2", Modules::USUAL)?;
    let ended = testbed.sh("node2", "rmmod lnet_selftest; lnetctl lnet unconfigure");
    let found = ended.and_then(|_| finds(testbed, KERNEL, &[], "port-closed"));
    // No other check wants this machine without LNet.
    testbed.power_off("node2")?;
    found
}
