//! What watching sends, said before it begins.

use crate::thin::HOUR_MS;

/// What is to be done for each peer, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Peers.
    pub peers: u64,
    /// Milliseconds between two samples.
    pub every_ms: u64,
    /// Pings of a sample.
    pub pings: u64,
    /// Bytes of a ping and its answer.
    pub ping_bytes: u64,
    /// Milliseconds between two looks at the path; `None`: no looks.
    pub look_every_ms: Option<u64>,
    /// What a look takes.
    pub look: LookCost,
    /// Milliseconds between two measurements of bandwidth, and their bytes; `None`: none.
    pub load: Option<(u64, u64)>,
}

/// What a look at a path takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookCost {
    /// Bytes that it usually takes, sent and received.
    pub bytes: u64,
    /// The most that it takes, where packets disappear.
    pub bytes_max: u64,
    /// Messages: pings, answers and ICMP.
    pub messages: u64,
}

/// What is sent and received in an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Messages of LNet and ICMP, without those of bandwidth.
    pub messages: u64,
    /// Bytes, usually.
    pub bytes: u64,
    /// The most bytes.
    pub bytes_max: u64,
    /// Those of them that are for bandwidth.
    pub load_bytes: u64,
}

impl Plan {
    /// What it takes in an hour, for all peers, rounded up to whole samples and looks.
    pub fn per_hour(&self) -> Cost {
        let times = |every: u64| HOUR_MS.div_ceil(every.max(1));
        let samples = times(self.every_ms).saturating_mul(self.peers);
        let pings = samples.saturating_mul(self.pings);
        let looks = self.look_every_ms.map_or(0, times).saturating_mul(self.peers);
        let load = self.load.map_or(0, |(every, bytes)| times(every).saturating_mul(bytes));
        let load_bytes = load.saturating_mul(self.peers);
        let small = pings.saturating_mul(self.ping_bytes).saturating_add(load_bytes);
        Cost {
            messages: pings
                .saturating_mul(2)
                .saturating_add(looks.saturating_mul(self.look.messages)),
            bytes: small.saturating_add(looks.saturating_mul(self.look.bytes)),
            bytes_max: small.saturating_add(looks.saturating_mul(self.look.bytes_max)),
            load_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_the_sum_of_its_parts() {
        let look = LookCost { bytes: 1000, bytes_max: 3000, messages: 50 };
        let plan = Plan {
            peers: 2,
            every_ms: 10_000,
            pings: 10,
            ping_bytes: 288,
            look_every_ms: Some(300_000),
            look,
            load: None,
        };
        let small = 2 * 360 * 10 * 288;
        let cost = Cost {
            messages: 2 * 360 * 10 * 2 + 24 * 50,
            bytes: small + 24_000,
            bytes_max: small + 72_000,
            load_bytes: 0,
        };
        assert_eq!(plan.per_hour(), cost);
        let load = Plan { load: Some((1_800_000, 64 << 20)), look_every_ms: None, ..plan };
        let with = load.per_hour();
        assert_eq!((with.load_bytes, with.bytes), (256 << 20, (256 << 20) + small));
        let huge = Plan { every_ms: 0, pings: u64::MAX, ..plan };
        assert_eq!(huge.per_hour().bytes, u64::MAX);
    }
}
