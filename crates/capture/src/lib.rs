//! Reads packet captures: TCP reassembly and a dissector for everything that crates `wire` and
//! `fswire` know.
//!
//! Pure computation: the caller reads the file and passes in [`Frame`]s one after the other; the
//! [`Dissector`] returns [`Event`]s, each with its exact bytes. Memory stays within [`Limits`] for
//! any capture, and no input causes a panic.
#![forbid(unsafe_code)]

mod content;
mod correlate;
mod decode;
mod dissector;
mod event;
mod flow;
mod guess;
mod packet;

pub use dissector::{Dissector, Limits, Stats};
pub use event::{
    Bulk, Certainty, Checksum, Content, ContentError, Direction, Event, Item, Message, Noop,
    PingInfo, Rpc, RpcRole, Start, StreamFormat, Undecoded,
};
pub use packet::{Frame, LinkType};
