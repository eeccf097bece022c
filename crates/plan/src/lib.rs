//! Test plans for many nodes, as text; the commands for a selftest console that they need; and the
//! results, as values, tables, CSV and pages with plots. `docs/plans.md` is the reference.
//!
//! Text in, values out: nothing here reads a file, reads a clock or sends anything to a node. The
//! caller provides that through [`Env`].
//!
//! | module | content |
//! |---|---|
//! | `model`, `parse` | a [`Plan`], and how it is read |
//! | `host_list`, `start` | hosts on which nodes are started, and how |
//! | `points` | the combinations to be measured one after the other, with their NIDs |
//! | `outline` | the same as text, before the plan runs |
//! | `run` | the commands of each point, and when statistics are collected |
//! | `measure` | from statistics to [`PointResult`]s |
//! | `results`, `provenance` | the results, and where they come from |
//! | `lines`, `compare`, `limits` | repetitions of a test; two runs; what runs must reach |
//! | `table`, `csv`, `page` | for people, for programs, for slides |
#![forbid(unsafe_code)]

mod combination;
mod compare;
mod csv;
mod host_list;
mod limits;
mod lines;
mod measure;
mod model;
mod outline;
mod page;
mod pairs;
mod parse;
mod points;
mod provenance;
mod results;
mod run;
mod start;
mod table;

pub use compare::{ComparedValue, Comparison, Verdict, compare};
pub use csv::csv;
pub use host_list::{HostListError, host_list};
pub use limits::{Limit, LimitResult};
pub use lines::Range;
pub use lustrine_document::Problems;
pub use model::{Dimension, Group, Members, Plan, Size, Spread, Step, Test, TestKind};
pub use outline::{count, duration, outline};
pub use page::{page, page_of_runs};
pub use points::{Flow, Nodes, Point, TooManyPoints, points};
pub use provenance::{ChangedTunable, Machine, NetDevice, NodeSettings, Provenance};
pub use results::{
    ClientResult, End, ErrorCount, Latency, NodeCounters, OpCounts, PointResult, Results, Row,
};
pub use run::{Env, PlanProgress, RunError, Stage, UnexpectedAnswer, run};
pub use start::{
    HOST, MissingHost, OnMissingHost, Start, StartMethod, StartMethodError, Started, StartedHost,
    missing_lines, printable,
};
pub use table::table;
