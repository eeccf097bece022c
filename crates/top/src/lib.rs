//! What a running node and mounts do now.
//!
//! [`Sample`]s are what they said at two moments; [`View::between`] is what happened in between:
//! rates, credits, round trips, errors. A [`Screen`] knows what the user wants to see, and draws a
//! view on a terminal of any size; [`text`] is the same for scripts and for people without one.
//!
//! It is pure: it reads no clock, no socket and no keyboard, and writes to no terminal.
#![forbid(unsafe_code)]

mod draw;
mod mount;
mod node;
mod rate;
mod sample;
mod screen;
mod text;
mod units;
mod view;

pub use draw::draw;
pub use mount::{MountView, OperationView, TargetView};
pub use node::{Line, NodeView, RoundTrip};
pub use sample::{MountSample, NodeSample, OperationSample, Sample, TargetSample};
pub use screen::{Key, Page, Screen, SortBy};
pub use text::text;
pub use view::View;
