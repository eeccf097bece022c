//! One CPU partition's whole logic, generic over `Io`: core, TCP driver, selftest, probes.
//!
//! The event loop of production and the simulator run this very [`Partition`]; they differ in
//! what they give it as time, streams and memory, and in how values reach other partitions.
#![forbid(unsafe_code)]

mod partition;
mod probes;

pub use partition::{ClientBusy, Partition, PartitionConfig};
pub use probes::{PingAnswer, ProbeResult, Ticket};
