//! What `lustrine tune` writes, read by kernel nodes; what it applies to a mount.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::mount::Mounted;
use super::{Listed, holds, succeeded};
use crate::interop::testbed::{KERNEL, Testbed};
use crate::kernel_lab::Modules;

pub(super) const CHECKS: &[Listed] = &[
    (
        "tune",
        "lnetctl.yaml is imported by a kernel node that has no such network",
        "the values are in force, and the node is pinged",
        import,
    ),
    (
        "tune",
        "ksocklnd.conf is read when the modules are loaded, sysctl.conf by sysctl -p",
        "the values are in force",
        modules,
    ),
    (
        "tune",
        "set_param.sh at a kernel client with a mount",
        "the values are in force, of targets at the measured server alone",
        set_param,
    ),
    (
        "tune",
        "--apply at a mount of `lustrine mount`, then --undo",
        "max_rpcs_in_flight is the advised one, then the one before",
        apply,
    ),
];

/// Options of modules that leave all values to the files.
const NONE: Modules = Modules { lnet: "", ksocklnd: "" };

/// Values that are no defaults follow from these, whatever the round trip: 5 RPCs, 512 pages,
/// `peer_credits` 40, `credits` 4000, several connections.
const PATH: [&str; 12] = [
    "--rate",
    "1G",
    "--stream-rate",
    "1M",
    "--rpc-size",
    "2M",
    "--targets",
    "4",
    "--service-threads",
    "20",
    "--peers",
    "100",
];

/// The files for the path to a node, inside a machine, and the settings in them. The interface is
/// the machine's.
fn written(testbed: &Testbed, nid: &str, machine: &str) -> Result<Value> {
    let directory = testbed.lab().file("tuned");
    let _ = fs::remove_dir_all(&directory);
    let place = directory.to_str().context("the path is not UTF-8")?;
    let args = [&["tune", "--to", nid, "--json", "--write", place][..], &PATH].concat();
    let report: Value = serde_json::from_str(&succeeded(testbed.lustrine(&args)?)?)?;
    let yaml = directory.join("lnetctl.yaml");
    fs::write(&yaml, fs::read_to_string(&yaml)?.replace("0: br0", "0: eth0"))?;
    for name in ["lnetctl.yaml", "ksocklnd.conf", "set_param.sh", "sysctl.conf"] {
        testbed.lab().put(machine, &directory.join(name), &format!("/tmp/{name}"))?;
    }
    Ok(report["settings"].clone())
}

/// What `lnetctl net show` has of the tunables.
fn in_force(testbed: &Testbed, settings: &Value) -> Result<String> {
    ensure!(settings["peer_credits"] == 40 && settings["credits"] == 4000, "{settings}");
    ensure!(settings["conns_per_peer"].as_u64() > Some(1), "{settings}");
    let shown = testbed.sh("node2", "lnetctl net show --net tcp -v")?;
    for name in ["peer_credits", "credits", "conns_per_peer"] {
        holds(&shown, &format!(" {name}: {}\n", settings[name]))?;
    }
    let value = |name: &str| settings[name].to_string();
    Ok(format!(
        "peer_credits {}, credits {}, conns_per_peer {}",
        value("peer_credits"),
        value("credits"),
        value("conns_per_peer")
    ))
}

fn import(testbed: &mut Testbed) -> Result<String> {
    testbed.fresh_kernel("node2", NONE)?;
    let settings = written(testbed, KERNEL, "node2")?;
    let import = "lnetctl import /tmp/lnetctl.yaml";
    // What the page says: an interface that is there is not changed.
    let refused = testbed.lab().sh("node2", import)?;
    holds(&(refused.stdout + &refused.stderr), "cannot add LNet NI")?;
    testbed.sh("node2", &format!("lnetctl net del --net tcp; {import}"))?;
    let seen = in_force(testbed, &settings)?;
    succeeded(testbed.lustrine(&["ping", KERNEL])?)?;
    Ok(format!("{seen}; over a network that is there: refused"))
}

fn modules(testbed: &mut Testbed) -> Result<String> {
    testbed.fresh_kernel("node2", NONE)?;
    let settings = written(testbed, KERNEL, "node2")?;
    let load = "rmmod lnet_selftest; lnetctl lnet unconfigure; rmmod ksocklnd lnet; rm -f \
                /etc/modprobe.d/*; cp /tmp/ksocklnd.conf /etc/modprobe.d; modprobe ksocklnd; \
                lnetctl lnet configure --all";
    testbed.sh("node2", load)?;
    let seen = in_force(testbed, &settings)?;
    testbed.sh("node2", "sysctl -p /tmp/sysctl.conf")?;
    let buffers = testbed.sh("node2", "cat /proc/sys/net/ipv4/tcp_rmem")?;
    let largest = buffers.split_whitespace().nth(2).unwrap_or_default();
    let expected = settings["tcp_buffer"].as_u64().context("no tcp_buffer")?;
    ensure!(largest.parse::<u64>()? >= expected, "tcp_rmem is {buffers}, not {expected}");
    // Later checks load lnet_selftest.
    testbed.power_off("node2")?;
    Ok(format!("{seen}; tcp_rmem {largest}"))
}

fn set_param(testbed: &mut Testbed) -> Result<String> {
    testbed.kernel("server", Modules::USUAL)?;
    testbed.fresh_kernel("client1", Modules::USUAL)?;
    let settings = written(testbed, "10.77.0.9@tcp", "client1")?;
    // The same script for another server changes nothing, unless it is asked to.
    let limits = "lctl get_param -n osc.*.max_rpcs_in_flight | sort -u";
    let other = "sed \"s/^servers=.*/servers='10.77.0.99@tcp'/\" /tmp/set_param.sh >/tmp/other.sh; \
                 lctl set_param osc.*.max_rpcs_in_flight=7 >/dev/null; sh /tmp/other.sh 2>&1; \
                 echo $?";
    let said = testbed.sh("client1", other)?;
    holds(&said, "no target of this client is at 10.77.0.99@tcp")?;
    ensure!(said.trim_end().ends_with('1'), "the script did not fail: {said}");
    let left = testbed.sh("client1", limits)?;
    ensure!(left.trim() == "7", "limits {left:?} after a script for another server");
    testbed.sh("client1", "sh /tmp/other.sh all")?;
    let all = testbed.sh("client1", limits)?;
    ensure!(all.trim() == "5", "limits {all:?} after `all`");
    testbed.sh("client1", "lctl set_param osc.*.max_rpcs_in_flight=7; sh /tmp/set_param.sh")?;
    let shown = testbed.sh(
        "client1",
        "lctl get_param osc.*.max_pages_per_rpc osc.*.max_rpcs_in_flight mdc.*.max_rpcs_in_flight",
    )?;
    let (pages, rpcs) = (&settings["pages_per_rpc"], &settings["max_rpcs_in_flight"]);
    ensure!(*pages == 512 && *rpcs == 5, "{settings}");
    // Metadata targets have the default at least.
    let wanted = [
        ("osc.", "max_pages_per_rpc", pages.clone(), 2),
        ("osc.", "max_rpcs_in_flight", rpcs.clone(), 2),
        ("mdc.", "max_rpcs_in_flight", 8.into(), 1),
    ];
    for (kind, line, count, least) in wanted {
        let is_meant = |shown: &&str| shown.starts_with(kind) && shown.contains(line);
        let lines: Vec<&str> = shown.lines().filter(is_meant).collect();
        let expected = format!("{line}={count}");
        ensure!(
            lines.len() >= least && lines.iter().all(|line| line.ends_with(&expected)),
            "not {expected} everywhere: {shown}"
        );
    }
    let dirty = "lctl get_param -n osc.*.max_dirty_mb; awk '/^MemTotal:/ { print $2 }' \
                 /proc/meminfo";
    let dirty: Vec<u64> =
        testbed.sh("client1", dirty)?.lines().map(str::parse).collect::<Result<_, _>>()?;
    let (memory, targets) = dirty.split_last().context("no memory")?;
    let wanted = settings["max_dirty_mib"].as_u64().context("no max_dirty_mib")?;
    let least = wanted.min(memory / 4096);
    ensure!(targets.iter().all(|dirty| *dirty >= least), "max_dirty_mb is {targets:?}");
    Ok(format!("max_rpcs_in_flight {rpcs}, {pages} pages, max_dirty_mb {targets:?}"))
}

fn apply(testbed: &mut Testbed) -> Result<String> {
    let mount = Mounted::new(testbed)?;
    let (dir, state) = (mount.dir.display(), testbed.lab().file("state"));
    let (program, state) = (mount.program.display(), state.display());
    let limit = || -> Result<u64> {
        let status = mount.host(&format!("{program} fs status --json {dir}"))?;
        let status: Value = serde_json::from_str(&status)?;
        status[0]["max_rpcs_in_flight"].as_u64().context("the mount does not say its limit")
    };
    let before = limit()?;
    let report = mount.host(&format!(
        "{program} tune --to 10.77.0.9@tcp --json --apply=mounts --state {state} {}",
        PATH.join(" ")
    ))?;
    let report: Value = serde_json::from_str(&report)?;
    let (advised, now) = (&report["settings"]["max_rpcs_in_flight"], limit()?);
    ensure!(advised.as_u64() == Some(now) && now != before, "{before}, then {now}, not {advised}");
    mount.host(&format!("{program} tune --undo --state {state}"))?;
    let after = limit()?;
    ensure!(after == before, "{before} before, {after} after --undo");
    Ok(format!("{before}, {now}, {after}"))
}
