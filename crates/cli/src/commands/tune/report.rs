//! The results.

use std::path::PathBuf;

use lustrine_tune::{
    Advice, Path, Purpose, Segments, Setting, Settings, Streams, bandwidth_delay_product,
};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use super::applied::Applied;
use super::budget::{Budget, Purse};
use super::load::{Direction, StreamsView};
use super::{MESSAGE, RPCS_BEFORE};
use crate::host_limits::{Dropped, HostLimits};

/// The part of the ramp's rate, in hundredths, that counts as reached.
const REACHED: u64 = 95;

/// All results.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// What could be used for all nodes.
    pub(super) budget: Budget,
    pub(super) purpose: Purpose,
    pub(super) peers: Vec<PeerReport>,
    /// Nodes that were not measured, or not to the end.
    pub(super) not_measured: Vec<NotMeasured>,
    /// The settings for all of the nodes that were: of each, the largest value.
    pub(super) settings: Option<Settings>,
    /// The files with them.
    pub(super) files: Vec<PathBuf>,
    /// What was changed on this host; `None` without --apply.
    pub(super) applied: Option<Applied>,
    /// What was not measured, and why.
    pub(super) unseen: Vec<&'static str>,
}

/// A node that was not measured, or not to the end.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NotMeasured {
    #[serde(serialize_with = "text")]
    pub(super) nid: Nid,
    pub(super) why: String,
}

/// What a run without load does not see.
const UNSEEN_IDLE: [&str; 2] = [
    "what the path carries, its MTU, losses and queues: no load was sent",
    "the peer's own peer_credits, connections and TCP buffers",
];

/// What a run with load does not see.
const UNSEEN: [&str; 5] = [
    "the peer's own peer_credits, connections and TCP buffers: they limit reads, in which the peer \
     sends",
    "whether segments of the peer that arrived out of order were lost or overtaken: its TCP knows",
    "queues of switches and routers, and queueing disciplines and interrupts of this host",
    "other traffic on the path: it is part of what was measured",
    "disks and the file system's servers: the load is LNet selftest",
];

/// What is known of the path to a node.
#[derive(Clone, Debug, Serialize)]
pub(super) struct PeerReport {
    #[serde(serialize_with = "text")]
    pub(super) nid: Nid,
    pub(super) rtt: Rtts,
    /// The values of the temporary node before.
    pub(super) values: NodeValues,
    pub(super) host: HostLimits,
    /// What was used of its part of the budget.
    pub(super) used: Budget,
    /// Lustre's default of RPCs, with the values before.
    pub(super) before: Option<Compared>,
    /// Ever more in flight, over one connection of each type.
    pub(super) ramp: Vec<StepRow>,
    /// The best of the ramp, over four connections of each type.
    pub(super) several_connections: Option<Compared>,
    /// How long the packets of the ramp were; `None` if TCP does not say it.
    pub(super) packets: Option<StreamsView>,
    /// Packets that the network device dropped during the ramp and with several connections, of all
    /// programs.
    pub(super) dropped: Option<Dropped>,
    /// Why the rate of the path may be higher than what was measured, or was not measured.
    pub(super) incomplete: Option<String>,
    /// Why the values before and after were not compared.
    pub(super) unverified: Option<String>,
    /// What the settings are computed from.
    pub(super) path: Option<Path>,
    /// The settings for this node alone.
    pub(super) settings: Option<Settings>,
    pub(super) advice: Vec<Advice>,
    /// The RPCs that two round trips need, with the values for them, if they did not reach the rate
    /// of the ramp: then more are advised.
    pub(super) by_round_trips: Option<Compared>,
    /// The advised RPCs, with the advised values.
    pub(super) after: Option<Compared>,
    /// More RPCs, as their latency asked for, which carried no more and are not advised.
    pub(super) more_tried: Option<Compared>,
    pub(super) notes: Vec<String>,
    /// Whether the rate is that of --rate.
    #[serde(skip)]
    pub(super) rate_is_given: bool,
    #[serde(skip)]
    pub(super) purse: Purse,
}

fn text<S: serde::Serializer>(nid: &Nid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(nid)
}

/// Round trips of small messages, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Rtts {
    pub(super) idle_min_ns: u64,
    pub(super) idle_median_ns: u64,
    /// The median in the fastest step of the ramp.
    pub(super) loaded_ns: Option<u64>,
}

/// Values of the temporary node.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NodeValues {
    /// `node` or `userland`.
    pub(super) identity: String,
    pub(super) peer_credits: u32,
    pub(super) credits: u32,
    pub(super) conns_per_peer: u16,
}

/// The same load in both directions.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Compared {
    /// RPCs of 1 MiB in flight.
    pub(super) in_flight: u32,
    /// `None`: the budget was too small.
    pub(super) read: Option<StepRow>,
    pub(super) write: Option<StepRow>,
}

impl Compared {
    pub(super) fn rows(&self) -> impl Iterator<Item = &StepRow> {
        [&self.read, &self.write].into_iter().flatten()
    }
}

/// A step of load.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StepRow {
    pub(super) test: Direction,
    /// RPCs of 1 MiB in flight.
    pub(super) in_flight: u32,
    /// Payload in bits per second.
    pub(super) rate: u64,
    /// RPCs that ended in the measured time.
    pub(super) rpcs: u64,
    /// The median latency of an RPC, in nanoseconds.
    pub(super) p50_ns: u64,
    /// The median of pings meanwhile, in nanoseconds.
    pub(super) rtt_ns: Option<u64>,
    /// CPU seconds of this process for each 10^9 bytes, its warm-up included.
    pub(super) cpu_s_per_gb: f64,
    /// Failed RPCs.
    pub(super) failed: u64,
    /// Whether the budget ended it early.
    pub(super) cut: bool,
    /// How long it was measured, in nanoseconds.
    pub(super) time_ns: u64,
    /// What TCP counted meanwhile.
    pub(super) segments: Option<Segments>,
}

impl StepRow {
    /// Whether it went to its end without a failure, and lasted long enough for a rate.
    pub(super) fn is_whole(&self) -> bool {
        self.failed == 0 && self.is_rate()
    }

    /// Whether it says what the path carried.
    pub(super) fn is_rate(&self) -> bool {
        !self.cut && !self.is_short()
    }

    /// Whether it lasted less than an RPC took. RPCs that ended in it had moved their data before,
    /// and the rate is what so many in flight carry at most with this latency.
    pub(super) fn is_short(&self) -> bool {
        self.time_ns < self.p50_ns
    }
}

impl Report {
    /// `loads`: whether load is sent.
    pub(super) fn new(purpose: Purpose, loads: bool) -> Report {
        let unseen = if loads { UNSEEN.to_vec() } else { UNSEEN_IDLE.to_vec() };
        Report {
            budget: Budget::default(),
            purpose,
            peers: Vec::new(),
            not_measured: Vec::new(),
            settings: None,
            files: Vec::new(),
            applied: None,
            unseen,
        }
    }

    /// The nodes that were measured, to the end so far.
    pub(super) fn measured(&self) -> impl Iterator<Item = &PeerReport> {
        let is_left_out = |nid| self.not_measured.iter().any(|one| one.nid == nid);
        self.peers.iter().filter(move |peer| !is_left_out(peer.nid))
    }

    /// Notes that a node was not measured, or not to the end.
    pub(super) fn leave_out(&mut self, nid: Nid, why: &str) {
        // Many reasons begin with the NID.
        let why = why.strip_prefix(&format!("{nid}: ")).unwrap_or(why).to_owned();
        self.not_measured.push(NotMeasured { nid, why });
    }

    /// Takes the largest value of each setting: one node has one value for all of its peers.
    pub(super) fn combine(&mut self) {
        let all = self.measured().filter_map(|peer| peer.settings);
        self.settings = all.reduce(|a, b| Settings {
            max_rpcs_in_flight: a.max_rpcs_in_flight.max(b.max_rpcs_in_flight),
            max_dirty_mib: a.max_dirty_mib.max(b.max_dirty_mib),
            peer_credits: a.peer_credits.max(b.peer_credits),
            credits: a.credits.max(b.credits),
            conns_per_peer: a.conns_per_peer.max(b.conns_per_peer),
            tcp_buffer: a.tcp_buffer.max(b.tcp_buffer),
            pages_per_rpc: a.pages_per_rpc.max(b.pages_per_rpc),
        });
    }

    /// RPCs that failed.
    pub(super) fn failures(&self) -> u64 {
        self.peers.iter().flat_map(PeerReport::steps).map(|row| row.failed).sum()
    }
}

impl PeerReport {
    pub(super) fn new(
        nid: Nid,
        rtt: Rtts,
        values: NodeValues,
        host: HostLimits,
        purse: Purse,
    ) -> PeerReport {
        PeerReport {
            nid,
            rtt,
            values,
            host,
            used: Budget::default(),
            before: None,
            ramp: Vec::new(),
            several_connections: None,
            packets: None,
            dropped: None,
            incomplete: None,
            unverified: None,
            path: None,
            settings: None,
            advice: Vec::new(),
            by_round_trips: None,
            after: None,
            more_tried: None,
            notes: Vec::new(),
            rate_is_given: false,
            purse,
        }
    }

    /// Every step of load.
    fn steps(&self) -> impl Iterator<Item = &StepRow> {
        let compared = [
            &self.before,
            &self.several_connections,
            &self.by_round_trips,
            &self.after,
            &self.more_tried,
        ];
        let rows = compared.into_iter().flatten().flat_map(Compared::rows);
        rows.chain(&self.ramp)
    }

    /// A path of which no RPC was seen to take longer than two round trips.
    pub(super) fn new_path(&self, rate: u64, streams: Streams) -> Path {
        Path { rtt_idle_ns: self.rtt.idle_min_ns, rate, streams, rpc_latency_ns: None }
    }

    /// The path once it is known what the run "before" carried, if that is more: than an incomplete
    /// ramp, or clearly more than a complete one. `one`: what the ramp carried over one connection.
    pub(super) fn with_run_before(&self, path: Path, one: u64, carried: u64) -> Path {
        // A userland node has one connection, whatever is set.
        let conns = match self.values.identity.as_str() {
            "node" => self.values.conns_per_peer,
            _ => 1,
        };
        let streams = match (self.incomplete.is_some(), conns) {
            (true, _) if carried > path.rate => Streams::Unknown,
            (false, 2..) if carried > path.rate.saturating_add(path.rate / 10) => Streams::One(one),
            (false, _) if carried > path.rate.saturating_add(path.rate / 10) => path.streams,
            _ => return path,
        };
        Path { rate: carried, streams, ..path }
    }

    /// How long RPCs took in the run with the new values, if that did not reach the rate that the
    /// ramp had in this direction and they took longer than two round trips, in nanoseconds. The
    /// longer one of both directions. `None` as well if much more was in flight than two round
    /// trips hold, as with the least number of RPCs or those smaller than the load's: then RPCs
    /// took longer because of that.
    pub(super) fn longer_latency(&self) -> Option<u64> {
        let Path { rate, rtt_idle_ns, .. } = self.path?;
        let round_trips = rtt_idle_ns.saturating_mul(2);
        let held = bandwidth_delay_product(rate, round_trips);
        if u64::from(self.after.as_ref()?.in_flight) * MESSAGE > held.saturating_add(held / 2) {
            return None;
        }
        let is_short =
            |row: &&StepRow| row.failed == 0 && !row.is_short() && self.reached(row) < REACHED;
        let slow = self.after.as_ref()?.rows().filter(is_short).map(|row| row.p50_ns);
        slow.max().filter(|latency| *latency > round_trips)
    }

    /// The rate of a run with new values that is more than a tenth above the one that settings are
    /// computed for, in bits per second. Less may be chance. `None` as well if these are for the
    /// speed of the interface already.
    pub(super) fn more_carried(&self) -> Option<u64> {
        let rate = self.path?.rate;
        if self.host.limits().interface_rate.is_some_and(|speed| speed <= rate) {
            return None;
        }
        let runs = [&self.by_round_trips, &self.after, &self.more_tried];
        let rows = runs.into_iter().flatten().flat_map(Compared::rows);
        let most = rows.filter(|row| row.is_whole()).map(|row| row.rate).max();
        most.filter(|most| *most > rate.saturating_add(rate / 10))
    }

    /// The highest rate of the ramp and with several connections.
    pub(super) fn ramp_rate(&self) -> Option<u64> {
        let several = self.several_connections.iter().flat_map(Compared::rows);
        let several = several.filter(|row| row.is_whole());
        self.of_ramp().chain(several).map(|row| row.rate).max()
    }

    /// The steps of the ramp that say what it carried: those that were too short only if
    /// there are no others in their direction.
    fn of_ramp(&self) -> impl Iterator<Item = &StepRow> {
        let has_rate = |test| self.ramp.iter().any(|row| row.test == test && row.is_rate());
        self.ramp.iter().filter(move |row| row.is_rate() || !has_rate(row.test))
    }

    /// The part, in hundredths, of the highest rate of the ramp and of the run "before" in the same
    /// direction.
    fn reached(&self, row: &StepRow) -> u64 {
        let before = self.before.iter().flat_map(Compared::rows).filter(|row| row.is_whole());
        let rows = self.of_ramp().chain(before).filter(|step| step.test == row.test);
        let best = rows.map(|step| step.rate).max().unwrap_or(0).max(1);
        u64::try_from(u128::from(row.rate) * 100 / u128::from(best)).unwrap_or(u64::MAX)
    }

    /// The same of the worse direction; `None` unless both were measured and no RPC failed.
    fn worst(&self, both: &Compared) -> Option<u64> {
        let rows = [both.read.as_ref()?, both.write.as_ref()?];
        let is_clean = rows.iter().all(|row| row.failed == 0);
        is_clean.then(|| rows.into_iter().map(|row| self.reached(row)).min()).flatten()
    }

    /// Whether the second run with new values reached the rate, or carried more than the first in
    /// its worse direction.
    pub(super) fn is_better(&self) -> bool {
        let worst = |both: &Option<Compared>| both.as_ref().and_then(|both| self.worst(both));
        worst(&self.after)
            .is_some_and(|second| second >= REACHED || worst(&self.by_round_trips) < Some(second))
    }

    /// What TCP counted in the steps of the ramp that carried at most half of the highest rate in
    /// their direction: losses there are no congestion of this load.
    pub(super) fn up_to_half(&self) -> Option<Segments> {
        self.counted(|row| self.reached(row) <= 50)
    }

    /// The same of the other steps, in which queues fill.
    pub(super) fn above_half(&self) -> Option<Segments> {
        self.counted(|row| self.reached(row) > 50)
    }

    fn counted(&self, wanted: impl Fn(&StepRow) -> bool) -> Option<Segments> {
        let rows = self.ramp.iter().filter(|row| wanted(row));
        rows.filter_map(|row| row.segments).reduce(|all, one| all.plus(&one))
    }

    /// The fastest step of the ramp in a direction.
    pub(super) fn fastest(&self, direction: Direction) -> Option<&StepRow> {
        self.ramp.iter().filter(|row| row.test == direction).max_by_key(|row| row.rate)
    }

    /// The value of a setting before, where it is known.
    pub(super) fn before(&self, setting: Setting) -> Option<u64> {
        match setting {
            Setting::MaxRpcsInFlight => Some(RPCS_BEFORE),
            Setting::MaxDirtyMib => None,
            Setting::PeerCredits => Some(self.values.peer_credits.into()),
            Setting::Credits => Some(self.values.credits.into()),
            Setting::ConnsPerPeer => Some(self.values.conns_per_peer.into()),
            Setting::TcpReceiveBuffer => self.host.tcp_rmem.map(|values| values[2]),
            Setting::TcpSendBuffer => self.host.tcp_wmem.map(|values| values[2]),
        }
    }
}

#[cfg(test)]
impl StepRow {
    /// A step of the whole time, of 100 RPCs, without failures.
    pub(super) fn whole(test: Direction, in_flight: u32, rate: u64, p50_ns: u64) -> StepRow {
        StepRow {
            test,
            in_flight,
            rate,
            rpcs: 100,
            p50_ns,
            rtt_ns: None,
            cpu_s_per_gb: 0.1,
            failed: 0,
            cut: false,
            time_ns: 3 * p50_ns,
            segments: None,
        }
    }
}

#[cfg(test)]
impl PeerReport {
    /// A peer at the end of an idle path of 50 ms, of which nothing else is known.
    pub(super) fn at_50_ms(host: HostLimits) -> PeerReport {
        let rtt_ns = 50_000_000;
        let rtt = Rtts { idle_min_ns: rtt_ns, idle_median_ns: rtt_ns, loaded_ns: None };
        let values = NodeValues {
            identity: "node".to_owned(),
            peer_credits: 8,
            credits: 256,
            conns_per_peer: 1,
        };
        let nid = "10.0.0.2@tcp".parse().expect("a NID");
        PeerReport::new(nid, rtt, values, host, Purse::default())
    }
}
