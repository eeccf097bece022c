//! Random worlds: links, tunables, loads and faults of all kinds. Then the faults heal, and
//! everything must work, be quiet, and have come to nobody's harm.
//!
//! A seed is drawn into a [`Plan`], a plan is run_in, and what went wrong in it is told. Plans are
//! plain data: a plan that fails is made [smaller](shrink) and kept as a named scenario.

mod generate;
mod plan;
mod run;
mod shrink;

pub use generate::generate;
pub use plan::{Expectation, Fault, HashBy, Load, Node, Plan, Role, TestKind, Transport, Wire};
pub use run::{Failure, RunSummary, run, run_recorded, run_with_log};
pub use shrink::shrink;
