use std::net::UdpSocket;

use super::*;

fn addr(ip: &str, prefix_len: u8) -> InterfaceAddr {
    InterfaceAddr { ip: ip.parse().unwrap(), prefix_len, stable: true }
}

#[test]
fn subnets_are_compared_by_their_leading_bits() {
    let within = |a: InterfaceAddr, b: &str| a.same_subnet(b.parse().unwrap());
    assert!(within(addr("10.1.2.3", 24), "10.1.2.255"));
    assert!(!within(addr("10.1.2.3", 24), "10.1.3.3"));
    assert!(within(addr("10.1.2.3", 0), "192.0.2.1"));
    assert!(within(addr("10.1.2.3", 32), "10.1.2.3"));
    assert!(!within(addr("10.1.2.3", 32), "10.1.2.2"));
    assert!(within(addr("2001:db8::1", 64), "2001:db8::ffff:0:0:1"));
    assert!(!within(addr("2001:db8::1", 64), "2001:db8:0:1::1"));
    assert!(!within(addr("10.1.2.3", 0), "2001:db8::1"), "another version of IP");
}

#[test]
fn the_loopback_interface_is_found() {
    let all = interfaces().unwrap();
    let found = all.iter().find(|i| i.loopback).expect("every network namespace has one");
    assert_eq!(found.speed_mbps, None, "it has no link");
    if found.up {
        assert!(found.addrs.contains(&addr("127.0.0.1", 8)), "{found:?}");
    }
    if Path::new("/sys/class/net").is_dir() {
        assert!(found.mtu.is_some_and(|mtu| mtu >= 1500), "{found:?}");
    }
    assert!(!found.hardware, "{found:?}");
    assert!(all.is_sorted_by(|a, b| (a.index, &a.name) < (b.index, &b.name)), "each name once");
}

#[test]
fn states_are_those_of_the_same_interfaces() {
    let states = link_states().unwrap();
    let loopback = states.iter().find(|link| link.name == "lo").expect("every namespace has one");
    if loopback.up {
        assert!(loopback.running && loopback.ips.contains(&"127.0.0.1".parse().unwrap()));
    }
    assert!(states.is_sorted_by(|a, b| a.name < b.name), "each name once");
}

#[test]
fn addresses_that_pass_are_not_stable() {
    let table = "\
        fe800000000000000000000000000001 02 40 20 80     ens3\n\
        20010db8000000000000000000000001 02 40 00 80     ens3\n\
        20010db8000000000000000000000002 02 40 00 01     ens3\n\
        20010db8000000000000000000000003 02 40 00 21     ens3\n\
        20010db8000000000000000000000004 02 40 00 40     ens3\n\
        20010db8000000000000000000000005 02 40 00 c8     ens3\n\
        20010db8000000000000000000000006 02 40 00 a0     ens3\n\
        20010db8000000000000000000000001 11 40 00 20  docker0\n\
        not a line\n";
    let stable = |ip: &str, device: &str| is_stable(table, ip.parse().unwrap(), device);
    for ip in ["fe80::1", "2001:db8::1", "2001:db8::99"] {
        assert!(stable(ip, "ens3"), "{ip}");
    }
    for ip in 2..=6 {
        assert!(!stable(&format!("2001:db8::{ip}"), "ens3"), "{ip}");
    }
    assert!(!stable("2001:db8::1", "docker0"), "the same address on another device");
}

#[test]
fn bonds_and_bridges_are_hardware_if_a_device_below_them_is() {
    let class = std::env::temp_dir().join(format!("lustrine-sys-below-{}", std::process::id()));
    for path in [
        "ens3/device",
        "bond0/lower_ens3",
        "bond0.7/lower_bond0",
        "veth1",
        "docker0/lower_veth1",
        // No kernel makes such a circle.
        "a/lower_b",
        "b/lower_a",
    ] {
        fs::create_dir_all(class.join(path)).unwrap();
    }
    for (name, expected) in [
        ("ens3", true),
        ("ens3:1", true),
        ("bond0", true),
        ("bond0.7", true),
        ("veth1", false),
        ("docker0", false),
        ("a", false),
        ("absent", false),
    ] {
        let found = describe(name, InterfaceFlags::IFF_UP, &class);
        assert_eq!(found.hardware, expected, "{name}");
    }
    fs::remove_dir_all(class).unwrap();
}

/// As below `nsenter --net`, where /sys stays that of another namespace.
#[test]
fn what_sysfs_says_of_another_device_of_the_name_does_not_count() {
    let class = std::env::temp_dir().join(format!("lustrine-sys-other-{}", std::process::id()));
    let device = class.join("eth0");
    fs::create_dir_all(device.join("device")).unwrap();
    let files = [("mtu", "1500"), ("speed", "25000"), ("device/numa_node", "1")];
    for (name, text) in
        [("ifindex", "2"), ("address", "02:00:00:00:00:0a")].into_iter().chain(files)
    {
        fs::write(device.join(name), format!("{text}\n")).unwrap();
    }
    let with = |index, mtu, address| {
        let link = KernelLink { mtu: Some(mtu), address };
        let found = Interface { index, ..describe("eth0", InterfaceFlags::IFF_UP, &class) };
        let found = found.corrected(Some(&link), &class);
        (found.mtu, found.speed_mbps, found.numa_node, found.hardware)
    };
    let of_it = Some([2, 0, 0, 0, 0, 10]);
    assert_eq!(with(2, 1500, of_it), (Some(1500), Some(25_000), Some(1), true));
    assert_eq!(with(2, 1500, None), (Some(1500), Some(25_000), Some(1), true));
    let unknown = |mtu| (Some(mtu), None, None, false);
    assert_eq!(with(2, 9000, of_it).1, Some(25_000), "its MTU was changed meanwhile");
    assert_eq!(with(2, 9000, None), unknown(9000));
    assert_eq!(with(7, 1500, of_it), unknown(1500));
    assert_eq!(with(2, 1500, Some([2, 0, 0, 0, 0, 11])), unknown(1500));
    fs::remove_dir_all(class).unwrap();
}

/// The kernel and its files agree where /sys is that of this namespace.
#[test]
fn the_kernel_tells_the_mtu() {
    let socket = DeviceSocket::new().unwrap();
    for found in interfaces().unwrap() {
        assert_eq!(KernelLink::of(&socket, &found.name).mtu, found.mtu, "{found:?}");
    }
    assert!(KernelLink::of(&socket, "lo").mtu.is_some_and(|mtu| mtu >= 1500));
    assert_eq!(KernelLink::of(&socket, "absent"), KernelLink { mtu: None, address: None });
}

#[test]
fn every_address_can_be_bound() {
    for interface in interfaces().unwrap().iter().filter(|i| i.up) {
        for InterfaceAddr { ip, .. } in &interface.addrs {
            let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
            // A link-local address needs the name of its interface.
            if !link_local {
                UdpSocket::bind((*ip, 0)).unwrap_or_else(|e| panic!("{interface:?}: {e}"));
            }
        }
    }
}

#[test]
fn what_the_device_does_not_report_is_unknown() {
    let class = std::env::temp_dir().join(format!("lustrine-sys-net-{}", std::process::id()));
    let flags = InterfaceFlags::IFF_UP;
    for (name, speed, expected) in [
        ("fast", "100000\n", Some(100_000)),
        ("virtual", "-1\n", None),
        ("old", "4294967295\n", None),
        ("down", "0\n", None),
    ] {
        fs::create_dir_all(class.join(name).join("device")).unwrap();
        fs::write(class.join(name).join("speed"), speed).unwrap();
        fs::write(class.join(name).join("mtu"), "9000\n").unwrap();
        fs::write(class.join(name).join("device/numa_node"), "-1\n").unwrap();
        let found = describe(name, flags, &class);
        assert_eq!((found.speed_mbps, found.mtu), (expected, Some(9000)), "{name}");
        assert_eq!(found.numa_node, None);
        assert!(found.up && !found.running && !found.loopback);
    }
    fs::write(class.join("fast/device/numa_node"), "1\n").unwrap();
    assert_eq!(describe("fast", flags, &class).numa_node, Some(1));
    assert_eq!(describe("absent", flags, &class).mtu, None);
    let alias = describe("fast:1", flags, &class);
    assert_eq!((alias.name.as_str(), alias.mtu), ("fast:1", Some(9000)));
    assert_eq!(alias.speed_mbps, Some(100_000));
    fs::remove_dir_all(class).unwrap();
}
