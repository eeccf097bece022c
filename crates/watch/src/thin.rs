//! Rows of many samples: what is kept of old ones, and what reports show.

use serde::{Deserialize, Serialize};

use crate::sample::{Rtt, Sample};

/// Milliseconds of an hour.
pub const HOUR_MS: u64 = 3_600_000;

/// What some samples of a peer come to.
///
/// Counts, the shortest and the longest round trip are exact. The median is that of the samples'
/// medians, and the 99th percentile that of the samples' 99th percentiles, each weighted with the
/// samples of the rows that it is computed from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The beginning of the hour, or of another period: milliseconds since 1970.
    #[serde(rename = "at")]
    pub at_ms: u64,
    /// Samples.
    #[serde(rename = "n")]
    pub samples: u64,
    /// Samples in which at least one ping was answered.
    #[serde(rename = "a")]
    pub answered: u64,
    /// Pings that were sent.
    #[serde(rename = "s")]
    pub sent: u64,
    /// Pings that were not answered in time.
    #[serde(rename = "l")]
    pub lost: u64,
    /// Round trips.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub rtt: Option<Rtt>,
    /// The least size of the longest packets to the peer, in bytes.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub mtu_out: Option<u32>,
    /// The same from the peer.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub mtu_back: Option<u32>,
    /// Hops to the peer, at the last look.
    #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
    pub hops_out: Option<u8>,
    /// The same from the peer.
    #[serde(rename = "hb", default, skip_serializing_if = "Option::is_none")]
    pub hops_back: Option<u8>,
    /// The lowest rate of reads, in bits per second.
    #[serde(rename = "br", default, skip_serializing_if = "Option::is_none")]
    pub read: Option<u64>,
    /// The lowest rate of writes.
    #[serde(rename = "bw", default, skip_serializing_if = "Option::is_none")]
    pub write: Option<u64>,
}

/// The lesser of two values of which some may be missing.
fn least<T: Ord>(one: Option<T>, two: Option<T>) -> Option<T> {
    match (one, two) {
        (Some(one), Some(two)) => Some(one.min(two)),
        (one, two) => one.or(two),
    }
}

impl From<&Sample> for Row {
    fn from(sample: &Sample) -> Row {
        let path = sample.path.as_ref();
        Row {
            at_ms: sample.at_ms,
            samples: 1,
            answered: u64::from(sample.is_answered()),
            sent: u64::from(sample.sent),
            lost: u64::from(sample.lost),
            rtt: sample.rtt,
            mtu_out: path.and_then(|path| path.mtu_out),
            mtu_back: path.and_then(|path| path.mtu_back),
            hops_out: path.and_then(|path| path.route.hops_out),
            hops_back: path.and_then(|path| path.route.hops_back),
            read: sample.bandwidth.and_then(|bandwidth| bandwidth.read),
            write: sample.bandwidth.and_then(|bandwidth| bandwidth.write),
        }
    }
}

impl Row {
    /// One row of several; an empty list gives an empty row.
    pub fn of(at_ms: u64, rows: &[Row]) -> Row {
        let mut all = Row { at_ms, ..Row::default() };
        for row in rows {
            all.samples += row.samples;
            all.answered += row.answered;
            all.sent += row.sent;
            all.lost += row.lost;
            all.mtu_out = least(all.mtu_out, row.mtu_out);
            all.mtu_back = least(all.mtu_back, row.mtu_back);
            all.hops_out = row.hops_out.or(all.hops_out);
            all.hops_back = row.hops_back.or(all.hops_back);
            all.read = least(all.read, row.read);
            all.write = least(all.write, row.write);
        }
        let rtts = || rows.iter().filter_map(|row| Some((row.rtt?, row.answered.max(1))));
        all.rtt = rtts().map(|(rtt, _)| rtt.min_ns).min().and_then(|min_ns| {
            Some(Rtt {
                min_ns,
                median_ns: weighted(rtts().map(|(rtt, weight)| (rtt.median_ns, weight)), 50)?,
                p99_ns: weighted(rtts().map(|(rtt, weight)| (rtt.p99_ns, weight)), 99)?,
                max_ns: rtts().map(|(rtt, _)| rtt.max_ns).max()?,
            })
        });
        all
    }
}

/// A percentile of values with weights (nearest rank).
fn weighted(values: impl Iterator<Item = (u64, u64)>, percent: u64) -> Option<u64> {
    let mut sorted: Vec<(u64, u64)> = values.collect();
    sorted.sort_unstable();
    let all: u64 = sorted.iter().map(|(_, weight)| weight).sum();
    let rank = (u128::from(all) * u128::from(percent)).div_ceil(100).max(1);
    let mut below = 0_u128;
    sorted.into_iter().find_map(|(value, weight)| {
        below += u128::from(weight);
        (below >= rank).then_some(value)
    })
}

/// What becomes of old samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thinned {
    /// Rows, each under the number of its first sample.
    pub rows: Vec<(u64, Row)>,
    /// The numbers of the samples that they replace.
    pub replaced: Vec<u64>,
}

/// Makes hourly rows of samples, which are in the order in which they were taken and have ascending
/// numbers. Only whole hours that ended at or before `until_ms` are replaced, and never the latest
/// one, which may go on. After a step of the clock an hour may have several rows.
///
/// What was taken before a sample of before `until_ms` is older than that, whatever time it has: a
/// clock that was ahead for a while, and was corrected, does not keep samples from being replaced.
pub fn thin(samples: &[(u64, Sample)], until_ms: u64) -> Thinned {
    let mut thinned = Thinned::default();
    let groups = samples.chunk_by(|(_, one), (_, two)| one.at_ms / HOUR_MS == two.at_ms / HOUR_MS);
    let groups: Vec<&[(u64, Sample)]> = groups.collect();
    let is_old = |group: &&[(u64, Sample)]| group.iter().any(|(_, one)| one.at_ms < until_ms);
    let Some(last_old) = groups.iter().rposition(is_old) else { return thinned };
    for (at, group) in groups.iter().enumerate().take(last_old + 1) {
        let hour = group[0].1.at_ms / HOUR_MS;
        let has_ended = (hour + 1).saturating_mul(HOUR_MS) <= until_ms;
        if at == last_old && (!has_ended || at + 1 == groups.len()) {
            break;
        }
        let rows: Vec<Row> = group.iter().map(|(_, sample)| Row::from(sample)).collect();
        thinned.rows.push((group[0].0, Row::of(hour * HOUR_MS, &rows)));
        thinned.replaced.extend(group.iter().map(|(number, _)| *number));
    }
    thinned
}

/// Rows of a period each, in milliseconds, from rows of shorter ones, ascending by time.
pub fn by_period(mut rows: Vec<Row>, period_ms: u64) -> Vec<Row> {
    let period = period_ms.max(1);
    rows.sort_by_key(|row| row.at_ms);
    let groups = rows.chunk_by(|one, two| one.at_ms / period == two.at_ms / period);
    groups.map(|group| Row::of(group[0].at_ms / period * period, group)).collect()
}

#[cfg(test)]
mod tests;
