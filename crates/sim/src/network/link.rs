//! How two hosts are connected.

use lustrine_lnet::time::Nanos;

use super::{HostId, Network, pair};

/// How reads and writes are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// Whatever is there, or fits, is moved at once.
    Whole,
    /// Each call moves a random part, now and then nothing.
    Random,
    /// Each call moves at most so many bytes.
    AtMost(usize),
}

/// The way between two hosts; the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// From sending to arrival; at least a microsecond, so that time passes.
    pub latency: Nanos,
    /// Up to so much more, at random; what one end sends stays in sequence.
    pub jitter: Nanos,
    /// Bytes that one end may have written and the other not read.
    pub window: usize,
    /// How reads and writes are cut.
    pub chunking: Chunking,
}

impl Default for Link {
    /// 50 us, no jitter, 256 KiB, uncut.
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
    /// How hosts are connected unless said otherwise.
    pub fn set_usual_link(&mut self, link: Link) {
        self.usual = link;
    }

    /// How two hosts are connected.
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
