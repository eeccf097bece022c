//! Output for people: numbers with significant digits, tables, plots, and self-contained HTML
//! pages.
//!
//! The pages have no scripts and load nothing, follow the reader's light or dark colour scheme, and
//! can be printed. All text in them is escaped. Each plot is also a slide, as SVG and as PNG.
#![forbid(unsafe_code)]

mod drawing;
mod font;
mod html;
mod matrix;
pub mod numbers;
mod palette;
mod plot;
mod png;
mod svg;
mod ticks;

pub use drawing::{Draw, Drawing, DrawingFormat};
pub use html::{Figure, FinishedPage, Page};
pub use matrix::Matrix;
pub use plot::{Axis, Line, LineStyle, Plot, coinciding};
pub use ticks::{Scale, ticks};
