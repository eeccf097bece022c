//! Lustre's servers in memory: the management server, metadata targets and object targets, with
//! the rules of a server's side for RPCs, locks and recovery.
//!
//! A [`Server`] is a [`Service`](lustrine_lnet::service::Service) of a partition. It has no I/O,
//! clock or thread. What a target has on its [`Disk`] is a value: it lags behind what was executed
//! by the time of a commit, and outlives the server, which loses the rest when it crashes.
//!
//! It is the model that clients are tested on, and the seed of servers that store something. What
//! it does not have: quotas, changelogs, archives, mirrors and striped directories, and anything
//! between servers: all targets of a file system live in one server.
#![forbid(unsafe_code)]

mod answer;
mod clients;
mod disk;
mod errno;
mod journal;
mod layout;
mod mgs;
mod offers;
mod running;
mod server;
mod store;
mod table;

pub use disk::{Disk, DiskKind, FilesystemArgs};
pub use journal::CommitTunables;
pub use mgs::{ConfigChange, Filesystem, FsTarget};
pub use running::TargetTunables;
pub use server::{LockView, Server, ServerArgs, TargetView};
pub use store::{MdtArgs, OstArgs, QuotaHolder, QuotaLimits};
