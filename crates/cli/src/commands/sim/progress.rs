//! A progress bar on a terminal; otherwise one line that names the run.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lustrine_lnet::time::Nanos;
use lustrine_scenario::{RunProgress, format_duration};

use crate::output::note;

/// The interval at which the bar is redrawn.
const DRAW: Duration = Duration::from_millis(100);

/// Steps of the bar of one run.
pub(super) const STEPS: u64 = 1000;

pub(super) struct Bar {
    bar: ProgressBar,
    drawn: Option<Instant>,
}

impl Bar {
    pub(super) fn new(what: &str, steps: u64) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}  {elapsed} of real time") {
            bar.set_style(style);
        }
        if bar.is_hidden() {
            note(what);
        }
        Bar { bar, drawn: None }
    }

    /// Shows the progress of a run.
    pub(super) fn show(&mut self, progress: &RunProgress) {
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < DRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.bar.set_position(steps(progress));
        let RunProgress { now, planned, ops } = *progress;
        let (now, planned) = (whole(now), whole(planned));
        self.bar.set_message(format!("{now} of {planned} virtual, {ops} operations"));
    }

    /// Shows the number of finished runs.
    pub(super) fn count(&mut self, done: usize, of: usize) {
        self.bar.set_position(done as u64);
        self.bar.set_message(format!("{done} of {of} runs"));
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn steps(progress: &RunProgress) -> u64 {
    let planned = u128::from(progress.planned.0.max(1));
    let step = u128::from(progress.now.0) * u128::from(STEPS) / planned;
    u64::try_from(step).unwrap_or(STEPS).min(STEPS)
}

/// To the millisecond, so that the line does not flicker.
fn whole(time: Nanos) -> String {
    format_duration(Nanos(time.0 / 1_000_000 * 1_000_000))
}
