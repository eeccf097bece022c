//! Random runs: see `faults/mod.rs`. `cargo run --release -p lustrine-server --example swarm` runs
//! many, and `LUSTRINE_SERVER_SEEDS=24..64` has the test run these.

use core::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

mod faults;
mod world;

use faults::Caches;

/// Seeds that once failed.
const FAILED: [u64; 17] =
    [78, 103, 106, 113, 161, 199, 222, 241, 335, 865, 1565, 1648, 3014, 6191, 6880, 11639, 19150];

/// Seeds that failed when clients that can be evicted had caches.
const FAILED_WITH_CACHES: [u64; 4] = [1881, 2250, 4073, 22851];

/// Seeds of an ordinary test run.
const SEEDS: Range<u64> = 0..24;

/// What is run: the seeds of the environment, or a bounded number of seeds and those that failed.
fn runs() -> Vec<(u64, Caches)> {
    let with = |caches| move |seed: u64| (seed, caches);
    if let Ok(text) = std::env::var("LUSTRINE_SERVER_SEEDS") {
        let number = |text: &str| text.parse().expect("LUSTRINE_SERVER_SEEDS is a range a..b");
        let (from, to) = text.split_once("..").expect("LUSTRINE_SERVER_SEEDS is a range a..b");
        return (number(from)..number(to)).map(with(Caches::Any)).collect();
    }
    let any = SEEDS.chain(FAILED_WITH_CACHES).map(with(Caches::Any));
    any.chain(FAILED.map(with(Caches::WithoutEvictions))).collect()
}

#[test]
fn clients_survive_what_happens_to_servers_and_networks() {
    let runs = runs();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || {
        while let Some((seed, caches)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let run = || faults::run(*seed, *caches).map(|_| ());
            let outcome = catch_unwind(AssertUnwindSafe(run));
            if let Err(what) = outcome.unwrap_or_else(|_| Err("it panicked".to_owned())) {
                failed.lock().expect("no worker panics").push(format!("seed {seed}: {what}"));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    let failed = failed.into_inner().expect("no worker panics");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
