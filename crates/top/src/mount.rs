//! What a mount did between two samples.

use serde::Serialize;

use crate::rate::per_second;
use crate::sample::{MountSample, OperationSample, TargetSample};

/// What a mount did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MountView {
    /// The mount point.
    pub dir: String,
    /// What is mounted.
    pub source: String,
    /// Most reads and writes at a target at once; 0 if it does not say so, or finds it by itself.
    pub max_rpcs_in_flight: u16,
    /// Whether it finds that by itself.
    pub max_rpcs_in_flight_auto: bool,
    /// RPCs whose outcome is awaited.
    pub rpcs: u64,
    /// RPCs sent per second.
    pub rpcs_per_s: Option<f64>,
    /// Bytes read from servers, per second.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes written to servers, per second.
    pub written_bytes_per_s: Option<f64>,
    /// Bytes that programs have written and the servers do not have.
    pub dirty: u64,
    /// Bytes of memory for data of files.
    pub cached: u64,
    /// Open files.
    pub open_files: u64,
    /// Its targets.
    pub targets: Vec<TargetView>,
    /// Targets that it has and that are not in `targets`.
    pub targets_left_out: usize,
    /// The operations at all targets together that were answered since the sample before.
    pub operations: Vec<OperationView>,
}

/// What happened at a target.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TargetView {
    /// Its name.
    pub name: String,
    /// The state of its import: FULL, or IDLE while nothing is to be done, if all is well.
    pub state: String,
    /// The NID of its server.
    pub nid: String,
    /// RPCs sent and not answered.
    pub in_flight: u64,
    /// RPCs that wait to be sent.
    pub waiting: u64,
    /// Replies per second.
    pub replies_per_s: Option<f64>,
    /// The mean time of an RPC since the sample before, in microseconds; `None` without any.
    pub mean_us: Option<f64>,
    /// How often the server has evicted the client.
    pub evictions: u64,
}

/// What happened to an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OperationView {
    /// Its name.
    pub name: String,
    /// Replies per second.
    pub replies_per_s: f64,
    /// The mean time since the sample before, in microseconds.
    pub mean_us: f64,
    /// The median of all times so far, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of all times so far.
    pub p99_us: f64,
}

impl MountView {
    pub(crate) fn between(then: Option<&MountSample>, now: &MountSample) -> MountView {
        let seconds = then.map_or(0.0, |then| now.mounted_s - then.mounted_s);
        let rate = |of: fn(&MountSample) -> u64| per_second(of(then?), of(now), seconds);
        let target = |target: &TargetSample| {
            let old = then.and_then(|then| then.targets.iter().find(|o| o.name == target.name));
            TargetView::between(old, target, seconds)
        };
        let operation = |operation: &OperationSample| {
            let old = &then?.operations;
            let old = old.iter().find(|old| old.name == operation.name);
            let Sum { count, sum_us } = since(old, operation)?;
            Some(OperationView {
                name: operation.name.clone(),
                replies_per_s: (seconds > 0.0).then(|| count as f64 / seconds)?,
                mean_us: (count > 0).then(|| sum_us / count as f64)?,
                p50_us: operation.p50_us,
                p99_us: operation.p99_us,
            })
        };
        MountView {
            dir: now.dir.clone(),
            source: now.source.clone(),
            max_rpcs_in_flight: now.max_rpcs_in_flight,
            max_rpcs_in_flight_auto: now.max_rpcs_in_flight_auto,
            rpcs: now.rpcs,
            rpcs_per_s: rate(|sample| sample.rpcs_sent),
            read_bytes_per_s: rate(|sample| sample.bulk_received),
            written_bytes_per_s: rate(|sample| sample.bulk_sent),
            dirty: now.dirty,
            cached: now.cached,
            open_files: now.open_files,
            targets: now.targets.iter().map(target).collect(),
            targets_left_out: now.targets_left_out,
            operations: now.operations.iter().filter_map(operation).collect(),
        }
    }
}

impl TargetView {
    fn between(then: Option<&TargetSample>, now: &TargetSample, seconds: f64) -> TargetView {
        let sums = || {
            let (old, new) = (then?.operations.as_ref()?, now.operations.as_ref()?);
            let each = new.iter().map(|row| since(old.iter().find(|o| o.name == row.name), row));
            // One that has begun again says that all of them have.
            each.collect::<Option<Vec<Sum>>>()
        };
        let sum = sums().map(|all| Sum {
            count: all.iter().fold(0, |count, sum| count.saturating_add(sum.count)),
            sum_us: all.iter().map(|sum| sum.sum_us).sum(),
        });
        TargetView {
            name: now.name.clone(),
            state: now.state.clone(),
            nid: now.nid.clone(),
            in_flight: now.in_flight,
            waiting: now.waiting,
            replies_per_s: sum.filter(|_| seconds > 0.0).map(|sum| sum.count as f64 / seconds),
            mean_us: sum.filter(|sum| sum.count > 0).map(|sum| sum.sum_us / sum.count as f64),
            evictions: now.evictions,
        }
    }
}

/// Replies, and the sum of their times in microseconds.
#[derive(Clone, Copy, Debug)]
struct Sum {
    count: u64,
    sum_us: f64,
}

/// What has come since the sample before; `None` if the counter has begun again.
fn since(then: Option<&OperationSample>, now: &OperationSample) -> Option<Sum> {
    let (count, sum_us) = then.map_or((0, 0.0), |then| (then.count, then.sum_us));
    Some(Sum { count: now.count.checked_sub(count)?, sum_us: (now.sum_us - sum_us).max(0.0) })
}

#[cfg(test)]
mod tests;
