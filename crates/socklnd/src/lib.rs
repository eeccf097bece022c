//! The TCP driver's logic: connections, version negotiation, races, typed streams, framing,
//! zero-copy cookies, keepalive, reconnect. The protocol is described in `docs/protocol`.
//!
//! Pure: streams and memory come through [`io::Io`], the protocol core through
//! [`lustrine_lnet::lnd::Core`], time as an argument. [`Socklnd`] is one CPU partition's driver.
//!
//! | module | what is in it |
//! |---|---|
//! | `driver` | [`Socklnd`]: what the event loop calls, and the run queue |
//! | `listen`, `dial` | the two sides of a handshake |
//! | `admission`, `shares`, `claims` | who gets a place, who makes room, who is believed |
//! | `route`, `tx`, `staging`, `zc` | sending: choice of connection, batches, cookies |
//! | `receive`, `recent`, `rx` | receiving: buffers, reads without a report, the frame reader |
//! | `closing`, `timeouts`, `timer_queue` | ends and deadlines |
//! | `changes` | other values, interfaces that come and go |
//! | `conn`, `peer`, `format` | what is known of connections and peers |
//! | [`close_reason`], [`counters`] | why connections end, and how often what happened |
//! | `metrics`, `notices` | as what counters are published, and what the log says of addresses |
#![forbid(unsafe_code)]

mod admission;
mod changes;
mod claims;
pub mod close_reason;
mod closing;
pub mod config;
mod conn;
pub mod counters;
mod dial;
mod driver;
mod format;
pub mod io;
mod keys;
mod listen;
mod metrics;
mod notices;
mod overdue;
mod peer;
mod progress;
mod receive;
mod recent;
mod route;
mod rx;
mod shares;
mod staging;
mod timeouts;
mod timer_queue;
mod tx;
mod zc;

#[cfg(test)]
mod testing;
mod tunables;

pub use close_reason::ProtocolViolation;
pub use config::{Accept, Config, NiConfig};
pub use counters::Counters;
pub use driver::{DialPhase, Handoff, OpenConn, PeerConnections, Socklnd};
pub use metrics::METRICS;
pub use notices::{Incident, Notice};
pub use tunables::{TABLE as TUNABLES, Tunables};
