//! A tiny network of LNet cores, for the tests of other crates. Only dev-dependencies name it.
#![forbid(unsafe_code)]

// Paths in the file below begin with `crate`, which is the core there and this crate here.
use lustrine_lnet::{event, lnd, memory, shard, status, time, topology, tunables};

// The unit tests of the core reach into shards, so the core contains the same file in its tests.
#[path = "../../lnet/src/testing.rs"]
mod net;

pub use net::{Delivery, Net, Packet, TestNode, test_nid, test_topology};
