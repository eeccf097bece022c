//! Why a node cannot start, and why a request failed.

use std::io;
use std::net::SocketAddr;

use lustrine_lnet::status::Status;
use lustrine_selftest::LoadStepError;
use lustrine_sys::CptError;
use lustrine_wire::nid::Nid;

use crate::resolve::ResolveError;

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration does not fit this machine.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The CPU partitions cannot be created.
    #[error(transparent)]
    Partitions(#[from] CptError),
    /// A listening socket cannot be opened.
    #[error("cannot listen on {addr}: {error}{hint}")]
    Listen {
        /// The address and port.
        addr: SocketAddr,
        /// The system's error.
        error: io::Error,
        /// What the user can do about it.
        hint: &'static str,
    },
    /// A peer of the configuration is the node itself.
    #[error("{0}; for example leave it out")]
    OwnPeer(String),
    /// The table of peers has no room for the configured ones.
    #[error(
        "the peers of the configuration do not fit into the table of peers; allowed: peers_max of \
         them; for example leave out those that discovery finds, or set peers_max"
    )]
    Peers,
    /// Another error of the system.
    #[error("cannot start an event loop: {0}")]
    System(#[from] io::Error),
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The NID is not that of one node.
    #[error("{0} is not the NID of a node; an example is 10.0.0.1@tcp")]
    InvalidNid(Nid),
    /// The operation failed.
    #[error("{what} {nid}: {status}{hint}")]
    Failed {
        /// The operation.
        what: &'static str,
        /// The peer.
        nid: Nid,
        /// How it ended.
        status: Status,
        /// Where it failed, and what to do next.
        hint: String,
    },
    /// An event loop does not answer.
    #[error("the node does not answer; it is stopping, or one of its event loops has failed")]
    NotResponding,
    /// The system cannot start a thread for the console.
    #[error("cannot start a console: {0}")]
    ThreadFailed(String),
    /// An order about a selftest load was not carried out.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Why a load command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Another load is running.
    #[error("another selftest load is running on this node")]
    Busy,
    /// There is no load, or another one has taken its place.
    #[error("the selftest load was not started, or has ended")]
    None,
    /// The name of its session is invalid.
    #[error("the name of the session: {0}")]
    Name(String),
    /// The step was refused.
    #[error(transparent)]
    LoadStep(#[from] LoadStepError),
    /// The event loop does not answer.
    #[error("the node does not answer; one of its event loops has failed")]
    Gone,
}

impl CallError {
    /// What to do next; empty if nothing is known beyond the error's name.
    pub fn hint(&self) -> &str {
        match self {
            CallError::Failed { hint, .. } => hint.strip_prefix("; ").unwrap_or(hint),
            CallError::InvalidNid(_)
            | CallError::NotResponding
            | CallError::ThreadFailed(_)
            | CallError::Load(_) => "",
        }
    }

    /// LNet's number for it.
    pub fn errno(&self) -> i32 {
        match self {
            CallError::InvalidNid(_) => -22,
            CallError::Load(LoadError::Busy) => -16,
            CallError::Load(LoadError::Gone) => Status::Shutdown.errno(),
            CallError::Load(_) => -22,
            CallError::Failed { status, .. } => status.errno(),
            CallError::NotResponding => Status::Shutdown.errno(),
            CallError::ThreadFailed(_) => Status::NoMemory.errno(),
        }
    }
}
