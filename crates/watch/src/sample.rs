//! What was seen of a peer at one moment.

use serde::{Deserialize, Serialize};

/// Fewest pings of a sample from which all alarms follow. The median of two is the shorter one, so
/// that no queue shows; and one that is lost alone leaves a sample without an answer, which says
/// nothing of losses.
pub const PINGS_MIN: u32 = 3;

/// One sample. Its fields have short names in files, because there are many of them; what a later
/// release adds is skipped by an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When it began: milliseconds since 1970 by the wall clock.
    #[serde(rename = "at")]
    pub at_ms: u64,
    /// Pings that were sent.
    #[serde(rename = "s")]
    pub sent: u32,
    /// Pings that were not answered in time.
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    pub lost: u32,
    /// Round trips of the answered ones; `None` if there were none.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Rtt>,
    /// What was seen of the path, if it was looked at.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSample>,
    /// What the path carried, if that was measured.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<Bandwidth>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

impl Sample {
    /// Whether any ping was answered.
    pub fn is_answered(&self) -> bool {
        self.rtt.is_some()
    }
}

/// Round trips of the pings of a sample, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "[u64; 4]", into = "[u64; 4]")]
pub struct Rtt {
    /// The shortest.
    pub min_ns: u64,
    /// The median.
    pub median_ns: u64,
    /// The 99th percentile: of fewer than 100 pings the longest.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl From<[u64; 4]> for Rtt {
    fn from([min_ns, median_ns, p99_ns, max_ns]: [u64; 4]) -> Rtt {
        Rtt { min_ns, median_ns, p99_ns, max_ns }
    }
}

impl From<Rtt> for [u64; 4] {
    fn from(rtt: Rtt) -> [u64; 4] {
        [rtt.min_ns, rtt.median_ns, rtt.p99_ns, rtt.max_ns]
    }
}

impl Rtt {
    /// Of some times in nanoseconds; `None` if there are none.
    pub fn of(mut times: Vec<u64>) -> Option<Rtt> {
        times.sort_unstable();
        Some(Rtt {
            min_ns: *times.first()?,
            median_ns: percentile(&times, 50)?,
            p99_ns: percentile(&times, 99)?,
            max_ns: *times.last()?,
        })
    }

    /// How much longer the median is than the shortest: what waited in queues.
    pub fn queue_ns(&self) -> u64 {
        self.median_ns.saturating_sub(self.min_ns)
    }
}

/// The smallest of sorted values that so many percent of them do not exceed (nearest rank).
pub(crate) fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// What a look at the path showed. `None` is what could not be seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSample {
    /// The longest IP packet that arrived at the peer, in bytes.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub mtu_out: Option<u32>,
    /// The same from the peer.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub mtu_back: Option<u32>,
    /// How packets leave, and how far it is.
    #[serde(rename = "r", default)]
    pub route: Route,
}

/// A route as this host sees it. `None` is what could not be seen, and differs from nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The source address.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The interface by which packets leave.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The next router; `None` also if there is none.
    #[serde(rename = "g", default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// Hops to the peer: 1 without a router.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub hops_out: Option<u8>,
    /// Hops from the peer, from the TTL of its answers.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub hops_back: Option<u8>,
}

/// What a short load carried, in bits per second; `None` if there was no result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bandwidth {
    /// Reads: data from the peer.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub read: Option<u64>,
    /// Writes: data to the peer.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub write: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let rtt = Rtt::of(vec![40, 10, 30, 20]).expect("there are some");
        assert_eq!(rtt, Rtt { min_ns: 10, median_ns: 20, p99_ns: 40, max_ns: 40 });
        assert_eq!(rtt.queue_ns(), 10);
        assert_eq!(Rtt::of(Vec::new()), None);
        let hundred: Vec<u64> = (1..=200).collect();
        assert_eq!(percentile(&hundred, 99), Some(198));
    }

    /// The form in files stays the same: older files are read by later releases.
    #[test]
    fn the_form_in_files_is_short_and_fixed() {
        let sample = Sample {
            at_ms: 1_764_072_000_123,
            sent: 10,
            lost: 1,
            rtt: Some(Rtt { min_ns: 1, median_ns: 2, p99_ns: 3, max_ns: 4 }),
            path: Some(PathSample {
                mtu_out: Some(9000),
                mtu_back: None,
                route: Route { hops_out: Some(1), ..Route::default() },
            }),
            bandwidth: Some(Bandwidth { read: Some(5), write: None }),
        };
        let text = concat!(
            r#"{"at":1764072000123,"s":10,"l":1,"r":[1,2,3,4],"#,
            r#""p":{"o":9000,"r":{"o":1}},"b":{"r":5}}"#
        );
        assert_eq!(serde_json::to_string(&sample).expect("JSON"), text);
        assert_eq!(serde_json::from_str::<Sample>(text).expect("a sample"), sample);
        let shortest: Sample =
            serde_json::from_str(r#"{"at":0,"s":2,"new":[]}"#).expect("a sample");
        assert_eq!(shortest, Sample { sent: 2, ..Sample::default() });
    }
}
