//! Where logic meets I/O: one event loop per CPU partition, configuration, the control socket.
//!
//! [`Node::start`] turns a [`NodeConfig`](lustrine_config::NodeConfig) into running event loops; a
//! [`Node`] owns them. Every request to a node goes through [`NodeHandle::call`], from inside the
//! process or through the control socket.
#![forbid(unsafe_code)]

mod call;
mod caller;
mod change;
mod console;
pub mod control;
mod error;
mod event_loop;
mod handle;
mod heartbeat;
mod hot_stream;
pub mod idle;
mod kernel_lnet;
mod listener;
mod load;
pub mod loop_io;
mod mailbox;
pub mod metrics;
mod ni_state;
mod node;
mod outbox;
mod resolve;
mod service;
mod snapshot;
mod watch;

pub use caller::Caller;
pub use change::Mode;
pub use error::{CallError, LoadError, StartError};
pub use handle::{NodeHandle, NodeInfo, own_netns};
pub use heartbeat::Heartbeat;
pub use kernel_lnet::{KernelNid, kernel_file, kernel_has};
pub use listener::{BriefClaim, Leaving};
pub use lustrine_control::ChangeError;
pub use node::{NID_IN_USE, Node};
pub use resolve::{ResolveError, conns_for_speed};
pub use service::{RegisteredService, SharedService};
