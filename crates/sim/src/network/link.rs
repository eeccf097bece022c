//! The connection of two hosts.

use lustrine_lnet::time::Nanos;

use super::{HostId, Network, pair};

/// How reads and writes are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Everything that is there, or fits, is moved at once.
    Whole,
    /// Each call moves a random part, and sometimes nothing.
    Random,
    /// Each call moves at most this number of bytes.
    AtMost(usize),
}

/// The connection of two hosts; the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The time from sending to arrival; at least a microsecond, so that time passes.
    pub latency: Nanos,
    /// The largest random addition to the latency; the data of one end stays in order.
    pub jitter: Nanos,
    /// Bytes that one end may have written and the other has not read.
    pub window: usize,
    /// How reads and writes are divided.
    pub chunking: Chunking,
}

impl Default for Link {
    /// 50 us, no jitter, 256 KiB, undivided.
    fn default() -> Link {
        Link {
            latency: Nanos(50_000),
            jitter: Nanos(0),
            window: 256 << 10,
            chunking: Chunking::Whole,
        }
    }
}

impl Link {
    pub(super) fn latency(&self) -> Nanos {
        self.latency.max(Nanos(1000))
    }
}

impl Network {
    /// The default connection of two hosts.
    pub fn set_usual_link(&mut self, link: Link) {
        self.usual = link;
    }

    /// The connection of two hosts.
    pub fn set_link(&mut self, one: HostId, two: HostId, link: Link) {
        self.links.insert(pair(one, two), link);
    }

    pub(super) fn link(&self, one: HostId, two: HostId) -> Link {
        if self.links.is_empty() {
            return self.usual;
        }
        self.links.get(&pair(one, two)).copied().unwrap_or(self.usual)
    }
}
