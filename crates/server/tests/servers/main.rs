//! The client on servers in memory, in virtual time.

mod attrs;
mod cached;
mod config;
mod mount;
mod restart;
mod statahead;
mod together;
#[path = "../world/mod.rs"]
mod world;
