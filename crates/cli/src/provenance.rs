//! Where results come from: reads what the system reports about this machine and its network
//! devices, and asks nodes on it for their settings. What is not reported is left out.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use lustrine_control::{Answer, NetInfo, NetRow, Request};
use lustrine_partition::tunables::{TABLE, Tunables};
use lustrine_plan::{ChangedTunable, Machine, NetDevice, NodeSettings};
use lustrine_wire::nid::Nid;

use crate::access::{Link, UsedKind};

/// The root of the file system, where /proc and /sys are.
const ROOT: &str = "/";

/// The device of addresses that reach no other machine.
const LOOPBACK: &str = "lo";

/// Settings of the network stack that decide how fast TCP is.
const SYSCTLS: [&str; 6] = [
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// This machine.
pub(crate) fn machine() -> Machine {
    machine_at(Path::new(ROOT))
}

/// Our node, as it answers. A node in another network namespace has other devices than this
/// process can see, so none are named.
pub(crate) fn of_link(link: &mut Link) -> Option<NodeSettings> {
    let nid = link.used().nid()?;
    let version = (link.used().kind == UsedKind::Temporary).then(own_version);
    let devices_are_ours = !link.used().is_elsewhere();
    let mut settings = of_node(nid, version, &mut |request| link.ask(request).ok());
    if !devices_are_ours {
        settings.devices.clear();
    }
    Some(settings)
}

/// A node on this machine, as it answers; a node that this program has started has its version.
pub(crate) fn of_node(
    nid: Nid,
    version: Option<String>,
    ask: &mut dyn FnMut(&Request) -> Option<Answer>,
) -> NodeSettings {
    let devices = match ask(&Request::ShowNet) {
        Some(Answer::Net(info)) => devices(&info),
        _ => Vec::new(),
    };
    let changed_tunables = match ask(&Request::ShowTunables) {
        Some(Answer::Tunables { values, .. }) => Some(changed(&values)),
        _ => None,
    };
    NodeSettings { nid, version, devices, changed_tunables }
}

/// The release of this program.
pub(crate) fn own_version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The devices of a node's interfaces, each once.
fn devices(info: &NetInfo) -> Vec<NetDevice> {
    let name = |net: &'_ NetRow| match &net.interface {
        Some(name) => Some(name.clone()),
        // The system has all of 127.0.0.0/8 on this device, without a list of its addresses.
        None => net.nid.ip().filter(IpAddr::is_loopback).map(|_| LOOPBACK.to_owned()),
    };
    let mut names: Vec<String> = info.nets.iter().filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| device_at(Path::new(ROOT), &name)).collect()
}

/// Tunables that have other values than their defaults. Those that this release does not know, of
/// a node of another one, have no known default and are left out.
fn changed(values: &BTreeMap<String, i64>) -> BTreeMap<String, ChangedTunable> {
    let defaults = Tunables::default();
    let rows = TABLE.iter().filter_map(|row| {
        let (value, default) = (*values.get(row.name)?, defaults.value(row.name)?);
        (value != default).then(|| (row.name.to_owned(), ChangedTunable { value, default }))
    });
    rows.collect()
}

fn machine_at(root: &Path) -> Machine {
    let cpuinfo = text(&root.join("proc/cpuinfo"));
    let fields = |name: &'static str| {
        let lines = cpuinfo.iter().flat_map(|text| text.lines());
        let pairs = lines.filter_map(|line| line.split_once(':'));
        pairs.filter(move |(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let sysctl = |name: &&str| {
        let value = text(&root.join("proc/sys").join(name.replace('.', "/")))?;
        // The three sizes of tcp_rmem have tabs between them.
        let words: Vec<&str> = value.split_whitespace().collect();
        Some(((*name).to_owned(), words.join(" ")))
    };
    Machine {
        kernel: text(&root.join("proc/sys/kernel/osrelease")),
        cpu_model: fields("model name").next().map(str::to_owned),
        cpus: u32::try_from(fields("processor").count()).ok().filter(|count| *count > 0),
        sysctls: SYSCTLS.iter().filter_map(sysctl).collect(),
    }
}

fn device_at(root: &Path, name: &str) -> NetDevice {
    let device = root.join("sys/class/net").join(name);
    // A device without a link has speed -1, or none.
    let number = |file: &str| text(&device.join(file))?.parse::<u32>().ok();
    let driver = fs::read_link(device.join("device/driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    NetDevice {
        name: name.to_owned(),
        speed_mbit_s: number("speed").filter(|speed| *speed > 0),
        mtu: number("mtu"),
        driver,
    }
}

/// A file's text without blanks at its ends; `None` if it cannot be read or is empty.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn root(files: &[(&str, &str)]) -> TempDir {
        let root = TempDir::new().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_machine_is_read_from_proc() {
        let root = root(&[
            ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: A CPU: fast\n\nprocessor\t: 1\nmodel name\t: B\n",
            ),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
            ("proc/sys/net/core/rmem_max", "212992\n"),
            ("proc/sys/net/core/wmem_max", "\n"),
        ]);
        let machine = machine_at(root.path());
        assert_eq!(machine.kernel.as_deref(), Some("6.1.0-18-amd64"));
        assert_eq!((machine.cpu_model.as_deref(), machine.cpus), (Some("A CPU: fast"), Some(2)));
        let sysctls: Vec<(&str, &str)> =
            machine.sysctls.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let wanted =
            [("net.core.rmem_max", "212992"), ("net.ipv4.tcp_rmem", "4096 131072 6291456")];
        assert_eq!(sysctls, wanted, "what cannot be read is left out");
    }

    #[test]
    fn nothing_is_made_up_where_the_system_tells_nothing() {
        let root =
            root(&[("sys/class/net/eth1/speed", "-1\n"), ("proc/cpuinfo", "Features: fp\n")]);
        assert_eq!(machine_at(root.path()), Machine::default());
        let unknown = |name: &str| NetDevice { name: name.to_owned(), ..NetDevice::default() };
        for name in ["eth0", "eth1"] {
            assert_eq!(device_at(root.path(), name), unknown(name));
        }
    }

    #[test]
    fn a_device_has_speed_mtu_and_driver() {
        let root =
            root(&[("sys/class/net/eth0/speed", "100000\n"), ("sys/class/net/eth0/mtu", "9000\n")]);
        let device = root.path().join("sys/class/net/eth0/device");
        fs::create_dir(&device).unwrap();
        std::os::unix::fs::symlink("../../bus/pci/drivers/mlx5_core", device.join("driver"))
            .unwrap();
        let device = device_at(root.path(), "eth0");
        assert_eq!((device.speed_mbit_s, device.mtu), (Some(100_000), Some(9000)));
        assert_eq!(device.driver.as_deref(), Some("mlx5_core"));
    }

    #[test]
    fn only_tunables_that_differ_are_changed() {
        let defaults = Tunables::default();
        let row = &TABLE[0];
        let mut values: BTreeMap<String, i64> = TABLE
            .iter()
            .map(|row| (row.name.to_owned(), defaults.value(row.name).unwrap()))
            .collect();
        values.insert("of_another_release".to_owned(), 7);
        assert_eq!(changed(&values), BTreeMap::new());
        values.insert(row.name.to_owned(), row.default + 1);
        let wanted = ChangedTunable { value: row.default + 1, default: row.default };
        assert_eq!(changed(&values), [(row.name.to_owned(), wanted)].into());
    }
}
