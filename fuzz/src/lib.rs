//! Properties that hold for any input of a peer, a file or a user. Each is a function of bytes, or
//! of operations made of bytes, that panics when the property does not hold.
//!
//! `targets/` passes them to libFuzzer; `cargo xtask fuzz` builds and runs those on the stable
//! toolchain.
#![forbid(unsafe_code)]

pub mod capture;
pub mod console;
pub mod documents;
pub mod fswire;
pub mod rogue;
pub mod service;
pub mod shard;
pub mod speech;
pub mod stream;
pub mod tools;
pub mod wire;
