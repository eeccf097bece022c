//! Latencies of operations, for the control API.

use std::collections::BTreeMap;

use lustrine_control::{Answer, BucketRow, LatencyRow, OperationLatency, SummaryRow};
use lustrine_lnet::latency::{Histogram, Latencies, Operation, Summaries, Summary};
use lustrine_wire::nid::Nid;

use crate::error::CallError;
use crate::handle::NodeHandle;
use crate::snapshot::{LoopSnapshot, Since, SnapshotPeers, SnapshotQuery};

/// Largest number of peers whose histograms are in one answer.
const PEERS_MAX: usize = 1024;

fn summary_row(summary: &Summary) -> SummaryRow {
    SummaryRow {
        samples: summary.samples,
        min_nsec: summary.min.0,
        max_nsec: summary.max.0,
        avg_nsec: summary.average().0,
    }
}

impl NodeHandle {
    pub(super) fn show_latency(&self, only: Option<Nid>) -> Result<Answer, CallError> {
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
        let listed: usize = snapshots.iter().map(|snapshot| snapshot.report.peers.len()).sum();
        let samples_left_out = snapshots.iter().map(|i| i.report.stats.latencies_left_out).sum();
        let nets: Vec<LatencyRow> = nets.collect();
        Ok(Answer::Latency {
            nets,
            peers: self::peers(snapshots),
            peers_left_out: if only.is_some() { 0 } else { (known - listed) as u64 },
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

/// The histograms of each operation, by name.
pub(super) fn summary_rows(summaries: &Summaries) -> BTreeMap<String, SummaryRow> {
    let row =
        |operation: Operation| (operation.name().to_owned(), summary_row(summaries.of(operation)));
    Operation::ALL.into_iter().map(row).collect()
}

fn row(nid: &Nid, latencies: &Latencies) -> LatencyRow {
    let row = |operation: Operation| {
        Some((operation.name().to_owned(), latency(latencies.of(operation)?)))
    };
    let operations = Operation::ALL.into_iter().filter_map(row).collect();
    LatencyRow { nid: *nid, operations }
}

fn latency(histogram: &Histogram) -> OperationLatency {
    let percentile = |thousandths| histogram.percentile(thousandths).unwrap_or_default().0;
    let buckets = histogram.buckets().map(|(begin, end, samples)| BucketRow {
        from_nsec: begin.0,
        below_nsec: (end.0 != u64::MAX).then_some(end.0),
        samples,
    });
    OperationLatency {
        summary: summary_row(&histogram.summary()),
        p50_nsec: percentile(500),
        p90_nsec: percentile(900),
        p99_nsec: percentile(990),
        p999_nsec: percentile(999),
        buckets: buckets.collect(),
    }
}
