//! What the driver of a network device says of its queues: by ioctl, which is of the network
//! namespace of this thread, where /sys is of the one in which it was mounted.

use std::fs;
use std::io;
use std::str::FromStr;

use crate::interface_setup::{DeviceSocket, request};

/// The queues of a network device. `None` where its driver does not say it, as those of virtual
/// devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceQueues {
    /// Packets that may wait for the device in its first queueing discipline (`txqueuelen`).
    pub tx_queue_len: Option<u32>,
    /// Pairs of queues of the hardware that are used, and how many there can be.
    pub channels: Option<InUse>,
    /// Packets that the hardware's queue for those that arrive has room for.
    pub rx_ring: Option<InUse>,
    /// The same for those that leave.
    pub tx_ring: Option<InUse>,
    /// Whether the device cuts large packets of TCP into segments (TSO).
    pub segmentation: Option<bool>,
    /// Whether the kernel gives segments of a stream to TCP together (GRO).
    pub receive_offload: Option<bool>,
    /// Whether the device computes checksums of packets that leave.
    pub checksums: Option<bool>,
}

/// How many of something are in use, and how many there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// In use.
    pub now: u32,
    /// As many as there can be.
    pub most: u32,
}

/// Packets that a device has dropped since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceDrops {
    /// Packets that arrived: for lack of room, and those of protocols that this host lacks.
    pub received: u64,
    /// Packets that were to leave.
    pub sent: u64,
}

// Of linux/sockios.h and linux/ethtool.h.
const SIOCGIFTXQLEN: libc::c_ulong = 0x8942;
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GRINGPARAM: u32 = 0x10;
const ETHTOOL_GTXCSUM: u32 = 0x16;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGRO: u32 = 0x2b;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// A question to the driver of one device.
struct Driver<'a> {
    socket: DeviceSocket,
    name: &'a str,
}

impl Driver<'_> {
    fn tx_queue_len(&self) -> Option<u32> {
        let mut request = request(self.name).ok()?;
        self.socket.call(SIOCGIFTXQLEN, &mut request).ok()?;
        // SAFETY: the kernel has written this field of the union, an integer.
        let len = unsafe { request.ifr_ifru.ifru_metric };
        u32::try_from(len).ok()
    }

    /// An ethtool command of `N` numbers, of which the first one is the command: what it returns.
    fn ask<const N: usize>(&self, command: u32) -> Option<[u32; N]> {
        let mut numbers = [0; N];
        numbers[0] = command;
        let mut request = request(self.name).ok()?;
        // Each command of this module reads and writes as many numbers as it is asked for with.
        request.ifr_ifru.ifru_data = numbers.as_mut_ptr().cast();
        self.socket.call(SIOCETHTOOL, &mut request).ok()?;
        Some(numbers)
    }

    fn flag(&self, command: u32) -> Option<bool> {
        // struct ethtool_value.
        let [_, value] = self.ask::<2>(command)?;
        Some(value != 0)
    }
}

/// What the driver of a device says of its queues.
///
/// # Errors
/// When descriptors or memory are used up.
pub fn queues(name: &str) -> io::Result<DeviceQueues> {
    let driver = Driver { socket: DeviceSocket::new()?, name };
    let in_use = |now: u32, most: u32| (most > 0).then_some(InUse { now, most });
    // struct ethtool_ringparam: command, the most of four kinds, and the same four now.
    let rings = driver.ask::<9>(ETHTOOL_GRINGPARAM);
    let [rx_ring, tx_ring] = match rings {
        Some([_, rx_most, _, _, tx_most, rx, _, _, tx]) => {
            [in_use(rx, rx_most), in_use(tx, tx_most)]
        }
        None => [None, None],
    };
    // struct ethtool_channels: the command, the most of rx, tx, other and combined, then now.
    let channels = driver.ask::<9>(ETHTOOL_GCHANNELS).and_then(
        |[_, rx_most, tx_most, _, combined_most, rx, tx, _, combined]| {
            let now = combined.saturating_add(rx.min(tx));
            in_use(now, combined_most.max(rx_most.min(tx_most)).max(now))
        },
    );
    Ok(DeviceQueues {
        tx_queue_len: driver.tx_queue_len(),
        channels,
        rx_ring,
        tx_ring,
        segmentation: driver.flag(ETHTOOL_GTSO),
        receive_offload: driver.flag(ETHTOOL_GGRO),
        checksums: driver.flag(ETHTOOL_GTXCSUM),
    })
}

/// What a device has dropped, as /proc/net/dev of this thread's network namespace has it; `None` if
/// it is not there.
pub fn drops(name: &str) -> Option<DeviceDrops> {
    drops_in(&fs::read_to_string("/proc/thread-self/net/dev").ok()?, name)
}

/// Each line has the name and a colon, then eight numbers of what arrived and eight of what left:
/// bytes, packets, errors, drops, FIFO errors and others.
fn drops_in(table: &str, name: &str) -> Option<DeviceDrops> {
    let of_device = |line: &str| {
        let (found, numbers) = line.split_once(':')?;
        (found.trim() == name).then(|| numbers.to_owned())
    };
    let numbers = table.lines().find_map(of_device)?;
    let numbers: Vec<u64> =
        numbers.split_whitespace().map(u64::from_str).collect::<Result<_, _>>().ok()?;
    let both = |drops: usize| Some(numbers.get(drops)?.saturating_add(*numbers.get(drops + 1)?));
    Some(DeviceDrops { received: both(3)?, sent: both(11)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_those_of_the_device() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
  eth0:100 2 3 40 2 6 7 8 9 10 11 12 1 14 15 16
";
        assert_eq!(drops_in(table, "eth0"), Some(DeviceDrops { received: 42, sent: 13 }));
        assert_eq!(drops_in(table, "lo"), Some(DeviceDrops { received: 9, sent: 25 }));
        assert_eq!(drops_in(table, "eth1"), None);
        assert_eq!(drops_in("eth0: 1 2 3\n", "eth0"), None);
    }

    #[test]
    fn the_loopback_device_has_a_queue_and_no_rings() {
        let queues = queues("lo").expect("a socket");
        assert!(queues.tx_queue_len.is_some(), "{queues:?}");
        assert_eq!((queues.rx_ring, queues.tx_ring, queues.channels), (None, None, None));
        assert_eq!(queues.receive_offload, Some(true), "every device has GRO at first");
        assert!(drops("lo").is_some());
        let none = super::queues("no such").expect("a socket");
        assert_eq!(none, DeviceQueues::default());
        assert_eq!(drops("no such"), None);
    }
}
