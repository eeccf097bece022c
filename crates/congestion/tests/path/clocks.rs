//! Nodes whose clocks differ.

use super::*;

#[test]
fn clocks_that_are_a_little_apart_are_enough() {
    // Over the short ones, a probe has many rounds.
    for (count, gbps, rtt) in [
        (2, 10.0, 50.0),
        (8, 10.0, 50.0),
        (16, 10.0, 50.0),
        (4, 1.0, 1.0),
        (2, 10.0, 1.0),
        (2, 25.0, 1.0),
        (4, 100.0, 1.0),
    ] {
        for (spread, least) in [(0.1, 0.98), (0.3, 0.9)] {
            let flow = |at: u64| {
                let ahead = Duration::from_secs_f64(spread * at as f64 / count as f64);
                Flow { begins: at * 2_130_000_000, ahead, ..Flow::new(MIB) }
            };
            let mut world = World::new(gbps, rtt, (0..count).map(flow).collect());
            world.run(80.0);
            let rates = world.rates(200.0);
            let index = fairness(&rates);
            assert!(index >= least, "{count}, clocks within {spread} s: {index:.3}, {rates:?}");
            let sum: f64 = rates.iter().sum();
            assert!(sum >= 0.95 * gbps * 1e9, "{count}, clocks within {spread} s: {sum}");
        }
    }
}

/// Nodes whose clocks have nothing to do with each other take queues of the others for the path:
/// none starves, but queues are long.
#[test]
fn without_a_common_clock_the_path_is_full_and_no_node_starves() {
    let flow = |at: u64| {
        let ahead = Duration::from_millis(610 * at);
        Flow { begins: at * 2_130_000_000, ahead, ..Flow::new(MIB) }
    };
    let mut world = World::new(10.0, 50.0, (0..8).map(flow).collect());
    world.run(80.0);
    let rates = world.rates(200.0);
    assert!(rates.iter().sum::<f64>() >= 9.5e9, "{rates:?}");
    assert!(rates.iter().all(|rate| *rate >= 0.3e9), "{rates:?}");
}
