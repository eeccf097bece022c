//! What a node and a mount say when they are asked.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lustrine_control::{Answer, Request};
use lustrine_fs::{OperationRow, TargetRow};
use lustrine_node::control::Connection;
use lustrine_top::{MountSample, NodeSample, OperationSample, TargetSample};
use lustrine_tune::apply::NodeStart;

use crate::commands::tune::start::connect;

/// Most peers of which the histograms are asked for at each sample: each is some kilobytes.
const LATENCY_PEERS_MAX: usize = 256;
/// Most targets that are asked for their own operations at each sample, of all mounts together.
const TARGETS_MAX: usize = 128;

/// How many targets of a mount are asked for their own operations: a part of what all mounts
/// have together, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    free: Arc<AtomicUsize>,
    held: usize,
}

impl Room {
    /// All that there is, for [`Room::share`].
    pub(super) fn whole() -> Arc<AtomicUsize> {
        Arc::new(AtomicUsize::new(TARGETS_MAX))
    }

    /// The part of another mount: nothing so far.
    pub(super) fn share(free: &Arc<AtomicUsize>) -> Room {
        Room { free: Arc::clone(free), held: 0 }
    }

    /// Takes as much of this as others have left, or gives back what is more; how many it is.
    fn resize(&mut self, wanted: usize) -> usize {
        let mut held = self.held;
        // Only the number counts: nothing else is handed over with it.
        let _ = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
            held = wanted.min(self.held + free);
            Some(self.held + free - held)
        });
        self.held = held;
        held
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.resize(0);
    }
}

pub(super) fn of_node(
    place: &Path,
    held: &mut Option<(Connection, NodeStart)>,
) -> Result<(NodeSample, Vec<String>), String> {
    let (connection, start) = match held {
        Some(held) => held,
        None => held.insert(connect(place).map_err(|error| error.to_string())?),
    };
    let NodeStart { inode, made_s, made_ns } = *start;
    let start = format!("{inode} {made_s} {made_ns}");
    let mut ask = |request: &Request| match connection.ask(request) {
        Ok(Answer::Error { message, .. }) => Err(message),
        Ok(answer) => Ok(answer),
        Err(error) => Err(error.to_string()),
    };
    let unexpected = || "unexpected reply from the node; the versions may differ".to_owned();
    let Answer::Net(net) = ask(&Request::ShowNet)? else { return Err(unexpected()) };
    let Answer::Peer { peers } = ask(&Request::ShowPeer)? else { return Err(unexpected()) };
    let Answer::Stats { stats } = ask(&Request::ShowStats)? else { return Err(unexpected()) };
    let mut notes = Vec::new();
    let latencies = match peers.len() <= LATENCY_PEERS_MAX {
        true => {
            let asked = ask(&Request::ShowLatency { nid: None })?;
            let Answer::Latency { nets, peers, .. } = asked else { return Err(unexpected()) };
            nets.into_iter().chain(peers).collect()
        }
        false => {
            notes.push(format!("round trips are left out: more than {LATENCY_PEERS_MAX} peers"));
            Vec::new()
        }
    };
    Ok((NodeSample { start, net, peers, stats: *stats, latencies }, notes))
}

/// Asks the mount at a directory, and each of its first targets for its own operations.
///
/// # Errors
/// When no mount is there, or it may not be asked.
pub(super) fn of_mount(dir: &Path, room: &mut Room) -> Result<MountSample, String> {
    let status = lustrine_fuse::status(dir, None).map_err(|error| error.to_string())?;
    let client = status.client;
    let mut left = room.resize(client.targets.len());
    let target = |row: TargetRow| {
        let mut operations = None;
        if left > 0 {
            left -= 1;
            operations = lustrine_fuse::status(dir, Some(&row.name))
                .ok()
                .and_then(|own| own.client.targets.into_iter().next())
                .map(|own| own.operations.into_iter().map(of_operation).collect());
        }
        TargetSample {
            name: row.name,
            state: row.state,
            nid: row.nid,
            in_flight: row.in_flight as u64,
            waiting: row.waiting as u64,
            evictions: row.evictions,
            operations,
        }
    };
    Ok(MountSample {
        dir: dir.display().to_string(),
        source: status.source,
        pid: status.pid,
        mounted_s: client.mounted_s,
        max_rpcs_in_flight: client.max_rpcs_in_flight,
        max_rpcs_in_flight_auto: client.max_rpcs_in_flight_auto,
        rpcs: client.rpcs as u64,
        rpcs_sent: client.rpcs_sent,
        bulk_received: client.bulk_received,
        bulk_sent: client.bulk_sent,
        dirty: client.cache.dirty,
        cached: client.cache.cached,
        open_files: client.open_files as u64,
        targets: client.targets.into_iter().map(target).collect(),
        targets_left_out: status.targets_left_out,
        operations: client.operations.into_iter().map(of_operation).collect(),
    })
}

fn of_operation(row: OperationRow) -> OperationSample {
    let OperationRow { name, count, sum_us, p50_us, p99_us, .. } = row;
    OperationSample { name, count, sum_us, p50_us, p99_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_share_the_targets_that_are_asked() {
        let whole = Room::whole();
        let (mut one, mut other) = (Room::share(&whole), Room::share(&whole));
        assert_eq!((one.resize(100), other.resize(100)), (100, 28));
        // As before, as long as they have as many targets.
        assert_eq!((one.resize(100), other.resize(100)), (100, 28));
        assert_eq!((one.resize(50), other.resize(100)), (50, 78));
        drop(one);
        assert_eq!(other.resize(1000), TARGETS_MAX);
        drop(other);
        assert_eq!(whole.load(Ordering::Relaxed), TARGETS_MAX);
    }
}
