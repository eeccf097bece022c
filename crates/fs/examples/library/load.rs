//! A load: so many operations in flight at once, each followed by the next one of its slot.
//!
//! The operations are started in the event loop of the client, as adapters do
//! (`FileSystem::post`); no thread waits for one of them.

use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use hdrhistogram::Histogram;
use lustrine_client::{Client, ClientError, Done};
use lustrine_fs::FileSystem;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::{Nanos, Time};
use serde_json::{Value, json};

/// Longest latency that is distinguished, in nanoseconds, and its significant decimal digits.
const LATENCY_MAX: u64 = 60_000_000_000;
const DIGITS: u8 = 3;
/// The longest time without the end of any operation.
const STUCK: Duration = Duration::from_secs(60);

/// Starts the operation of a number, and calls what goes on when it is over.
pub(crate) type Start = dyn Fn(&mut Client, &mut Turn<'_>, u64, Done<()>) + Send + Sync;
/// The same in a box.
pub(crate) type Operation = Box<Start>;

/// How long a load runs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bound {
    /// For a time, after another one that is not counted.
    Time { warm_up: Nanos, length: Nanos },
    /// Until so many operations are over, of which the first ones are not counted.
    Count { warm_up: u64, total: u64 },
}

/// What a load is.
pub(crate) struct LoadArgs<'a> {
    /// Its name in the results.
    pub(crate) name: &'a str,
    /// Bytes of an operation; 0 if it moves none.
    pub(crate) size: u64,
    /// Operations in flight at once.
    pub(crate) slots: u32,
    pub(crate) bound: Bound,
    /// The process of the servers, whose CPU time is reported.
    pub(crate) servers: u32,
}

/// What was measured so far.
struct Measured {
    first: Option<Time>,
    /// When the measurement began, with the number of operations until then.
    begin: Option<(Time, u64)>,
    last: Time,
    over: u64,
    error: Option<ClientError>,
    stop: bool,
    latencies: Histogram<u64>,
}

struct Load {
    operation: Operation,
    bound: Bound,
    next: AtomicU64,
    measured: Mutex<Measured>,
    ended: mpsc::Sender<()>,
}

impl Load {
    /// The number of the next operation, if there is to be one.
    fn take(&self) -> Option<u64> {
        if self.measured.lock().unwrap_or_else(PoisonError::into_inner).stop {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        match self.bound {
            Bound::Count { total, .. } if number >= total => None,
            _ => Some(number),
        }
    }

    fn over(&self, began: Time, now: Time, outcome: Result<(), ClientError>) {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = outcome {
            measured.error.get_or_insert(error);
            measured.stop = true;
            return;
        }
        if measured.stop {
            return;
        }
        let first = *measured.first.get_or_insert(began);
        measured.over += 1;
        measured.last = now;
        match measured.begin {
            Some((begin, _)) => {
                measured.latencies.saturating_record(now.since(began).0);
                if let Bound::Time { length, .. } = self.bound {
                    measured.stop = now.since(begin) >= length;
                }
            }
            None => {
                let warm = match self.bound {
                    Bound::Time { warm_up, .. } => now.since(first) >= warm_up,
                    Bound::Count { warm_up, .. } => measured.over >= warm_up,
                };
                if warm {
                    measured.begin = Some((now, measured.over));
                }
            }
        }
    }
}

/// Starts the next operation of a slot, unless the load is over. Operations that are over when they
/// were started follow each other in a loop, so that they do not fill the stack.
fn next(client: &mut Client, turn: &mut Turn<'_>, load: &Arc<Load>) {
    while let Some(number) = load.take() {
        let began = turn.now;
        let this = Arc::clone(load);
        // The second of these two goes on: the end of the operation, or the return from its start.
        let first = Arc::new(AtomicBool::new(true));
        let is_first = Arc::clone(&first);
        let done: Done<()> = Box::new(move |client, turn, outcome| {
            this.over(began, turn.now, outcome);
            if !is_first.swap(false, Ordering::Relaxed) {
                next(client, turn, &this);
            }
        });
        (load.operation)(client, turn, number, done);
        if first.swap(false, Ordering::Relaxed) {
            return;
        }
    }
    // The measuring thread may have given up.
    let _ = load.ended.send(());
}

/// Runs a load to its end.
pub(crate) fn run(
    files: &FileSystem,
    args: &LoadArgs<'_>,
    operation: Operation,
) -> Result<Value, Box<dyn Error>> {
    let (ended, all_ended) = mpsc::channel();
    let measured = Measured {
        first: None,
        begin: None,
        last: Time::ZERO,
        over: 0,
        error: None,
        stop: false,
        latencies: Histogram::new_with_bounds(1, LATENCY_MAX, DIGITS)?,
    };
    let (bound, next_number) = (args.bound, AtomicU64::new(0));
    let load =
        Arc::new(Load { operation, bound, next: next_number, measured: measured.into(), ended });
    let before = (cpu_seconds("self")?, cpu_seconds(&args.servers.to_string())?);
    for _ in 0..args.slots {
        let load = Arc::clone(&load);
        files.post(move |client, turn| next(client, turn, &load))?;
    }
    for _ in 0..args.slots {
        wait(&all_ended, &load)?;
    }
    let cpu = (cpu_seconds("self")?, cpu_seconds(&args.servers.to_string())?);
    let measured = load.measured.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(error) = &measured.error {
        return Err(format!("{}: {error}", args.name).into());
    }
    let (begin, earlier) = measured.begin.ok_or("the load ended before its measurement began")?;
    let ops = measured.over - earlier;
    let seconds = Duration::from_nanos(measured.last.since(begin).0).as_secs_f64();
    // CPU time is that of the warm-up as well.
    let share = ops as f64 / measured.over as f64;
    let quantile = |part| measured.latencies.value_at_quantile(part) as f64 / 1e3;
    Ok(json!({
        "test": args.name,
        "size": args.size,
        "concurrency": args.slots,
        "seconds": seconds,
        "ops": ops,
        "ops_per_s": ops as f64 / seconds,
        "mib_per_s": args.size as f64 * ops as f64 / seconds / f64::from(1 << 20),
        "latency_us": {"p50": quantile(0.5), "p99": quantile(0.99)},
        "errors": 0,
        "cpu_s": {"client": (cpu.0 - before.0) * share, "server": (cpu.1 - before.1) * share},
    }))
}

/// Waits for the end of a slot, as long as operations end.
fn wait(ended: &mpsc::Receiver<()>, load: &Load) -> Result<(), Box<dyn Error>> {
    let over = || load.measured.lock().unwrap_or_else(PoisonError::into_inner).over;
    let mut before = over();
    loop {
        match ended.recv_timeout(STUCK) {
            Ok(()) => return Ok(()),
            Err(_) if over() == before => return Err("no operation ends any more".into()),
            Err(_) => before = over(),
        }
    }
}

/// CPU seconds of all threads of a process.
fn cpu_seconds(process: &str) -> Result<f64, Box<dyn Error>> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        let text = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(nanos as f64 / 1e9)
}
