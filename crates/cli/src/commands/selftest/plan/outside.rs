//! The console of a plan: that of a local node in this process.

use std::thread;
use std::time::{Duration, Instant};

use lustrine_lnet::time::{Nanos, Time};
use lustrine_node::NodeHandle;
use lustrine_plan::{Env, Progress, RunError};
use lustrine_selftest::console::{Answer, Command};
use lustrine_sys::Clock;

use super::live::View;
use crate::interrupt::Interrupt;
use crate::output::Failure;

/// The key of the session, which is only used in this process.
const KEY: u32 = 1;

/// The interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(20);

/// How the console is used.
pub(super) struct Settings {
    /// Whether sessions of other consoles are ended.
    pub(super) take_over: bool,
}

/// A console, a clock, and the view.
pub(super) struct Console<'a> {
    node: NodeHandle,
    interrupt: &'a Interrupt,
    settings: Settings,
    view: View,
}

impl<'a> Console<'a> {
    pub(super) fn new(
        node: NodeHandle,
        interrupt: &'a Interrupt,
        settings: Settings,
        view: View,
    ) -> Console<'a> {
        Console { node, interrupt, settings, view }
    }

    /// Removes the live view.
    pub(super) fn clear(&self) {
        self.view.clear();
    }
}

impl Env for Console<'_> {
    fn command(&mut self, command: Command) -> Result<Answer, RunError> {
        // A signal does not interrupt requests to nodes; it takes effect when time passes next.
        match self.node.console(KEY, command) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(refusal)) => Err(RunError::Failed(refusal.to_string())),
            Err(error) => Err(RunError::Failed(error.to_string())),
        }
    }

    fn now(&mut self) -> Time {
        Time(Clock::Monotonic.now())
    }

    fn sleep(&mut self, time: Nanos) -> Result<(), RunError> {
        let end = Instant::now() + Duration::from_nanos(time.0);
        loop {
            self.interrupt.check().map_err(|failure| match failure {
                Failure::Failed(error) => RunError::Failed(error),
                _ => RunError::Interrupted,
            })?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(LOOK));
        }
    }

    fn take_over(&self) -> bool {
        self.settings.take_over
    }

    fn on_point(&mut self, number: usize, of: usize, title: &str) {
        self.view.begin(number, of, title);
    }

    fn on_progress(&mut self, live: &Progress) {
        self.view.show(live);
    }

    fn warn(&mut self, text: &str) {
        self.view.say(text);
    }
}
