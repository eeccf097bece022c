//! A node's metrics for Prometheus.
//!
//! [`TABLE`] lists the metrics, drivers declare theirs, and `docs/metrics.md` is written from both.
//! A [`Page`] takes their values and becomes text. [`http`] reads a request and writes the answer.
//! This crate does no I/O: the values come from the node's event loops, and the sockets are the
//! node's.
//!
//! A page is bounded however many peers there are: [`PEERS_MAX`] of them and [`NIS_MAX`] interfaces
//! have series.
//!
//! ```
//! use lustrine_metrics::{Metric, Page};
//!
//! let mut page = Page::default();
//! page.gauge(Metric::PeerCreditsFree, &["10.0.0.2@tcp"], 8);
//! assert!(page.text().contains("lustrine_peer_credits_free{peer=\"10.0.0.2@tcp\"} 8\n"));
//! ```
#![forbid(unsafe_code)]

pub mod http;
mod page;
mod table;
mod watch;

pub use page::Page;
pub use table::{Metric, MetricKind, Row, TABLE, metrics_page, rows};
pub use watch::{WATCH_TABLE, WatchMetric};

/// Most interfaces with series on a page: those that were added first.
pub const NIS_MAX: usize = 32;

/// Most peers with series on a page: those with most messages.
pub const PEERS_MAX: usize = 128;
