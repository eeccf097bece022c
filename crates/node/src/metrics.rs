//! Metrics for Prometheus: `lustrine node --metrics HOST:PORT`.
//!
//! A page is collected from the event loops when a client asks for it; [`lustrine_metrics`] makes
//! it text.

mod collect;
mod server;

pub use server::{MetricsError, MetricsServer, MetricsSocket};
