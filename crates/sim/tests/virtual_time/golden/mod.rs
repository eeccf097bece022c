//! A Lustrine node in the place of a captured kernel node.

pub(crate) mod capture;
mod compare;
mod conversation;
mod document;
mod names;
mod play;
mod player;

pub(crate) use capture::names_in;
pub(crate) use document::{assert_in_step, reasons};
pub(crate) use play::{Allow, Command, Replay, play};
