//! The limits of this host, as far as they can be read.

use std::fs;
use std::str::FromStr;

use lustrine_sys::device::{self, DeviceDrops};
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
    /// The queues of the device and what it does itself.
    pub(crate) device: Device,
    /// Whether hardware is behind it.
    #[serde(skip)]
    pub(crate) hardware: bool,
}

/// The queues of a network device, and what it takes off the CPUs. `None` where its driver does not
/// say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Device {
    /// Packets that may wait for it (`txqueuelen`).
    pub(crate) tx_queue_len: Option<u32>,
    /// Pairs of hardware queues: used, and possible.
    pub(crate) channels: Option<[u32; 2]>,
    /// Packets that fit into the ring of those that arrive: now, and at most.
    pub(crate) rx_ring: Option<[u32; 2]>,
    /// The same of those that leave.
    pub(crate) tx_ring: Option<[u32; 2]>,
    /// TCP segmentation offload.
    pub(crate) tso: Option<bool>,
    /// Generic receive offload.
    pub(crate) gro: Option<bool>,
    /// Checksums of packets that leave.
    pub(crate) tx_checksums: Option<bool>,
}

/// Packets that a device dropped in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Dropped {
    /// Packets that arrived.
    pub(crate) received: u64,
    /// Packets that were to leave.
    pub(crate) sent: u64,
}

impl Device {
    fn read(name: Option<&str>) -> Device {
        let queues = name.and_then(|name| device::queues(name).ok()).unwrap_or_default();
        let pair = |in_use: Option<device::InUse>| in_use.map(|both| [both.now, both.most]);
        Device {
            tx_queue_len: queues.tx_queue_len,
            channels: pair(queues.channels),
            rx_ring: pair(queues.rx_ring),
            tx_ring: pair(queues.tx_ring),
            tso: queues.segmentation,
            gro: queues.receive_offload,
            tx_checksums: queues.checksums,
        }
    }
}

impl Dropped {
    /// What a device has dropped so far; `None` if it does not say.
    pub(crate) fn so_far(interface: Option<&str>) -> Option<Dropped> {
        let DeviceDrops { received, sent } = device::drops(interface?)?;
        Some(Dropped { received, sent })
    }

    /// Since an earlier look.
    pub(crate) fn since(self, earlier: Dropped) -> Dropped {
        Dropped {
            received: self.received.saturating_sub(earlier.received),
            sent: self.sent.saturating_sub(earlier.sent),
        }
    }
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
            device: Device::read(interface),
            hardware: device.is_some_and(|device| device.hardware),
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
            ..Host::default()
        }
    }
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
