//! The quality of paths over time.
//!
//! A [`Sample`] is what was seen of a peer at one moment. A [`Detector`] takes the samples of a
//! peer in their order, and says when the path has changed and when it is back: a pure function of
//! the samples, so that the same samples always lead to the same alarms. [`thin()`] makes hourly
//! rows of old samples. [`Plan`] computes what all of it sends.
//!
//! This crate does no I/O and reads no clock.
#![forbid(unsafe_code)]

mod alarm;
mod cost;
mod detector;
mod law;
mod page;
mod sample;
mod schedule;
mod thin;
mod words;

pub use alarm::{Alarm, AlarmEnd, AlarmKind, Event};
pub use cost::{Cost, LookCost, Plan};
pub use detector::{Detector, LAW_OF_CHANGES};
pub use page::{HEADS, Series, cells, ending, page};
pub use sample::{Bandwidth, PINGS_MIN, PathSample, Route, Rtt, Sample};
pub use schedule::{Backoff, Refusals, Steadiness};
pub use thin::{HOUR_MS, Row, Thinned, by_period, thin};
pub use words::{line, rate_text, span_text, time_text};
