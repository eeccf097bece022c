//! The end of an adversarial run: only what must hold with any values is required.

use lustrine_lnet::time::Nanos;
use lustrine_partition::tunables::Tunables;

use super::{Growth, LOADS_MAX, SECOND, Swarm, count, nothing_corrupt, summary};
use crate::check;
use crate::simulation::Simulation;
use crate::swarm::case::SwarmCase;

/// The limit of a load; then it is ended.
const LOAD: Nanos = Nanos::from_secs(60);

/// The time-out of a ping or a discovery during the faults.
const PROBE: Nanos = Nanos::from_secs(5);

/// The largest number of consecutive time-outs that an operation may have to wait for.
const TIMEOUTS_IN_A_ROW: u64 = 4;

impl Swarm {
    /// Loads and pings may fail. They must end, no corrupt data may be accepted, and when they have
    /// ended everything must become quiet: credits, queues, loops, and after some loads memory.
    pub(super) fn rest_of_wild_life(&mut self, case: &SwarmCase) -> Result<(), String> {
        let patience = self.patience(case);
        self.end_load(patience)?;
        self.ping_all();
        let mut growth = Growth::default();
        for _ in 0..LOADS_MAX {
            self.start_load(&case.load_after_recovery)?;
            self.end_load(patience)?;
            self.come_to_rest(patience)?;
            if growth.is_over(&self.world) {
                return Ok(());
            }
        }
        Err(growth.reason())
    }

    /// One node pings or discovers another during the faults; each operation gets one result in the
    /// end.
    pub(super) fn probe(&mut self, number: usize) {
        let count = self.nodes.len();
        let (host, _) = self.nodes[number % count];
        // All pairs occur over time, including a node and itself.
        let (_, nid) = self.nodes[(number + number / count) % count];
        match number % 2 {
            0 => self.world.ping(host, &nid, PROBE),
            _ => self.world.discover(host, &nid, PROBE),
        };
    }

    /// After at most this time, abandoned operations have ended: because of the time-outs, and
    /// because data in flight arrives as long as some of it does.
    fn patience(&self, case: &SwarmCase) -> Nanos {
        let length = |tunables: &Tunables| {
            let seconds = tunables.selftest.rpc_timeout
                + tunables.selftest.session_timeout
                + tunables.lnet.transaction_timeout
                + tunables.lnet.message_timeout()
                + 2 * tunables.socklnd.sock_timeout
                + tunables.socklnd.accept_timeout
                + tunables.socklnd.max_reconnectms / 1000
                + tunables.socklnd.min_reconnectms / 1000;
            Nanos::from_secs(60 + seconds as u64)
        };
        let longest = self.world.nodes().map(|(_, node)| length(&node.spec().tunables)).max();
        Nanos(longest.unwrap_or_default().0 * TIMEOUTS_IN_A_ROW + time_in_flight(case))
    }

    /// Waits for the load for a while, then ends it; the data must be correct.
    fn end_load(&mut self, patience: Nanos) -> Result<(), String> {
        let _ = self.wait(LOAD, |client| client.step_finished());
        let now = self.world.now();
        for (host, lane) in self.clients() {
            if let Some(client) = Simulation::client(&mut self.world, host, lane) {
                client.finish(now);
            }
        }
        self.wait(patience, |client| client.finished())?;
        for (host, lane) in self.clients() {
            let Some(client) = self.world.peek(host, lane) else { continue };
            let snapshot = client.progress(now);
            self.operations = count(self.operations, &snapshot);
            nothing_corrupt(&snapshot).map_err(|what| format!("{host:?}: {what}"))?;
            if snapshot.outstanding != 0 {
                return Err(format!("{host:?}: a load that ended: {}", summary(&snapshot)));
            }
        }
        Ok(())
    }

    /// Waits until everything is quiet and no answer is awaited any more: a server keeps its
    /// buffers as long as it waits for data of a client that has given up.
    fn come_to_rest(&mut self, patience: Nanos) -> Result<(), String> {
        let end = self.world.now() + patience;
        let mut step = SECOND;
        loop {
            self.world.run_for(step);
            let mut wrong = check::leftovers(self.world.nodes());
            let partitions = self.world.nodes().flat_map(|(_, node)| node.partitions());
            let awaited: usize =
                partitions.map(|partition| partition.shard().pending_answers()).sum();
            if wrong.is_empty() && awaited == 0 {
                break;
            }
            wrong.push(format!("{awaited} answers are awaited"));
            if self.world.now() >= end {
                return Err(format!("not quiet: {}", wrong.join("; ")));
            }
            step = Nanos(step.0 * 2).min(end.since(self.world.now()).max(SECOND));
        }
        let wrong: Vec<String> =
            self.world.nodes().flat_map(|(_, node)| check::rest(node)).collect();
        if wrong.is_empty() { Ok(()) } else { Err(format!("no rest: {}", wrong.join("; "))) }
    }
}

/// How long the slowest of a case's links takes for everything that its loads can have in flight at
/// once, in nanoseconds: a byte takes its share of the bandwidth, and of the round trips of a
/// window.
fn time_in_flight(case: &SwarmCase) -> u64 {
    let loads = case.load_under_faults.iter().chain(&case.load_after_recovery);
    let bytes: u64 = loads.map(|load| u64::from(load.bytes) * u64::from(load.concurrency)).sum();
    let per_byte = case.links.iter().map(|link| {
        let round_trip = 2 * (link.latency_us + link.jitter_us) * 1000;
        round_trip / link.window.max(1) + 8000 / link.megabits.max(1) + 1
    });
    bytes * case.nodes.len() as u64 * per_byte.max().unwrap_or(0)
}
