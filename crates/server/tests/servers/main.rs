//! The client on servers in memory, in virtual time.

mod attrs;
mod cached;
mod config;
mod mount;
mod restart;
#[path = "../world/mod.rs"]
mod world;
