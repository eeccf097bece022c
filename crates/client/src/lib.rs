//! A Lustre client: it reads the configuration of a file system, connects to its targets, and
//! turns operations on files into RPCs.
//!
//! [`Client`] is a [`Service`](lustrine_lnet::service::Service) of a partition, with no I/O, clock
//! or thread. It is coherent with all other clients of the file system. Names, attributes and data
//! are kept under locks, and data are written later, if [`CacheTunables`] say so; otherwise names
//! and attributes are asked for each time, and data are read and written under locks that the
//! servers take for the time of each request.
//!
//! Operations speak of files by their FIDs, as a kernel's file system layer does. A path is walked
//! by its user.
#![forbid(unsafe_code)]

mod attr;
mod client;
pub mod config;
mod dir_layout;
mod error;
mod few;
mod fids;
mod layout;
mod lru;
mod offers;
mod pages;
mod replay;
mod reply;

pub use attr::{Attr, DirEntry, DirPage, FileOwner, Glimpse, Space};
pub use client::{
    Ahead, Allocate, Appended, AttrCounts, CacheCounts, CacheTunables, Cached, Caller, Changes,
    Client, ClientArgs, ConfigLock, ConfigView, Done, FlockArgs, FlockKey, FlockMode, LockCounts,
    LostWrites, MaxRpcs, MgcTunables, MgcView, OpenArgs, OpenFile, READDIR_LEN, RpcSettings, Seek,
    SetTime, SettingError, Sharing, TargetKey, Valid, Written,
};
pub use config::{FsConfig, Parameter, Scope, TargetConfig};
pub use error::{ClientError, Outcome};
pub use layout::{FileComponent, FileLayout, Mirrors, ObjectPlace, Piece, Place};
