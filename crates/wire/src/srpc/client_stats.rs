//! A client's statistics of a test, as Lustrine nodes exchange them: numbers with seven bits per
//! byte, the lowest bits first, so that there is no byte order.

/// Buckets of latencies: 64 per doubling, from 0 to 2^63 - 1 nanoseconds.
pub const LATENCY_BUCKETS: u32 = 64 * 54;

/// Largest number of kinds of errors that are distinguished.
pub const ERROR_KINDS_MAX: usize = 32;

/// Longest encoding in bytes: more than both lists of buckets can need.
pub const CLIENT_STATS_LEN_MAX: u32 = 80 << 10;

/// The first byte: the version of this encoding.
const FORM: u64 = 1;

/// What one client measured in one test since the test was added. Counts only grow, so that the
/// counts of an interval are differences.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClientStats {
    /// Nanoseconds for which the test has run; 0 if it never did. Releases without
    /// [`details`](ClientStats::details) count on after the test was stopped.
    pub age: u64,
    /// Units that are active.
    pub active: u32,
    /// RPCs that succeeded while the test ran.
    pub ops: u64,
    /// Payload bytes that they moved.
    pub bytes: u64,
    /// RPCs that began while the test ran and failed, by kind: a positive errno is the server's, a
    /// negative one the client's. At most [`ERROR_KINDS_MAX`] kinds; those of further kinds are
    /// counted as the last one.
    pub failed: Vec<(i32, u64)>,
    /// Of the RPCs that began while the test ran and succeeded, how many took how long from when
    /// they were sent: numbers of buckets, below [`LATENCY_BUCKETS`], growing; [`bucket_start`]
    /// says where each begins.
    pub latencies: Vec<(u32, u64)>,
    /// What earlier releases do not send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<ClientStatsDetails>,
}

/// The later part of [`ClientStats`]. A node that sends it also counts latencies and failures of
/// RPCs that ended after the test was stopped.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClientStatsDetails {
    /// RPCs that were given up without an answer; they are among the failures too.
    pub lost: u64,
    /// Nanoseconds that the oldest of these was old when it was given up.
    pub lost_age_max: u64,
    /// Of a test with a rate: latencies from when each RPC was due, in the same buckets. RPCs that
    /// were never sent, because they could not be for too long, count here alone.
    pub due_latencies: Vec<(u32, u64)>,
}

/// Where a bucket of latencies begins, in nanoseconds; it ends where the next one begins. The first
/// 128 buckets are 16 ns wide; then each group of 64 buckets is twice as wide as the group before,
/// from 32 ns.
///
/// # Panics
/// When it is [`LATENCY_BUCKETS`] or more.
pub const fn bucket_start(bucket: u32) -> u64 {
    assert!(bucket < LATENCY_BUCKETS);
    let doublings = if bucket < 128 { 0 } else { bucket / 64 - 1 };
    ((bucket - 64 * doublings) as u64 * 16) << doublings
}

/// Why bytes are not client statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClientStatsError {
    /// They end too soon.
    #[error("truncated client statistics")]
    Short,
    /// They have another version.
    #[error("client statistics of version {0}; this release reads version 1")]
    Form(u64),
    /// A number or a count is out of its range.
    #[error("invalid client statistics")]
    Nonsense,
}

impl ClientStats {
    /// The encoding; at most [`CLIENT_STATS_LEN_MAX`] if buckets and kinds are within their limits.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let head = [FORM, self.age, u64::from(self.active), self.ops, self.bytes];
        head.into_iter().for_each(|number| put(&mut out, number));
        put(&mut out, self.failed.len() as u64);
        for (kind, count) in &self.failed {
            put(&mut out, u64::from(*kind as u32));
            put(&mut out, *count);
        }
        put_buckets(&mut out, &self.latencies);
        if let Some(ClientStatsDetails { lost, lost_age_max, due_latencies }) = &self.details {
            put(&mut out, *lost);
            put(&mut out, *lost_age_max);
            put_buckets(&mut out, due_latencies);
        }
        out
    }

    /// Reads the bytes. Those of an earlier release end before the details; bytes behind these
    /// belong to a later release and are ignored.
    ///
    /// # Errors
    /// [`ClientStatsError`].
    pub fn parse(mut bytes: &[u8]) -> Result<ClientStats, ClientStatsError> {
        let from = &mut bytes;
        let form = next(from)?;
        if form != FORM {
            return Err(ClientStatsError::Form(form));
        }
        let mut stats = ClientStats {
            age: next(from)?,
            active: number(next(from)?)?,
            ops: next(from)?,
            bytes: next(from)?,
            ..ClientStats::default()
        };
        let kinds = next(from)?;
        if kinds > ERROR_KINDS_MAX as u64 {
            return Err(ClientStatsError::Nonsense);
        }
        for _ in 0..kinds {
            stats.failed.push((number(next(from)?)? as i32, next(from)?));
        }
        stats.latencies = next_buckets(from)?;
        if !from.is_empty() {
            stats.details = Some(ClientStatsDetails {
                lost: next(from)?,
                lost_age_max: next(from)?,
                due_latencies: next_buckets(from)?,
            });
        }
        Ok(stats)
    }
}

fn put_buckets(out: &mut Vec<u8>, buckets: &[(u32, u64)]) {
    put(out, buckets.len() as u64);
    let mut last = 0;
    for (bucket, count) in buckets {
        put(out, u64::from(bucket.wrapping_sub(last)));
        put(out, *count);
        last = *bucket;
    }
}

fn next_buckets(from: &mut &[u8]) -> Result<Vec<(u32, u64)>, ClientStatsError> {
    let count = next(from)?;
    if count > u64::from(LATENCY_BUCKETS) {
        return Err(ClientStatsError::Nonsense);
    }
    let mut buckets = Vec::new();
    let mut last = None;
    for _ in 0..count {
        let step = number(next(from)?)?;
        let bucket = last.unwrap_or(0u32).checked_add(step).filter(|b| *b < LATENCY_BUCKETS);
        let bucket = bucket.ok_or(ClientStatsError::Nonsense)?;
        if last.is_some() && step == 0 {
            return Err(ClientStatsError::Nonsense);
        }
        buckets.push((bucket, next(from)?));
        last = Some(bucket);
    }
    Ok(buckets)
}

fn number(value: u64) -> Result<u32, ClientStatsError> {
    u32::try_from(value).map_err(|_| ClientStatsError::Nonsense)
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn next(from: &mut &[u8]) -> Result<u64, ClientStatsError> {
    let mut number = 0u64;
    for place in 0..10 {
        let (byte, rest) = from.split_first().ok_or(ClientStatsError::Short)?;
        *from = rest;
        let bits = u64::from(byte & 0x7f);
        if place == 9 && bits > 1 {
            return Err(ClientStatsError::Nonsense);
        }
        number |= bits << (7 * place);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(ClientStatsError::Nonsense)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn malformed_statistics_are_refused() {
        assert_eq!(ClientStats::parse(&[]), Err(ClientStatsError::Short));
        assert_eq!(ClientStats::parse(&[2, 0]), Err(ClientStatsError::Form(2)));
        assert_eq!(ClientStats::parse(&[1, 0, 0, 0, 0, 33]), Err(ClientStatsError::Nonsense));
        assert_eq!(ClientStats::parse(&[0xff; 12]), Err(ClientStatsError::Nonsense));
        // The same bucket twice, and one that does not exist.
        assert_eq!(
            ClientStats::parse(&[1, 0, 0, 0, 0, 0, 2, 5, 1, 0, 1]),
            Err(ClientStatsError::Nonsense)
        );
        let beyond =
            ClientStats { latencies: vec![(LATENCY_BUCKETS, 1)], ..ClientStats::default() };
        assert_eq!(ClientStats::parse(&beyond.encode()), Err(ClientStatsError::Nonsense));
    }

    #[test]
    fn buckets_begin_where_the_protocol_says() {
        // [STAT-5]
        let starts = [0, 1, 127, 128, 129, 191, 192, 256].map(bucket_start);
        assert_eq!(starts, [0, 16, 2032, 2048, 2080, 4064, 4096, 8192]);
        assert_eq!(bucket_start(LATENCY_BUCKETS - 64), 1 << 62);
        assert!((1..LATENCY_BUCKETS).all(|bucket| bucket_start(bucket - 1) < bucket_start(bucket)));
    }

    #[test]
    fn the_largest_statistics_fit() {
        let stats = ClientStats {
            age: u64::MAX,
            active: u32::MAX,
            ops: u64::MAX,
            bytes: u64::MAX,
            failed: vec![(-1, u64::MAX); ERROR_KINDS_MAX],
            latencies: (0..LATENCY_BUCKETS).map(|bucket| (bucket, u64::MAX)).collect(),
            details: Some(ClientStatsDetails {
                lost: u64::MAX,
                lost_age_max: u64::MAX,
                due_latencies: (0..LATENCY_BUCKETS).map(|bucket| (bucket, u64::MAX)).collect(),
            }),
        };
        let bytes = stats.encode();
        assert!(bytes.len() <= CLIENT_STATS_LEN_MAX as usize, "{}", bytes.len());
        assert_eq!(ClientStats::parse(&bytes), Ok(stats));
    }

    proptest! {
        #[test]
        fn round_trip(
            (age, active, ops, bytes) in any::<(u64, u32, u64, u64)>(),
            failed in prop::collection::vec(any::<(i32, u64)>(), 0..ERROR_KINDS_MAX),
            latencies in prop::collection::btree_map(0..LATENCY_BUCKETS, any::<u64>(), 0..80),
            (lost, lost_age_max) in any::<(u64, u64)>(),
            due in prop::collection::btree_map(0..LATENCY_BUCKETS, any::<u64>(), 0..80),
            cut in any::<prop::sample::Index>(),
        ) {
            let latencies = latencies.into_iter().collect();
            let early =
                ClientStats { age, active, ops, bytes, failed, latencies, details: None };
            let due_latencies = due.into_iter().collect();
            let details = Some(ClientStatsDetails { lost, lost_age_max, due_latencies });
            let stats = ClientStats { details, ..early.clone() };
            let (bytes, without) = (stats.encode(), early.encode());
            prop_assert_eq!(ClientStats::parse(&bytes), Ok(stats));
            prop_assert!(bytes.starts_with(&without));
            prop_assert_eq!(ClientStats::parse(&without), Ok(early));
            let cut = cut.index(bytes.len());
            prop_assert_eq!(ClientStats::parse(&bytes[..cut]).is_ok(), cut == without.len());
        }

        #[test]
        fn arbitrary_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ClientStats::parse(&bytes);
        }
    }
}
