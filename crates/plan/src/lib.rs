//! Test plans for many nodes, as text; the commands for a selftest console that they take; and what
//! came out, as values, tables, CSV and pages with plots. `docs/plans.md` is the reference.
//!
//! Text in, values out: nothing here reads a file, a clock or talks to a node. Whoever runs a plan
//! does so through [`Outside`].
//!
//! | module | what is in it |
//! |---|---|
//! | `model`, `parse` | a [`Plan`], and how it is read |
//! | `points` | what is to be measured one after the other: each combination, with its NIDs |
//! | `outline` | the same in words, before it is done |
//! | `course` | the commands of each point, and when figures are taken |
//! | `measure` | from figures to [`PointResult`]s |
//! | `results` | what came out |
//! | `table`, `csv`, `page` | for people, for programs, for slides |
#![forbid(unsafe_code)]

mod course;
mod csv;
mod measure;
mod model;
mod outline;
mod page;
mod parse;
mod points;
mod results;
mod table;

pub use course::{Bug, Live, Outside, Stopped, run};
pub use csv::csv;
pub use lustrine_document::Problems;
pub use model::{Axis, Group, Members, Plan, Size, Spread, Step, Test, What};
pub use outline::{count, duration, outline};
pub use page::page;
pub use points::{Flow, Nodes, Point, TooMuch, points};
pub use results::{
    ClientResult, Counted, End, Kind, Latency, NodeCounters, PointResult, Results, Row,
};
pub use table::table;
