//! Test plans for many nodes, as text; the commands for a selftest console that they take; and what
//! came out, as values, tables, CSV and pages with plots. `docs/plans.md` is the reference.
//!
//! Text in, values out: nothing here reads a file, a clock or talks to a node. Whoever runs a plan
//! does so through [`Env`].
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

mod csv;
mod measure;
mod model;
mod outline;
mod page;
mod parse;
mod points;
mod results;
mod run;
mod table;

pub use csv::csv;
pub use lustrine_document::Problems;
pub use model::{Dimension, Group, Members, Plan, Size, Spread, Step, Test, TestKind};
pub use outline::{count, duration, outline};
pub use page::page;
pub use points::{Flow, Nodes, Point, TooManyPoints, points};
pub use results::{
    ClientResult, End, Kind, Latency, NodeCounters, OpCounts, PointResult, Results, Row,
};
pub use run::{Env, Progress, RunError, UnexpectedAnswer, run};
pub use table::table;
