//! The limits of this host, as far as they can be read.

use std::fs;
use std::str::FromStr;

use lustrine_tune::Host;
use serde::Serialize;

/// What this host says of itself. `None` where it does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct HostLimits {
    /// The device that the node uses.
    pub(crate) interface: Option<String>,
    /// Its speed in Mb/s, from /sys.
    pub(crate) speed_mbps: Option<u32>,
    /// Its longest packet, in bytes.
    pub(crate) mtu: Option<u32>,
    /// Least, first and largest receive buffer of TCP, in bytes.
    pub(crate) tcp_rmem: Option<[u64; 3]>,
    /// The same of send buffers.
    pub(crate) tcp_wmem: Option<[u64; 3]>,
    /// The algorithm for new connections.
    pub(crate) congestion_control: Option<String>,
}

/// The numbers of a setting of the kernel.
fn numbers(text: &str) -> Option<[u64; 3]> {
    let mut words = text.split_whitespace().map(u64::from_str);
    let mut next = || words.next()?.ok();
    let all = [next()?, next()?, next()?];
    words.next().is_none().then_some(all)
}

fn setting(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).ok()?;
    Some(text.trim().to_owned())
}

impl HostLimits {
    /// Reads them, for the node's device.
    pub(crate) fn read(interface: Option<&str>) -> HostLimits {
        let all = lustrine_sys::interfaces::interfaces().unwrap_or_default();
        let device = all.iter().find(|device| Some(device.name.as_str()) == interface);
        HostLimits {
            interface: interface.map(str::to_owned),
            speed_mbps: device.and_then(|device| device.speed_mbps),
            mtu: device.and_then(|device| device.mtu),
            tcp_rmem: setting("tcp_rmem").as_deref().and_then(numbers),
            tcp_wmem: setting("tcp_wmem").as_deref().and_then(numbers),
            congestion_control: setting("tcp_congestion_control"),
        }
    }

    /// What the formulas take of it.
    pub(crate) fn limits(&self) -> Host {
        let largest = |values: Option<[u64; 3]>| values.map(|values| values[2]);
        let first = |values: Option<[u64; 3]>| values.map(|[least, first, _]| [least, first]);
        Host {
            tcp_buffers: largest(self.tcp_rmem)
                .zip(largest(self.tcp_wmem))
                .map(|(receive, send)| [receive, send]),
            tcp_first_buffers: first(self.tcp_rmem)
                .zip(first(self.tcp_wmem))
                .map(|(receive, send)| [receive, send]),
            interface_rate: self.speed_mbps.map(|speed| u64::from(speed) * 1_000_000),
            conns_per_peer: None,
        }
    }
}

/// TCP segments that this host has sent again so far, for all its programs.
pub(crate) fn segments_retransmitted() -> Option<u64> {
    counter(&fs::read_to_string("/proc/self/net/snmp").ok()?, "RetransSegs")
}

/// A counter of TCP: one line has the names, the next one the values.
fn counter(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    pairs.find(|(found, _)| *found == name)?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers_are_a_setting() {
        assert_eq!(numbers("4096\t131072\t6291456\n"), Some([4096, 131_072, 6_291_456]));
        for wrong in ["", "1 2", "1 2 3 4", "1 2 x", "1 -2 3"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn counters_are_found_by_name() {
        let text = "Ip: A B\nIp: 1 2\nTcp: RtoMin RetransSegs\nTcp: 200 17\nUdp: A\nUdp: 9\n";
        assert_eq!(counter(text, "RetransSegs"), Some(17));
        assert_eq!((counter(text, "A"), counter("Tcp: X\n", "X")), (None, None));
    }

    #[test]
    fn limits_are_the_largest_buffers_and_bits_per_second() {
        let host = HostLimits {
            speed_mbps: Some(10_000),
            tcp_rmem: Some([1, 2, 3]),
            tcp_wmem: Some([4, 5, 6]),
            ..HostLimits::default()
        };
        let expected = Host {
            tcp_buffers: Some([3, 6]),
            tcp_first_buffers: Some([[1, 2], [4, 5]]),
            interface_rate: Some(10_000_000_000),
            ..Host::default()
        };
        assert_eq!(host.limits(), expected);
        assert_eq!(HostLimits::default().limits(), Host::default());
    }
}
