//! Computes results from the statistics of all nodes at two moments.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::time::Nanos;
use lustrine_selftest::{Latencies, Test};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::{BrwCheck, ClientStats, Counters, LnetCounters};

use crate::points::{Flow, Line, Point};
use crate::results::{ClientResult, ErrorCount, Latency, NodeCounters, OpCounts, PointResult, Row};

/// A point while it is measured: the latest statistics.
#[derive(Clone, Debug)]
pub struct PlanProgress {
    /// How long it has been measured.
    pub elapsed: Nanos,
    /// The planned time.
    pub of: Nanos,
    /// Each test: its name, and what all its clients do; `None` if no client reports it.
    pub rows: Vec<(String, Option<OpCounts>)>,
    /// Each client of each test.
    pub clients: Vec<(Nid, OpCounts)>,
}

/// The statistics of all nodes at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mark {
    /// The statistics of each flow's clients.
    pub(crate) stats: BTreeMap<(usize, Nid), ClientStats>,
    pub(crate) counters: BTreeMap<Nid, Counters>,
}

impl Mark {
    /// The clients with statistics in this one and not in the other.
    pub(crate) fn clients_missing_in(&self, other: &Mark) -> BTreeSet<Nid> {
        self.stats.keys().filter(|key| !other.stats.contains_key(key)).map(|key| key.1).collect()
    }

    /// Whether a client has had no success in a test.
    pub(crate) fn has_cold_clients(&self) -> bool {
        self.stats.values().any(|stats| stats.ops == 0)
    }

    /// Whether a node reported its counters at both moments.
    fn has_counters(&self, other: &Mark, nid: &Nid) -> bool {
        self.counters.contains_key(nid) && other.counters.contains_key(nid)
    }

    /// Takes over what clients say after all their operations have ended. What they did in the
    /// measured time they counted until their test was stopped, except for nodes of an early
    /// release, whose clock would have gone on.
    pub(crate) fn add_late(&mut self, last: Mark) {
        for (client, stats) in last.stats {
            if stats.details.is_some() && self.stats.contains_key(&client) {
                self.stats.insert(client, stats);
            }
        }
    }
}

/// Nodes that report no client statistics, each with the number of tests in which it is a client.
#[derive(Debug, Default)]
pub(crate) struct Silent(BTreeMap<Nid, usize>);

impl FromIterator<(Nid, usize)> for Silent {
    fn from_iter<I: IntoIterator<Item = (Nid, usize)>>(nodes: I) -> Silent {
        Silent(nodes.into_iter().collect())
    }
}

impl Silent {
    /// Whether a node is one of them, and a client.
    pub(crate) fn is_client(&self, nid: &Nid) -> bool {
        self.0.get(nid).is_some_and(|tests| *tests > 0)
    }

    /// Whether a node is one of them whose counters do not say what it did in one test.
    fn has_several_tests(&self, nid: &Nid) -> bool {
        self.0.get(nid).is_some_and(|tests| *tests > 1)
    }

    /// Whether a client is among them.
    pub(crate) fn has_clients(&self) -> bool {
        self.0.values().any(|tests| *tests > 0)
    }
}

/// The results of one client, or of several.
#[derive(Clone, Debug, Default)]
struct Sum {
    seconds: f64,
    ops: u64,
    ops_per_s: f64,
    mib_per_s: f64,
    /// From when operations were sent.
    latencies: Latencies,
    /// Whether a client in it does not report latencies.
    blind: bool,
    /// Of a test with a rate: latencies from when operations were due; `None` if a client does not
    /// report them.
    due: Option<Latencies>,
    /// Whether the test has a rate.
    limited: bool,
    failed: BTreeMap<i32, u64>,
    lost: u64,
    lost_age_max: Nanos,
}

impl Sum {
    fn of(line: &Line, seconds: f64, ops: u64, bytes: u64) -> Sum {
        let per_s = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let mib = if line.size == 0 { 0.0 } else { bytes as f64 / f64::from(1 << 20) };
        Sum {
            seconds,
            ops,
            ops_per_s: per_s(ops as f64),
            mib_per_s: per_s(mib),
            limited: line.rate > 0,
            ..Sum::default()
        }
    }

    /// The empty result of clients that all report everything.
    fn nothing() -> Sum {
        Sum { due: Some(Latencies::default()), ..Sum::default() }
    }

    fn add(&mut self, other: &Sum) {
        self.seconds = self.seconds.max(other.seconds);
        self.ops = self.ops.saturating_add(other.ops);
        self.ops_per_s += other.ops_per_s;
        self.mib_per_s += other.mib_per_s;
        self.latencies.merge(&other.latencies);
        self.blind |= other.blind;
        match (&mut self.due, &other.due) {
            (Some(due), Some(other)) => due.merge(other),
            (due, _) => *due = None,
        }
        self.limited |= other.limited;
        self.lost = self.lost.saturating_add(other.lost);
        self.lost_age_max = self.lost_age_max.max(other.lost_age_max);
        for (kind, count) in &other.failed {
            let sum = self.failed.entry(*kind).or_default();
            *sum = sum.saturating_add(*count);
        }
    }

    /// The latencies that a user of the network would see; `None` if a client does not report
    /// them.
    fn seen(&self) -> Option<&Latencies> {
        match self.limited {
            _ if self.blind => None,
            true => self.due.as_ref(),
            false => Some(&self.latencies),
        }
    }

    fn counted(&self) -> OpCounts {
        let sent = (self.limited && !self.blind).then_some(&self.latencies);
        OpCounts {
            seconds: self.seconds,
            ops: self.ops,
            ops_per_s: self.ops_per_s,
            mib_per_s: self.mib_per_s,
            latency_us: self.seen().and_then(Latency::of),
            latency_sent_us: sent.and_then(Latency::of),
            errors: self.failed.values().fold(0, |sum, count| u64::saturating_add(sum, *count)),
            lost_ops: self.lost,
            lost_age_max_s: self.lost_age_max.as_secs_f64(),
        }
    }
}

/// The results between two moments.
pub(crate) fn result(point: &Point, silent: &Silent, before: &Mark, after: &Mark) -> PointResult {
    let rows = sums(point, silent, before, after);
    let rows = point.lines.iter().zip(rows).enumerate().map(|(index, (line, clients))| {
        let mut all = Sum::nothing();
        clients.values().flatten().for_each(|sum| all.add(sum));
        let missing = clients.iter().filter(|(_, sum)| sum.is_none()).map(|(nid, _)| *nid);
        // A node that reports no statistics has answered if it has counters.
        let (mute, lost): (Vec<Nid>, Vec<Nid>) = missing
            .partition(|nid| silent.has_several_tests(nid) && before.has_counters(after, nid));
        let kinds = all.failed.iter().map(|(errno, count)| ErrorCount {
            errno: *errno,
            what: meaning(*errno),
            count: *count,
        });
        Row {
            test: line.what,
            from: line.from.clone(),
            to: line.to.clone(),
            clients: line.clients,
            servers: line.servers,
            size: line.size,
            concurrency: line.concurrency,
            rate_limit: line.rate,
            check: point.flows.iter().find(|flow| flow.line == index).and_then(check_of),
            error_kinds: kinds.collect(),
            silent: mute.len() as u32,
            lost,
            cut_short: false,
            unreachable_s: 0.0,
            plain_tcp_mib_per_s: None,
            histogram: all.seen().map(buckets).unwrap_or_default(),
            by_client: clients
                .iter()
                .filter_map(|(nid, sum)| {
                    let counted = sum.as_ref()?.counted();
                    Some(ClientResult { nid: *nid, server: point.only_server(index, nid), counted })
                })
                .collect(),
            all: all.counted(),
        }
    });
    let counters = after.counters.iter().filter_map(|(nid, after)| {
        let before = before.counters.get(nid)?;
        Some(NodeCounters { nid: *nid, lnet: difference(&before.lnet, &after.lnet) })
    });
    PointResult {
        step: point.step,
        name: point.name.clone(),
        labels: point.labels.clone(),
        repeat: point.repeat,
        rows: rows.collect(),
        nodes: counters.collect(),
    }
}

/// The live view of a point that has been measured for this time.
pub(crate) fn live(
    point: &Point,
    silent: &Silent,
    (before, after): (&Mark, &Mark),
    elapsed: Nanos,
) -> PlanProgress {
    let (mut rows, mut clients) = (Vec::new(), BTreeMap::<Nid, Sum>::new());
    for (line, of_line) in point.lines.iter().zip(sums(point, silent, before, after)) {
        let mut all = None;
        for (nid, sum) in &of_line {
            let Some(sum) = sum else { continue };
            all.get_or_insert_with(Sum::nothing).add(sum);
            clients.entry(*nid).or_insert_with(Sum::nothing).add(sum);
        }
        rows.push((line.title(), all.map(|all| all.counted())));
    }
    let clients = clients.into_iter().map(|(nid, sum)| (nid, sum.counted())).collect();
    PlanProgress { elapsed, of: point.time, rows, clients }
}

/// The results of each client of each line; `None` where they cannot be known.
fn sums(
    point: &Point,
    silent: &Silent,
    before: &Mark,
    after: &Mark,
) -> Vec<BTreeMap<Nid, Option<Sum>>> {
    let mut lines: Vec<BTreeMap<Nid, Option<Sum>>> = vec![BTreeMap::new(); point.lines.len()];
    for (index, flow) in point.flows.iter().enumerate() {
        let line = &point.lines[flow.line];
        for nid in &flow.clients {
            let key = (index, *nid);
            let sum = match (before.stats.get(&key), after.stats.get(&key)) {
                (Some(before), Some(after)) => Some(reported(line, before, after)),
                _ => counted(line, silent, nid, before, after),
            };
            let place = lines[flow.line].entry(*nid).or_insert_with(|| Some(Sum::nothing()));
            match (place.as_mut(), sum) {
                (Some(place), Some(sum)) => place.add(&sum),
                _ => *place = None,
            }
        }
    }
    lines
}

/// The results from a client's own statistics.
fn reported(line: &Line, before: &ClientStats, after: &ClientStats) -> Sum {
    let seconds = after.age.saturating_sub(before.age) as f64 / 1e9;
    let ops = after.ops.saturating_sub(before.ops);
    let mut sum = Sum::of(line, seconds, ops, after.bytes.saturating_sub(before.bytes));
    sum.latencies = since(&before.latencies, &after.latencies);
    if let (Some(before), Some(after)) = (&before.details, &after.details) {
        sum.due = Some(since(&before.due_latencies, &after.due_latencies));
        sum.lost = after.lost.saturating_sub(before.lost);
        sum.lost_age_max = Nanos(if sum.lost > 0 { after.lost_age_max } else { 0 });
    }
    let earlier: BTreeMap<i32, u64> = before.failed.iter().copied().collect();
    for (kind, count) in &after.failed {
        let fresh = count.saturating_sub(earlier.get(kind).copied().unwrap_or(0));
        if fresh > 0 {
            let failed = sum.failed.entry(*kind).or_default();
            *failed = failed.saturating_add(fresh);
        }
    }
    sum
}

/// The difference of the counters between two moments.
fn since(before: &[(u32, u64)], after: &[(u32, u64)]) -> Latencies {
    let before: BTreeMap<u32, u64> = before.iter().copied().collect();
    let earlier = |bucket: &u32| before.get(bucket).copied().unwrap_or(0);
    let mut latencies = Latencies::default();
    latencies.add_coarse(after.iter().map(|(b, count)| (*b, count.saturating_sub(earlier(b)))));
    latencies
}

/// The result from the counters of a kernel node: the requests sent by all its tests together. So
/// it is known only for a client of one test.
fn counted(line: &Line, silent: &Silent, nid: &Nid, before: &Mark, after: &Mark) -> Option<Sum> {
    if silent.0.get(nid) != Some(&1) {
        return None;
    }
    let (before, after) = (before.counters.get(nid)?, after.counters.get(nid)?);
    let millis = after.framework.running_ms.wrapping_sub(before.framework.running_ms);
    let failed = |of: &Counters| of.framework.brw_errors.wrapping_add(of.framework.ping_errors);
    let failed = u64::from(failed(after).wrapping_sub(failed(before)));
    let sent = u64::from(after.rpc.sent.wrapping_sub(before.rpc.sent));
    let ops = sent.saturating_sub(failed);
    let mut sum = Sum::of(line, f64::from(millis) / 1e3, ops, ops * u64::from(line.size));
    sum.blind = true;
    if failed > 0 {
        sum.failed.insert(0, failed);
    }
    Some(sum)
}

fn buckets(latencies: &Latencies) -> Vec<(f64, u64)> {
    latencies.buckets().map(|(nanos, count)| (nanos.0 as f64 / 1e3, count)).collect()
}

fn difference(before: &LnetCounters, after: &LnetCounters) -> LnetCounters {
    LnetCounters {
        msgs_alloc: after.msgs_alloc,
        msgs_max: after.msgs_max,
        errors: after.errors.wrapping_sub(before.errors),
        send_count: after.send_count.wrapping_sub(before.send_count),
        recv_count: after.recv_count.wrapping_sub(before.recv_count),
        route_count: after.route_count.wrapping_sub(before.route_count),
        drop_count: after.drop_count.wrapping_sub(before.drop_count),
        send_length: after.send_length.wrapping_sub(before.send_length),
        recv_length: after.recv_length.wrapping_sub(before.recv_length),
        route_length: after.route_length.wrapping_sub(before.route_length),
        drop_length: after.drop_length.wrapping_sub(before.drop_length),
    }
}

/// How the data of a test are checked; `None` if there are none.
fn check_of(flow: &Flow) -> Option<String> {
    let (Test::Read { check, .. } | Test::Write { check, .. }) = flow.test else { return None };
    let word = match check {
        BrwCheck::None => "none",
        BrwCheck::Simple => "simple",
        BrwCheck::Full => "full",
        BrwCheck::Discard => "discard",
    };
    Some(word.to_owned())
}

/// The meaning of an error, or its number if it is not one of selftest's.
fn meaning(errno: i32) -> String {
    match errno {
        0 => "failed; the node does not report the reason".to_owned(),
        -74 => "wrong data, or another ping's answer".to_owned(),
        74 => "the server found wrong data".to_owned(),
        -5 => "fewer bytes than requested".to_owned(),
        -71 => "no reply to this request".to_owned(),
        -110 => "no reply in time".to_owned(),
        -12 => "the client had no room".to_owned(),
        12 => "the server had no memory".to_owned(),
        -125 => "given up".to_owned(),
        -103 | -104 | -113 => "the connection was lost, or could not be made".to_owned(),
        errno if errno > 0 => format!("the server answered with errno {errno}"),
        errno => format!("LNet failed with errno {}", -errno),
    }
}

impl Line {
    /// The name of a test, with its size if it has one.
    pub fn title(&self) -> String {
        match self.size {
            0 => format!("{} {} -> {}", self.what.name(), self.from, self.to),
            size => {
                let size = lustrine_report::numbers::size(size);
                format!("{} {size} {} -> {}", self.what.name(), self.from, self.to)
            }
        }
    }
}
