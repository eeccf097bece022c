//! What people read: figures with the digits that count, tables and plots, pages of HTML with
//! everything in them.
//!
//! Pages have no scripts and load nothing, follow the reader's light or dark, and can be printed.
//! Whatever text they are given is text in them.
#![forbid(unsafe_code)]

pub mod figures;
mod html;
mod plot;
mod ticks;

pub use html::{COLOURS, Page, escaped};
pub use plot::{Axis, Line, LineStyle, Plot};
pub use ticks::{Scale, ticks};
