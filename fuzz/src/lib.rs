//! Properties that hold whatever a peer, a file or a user sends. Each is a function from bytes, or
//! from operations made of bytes, that panics when the property does not hold.
//!
//! `targets/` hands them to libFuzzer; `cargo xtask fuzz` builds and runs those on the stable
//! toolchain.
#![forbid(unsafe_code)]

pub mod capture;
pub mod console;
pub mod documents;
pub mod rogue;
pub mod service;
pub mod shard;
pub mod speech;
pub mod stream;
pub mod tools;
pub mod wire;
