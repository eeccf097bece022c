//! Runs random simulations of clients and servers with faults: `swarm [FIRST [COUNT]]`.

#[path = "../tests/faults/mod.rs"]
mod faults;
#[path = "../tests/world/mod.rs"]
mod world;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| match arguments.next() {
        None => default,
        Some(Ok(number)) => number,
        Some(Err(error)) => {
            eprintln!("swarm [FIRST [COUNT]]: {error}");
            std::process::exit(2);
        }
    };
    let (first, count) = (next(0), next(100));
    let mut failed = 0;
    for seed in first..first + count {
        match std::panic::catch_unwind(|| faults::run(seed, faults::Caches::Any)) {
            Ok(Ok(summary)) => println!("{seed}: {summary}"),
            Ok(Err(what)) => {
                failed += 1;
                println!("{seed}: FAILED: {what}");
            }
            Err(_) => {
                failed += 1;
                println!("{seed}: FAILED: an assertion");
            }
        }
    }
    println!("{failed} of {count} seeds failed");
    std::process::exit(i32::from(failed > 0));
}
