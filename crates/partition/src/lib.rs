//! One CPU partition's whole logic, generic over its driver: core, driver, selftest, probes.
//!
//! The event loop of production and the simulator run this very [`Partition`]; they differ in
//! what they give it as time, streams and memory, and in how values reach other partitions.
#![forbid(unsafe_code)]

mod driver;
mod partition;
mod probes;

pub use driver::{Driver, DriverOn};
pub use partition::{Change, ClientBusy, Partition, PartitionConfig};
pub use probes::{PingAnswer, ProbeId, ProbeResult};
