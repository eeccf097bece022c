//! Nodes in virtual time: replayed captures, rogue peers, consoles, changes, whole worlds. The
//! swarm is a program of its own, as it takes seeds from outside.

mod changes;
mod console;
mod golden;
mod placed;
mod replay;
mod rogue;
mod services;
mod sessions;
mod world;
