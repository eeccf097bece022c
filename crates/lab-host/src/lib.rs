//! Runs laboratories. One process per laboratory holds everything: the network namespaces of the
//! hosts and the TUN devices of the links. The kernel removes them when it ends, however it ends;
//! programs that run inside belong to a PID namespace whose first process ends with it.
//!
//! | process | what it does |
//! |---|---|
//! | `lustrine lab up` | takes the laboratory's directory, starts the daemon ([`start`]) |
//! | `lustrine lab-daemon` | holds the laboratory ([`daemon`]): a thread per host and per link |
//! | `lustrine lab-init` | the first process of the PID namespace ([`init`]) |
//! | `lustrine lab exec` | enters a host and starts a program there ([`EnteredHost`]) |
//!
//! It touches no interface and no namespace that it did not make: names of interfaces are used
//! inside new namespaces only, and a directory of another user, or with files that are not a
//! laboratory's, is refused.
#![forbid(unsafe_code)]

mod control;
mod daemon;
mod entered;
mod error;
mod host;
mod init;
mod link;
mod place;
mod start;

pub use control::{DirectionStatus, HostStatus, LinkStatus, Status, ask_status, stop};
pub use daemon::daemon;
pub use entered::EnteredHost;
pub use error::LabError;
pub use init::init;
pub use place::{Claim, Place, State};
pub use start::{Program, start};
