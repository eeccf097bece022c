//! One CPU partition: core, driver and services at work together, generic over its driver.
//!
//! A [`Partition`] runs a [`Shard`](lustrine_lnet::shard::Shard) with a [`Driver`] below it and
//! any number of registered [`Service`](lustrine_lnet::service::Service)s above it. A
//! [`NodePartition`] is one with the services of every node. The event loop of production and the
//! simulator run the same one; they differ in what they give it as time, streams and memory, and in
//! how values reach other partitions.
#![forbid(unsafe_code)]

mod driver;
mod node;
mod pair;
mod partition;
mod probes;
mod services;
mod socklnd;
pub mod tunables;

pub use driver::{Driver, DriverOn};
pub use node::{ClientBusy, NodePartition, PartitionConfig};
pub use pair::{DriverPair, Either};
pub use partition::{Change, PASSES_MAX, Partition};
pub use probes::{PingAnswer, ProbeId, ProbeResult};
pub use services::ServiceHandle;
pub use socklnd::StreamReport;
