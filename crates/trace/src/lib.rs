//! Traces of simulations, and what happened to one RPC, message by message.
//!
//! A [`Trace`] is made of the [`Recording`](lustrine_sim::Recording) of a simulation and written as
//! lines of JSON. After it is read again, the steps of all nodes are [linked](link_rpcs) into
//! [`Rpc`]s, each of which has a [time line](Rpc::timeline) and a [breakdown of its
//! time](Rpc::phases).
#![forbid(unsafe_code)]

mod file;
mod format;
mod link;
mod phases;
mod rpc;

pub use file::{Trace, TraceError, TraceReader};
pub use format::{
    FromTo, Hex, LIMIT_DEFAULT, LIMIT_MAX, LINE_MAX, MessageKind, Step, TraceHeader, TraceLine,
    VERSION, Verdict, WaitKind,
};
pub use link::link_rpcs;
pub use phases::{Phase, PhaseKind, TimelineEntry, Wait};
pub use rpc::{Message, Outcome, Rpc, printable};
