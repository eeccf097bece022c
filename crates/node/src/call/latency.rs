//! How long operations take, as it is told.

use std::collections::BTreeMap;

use lustrine_lnet::latency::{Histogram, Latencies, Operation, Summaries, Summary};
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

use super::{Answer, CallError};
use crate::node::NodeHandle;
use crate::snapshot::{LoopSnapshot, Since, SnapshotPeers, SnapshotQuery};

/// Most peers whose histograms are told at once.
const PEERS_MAX: usize = 1024;

/// The operations of one NID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyRow {
    /// The NID: a peer's, or one of ours.
    pub nid: String,
    /// By name, those with samples: `put_egress`, `get_rtt`, `put_ack` (cli-habits 3.2).
    pub operations: BTreeMap<String, OperationLatency>,
}

/// How long one operation took. Percentiles are never less than the true ones and at most 12.5 %
/// more, or 128 ns below 1.024 us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names of the percentiles")]
pub struct OperationLatency {
    /// Number, extremes and average.
    #[serde(flatten)]
    pub summary: SummaryRow,
    pub p50_nsec: u64,
    pub p90_nsec: u64,
    pub p99_nsec: u64,
    pub p999_nsec: u64,
    /// The histogram's buckets that are not empty, in order.
    pub buckets: Vec<BucketRow>,
}

/// Samples of about one length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketRow {
    /// At least so long.
    pub from_nsec: u64,
    /// Less than this; absent when there is no such limit.
    pub below_nsec: Option<u64>,
    /// How many.
    pub samples: u64,
}

/// Number, extremes and average of an operation; the extremes are 0 without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "as lnetctl calls them")]
pub struct SummaryRow {
    pub samples: u64,
    pub min_nsec: u64,
    pub max_nsec: u64,
    pub avg_nsec: u64,
}

impl From<&Summary> for SummaryRow {
    fn from(summary: &Summary) -> SummaryRow {
        SummaryRow {
            samples: summary.samples,
            min_nsec: summary.min.0,
            max_nsec: summary.max.0,
            avg_nsec: summary.average().0,
        }
    }
}

impl NodeHandle {
    pub(super) fn show_latency(&self, nid: Option<&str>) -> Result<Answer, CallError> {
        let bad = |text: &str| CallError::InvalidNid(text.to_owned());
        let only = nid.map(|text| text.parse::<Nid>().map_err(|_| bad(text))).transpose()?;
        let peers = only.map_or(SnapshotPeers::Busiest(PEERS_MAX), SnapshotPeers::Only);
        let query = SnapshotQuery { nis_max: usize::MAX, peers, since: Since::Reset };
        let snapshots = self.snapshots(query)?;
        let info = self.info();
        let nids = info.nids.iter();
        let nets = nids.filter(|nid| only.is_none_or(|only| only == **nid)).map(|nid| {
            let mut all = Latencies::default();
            snapshots
                .iter()
                .filter_map(|snapshot| snapshot.latencies_of(nid))
                .for_each(|of| all.add(of));
            row(nid, &all)
        });
        let known: usize = snapshots.iter().map(|snapshot| snapshot.peers_known).sum();
        let told: usize = snapshots.iter().map(|snapshot| snapshot.report.peers.len()).sum();
        let samples_left_out = snapshots.iter().map(|i| i.report.stats.latencies_left_out).sum();
        let nets: Vec<LatencyRow> = nets.collect();
        Ok(Answer::Latency {
            nets,
            peers: self::peers(snapshots),
            peers_left_out: if only.is_some() { 0 } else { (known - told) as u64 },
            samples_left_out,
        })
    }
}

fn peers(snapshots: Vec<LoopSnapshot>) -> Vec<LatencyRow> {
    let mut peers: Vec<(Nid, Latencies)> =
        snapshots.into_iter().flat_map(|snapshot| snapshot.peer_latencies).collect();
    peers.sort_by_key(|(nid, _)| *nid);
    peers.iter().map(|(nid, latencies)| row(nid, latencies)).collect()
}

/// Of each operation, by name.
pub(super) fn summary_rows(summaries: &Summaries) -> BTreeMap<String, SummaryRow> {
    let row = |operation: Operation| {
        (operation.name().to_owned(), SummaryRow::from(summaries.of(operation)))
    };
    Operation::ALL.into_iter().map(row).collect()
}

fn row(nid: &Nid, latencies: &Latencies) -> LatencyRow {
    let told = |operation: Operation| {
        Some((operation.name().to_owned(), latency(latencies.of(operation)?)))
    };
    let operations = Operation::ALL.into_iter().filter_map(told).collect();
    LatencyRow { nid: nid.to_string(), operations }
}

fn latency(histogram: &Histogram) -> OperationLatency {
    let percentile = |thousandths| histogram.percentile(thousandths).unwrap_or_default().0;
    let buckets = histogram.buckets().map(|(begin, end, samples)| BucketRow {
        from_nsec: begin.0,
        below_nsec: (end.0 != u64::MAX).then_some(end.0),
        samples,
    });
    OperationLatency {
        summary: SummaryRow::from(&histogram.summary()),
        p50_nsec: percentile(500),
        p90_nsec: percentile(900),
        p99_nsec: percentile(990),
        p999_nsec: percentile(999),
        buckets: buckets.collect(),
    }
}
