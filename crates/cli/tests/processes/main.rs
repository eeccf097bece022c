//! The program as its users run it: processes, real sockets, signals, files.
//!
//! Every test has loopback addresses and a directory of its own, or namespaces it made itself, so
//! tests run beside each other and beside anything else on the machine. None asserts on speed;
//! conditions are waited for, with generous limits. See docs/testing.md.

mod common;

mod changes;
mod completion;
mod error_snapshots;
mod errors;
mod identities;
mod lnetctl;
mod lst;
mod metrics;
mod namespaces;
mod node;
mod plans;
mod rogues;
mod selftest;
mod settings;
mod sim;
