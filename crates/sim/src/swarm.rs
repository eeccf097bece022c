//! Random simulations: links, tunables, loads and faults of all kinds. Afterwards the faults are
//! repaired, and everything must work, become quiet, and be intact.
//!
//! A seed determines a [`SwarmPlan`], and [`run`] returns the summary of its run or what went wrong
//! in it. Plans are plain data: a plan that fails is made [smaller](shrink) and kept as a named
//! scenario.

mod generate;
mod plan;
mod run;
mod shrink;

pub use generate::generate;
pub use plan::{
    Expectation, Fault, HashBy, Load, Node, Role, SwarmPlan, TestKind, Transport, Wire,
};
pub use run::{Failure, RunSummary, run, run_recorded, run_with_log};
pub use shrink::shrink;
