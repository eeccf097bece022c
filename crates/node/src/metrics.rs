//! Metrics for Prometheus: `lustrine node --metrics HOST:PORT`.
//!
//! A page is collected from the event loops when a client requests it; [`lustrine_metrics`]
//! converts it to text.

mod collect;
mod server;

pub use server::{MetricsError, MetricsServer, MetricsSocket};
