//! The inside of a node for Prometheus: `lustrine node --metrics HOST:PORT`.
//!
//! What there is to see is one table, [`TABLE`]; `docs/metrics.md` is written from it. A page is
//! collected from the event loops when somebody asks, and is bounded however many peers there are.

mod address;
mod collect;
mod driver;
mod page;
mod request;
mod server;
mod table;

pub use address::{Address, InvalidAddress};
pub use server::{MetricsError, MetricsServer, MetricsSocket};
pub use table::{Kind, Metric, Row, TABLE, metrics_page};

/// Most interfaces of which a page tells: those that the node had first.
pub const NIS_MAX: usize = 32;

/// Most peers of which a page tells: those with most messages.
pub const PEERS_MAX: usize = 128;
