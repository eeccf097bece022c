//! A Lustre client: it reads the configuration of a file system, connects to its targets, and
//! turns operations on files into RPCs.
//!
//! [`Client`] is a [`Service`](lustrine_lnet::service::Service) of a partition, with no I/O, clock
//! or thread. It caches nothing: names and attributes are asked for each time, data are read and
//! written under locks of the servers, and what an open grants is cancelled at once. So it is
//! coherent with all other clients of the file system.
//!
//! Operations speak of files by their FIDs, as a kernel's file system layer does. A path is walked
//! by its user.
#![forbid(unsafe_code)]

mod attr;
mod client;
pub mod config;
mod dir_layout;
mod error;
mod fids;
mod layout;
mod offers;
mod replay;
mod reply;

pub use attr::{Attr, DirEntry, DirPage, FileOwner, Glimpse, Space};
pub use client::{
    Allocate, Appended, Caller, Changes, Client, ClientArgs, Done, FlockArgs, FlockKey, FlockMode,
    LimitError, LockCounts, OpenArgs, OpenFile, READDIR_LEN, RpcLimits, Seek, SetTime, TargetKey,
    Written,
};
pub use config::{FsConfig, TargetConfig};
pub use error::{ClientError, Outcome};
pub use layout::{FileComponent, FileLayout, Mirrors, ObjectPlace, Piece, Place};
