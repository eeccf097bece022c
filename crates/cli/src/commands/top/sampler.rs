//! Asks the node and the mounts, each from a thread of its own: one that does not answer does not
//! hold up the other, or the keyboard.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer, Request};
use lustrine_fs::{OperationRow, TargetRow};
use lustrine_fuse::MountStatus;
use lustrine_node::control::Connection;
use lustrine_top::{MountSample, NodeSample, OperationSample, Sample, TargetSample, View};

use crate::output::Failure;

/// Most peers of which the histograms are asked for at each sample: each is some kilobytes.
const LATENCY_PEERS_MAX: usize = 256;
/// Most targets that are asked for their own operations at each sample, of all mounts together.
const TARGETS_MAX: usize = 128;

/// The latest two samples of a thread.
#[derive(Debug)]
struct Feed<T> {
    latest: Arc<Mutex<Option<Arc<T>>>>,
    then: Option<Arc<T>>,
    now: Option<Arc<T>>,
}

impl<T: Send + Sync + 'static> Feed<T> {
    /// Samples at this interval, until the process ends. Samples that are not fetched are replaced.
    fn begin(
        interval: Duration,
        name: &str,
        mut sample: impl FnMut() -> T + Send + 'static,
    ) -> Result<Feed<T>, Failure> {
        let latest = Arc::new(Mutex::new(None));
        let own = Arc::clone(&latest);
        let work = move || {
            let mut next = Instant::now();
            loop {
                let new = Arc::new(sample());
                *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
                // Time that was lost is not made up for.
                next = (next + interval).max(Instant::now());
                thread::sleep(next.saturating_duration_since(Instant::now()));
            }
        };
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Feed { latest, then: None, now: None })
    }

    /// Whether there is a new one; it is taken in then.
    fn pull(&mut self) -> bool {
        let new = self.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let fresh = new.is_some();
        if fresh {
            self.then = self.now.take();
            self.now = new;
        }
        fresh
    }
}

/// What a thread found, and what did not answer.
#[derive(Debug)]
struct Found<T> {
    at_ns: u64,
    value: T,
    notes: Vec<String>,
}

/// Samples of the node and of the mounts.
#[derive(Debug)]
pub(super) struct Sampler {
    node: Option<Feed<Found<Option<NodeSample>>>>,
    mounts: Feed<Found<Vec<MountSample>>>,
}

impl Sampler {
    /// Begins to ask the node at this control socket, and these mounts, or all of them.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn begin(
        node: Option<PathBuf>,
        dirs: Vec<PathBuf>,
        interval: Duration,
    ) -> Result<Sampler, Failure> {
        let begun = Instant::now();
        let now = move || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let node = node.map(|place| {
            let mut held = None;
            Feed::begin(interval, "lustrine-top-node", move || {
                let found = of_node(&place, &mut held);
                let at_ns = now();
                match found {
                    Ok((value, notes)) => Found { at_ns, value: Some(value), notes },
                    Err(why) => {
                        // It may be back at the next sample.
                        held = None;
                        Found { at_ns, value: None, notes: vec![why] }
                    }
                }
            })
        });
        let mounts = Feed::begin(interval, "lustrine-top-mounts", move || {
            let (value, notes) = of_mounts(&dirs);
            Found { at_ns: now(), value, notes }
        })?;
        Ok(Sampler { node: node.transpose()?, mounts })
    }

    /// Takes new samples in; whether there were any.
    pub(super) fn pull(&mut self) -> bool {
        let node = self.node.as_mut().is_some_and(Feed::pull);
        self.mounts.pull() | node
    }

    /// Whether all have been asked twice.
    pub(super) fn is_complete(&self) -> bool {
        self.node.as_ref().is_none_or(|feed| feed.then.is_some()) && self.mounts.then.is_some()
    }

    /// What happened between the latest two samples of each.
    pub(super) fn view(&self) -> View {
        let node = self.node.as_ref().map(|feed| (&feed.then, &feed.now));
        let (node_then, node_now) = node.unwrap_or((&None, &None));
        let then = sample(node_then.as_deref(), self.mounts.then.as_deref());
        let now = sample(node_now.as_deref(), self.mounts.now.as_deref());
        View::between(&then, &now)
    }
}

fn sample(
    node: Option<&Found<Option<NodeSample>>>,
    mounts: Option<&Found<Vec<MountSample>>>,
) -> Sample {
    let notes = node.map(|found| &found.notes).into_iter().chain(mounts.map(|found| &found.notes));
    Sample {
        // Mounts have a clock of their own.
        at_ns: node.map_or_else(|| mounts.map_or(0, |found| found.at_ns), |found| found.at_ns),
        node: node.and_then(|found| found.value.clone()),
        mounts: mounts.map(|found| found.value.clone()).unwrap_or_default(),
        notes: notes.flatten().cloned().collect(),
    }
}

fn of_node(
    place: &Path,
    held: &mut Option<Connection>,
) -> Result<(NodeSample, Vec<String>), String> {
    let connection = match held {
        Some(connection) => connection,
        None => held.insert(Connection::open(place).map_err(|error| error.to_string())?),
    };
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
    Ok((NodeSample { net, peers, stats: *stats, latencies }, notes))
}

/// The mount points of `lustrine mount`.
///
/// # Errors
/// When the kernel does not say which file systems are mounted.
pub(super) fn mounts() -> Result<Vec<PathBuf>, String> {
    lustrine_fuse::mount_points()
        .map_err(|error| format!("cannot read /proc/self/mountinfo: {error}"))
}

fn of_mounts(dirs: &[PathBuf]) -> (Vec<MountSample>, Vec<String>) {
    let (mut samples, mut notes) = (Vec::new(), Vec::new());
    let all = match dirs.is_empty() {
        false => dirs.to_vec(),
        true => mounts().unwrap_or_else(|why| {
            notes.push(why);
            Vec::new()
        }),
    };
    let mut room = TARGETS_MAX;
    for dir in all {
        match lustrine_fuse::status(&dir, None) {
            Ok(status) => samples.push(of_mount(&dir, status, &mut room)),
            Err(error) => notes.push(error.to_string()),
        }
    }
    (samples, notes)
}

fn of_mount(dir: &Path, status: MountStatus, room: &mut usize) -> MountSample {
    let client = status.client;
    let target = |row: TargetRow| {
        let mut operations = None;
        if *room > 0 {
            *room -= 1;
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
    MountSample {
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
    }
}

fn of_operation(row: OperationRow) -> OperationSample {
    let OperationRow { name, count, sum_us, p50_us, p99_us, .. } = row;
    OperationSample { name, count, sum_us, p50_us, p99_us }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_feed_has_the_latest_two_samples_and_no_more() {
        let (give, take) = mpsc::channel::<u32>();
        let (taken, wait) = mpsc::channel();
        let mut feed = Feed::begin(Duration::ZERO, "test", move || {
            let _ = taken.send(());
            take.recv().unwrap_or(u32::MAX)
        })
        .unwrap();
        assert!(!feed.pull());
        for value in 1..=3 {
            wait.recv().unwrap();
            give.send(value).unwrap();
        }
        // The third one is asked for once the second one is there.
        wait.recv().unwrap();
        feed.pull();
        let first = feed.now.as_deref().copied();
        assert_eq!((feed.then.as_deref(), first), (None, Some(3)));
        give.send(4).unwrap();
        wait.recv().unwrap();
        assert!(feed.pull());
        assert_eq!((feed.then.as_deref(), feed.now.as_deref()), (Some(&3), Some(&4)));
        assert!(!feed.pull());
    }
}
