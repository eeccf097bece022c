//! The laboratory: hosts that are joined by emulated links, for real sockets.
//!
//! A file ([`LabFile`]) describes hosts and links; a [`Layout`] gives them addresses and routes; a
//! [`Pipe`] is one direction of a link, which takes the reads of one TUN device and returns what is
//! to be written to another one, and when. This crate computes; `lab-host` runs it.
#![forbid(unsafe_code)]

mod layout;
mod link;
mod model;
mod packet;
mod parse;
mod pipe;
mod ring;
mod rng;

pub use lustrine_document::{Problems, format_bytes, format_duration};

pub use layout::{Interface, Layout, Route};
pub use link::{Counters, Direction, Hashing, Order};
pub use model::{Host, Lab, Link, NextHop, Sysctl};
pub use packet::{FRAME_EXTRA, READ_MAX};
pub use parse::{FILE_MAX, is_name, parse};
pub use pipe::{Delivery, Lateness, Pipe};
