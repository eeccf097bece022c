//! Output for people: numbers with significant digits, tables, plots, and self-contained HTML
//! pages.
//!
//! The pages have no scripts and load nothing, follow the reader's light or dark colour scheme, and
//! can be printed. All text in them is escaped.
#![forbid(unsafe_code)]

mod html;
pub mod numbers;
mod plot;
mod ticks;

pub use html::{COLOURS, Figure, Page, escaped};
pub use plot::{Axis, Line, LineStyle, Plot};
pub use ticks::{Scale, ticks};
