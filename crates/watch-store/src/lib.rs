//! The file in which the quality of paths over time is kept: a database of redb.
//!
//! [`Store`] is the daemon's: it alone has the file open, appends samples, and keeps it bounded. A
//! transaction is durable when [`Store::append`] returns; a crash loses at most the one that it
//! interrupts. [`read`] is the reports': it reads a copy of the file, also while a daemon writes
//! it, and changes nothing.
//!
//! A file is checked before it is used: all pages against their checksums, all rows by reading
//! them. One that is damaged, or is not a file of this program, is reported and never written.
#![forbid(unsafe_code)]
// An error of redb has 160 bytes; it is rare, and no such function is called in a loop that counts.
#![allow(clippy::result_large_err)]

mod backend;
mod check;
mod contents;
mod error;
mod file;
mod snapshot;
mod store;
mod tables;
mod tidy;

pub use contents::PeerHistory;
pub use error::StoreError;
pub use file::{FILE_MAX, FILE_MIN};
pub use snapshot::read;
pub use store::{Limits, NewSample, Store};
pub use tidy::Tidied;
