//! The console of a plan: that of the running node, or of a node in this process.

use std::thread;
use std::time::{Duration, Instant};

use lustrine_control::{Answer as NodeAnswer, Request};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_plan::{Env, OpCounts, PlanProgress, RunError, Stage};
use lustrine_selftest::console::{Answer, Command, Refusal};
use lustrine_sys::Clock;

use super::live::View;
use crate::access::{Link, UsedKind};
use crate::interrupt::Interrupt;
use crate::output::Failure;

/// The interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(20);

/// How the console is used.
pub(super) struct Settings {
    /// Whether sessions of other consoles are ended.
    pub(super) take_over: bool,
}

/// A console, a clock, and the view.
pub(super) struct Console<'a> {
    link: &'a mut Link,
    interrupt: &'a Interrupt,
    settings: Settings,
    view: View,
}

impl<'a> Console<'a> {
    pub(super) fn new(
        link: &'a mut Link,
        interrupt: &'a Interrupt,
        settings: Settings,
        view: View,
    ) -> Console<'a> {
        Console { link, interrupt, settings, view }
    }

    /// The console of a running node has one session at a time, which may be that of `lst`.
    fn refused(&self, refusal: &Refusal) -> RunError {
        RunError::Failed(match (refusal, self.link.used().kind) {
            (Refusal::SessionExists(_), UsedKind::Running) => format!(
                "{refusal}: the console of {} has a session; end it with lst end_session, or use \
                 --no-node",
                self.link.used()
            ),
            _ => refusal.to_string(),
        })
    }

    /// Lets time pass while the check succeeds.
    fn wait(
        &self,
        time: Nanos,
        check: impl Fn(&Interrupt) -> Result<(), Failure>,
    ) -> Result<(), RunError> {
        let end = Instant::now() + Duration::from_nanos(time.0);
        loop {
            check(self.interrupt).map_err(|failure| match failure {
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

    /// Removes the live view.
    pub(super) fn clear(&self) {
        self.view.clear();
    }
}

impl Env for Console<'_> {
    fn command(&mut self, command: Command) -> Result<Answer, RunError> {
        // A signal does not interrupt requests to nodes; it takes effect when time passes next.
        // The session ends with this process, also if it is killed.
        let (key, command) = (std::process::id(), Box::new(command));
        match self.link.ask(&Request::Console { key, command, held: true }) {
            Ok(NodeAnswer::Console { outcome: Ok(answer) }) => Ok(answer),
            Ok(NodeAnswer::Console { outcome: Err(refusal) }) => Err(self.refused(&refusal)),
            Ok(_) => Err(RunError::Failed("unexpected reply from the node".to_owned())),
            Err(Failure::Failed(error)) => Err(RunError::Failed(error)),
            Err(_) => Err(RunError::Interrupted),
        }
    }

    fn now(&mut self) -> Time {
        Time(Clock::Monotonic.now())
    }

    fn sleep(&mut self, time: Nanos) -> Result<(), RunError> {
        self.wait(time, Interrupt::check)
    }

    fn settle(&mut self, time: Nanos) -> Result<(), RunError> {
        self.wait(time, Interrupt::check_again)
    }

    fn take_over(&self) -> bool {
        self.settings.take_over
    }

    fn on_point(&mut self, number: usize, of: usize, title: &str) {
        self.view.begin(number, of, title);
    }

    fn on_stage(&mut self, stage: Stage) {
        self.view.stage(stage);
    }

    fn on_result(&mut self, rows: &[(String, Option<OpCounts>)]) {
        self.view.finished(rows);
    }

    fn on_progress(&mut self, live: &PlanProgress) {
        self.view.show(live);
    }

    fn warn(&mut self, text: &str) {
        self.view.say(text);
    }
}
