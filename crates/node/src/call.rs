//! Carries out the requests of the control API, from inside the process and from the socket.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use lustrine_control::{
    Answer, CpuSeconds, Messages, NetInfo, NetRow, NodeAbout, PeerIdentity, PeerNiRow, PeerRow,
    Request, StatsRow,
};
use lustrine_lnet::driver_report::DriverPeer;
use lustrine_lnet::latency::Summaries;
use lustrine_lnet::shard::PeerState;
use lustrine_lnet::stats::Stats;
use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_partition::ProbeResult;
use lustrine_partition::tunables::TABLE;
use lustrine_selftest::console::Command;
use lustrine_sys::Clock;
use lustrine_wire::nid::Nid;

use crate::change::{self, Mode};
use crate::console;
use crate::error::{CallError, LoadError};
use crate::handle::{NodeHandle, REPORT_TIMEOUT, own_netns};
use crate::load;
use crate::mailbox::{LoopMessage, home_loop};
use crate::ni_state;
use crate::snapshot::LoopReport;

mod conn;
mod error;
mod latency;

/// Longest time-out of a request, in milliseconds: one day.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// How long a node may work on a request.
pub(crate) fn duration_max(request: &Request) -> Duration {
    match request {
        Request::Ping { timeout_ms, .. } | Request::Discover { timeout_ms, .. } => {
            Duration::from_millis((*timeout_ms).min(TIMEOUT_MS_MAX))
        }
        Request::ShowNet
        | Request::ShowPeer
        | Request::ShowConn { .. }
        | Request::ShowStats
        | Request::ShowLatency { .. }
        | Request::ShowTunables
        | Request::ShowConfig => Duration::ZERO,
        Request::Change { .. } => change::DURATION_MAX,
        Request::Load { .. } => load::DURATION_MAX,
        Request::Console { command, .. } => console::duration_max(command) + console::QUEUE_MAX,
    }
}

impl NodeHandle {
    /// Carries out a request; an error becomes [`Answer::Error`].
    pub fn call(&self, request: &Request) -> Answer {
        let answer = match request {
            Request::Ping { nid, timeout_ms } => self.ping(*nid, *timeout_ms),
            Request::Discover { nid, timeout_ms } => self.discover(*nid, *timeout_ms),
            Request::ShowNet => self.show_net(),
            Request::ShowPeer => self.show_peer(),
            Request::ShowConn { nid } => self.show_conn(*nid),
            Request::ShowStats => self.show_stats(),
            Request::ShowLatency { nid } => self.show_latency(*nid),
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
            Request::Console { key, command, held: _ } => {
                let answer = self.console(*key, Command::clone(command));
                answer.map(|outcome| Answer::Console { outcome })
            }
            // A load belongs to a caller, which this function does not know.
            Request::Load { .. } => Err(LoadError::None.into()),
        };
        answer.unwrap_or_else(|error| error_answer(&error))
    }

    /// What it says of itself to a caller: its primary NID, identity and network namespace.
    pub fn about(&self) -> NodeAbout {
        let info = self.info();
        NodeAbout {
            nid: info.nids.first().copied(),
            identity: identity_name(info.identity).to_owned(),
            netns: own_netns(),
        }
    }

    fn ping(&self, nid: Nid, timeout_ms: u64) -> Result<Answer, CallError> {
        let timeout = time_out(nid, timeout_ms)?;
        let (reply, answer) = mpsc::channel();
        let message = LoopMessage::Ping { nid, timeout, reply };
        let ProbeResult::Ping(found) = self.ask(&nid, message, &answer, timeout)? else {
            return Err(CallError::NotResponding);
        };
        let found = found.map_err(|status| self.failed("ping", nid, status))?;
        Ok(Answer::Ping {
            identity: PeerIdentity {
                primary_nid: found.primary,
                multi_rail: is_multi_rail(found.features),
                peer_ni: peer_ni_rows(&found.nids),
            },
            features: found.features,
            sequence: found.sequence,
            rtt_us: found.round_trip.0 as f64 / 1e3,
        })
    }

    fn discover(&self, nid: Nid, timeout_ms: u64) -> Result<Answer, CallError> {
        let timeout = time_out(nid, timeout_ms)?;
        let end = Instant::now() + Duration::from_nanos(timeout.0);
        let (reply, answer) = mpsc::channel();
        let message = LoopMessage::Discover { nid, timeout, reply };
        let ProbeResult::Discover(found) = self.ask(&nid, message, &answer, timeout)? else {
            return Err(CallError::NotResponding);
        };
        found.map_err(|status| self.failed(error::DISCOVER, nid, status))?;
        let Answer::Peer { peers } = self.show_peer()? else {
            unreachable!("show_peer answers with peers");
        };
        let mut peer =
            peers.into_iter().find(|peer| peer.nid == nid).ok_or(CallError::NotResponding)?;
        if peer.features.is_none() {
            // A userland node pushes its own information and need not ping ([USR-4]), but the
            // caller wants the peer's. The peer counts as discovered without an answer, too.
            let left = end.saturating_duration_since(Instant::now()).as_millis() as u64;
            if let Ok(Answer::Ping { identity, features, .. }) = self.ping(nid, left) {
                (peer.identity, peer.features) = (identity, Some(features));
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

    fn show_net(&self) -> Result<Answer, CallError> {
        let reports = self.reports()?;
        let info = self.info();
        let timed = self.takes_latencies();
        let mut down = ni_state::down(&info);
        let nets = (0..info.nids.len())
            .map(|index| {
                let mut row = NetRow {
                    nid: info.nids[index],
                    interface: info.interfaces[index].clone(),
                    down: down[index].take(),
                    listening: info.listening[index],
                    port: info.ports[index],
                    conns_per_peer: info.conns_per_peer[index],
                    peer_credits: info.peer_credits[index],
                    credits_configured: info.config.nets[index].credits.unwrap_or(0),
                    credits: 0,
                    credits_available: 0,
                    credits_min: 0,
                    messages: Messages::default(),
                };
                let mut latency = Summaries::default();
                let nis = reports.iter().flat_map(|report| &report.nis);
                for ni in nis.filter(|ni| ni.nid == info.nids[index]) {
                    row.credits += ni.credits;
                    row.credits_available += ni.credits_available;
                    row.credits_min += ni.credits_low;
                    row.messages.sent += ni.counters.sent;
                    row.messages.received += ni.counters.received;
                    row.messages.dropped += ni.counters.dropped;
                    latency.add(&ni.latency);
                }
                if timed {
                    row.messages.latency = latency::summary_rows(&latency);
                }
                row
            })
            .collect();
        Ok(Answer::Net(NetInfo {
            identity: identity_name(info.identity).to_owned(),
            identity_reason: info.identity_reason.to_owned(),
            selftest: info.config.selftest.mode.to_string(),
            selftest_consoles: info.config.selftest.consoles.to_string(),
            cpts: info.partitions.clone(),
            nets,
        }))
    }

    fn show_peer(&self) -> Result<Answer, CallError> {
        let mut peers: Vec<PeerRow> = self.reports()?.iter().flat_map(peer_rows).collect();
        if !self.takes_latencies() {
            peers.iter_mut().for_each(|peer| peer.messages.latency.clear());
        }
        peers.sort_by_key(|peer| peer.nid);
        Ok(Answer::Peer { peers })
    }

    fn show_stats(&self) -> Result<Answer, CallError> {
        let reports = self.reports()?;
        let mut stats = Stats::default();
        let mut row = StatsRow::default();
        for report in &reports {
            stats.add(&report.stats);
            row.connections += report.connections as u64;
            row.memory_mapped += report.memory_mapped;
            for counter in &report.driver {
                let counters = row.drivers.entry(counter.driver.to_owned()).or_default();
                *counters.entry(counter.name.to_owned()).or_default() += counter.value;
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
            lnd_timeout: tunables.lnet.lnd_timeout(),
        }
    }
}

/// An error as an answer.
pub(crate) fn error_answer(error: &CallError) -> Answer {
    Answer::Error {
        errno: error.errno(),
        message: error.to_string(),
        hint: error.hint().to_owned(),
    }
}

/// `node` or `userland`.
pub(crate) fn identity_name(identity: Identity) -> &'static str {
    match identity {
        Identity::Node => "node",
        Identity::Userland => "userland",
    }
}

/// The time-out of a request to a peer.
fn time_out(nid: Nid, timeout_ms: u64) -> Result<Nanos, CallError> {
    match nid.is_any() {
        true => Err(CallError::InvalidNid(nid)),
        false => Ok(Nanos::from_millis(timeout_ms.clamp(1, TIMEOUT_MS_MAX))),
    }
}

/// Whether the NIDs of a node with these feature bits belong together.
fn is_multi_rail(features: u32) -> bool {
    const MULTI_RAIL: u32 = 8;
    features & MULTI_RAIL != 0
}

fn peer_ni_rows(nids: &[(Nid, bool)]) -> Vec<PeerNiRow> {
    nids.iter().map(|(nid, up)| PeerNiRow { nid: *nid, up: *up }).collect()
}

fn peer_rows(report: &LoopReport) -> Vec<PeerRow> {
    let mut links: HashMap<Nid, Vec<&DriverPeer>> = HashMap::new();
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
                for (name, count) in link.connections.iter().filter(|(_, count)| *count > 0) {
                    *connections.entry((*name).to_owned()).or_default() += count;
                }
                userland += u32::from(link.open() > 0 && link.id.is_userland());
                version = link.version.map(str::to_owned).or(version);
            }
            let says_multi_rail = peer.features.is_some_and(is_multi_rail);
            PeerRow {
                nid: peer.nid,
                identity: PeerIdentity {
                    primary_nid: peer.primary,
                    multi_rail: peer.configured.unwrap_or(says_multi_rail),
                    peer_ni: peer_ni_rows(&peer.nids),
                },
                cpt: report.cpt,
                state: match peer.state {
                    PeerState::Unknown => lustrine_control::PeerState::Unknown,
                    PeerState::Discovering => lustrine_control::PeerState::Discovering,
                    PeerState::Ready => lustrine_control::PeerState::Ready,
                },
                configured: peer.configured,
                features: peer.features,
                credits: peer.credits,
                credits_available: peer.credits_available,
                credits_min: peer.credits_low,
                window_bytes: report.windows.get(&peer.nid).map(|window| window.bytes),
                window_used_bytes: report.windows.get(&peer.nid).map(|window| window.in_flight),
                messages: Messages {
                    sent: peer.counters.sent,
                    received: peer.counters.received,
                    dropped: peer.counters.dropped,
                    latency: latency::summary_rows(&peer.latency),
                },
                userland,
                connections,
                version,
            }
        })
        .collect()
}

/// LNet's counters under the names that lnetctl prints. Dropped messages are also counted by type,
/// as `dropped.` and the type.
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
