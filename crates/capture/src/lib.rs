//! Reads packet captures: TCP reassembly and a dissector for everything that crate `wire` knows.
//!
//! Pure computation: the caller reads the file and hands in [`Frame`]s one after the other; the
//! [`Dissector`] gives [`Event`]s back, each with the exact bytes that it stands for. Whatever the
//! capture holds, memory stays within [`Limits`] and nothing panics.
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
    Certainty, Checksum, Content, ContentError, Direction, Event, Format, Item, Message, Noop,
    PingInfo, Start, Undecoded,
};
pub use packet::{Frame, LinkType};
