//! A bounded run of the swarm, and the runs that once failed.
//!
//! `LUSTRINE_SEEDS=1000` runs this number of seeds, `LUSTRINE_SEEDS=17..18` only these.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use lustrine_sim::swarm::{SwarmCase, generate, run};

/// Seeds of an ordinary test run.
const SEEDS: core::ops::Range<u64> = 0..40;

fn seeds() -> core::ops::Range<u64> {
    let Ok(text) = std::env::var("LUSTRINE_SEEDS") else { return SEEDS };
    let number = |text: &str| text.parse().expect("LUSTRINE_SEEDS is a number or a range a..b");
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&text),
    }
}

#[test]
fn the_first_seeds_run_without_failure() {
    let next = Mutex::new(seeds());
    let failed = Mutex::new(Vec::new());
    let worker = || {
        loop {
            let Some(seed) = next.lock().expect("no worker panics").next() else { return };
            let what = match catch_unwind(AssertUnwindSafe(|| run(&generate(seed)))) {
                Ok(Ok(_)) => continue,
                Ok(Err(failure)) => {
                    format!("after {} s: {}", failure.at.as_secs_f64(), failure.what)
                }
                Err(_) => "it panicked".to_owned(),
            };
            eprintln!("seed {seed} {what}");
            failed.lock().expect("no worker panics").push(seed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(worker);
        }
    });
    let failed = failed.into_inner().expect("no worker panics");
    assert!(failed.is_empty(), "seeds {failed:?}");
}

#[test]
fn runs_that_once_failed_succeed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/defects");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("scenarios/defects") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("a case");
            let case: SwarmCase = serde_json::from_str(&text).expect("a case");
            assert!(run(&case).is_ok(), "{}: {:?}", path.display(), run(&case));
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn cases_are_read_as_they_are_written() {
    for case in (0..100).map(generate) {
        let text = serde_json::to_string(&case).expect("plain data");
        assert_eq!(serde_json::from_str::<SwarmCase>(&text).expect("plain data"), case);
    }
}

#[test]
fn a_seed_determines_a_run() {
    for seed in [7, 8, 9, 10] {
        assert_eq!(run(&generate(seed)), run(&generate(seed)));
    }
    assert_ne!(run(&generate(7)), run(&generate(8)));
}
