//! The client on servers in memory, in virtual time.

mod attrs;
mod cached;
mod config;
mod mount;
mod restart;
mod statahead;
mod together;
mod validity;
#[path = "../world/mod.rs"]
mod world;
