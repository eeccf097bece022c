//! The program as its users run it: processes, real sockets, signals, files.
//!
//! Every test has its own loopback addresses and directory, or namespaces that it created, so tests
//! run in parallel with each other and with other programs. None asserts on speed; tests wait for
//! conditions, with generous limits. See docs/testing.md.

mod common;

mod changes;
mod completion;
mod copies;
mod error_snapshots;
mod errors;
mod identities;
mod lnetctl;
mod lst;
mod metrics;
mod mounts;
mod namespaces;
mod node;
mod pcap;
mod plans;
mod rogues;
mod selftest;
mod service;
mod serving;
mod settings;
mod sim;
mod starting;
mod top;
mod verbs;
mod watch;
