//! Where results come from: the machine, the network devices and the settings behind them.

use std::collections::BTreeMap;
use std::fmt;

use lustrine_report::Page;
use lustrine_report::numbers::grouped;
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

/// Largest number of nodes in the page's table.
const NODES_MAX: usize = 64;

/// The machine that ran the command, and the nodes whose settings it could read: its own, and those
/// that it has started. Others are not in it: the protocol of selftest does not report such things.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The machine that ran the command.
    pub machine: Machine,
    /// Our node, and nodes that the command started.
    pub nodes: Vec<NodeSettings>,
}

/// A machine. What its system does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The release of its kernel, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// The model of its CPUs.
    pub cpu_model: Option<String>,
    /// Its logical CPUs.
    pub cpus: Option<u32>,
    /// Settings of its network stack, by the names of sysctl(8).
    pub sysctls: BTreeMap<String, String>,
}

/// The settings of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSettings {
    /// Its primary NID.
    pub nid: Nid,
    /// The release of Lustrine that it runs, if it is known.
    pub version: Option<String>,
    /// The network devices of its interfaces.
    pub devices: Vec<NetDevice>,
    /// Tunables whose values are not the defaults; absent if the node did not report its tunables.
    pub changed_tunables: Option<BTreeMap<String, ChangedTunable>>,
}

/// A network device. What its system does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetDevice {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Its speed in Mb/s; absent for a virtual device and one without a link.
    pub speed_mbit_s: Option<u32>,
    /// Its MTU in bytes.
    pub mtu: Option<u32>,
    /// The name of its driver.
    pub driver: Option<String>,
}

/// A tunable that has another value than its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedTunable {
    /// Its value.
    pub value: i64,
    /// The default.
    pub default: i64,
}

/// Name, speed, MTU and driver in words.
impl fmt::Display for NetDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = vec![self.name.clone()];
        words.extend(self.speed_mbit_s.map(|speed| match speed % 1000 {
            0 => format!("{} Gb/s", speed / 1000),
            _ => format!("{} Mb/s", grouped(f64::from(speed))),
        }));
        words.extend(self.mtu.map(|mtu| format!("MTU {mtu}")));
        words.extend(self.driver.clone());
        f.write_str(&words.join(", "))
    }
}

impl Provenance {
    /// Mb/s of the device of a node, if it has one device whose speed is known.
    pub fn speed_mbit_s(&self, nid: Nid) -> Option<u32> {
        let node = self.nodes.iter().find(|node| node.nid == nid)?;
        match &node.devices[..] {
            [device] => device.speed_mbit_s,
            _ => None,
        }
    }
}

/// Adds a section about the machine and the nodes. `others` nodes took part of which nothing is
/// known.
pub(crate) fn show(page: &mut Page, provenance: Option<&Provenance>, others: usize) {
    page.heading("Where it was measured");
    let Some(Provenance { machine, nodes }) = provenance else {
        page.paragraph("The results do not say: an earlier release wrote them.");
        return;
    };
    let unknown = || "unknown".to_owned();
    let cpus = machine.cpus.map_or_else(unknown, |cpus| cpus.to_string());
    let mut rows = vec![
        vec!["kernel".to_owned(), machine.kernel.clone().unwrap_or_else(unknown)],
        vec!["CPU".to_owned(), machine.cpu_model.clone().unwrap_or_else(unknown)],
        vec!["logical CPUs".to_owned(), cpus],
    ];
    let sysctls = machine.sysctls.iter();
    rows.extend(sysctls.map(|(name, value)| vec![name.clone(), value.clone()]));
    page.table(&["<this machine", "<"], &rows);
    let row = |node: &NodeSettings| {
        let devices: Vec<String> = node.devices.iter().map(NetDevice::to_string).collect();
        let changed = match &node.changed_tunables {
            None => unknown(),
            Some(changed) if changed.is_empty() => "none".to_owned(),
            Some(changed) => {
                let words = changed.iter().map(|(name, ChangedTunable { value, default })| {
                    format!("{name} {value} (default {default})")
                });
                words.collect::<Vec<_>>().join(", ")
            }
        };
        let version = node.version.clone().unwrap_or_else(unknown);
        vec![node.nid.to_string(), version, devices.join("; "), changed]
    };
    let rows: Vec<_> = nodes.iter().take(NODES_MAX).map(row).collect();
    if !rows.is_empty() {
        page.table(&["<node", "<version", "<device", "<changed tunables"], &rows);
    }
    if nodes.len() > NODES_MAX {
        let more = nodes.len() - NODES_MAX;
        page.paragraph(&format!("In the JSON only: {more} more."));
    }
    match others {
        0 => {}
        1 => page.paragraph("One node is on another machine, of which nothing is known here."),
        others => page.paragraph(&format!(
            "{others} nodes are on other machines, of which nothing is known here."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nid(text: &str) -> Nid {
        text.parse().expect("a NID")
    }

    fn example() -> Provenance {
        let machine = Machine {
            kernel: Some("6.1.0-18-amd64".to_owned()),
            sysctls: [("net.ipv4.tcp_rmem".to_owned(), "4096 131072 6291456".to_owned())].into(),
            ..Machine::default()
        };
        let device = NetDevice {
            name: "eth0".to_owned(),
            speed_mbit_s: Some(100_000),
            mtu: Some(9000),
            driver: None,
        };
        let changed =
            [("conns_per_peer".to_owned(), ChangedTunable { value: 4, default: 1 })].into();
        let node = NodeSettings {
            nid: nid("10.0.0.1@tcp"),
            version: Some("0.1.0".to_owned()),
            devices: vec![device],
            changed_tunables: Some(changed),
        };
        Provenance { machine, nodes: vec![node] }
    }

    #[test]
    fn the_page_has_what_is_known_and_says_what_is_not() {
        let mut page = Page::new("t", "");
        show(&mut page, Some(&example()), 3);
        let text = page.end("").html;
        for there in [
            "6.1.0-18-amd64",
            "4096 131072 6291456",
            "eth0, 100 Gb/s, MTU 9000<",
            "conns_per_peer 4 (default 1)",
            "CPU</td><td class=\"word\">unknown",
            "3 nodes are on other machines",
        ] {
            assert!(text.contains(there), "{there}: {text}");
        }
        let mut page = Page::new("t", "");
        show(&mut page, None, 0);
        assert!(page.end("").html.contains("do not say"));
    }

    #[test]
    fn a_line_rate_is_known_for_one_device_only() {
        let mut provenance = example();
        assert_eq!(provenance.speed_mbit_s(nid("10.0.0.1@tcp")), Some(100_000));
        assert_eq!(provenance.speed_mbit_s(nid("10.0.0.2@tcp")), None);
        let second = provenance.nodes[0].devices[0].clone();
        provenance.nodes[0].devices.push(second);
        assert_eq!(provenance.speed_mbit_s(nid("10.0.0.1@tcp")), None);
    }
}
