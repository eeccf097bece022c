//! Test doubles: streams in memory that cut bytes anywhere, a model of the core, and a small
//! network of drivers and scripted peers.

mod core;
mod net;
mod rogue;
mod world;

pub(crate) use self::core::Plan;
pub(crate) use net::{Chaos, Net, TestIo};
pub(crate) use rogue::{NODE, Rogue, header_bytes, hello, hello_bytes, request_bytes};
pub(crate) use world::{Node, World, config, ip4, nid, process, put_header};
