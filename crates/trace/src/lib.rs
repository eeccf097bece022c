//! Traces of simulations, and what happened to one RPC, message by message.
//!
//! A [`Trace`] is made of the [`Recording`](lustrine_sim::Recording) of a simulation and written as
//! lines of JSON; read again, the steps of all nodes are [linked](linked) into [`Rpc`]s, each of
//! which tells its [time line](Rpc::moments) and [where its time went](Rpc::phases).
#![forbid(unsafe_code)]

mod file;
mod format;
mod link;
mod phases;
mod rpc;

pub use file::{Trace, TraceError, TraceReader};
pub use format::{
    Fate, FromTo, Head, Hex, LIMIT_DEFAULT, LIMIT_MAX, LINE_MAX, Line, MessageWord, Step, VERSION,
    WaitWord,
};
pub use link::linked;
pub use phases::{Moment, Phase, PhaseKind, Waited};
pub use rpc::{Message, Outcome, Rpc, printable};
