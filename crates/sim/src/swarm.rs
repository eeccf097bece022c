//! Random simulations: links, tunables, loads and faults of all kinds. Afterwards the faults are
//! repaired, and everything must work, become quiet, and be intact.
//!
//! A seed determines a [`SwarmCase`], and [`run`] returns the summary of its run or what went wrong
//! in it. Cases are plain data: a case that fails is made [smaller](shrink) and kept as a named
//! scenario.

mod case;
mod generate;
mod run;
mod shrink;

pub use case::{
    Expectation, Fault, HashBy, Load, Node, Role, SwarmCase, TestKind, Transport, Wire,
};
pub use generate::generate;
pub use run::{Failure, FailureKind, RunSummary, run, run_recorded, run_with_log};
pub use shrink::shrink;
