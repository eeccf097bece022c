//! Any sequence of operations on a small network of `lustrine-lnet` shards, with loss, late
//! completions, broken links, restarts, forged and repeated headers, and jumps of time.
//!
//! At the end every operation must have ended in one final event, and nothing may be held.

mod ledger;
pub mod steps;
mod world;

use steps::{Setup, Step};
use world::World;

/// Largest number of steps of one run.
const STEPS_MAX: usize = 256;

/// A network and its steps.
#[derive(arbitrary::Arbitrary, Debug)]
pub struct Scenario {
    /// The network.
    pub setup: Setup,
    /// The steps; only the first 256 are used.
    pub steps: Vec<Step>,
}

/// Runs the steps, then lets everything become quiet.
///
/// # Panics
/// When an operation does not end in one final event, or something is still held.
pub fn check(scenario: &Scenario) {
    let mut world = World::new(&scenario.setup);
    for step in scenario.steps.iter().take(STEPS_MAX) {
        world.take(step);
    }
    world.come_to_rest();
}
