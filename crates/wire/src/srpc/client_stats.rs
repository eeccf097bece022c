//! A client's statistics of a test, as Lustrine nodes exchange them: numbers with seven bits per
//! byte, the lowest bits first, so that there is no byte order.

/// Buckets of latencies: 64 per doubling, from 0 to 2^63 - 1 nanoseconds.
pub const LATENCY_BUCKETS: u32 = 64 * 54;

/// Largest number of kinds of errors that are distinguished.
pub const ERROR_KINDS_MAX: usize = 32;

/// Longest encoding in bytes, far more than these buckets can need.
pub const CLIENT_STATS_LEN_MAX: u32 = 64 << 10;

/// The first byte: the version of this encoding.
const FORM: u64 = 1;

/// What one client measured in one test since the test was added. Counts only grow, so that the
/// counts of an interval are differences.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClientStats {
    /// Nanoseconds since the test first ran; 0 before that.
    pub age: u64,
    /// Units that are active.
    pub active: u32,
    /// RPCs that succeeded while the test ran.
    pub ops: u64,
    /// Payload bytes that they moved.
    pub bytes: u64,
    /// RPCs that failed while the test ran, by kind: a positive errno is the server's, a negative
    /// one the client's. At most [`ERROR_KINDS_MAX`]; further kinds are counted as the last one.
    pub failed: Vec<(i32, u64)>,
    /// The latencies of the RPCs that succeeded: numbers of buckets, below [`LATENCY_BUCKETS`] and
    /// ascending, with their counts; [`bucket_start`] says where each bucket begins.
    pub latencies: Vec<(u32, u64)>,
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
        put(&mut out, self.latencies.len() as u64);
        let mut last = 0;
        for (bucket, count) in &self.latencies {
            put(&mut out, u64::from(bucket.wrapping_sub(last)));
            put(&mut out, *count);
            last = *bucket;
        }
        out
    }

    /// Reads an encoding; bytes after it are ignored.
    ///
    /// # Errors
    /// [`ClientStatsError`].
    pub fn parse(mut bytes: &[u8]) -> Result<ClientStats, ClientStatsError> {
        let from = &mut bytes;
        let form = next(from)?;
        if form != FORM {
            return Err(ClientStatsError::Form(form));
        }
        let mut figures = ClientStats {
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
            figures.failed.push((number(next(from)?)? as i32, next(from)?));
        }
        let buckets = next(from)?;
        if buckets > u64::from(LATENCY_BUCKETS) {
            return Err(ClientStatsError::Nonsense);
        }
        let mut last = None;
        for _ in 0..buckets {
            let step = number(next(from)?)?;
            let bucket = last.unwrap_or(0u32).checked_add(step).filter(|b| *b < LATENCY_BUCKETS);
            let bucket = bucket.ok_or(ClientStatsError::Nonsense)?;
            if last.is_some() && step == 0 {
                return Err(ClientStatsError::Nonsense);
            }
            figures.latencies.push((bucket, next(from)?));
            last = Some(bucket);
        }
        Ok(figures)
    }
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
        let figures = ClientStats {
            age: u64::MAX,
            active: u32::MAX,
            ops: u64::MAX,
            bytes: u64::MAX,
            failed: vec![(-1, u64::MAX); ERROR_KINDS_MAX],
            latencies: (0..LATENCY_BUCKETS).map(|bucket| (bucket, u64::MAX)).collect(),
        };
        let bytes = figures.encode();
        assert!(bytes.len() <= CLIENT_STATS_LEN_MAX as usize, "{}", bytes.len());
        assert_eq!(ClientStats::parse(&bytes), Ok(figures));
    }

    proptest! {
        #[test]
        fn round_trip(
            (age, active, ops, bytes) in any::<(u64, u32, u64, u64)>(),
            failed in prop::collection::vec(any::<(i32, u64)>(), 0..ERROR_KINDS_MAX),
            latencies in prop::collection::btree_map(0..LATENCY_BUCKETS, any::<u64>(), 0..80),
            cut in any::<prop::sample::Index>(),
        ) {
            let latencies = latencies.into_iter().collect();
            let figures = ClientStats { age, active, ops, bytes, failed, latencies };
            let bytes = figures.encode();
            prop_assert_eq!(ClientStats::parse(&bytes), Ok(figures));
            let cut = cut.index(bytes.len());
            prop_assert!(ClientStats::parse(&bytes[..cut]).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ClientStats::parse(&bytes);
        }
    }
}
