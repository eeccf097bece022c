//! What a person, or a program, may ask of a running node; the same inside the process and
//! through the control socket.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lustrine_lnet::latency::Summaries;
use lustrine_lnet::shard::PeerState;
use lustrine_lnet::stats::Stats;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_lnet::tunables::TABLE;
use lustrine_partition::ProbeResult;
use lustrine_selftest::console::{Command, Refusal};
use lustrine_sys::Clock;
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

use crate::change::{self, ChangeReport, ChangeRequest, Mode};
use crate::console;
use crate::event_loop::home_loop;
use crate::mailbox::{LoopMessage, LoopReport};
use crate::node::NodeHandle;

mod error;
mod latency;

pub use error::CallError;
pub use latency::{BucketRow, LatencyRow, OperationLatency, SummaryRow};

/// How long the loops may take to tell about themselves.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest time-out a caller may ask for, in milliseconds: one day.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cmd", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Ping a peer.
    Ping {
        /// The peer, in text form.
        nid: String,
        /// How long to wait, in milliseconds.
        timeout_ms: u64,
    },
    /// Learn (again) about a peer, and tell it about us where that is due.
    Discover {
        /// The peer, in text form.
        nid: String,
        /// How long to wait, in milliseconds.
        timeout_ms: u64,
    },
    /// The node's interfaces and identity.
    ShowNet,
    /// The node's peers.
    ShowPeer,
    /// The node's counters.
    ShowStats,
    /// How long operations take: percentiles and histograms.
    ShowLatency {
        /// Of this NID alone, a peer's or one of ours, in text form.
        #[serde(default)]
        nid: Option<String>,
    },
    /// The values in force for all of the node.
    ShowTunables,
    /// The node's configuration, with all it is set to.
    ShowConfig,
    /// Change the node.
    Change {
        /// What is asked for.
        change: Box<ChangeRequest>,
        /// Only find out what it would do.
        dry_run: bool,
    },
    /// Give the node's selftest console a command.
    Console {
        /// The key of the session, `LST_SESSION`.
        key: u32,
        /// The command.
        command: Box<Command>,
    },
}

impl Request {
    /// How long the node may work on it.
    pub(crate) fn duration_max(&self) -> Duration {
        match self {
            Request::Ping { timeout_ms, .. } | Request::Discover { timeout_ms, .. } => {
                Duration::from_millis((*timeout_ms).min(TIMEOUT_MS_MAX))
            }
            Request::ShowNet
            | Request::ShowPeer
            | Request::ShowStats
            | Request::ShowLatency { .. }
            | Request::ShowTunables
            | Request::ShowConfig => Duration::ZERO,
            Request::Change { .. } => change::DURATION_MAX,
            Request::Console { command, .. } => console::duration_max(command) + console::QUEUE_MAX,
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Ping`].
    Ping {
        /// The peer's primary NID.
        primary_nid: String,
        /// Whether its NIDs belong to one multi-rail node.
        multi_rail: bool,
        /// Feature bits.
        features: u32,
        /// Sequence number of its information.
        sequence: u32,
        /// Its NIDs.
        peer_ni: Vec<PeerNiRow>,
        /// Round-trip time in microseconds; the first one to a peer includes connecting.
        rtt_us: f64,
    },
    /// To [`Request::Discover`].
    Discover {
        /// What is known now.
        peer: PeerRow,
    },
    /// To [`Request::ShowNet`].
    Net {
        /// `node` or `userland`.
        identity: String,
        /// Why.
        identity_reason: String,
        /// What its selftest service does for consoles: `off`, `serve` or `full`.
        #[serde(default)]
        selftest: String,
        /// The consoles that it obeys alone; empty if there is no list.
        #[serde(default)]
        selftest_consoles: String,
        /// CPUs of each partition.
        cpts: Vec<Vec<u32>>,
        /// The interfaces.
        nets: Vec<NetRow>,
    },
    /// To [`Request::ShowPeer`].
    Peer {
        /// The peers, by NID.
        peers: Vec<PeerRow>,
    },
    /// To [`Request::ShowStats`].
    Stats {
        /// Totals of all partitions.
        stats: Box<StatsRow>,
    },
    /// To [`Request::ShowLatency`].
    Latency {
        /// Our interfaces: all peers together, also those that are forgotten.
        nets: Vec<LatencyRow>,
        /// Peers with samples, by NID.
        peers: Vec<LatencyRow>,
        /// Peers that are known and not looked at: those with fewest messages.
        peers_left_out: u64,
        /// Operations with peers that have no histogram, as `latency_peers` others have.
        samples_left_out: u64,
    },
    /// To [`Request::ShowTunables`].
    Tunables {
        /// By our names (docs/tunables.md).
        values: BTreeMap<String, i64>,
        /// The driver's share of the transaction timeout, in seconds: it follows from others.
        lnd_timeout: i64,
    },
    /// To [`Request::ShowConfig`].
    Config {
        /// As lnetctl's YAML.
        text: String,
    },
    /// To [`Request::Change`].
    Changed {
        /// What was done, or would be.
        changed: ChangeReport,
    },
    /// To [`Request::Console`].
    Console {
        /// The console's answer, or why it did not do it.
        outcome: Result<lustrine_selftest::console::Answer, Refusal>,
    },
    /// The question could not be answered.
    Error {
        /// LNet's number: a negative errno.
        errno: i32,
        /// What happened, where, and what to do next.
        message: String,
        /// Of that, what to do next; for those who say the rest in their own words.
        #[serde(default)]
        hint: String,
    },
}

/// A local interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetRow {
    /// Its NID.
    pub nid: String,
    /// The interface's name, if it has one.
    pub interface: Option<String>,
    /// Where it listens; absent when nobody is let in.
    pub listening: Option<String>,
    /// TCP port at which peers of its net are dialled.
    pub port: u16,
    /// Bulk connections per peer and direction.
    pub conns_per_peer: u16,
    /// Messages under way at once to one peer.
    pub peer_credits: u32,
    /// Send credits as they were configured; each partition has its share, and no less than it
    /// needs, so that all together may have more.
    pub credits_configured: u32,
    /// Send credits, all partitions.
    pub credits: u32,
    /// Free ones, or minus the messages waiting.
    pub credits_available: i64,
    /// Lowest value seen, all partitions added up.
    pub credits_min: i64,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Messages received and not wanted.
    pub dropped: u64,
    /// How long operations took, by their names; empty while no latencies are taken.
    #[serde(default)]
    pub latency: BTreeMap<String, SummaryRow>,
}

/// A peer NID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRow {
    /// The remote NID.
    pub nid: String,
    /// Its node's primary NID.
    pub primary_nid: String,
    /// The CPU partition it lives in.
    pub cpt: u16,
    /// Its node's NIDs.
    pub peer_ni: Vec<PeerNiRow>,
    /// Whether an administrator described it, and said that it is multi-rail.
    #[serde(default)]
    pub configured: Option<bool>,
    /// `unknown`, `discovering` or `ready`.
    pub state: String,
    /// Feature bits of its ping information.
    pub features: Option<u32>,
    /// Send credits.
    pub credits: u32,
    /// Free ones, or minus the messages waiting.
    pub credits_available: i64,
    /// Lowest value seen.
    pub credits_min: i64,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
    /// Messages received and not wanted.
    pub dropped: u64,
    /// Userland processes at this address that have connections open to us: they dialled from
    /// source ports above 1023.
    pub userland: u32,
    /// Open connections by type, those of userland processes among them; empty without any.
    pub connections: BTreeMap<String, u32>,
    /// HELLO version in use.
    pub version: Option<String>,
    /// How long operations took, by their names; empty while no latencies are taken.
    #[serde(default)]
    pub latency: BTreeMap<String, SummaryRow>,
}

/// One NID of a peer's node, as that node tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerNiRow {
    /// The NID.
    pub nid: String,
    /// Whether its interface is up.
    pub up: bool,
}

/// Counters of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatsRow {
    /// The core's, by LNet's names.
    pub lnet: BTreeMap<String, u64>,
    /// The driver's, by name.
    pub socklnd: BTreeMap<String, u64>,
    /// TCP connections open.
    pub connections: u64,
    /// Memory mapped for messages, in bytes.
    pub memory_mapped: u64,
    /// CPU time of the process.
    pub cpu_s: CpuSeconds,
}

/// CPU time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds(pub f64);

impl NodeHandle {
    /// Answers a question; errors become [`Answer::Error`].
    pub fn call(&self, request: &Request) -> Answer {
        let answer = match request {
            Request::Ping { nid, timeout_ms } => self.ping(nid, *timeout_ms),
            Request::Discover { nid, timeout_ms } => self.discover(nid, *timeout_ms),
            Request::ShowNet => self.show_net(),
            Request::ShowPeer => self.show_peer(),
            Request::ShowStats => self.show_stats(),
            Request::ShowLatency { nid } => self.show_latency(nid.as_deref()),
            Request::ShowTunables => Ok(self.show_tunables()),
            Request::ShowConfig => Ok(Answer::Config { text: self.info().config.to_backup() }),
            Request::Change { change, dry_run } => {
                let mode = if *dry_run { Mode::DryRun } else { Mode::Apply };
                match self.change(change, mode) {
                    Ok(changed) => Ok(Answer::Changed { changed }),
                    Err(not) => {
                        let hint = String::new();
                        Ok(Answer::Error { errno: not.errno, message: not.text, hint })
                    }
                }
            }
            Request::Console { key, command } => {
                let answer = self.console(*key, Command::clone(command));
                answer.map(|outcome| Answer::Console { outcome })
            }
        };
        answer.unwrap_or_else(|error| Answer::Error {
            errno: error.errno(),
            message: error.to_string(),
            hint: error.hint().to_owned(),
        })
    }

    fn ping(&self, nid: &str, timeout_ms: u64) -> Result<Answer, CallError> {
        let (nid, timeout) = target(nid, timeout_ms)?;
        let (reply, answer) = mpsc::channel();
        let message = LoopMessage::Ping { nid, timeout, reply };
        let ProbeResult::Ping(found) = self.ask(&nid, message, &answer, timeout)? else {
            return Err(CallError::NotResponding);
        };
        let found = found.map_err(|status| self.failed("ping", nid, status))?;
        Ok(Answer::Ping {
            primary_nid: found.primary.to_string(),
            multi_rail: found.features & 8 != 0,
            features: found.features,
            sequence: found.sequence,
            peer_ni: peer_ni_rows(&found.nids),
            rtt_us: found.round_trip.0 as f64 / 1e3,
        })
    }

    fn discover(&self, nid: &str, timeout_ms: u64) -> Result<Answer, CallError> {
        let (nid, timeout) = target(nid, timeout_ms)?;
        let end = Instant::now() + Duration::from_nanos(timeout.0);
        let (reply, answer) = mpsc::channel();
        let message = LoopMessage::Discover { nid, timeout, reply };
        let ProbeResult::Discover(found) = self.ask(&nid, message, &answer, timeout)? else {
            return Err(CallError::NotResponding);
        };
        found.map_err(|status| self.failed("discover", nid, status))?;
        let Answer::Peer { peers } = self.show_peer()? else {
            unreachable!("show_peer answers with peers");
        };
        let text = nid.to_string();
        let mut peer =
            peers.into_iter().find(|peer| peer.nid == text).ok_or(CallError::NotResponding)?;
        if peer.features.is_none() {
            // A userland node tells the peer about itself and need not ask ([USR-4]); whoever
            // gives this command wants to know. Without an answer it is discovered all the same.
            let left = end.saturating_duration_since(Instant::now()).as_millis() as u64;
            if let Ok(Answer::Ping { primary_nid, features, peer_ni, .. }) = self.ping(&text, left)
            {
                (peer.primary_nid, peer.features, peer.peer_ni) =
                    (primary_nid, Some(features), peer_ni);
            }
        }
        Ok(Answer::Discover { peer })
    }

    /// Sends a message to the home of a NID and waits for the answer.
    fn ask<T>(
        &self,
        nid: &Nid,
        message: LoopMessage,
        answer: &mpsc::Receiver<T>,
        timeout: Nanos,
    ) -> Result<T, CallError> {
        let home = home_loop(nid, self.loops.len());
        self.loops[home].push(message).map_err(|_| CallError::NotResponding)?;
        // The core ends it in time; the extra is for the loop's own scan.
        let patience = Duration::from_nanos(timeout.0) + REPORT_TIMEOUT;
        answer.recv_timeout(patience).map_err(|_| CallError::NotResponding)
    }

    pub(crate) fn reports(&self) -> Result<Vec<LoopReport>, CallError> {
        let (reply, answers) = mpsc::channel();
        for sender in self.loops.iter() {
            sender
                .push(LoopMessage::Report(reply.clone()))
                .map_err(|_| CallError::NotResponding)?;
        }
        drop(reply);
        let deadline = Instant::now() + REPORT_TIMEOUT;
        let mut reports = Vec::new();
        while reports.len() < self.loops.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            reports.push(answers.recv_timeout(left).map_err(|_| CallError::NotResponding)?);
        }
        reports.sort_by_key(|report| report.cpt);
        Ok(reports)
    }

    fn show_net(&self) -> Result<Answer, CallError> {
        let reports = self.reports()?;
        let info = self.info();
        let timed = self.takes_latencies();
        let nets = (0..info.nids.len())
            .map(|index| {
                let mut row = NetRow {
                    nid: info.nids[index].to_string(),
                    interface: info.interfaces[index].clone(),
                    listening: info.listening[index].map(|addr| addr.to_string()),
                    port: info.ports[index],
                    conns_per_peer: info.conns_per_peer[index],
                    peer_credits: info.peer_credits[index],
                    credits_configured: info.config.nets[index].credits.unwrap_or(0),
                    credits: 0,
                    credits_available: 0,
                    credits_min: 0,
                    sent: 0,
                    received: 0,
                    dropped: 0,
                    latency: BTreeMap::new(),
                };
                let mut latency = Summaries::default();
                let nis = reports.iter().flat_map(|report| &report.nis);
                for ni in nis.filter(|ni| ni.nid == info.nids[index]) {
                    row.credits += ni.credits;
                    row.credits_available += ni.credits_available;
                    row.credits_min += ni.credits_low;
                    row.sent += ni.counters.sent;
                    row.received += ni.counters.received;
                    row.dropped += ni.counters.dropped;
                    latency.add(&ni.latency);
                }
                if timed {
                    row.latency = latency::summary_rows(&latency);
                }
                row
            })
            .collect();
        Ok(Answer::Net {
            identity: identity_name(info.identity).to_owned(),
            identity_reason: info.identity_reason.to_owned(),
            selftest: info.config.selftest.mode.to_string(),
            selftest_consoles: info.config.selftest.consoles.to_string(),
            cpts: info.partitions.clone(),
            nets,
        })
    }

    fn show_peer(&self) -> Result<Answer, CallError> {
        let mut peers: Vec<(Nid, PeerRow)> = self.reports()?.iter().flat_map(peer_rows).collect();
        if !self.takes_latencies() {
            peers.iter_mut().for_each(|(_, peer)| peer.latency.clear());
        }
        peers.sort_by_key(|(nid, _)| *nid);
        Ok(Answer::Peer { peers: peers.into_iter().map(|(_, row)| row).collect() })
    }

    fn show_stats(&self) -> Result<Answer, CallError> {
        let reports = self.reports()?;
        let mut stats = Stats::default();
        let mut row = StatsRow::default();
        for report in &reports {
            stats.add(&report.stats);
            row.connections += report.connections as u64;
            row.memory_mapped += report.memory_mapped;
            for (name, value) in report.driver.iter() {
                *row.socklnd.entry(name.to_owned()).or_default() += value;
            }
        }
        row.lnet = lnet_counters(&stats);
        row.cpu_s = CpuSeconds(Clock::ProcessCpu.now() as f64 / 1e9);
        Ok(Answer::Stats { stats: Box::new(row) })
    }

    fn show_tunables(&self) -> Answer {
        let tunables = &self.info().tunables;
        let values = TABLE.iter().filter_map(|row| Some((row.name, tunables.value(row.name)?)));
        Answer::Tunables {
            values: values.map(|(name, value)| (name.to_owned(), value)).collect(),
            lnd_timeout: tunables.lnd_timeout(),
        }
    }
}

/// `node` or `userland`.
pub(crate) fn identity_name(identity: Identity) -> &'static str {
    match identity {
        Identity::Node => "node",
        Identity::Userland => "userland",
    }
}

fn target(nid: &str, timeout_ms: u64) -> Result<(Nid, Nanos), CallError> {
    let parsed: Nid = nid.parse().map_err(|_| CallError::InvalidNid(nid.to_owned()))?;
    if parsed.is_any() {
        return Err(CallError::InvalidNid(nid.to_owned()));
    }
    Ok((parsed, Nanos::from_millis(timeout_ms.clamp(1, TIMEOUT_MS_MAX))))
}

fn peer_ni_rows(nids: &[(Nid, bool)]) -> Vec<PeerNiRow> {
    nids.iter().map(|(nid, up)| PeerNiRow { nid: nid.to_string(), up: *up }).collect()
}

fn peer_rows(report: &LoopReport) -> Vec<(Nid, PeerRow)> {
    let mut links: HashMap<Nid, Vec<&lustrine_socklnd::PeerConnections>> = HashMap::new();
    for link in &report.links {
        links.entry(link.id.nid).or_default().push(link);
    }
    report
        .peers
        .iter()
        .map(|peer| {
            let mut connections = BTreeMap::new();
            let mut version = None;
            let mut userland = 0;
            for link in links.get(&peer.nid).into_iter().flatten() {
                let by_type = [
                    ("CONTROL", link.control),
                    ("BULK_IN", link.bulk_in),
                    ("BULK_OUT", link.bulk_out),
                    ("ANY", link.any),
                ];
                for (name, count) in by_type.into_iter().filter(|(_, count)| *count > 0) {
                    *connections.entry(name.to_owned()).or_default() += count as u32;
                }
                let open = link.control + link.bulk_in + link.bulk_out + link.any > 0;
                userland += u32::from(open && link.id.is_userland());
                version = link.version.map(|version| format!("{version:?}")).or(version);
            }
            let row = PeerRow {
                nid: peer.nid.to_string(),
                primary_nid: peer.primary.to_string(),
                cpt: report.cpt,
                peer_ni: peer_ni_rows(&peer.nids),
                state: match peer.state {
                    PeerState::Unknown => "unknown",
                    PeerState::Discovering => "discovering",
                    PeerState::Ready => "ready",
                }
                .to_owned(),
                configured: peer.configured,
                features: peer.features,
                credits: peer.credits,
                credits_available: peer.credits_available,
                credits_min: peer.credits_low,
                sent: peer.counters.sent,
                received: peer.counters.received,
                dropped: peer.counters.dropped,
                userland,
                connections,
                version,
                latency: latency::summary_rows(&peer.latency),
            };
            (peer.nid, row)
        })
        .collect()
}

/// LNet's counters under the names lnetctl prints (cli-habits 3.4). It counts what was dropped by
/// type too; the name of the whole stays, the parts are `dropped.` and the type.
fn lnet_counters(stats: &Stats) -> BTreeMap<String, u64> {
    [
        ("msgs_alloc", stats.msgs_alloc),
        ("msgs_max", stats.msgs_max),
        ("errors", stats.errors),
        ("send_count", stats.sent.total()),
        ("recv_count", stats.received.total()),
        ("drop_count", stats.dropped.total()),
        ("dropped.ack", stats.dropped.ack),
        ("dropped.get", stats.dropped.get),
        ("dropped.put", stats.dropped.put),
        ("dropped.reply", stats.dropped.reply),
        ("send_length", stats.send_length),
        ("recv_length", stats.recv_length),
        ("drop_length", stats.drop_length),
        ("response_timeout_count", stats.response_timeouts),
        ("local_error_count", stats.local_errors),
        ("remote_dropped_count", stats.remote_dropped),
        ("remote_error_count", stats.remote_errors),
        ("network_timeout_count", stats.network_timeouts),
        ("responses_refused", stats.responses_refused),
        ("misbehaved", stats.misbehaved),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
