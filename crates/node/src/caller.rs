//! One caller of a node: a connection to its control socket, or a command in the same process.

use lustrine_control::{
    Answer, LoadFailure, LoadFailureKind, LoadLatency, LoadOrder, LoadRow, Request,
};
use lustrine_lnet::time::Nanos;
use lustrine_selftest::console::Command;
use lustrine_selftest::{ClientError, LoadStep, SessionMode, StepLimit};
use lustrine_wire::srpc::Name;

use crate::call::error_answer;
use crate::error::{CallError, LoadError};
use crate::handle::NodeHandle;
use crate::load::{Load, LoadArgs};
use crate::mailbox::LoadReport;

/// A caller, with what the node does for it beyond one request: a selftest load, a session of the
/// console. Dropping it ends both.
pub struct Caller {
    node: NodeHandle,
    load: Option<Load>,
    /// Whether the load has not ended, as far as the caller's orders have shown.
    holds_load: bool,
    /// The key of the session.
    session: Option<u32>,
}

impl Caller {
    /// A caller of this node that has asked nothing yet.
    pub fn of(node: NodeHandle) -> Caller {
        Caller { node, load: None, holds_load: false, session: None }
    }

    /// Whether the node sends a load for it. A load that is to finish does not count.
    pub(crate) fn holds_load(&self) -> bool {
        self.holds_load
    }

    /// Whether a session of the console belongs to it.
    pub(crate) fn holds_session(&self) -> bool {
        self.session.is_some()
    }

    /// Carries out a request; an error becomes [`Answer::Error`].
    pub fn call(&mut self, request: &Request) -> Answer {
        match request {
            Request::Load { order } => match self.obey(order) {
                Ok(load) => Answer::Load { load },
                Err(error) => error_answer(&error),
            },
            Request::Console { key, command, held: true } => {
                let answer = self.node.call(request);
                match **command {
                    Command::NewSession { .. } if is_done(&answer) => self.session = Some(*key),
                    Command::EndSession | Command::EndSessionAtOnce if is_done(&answer) => {
                        self.session = None;
                    }
                    _ => {}
                }
                answer
            }
            request => self.node.call(request),
        }
    }

    fn obey(&mut self, order: &LoadOrder) -> Result<LoadRow, CallError> {
        if let LoadOrder::Start { target, name, force, patience_ms } = order {
            let args = LoadArgs {
                target: *target,
                name: Name::new(name).map_err(|why| LoadError::Name(why.to_string()))?,
                session: if *force { SessionMode::Force } else { SessionMode::IfFree },
                patience: Nanos::from_millis(*patience_ms),
            };
            // An earlier load of this caller has to end first, also one on another event loop.
            if let Some(earlier) = &self.load {
                match earlier.progress() {
                    Ok(report) if !report.finished => return Err(LoadError::Busy.into()),
                    Ok(_) | Err(LoadError::None) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            self.load = Some(self.node.start_load(args)?);
            self.holds_load = true;
        }
        let load = self.load.as_ref().ok_or(LoadError::None)?;
        match order {
            LoadOrder::Start { .. } | LoadOrder::Progress => {}
            LoadOrder::Step { test, concurrency, time_ns, warm_up_ns } => {
                load.start_step(LoadStep {
                    test: *test,
                    concurrency: *concurrency,
                    limit: StepLimit::Time(Nanos(*time_ns)),
                    warm_up: Nanos(*warm_up_ns),
                })?;
            }
            // The load stays, so that the caller can see when the session is removed.
            LoadOrder::Finish => {
                self.holds_load = false;
                load.finish()?;
            }
        }
        let report = load.progress();
        self.holds_load &= report.as_ref().is_ok_and(|report| !report.finished);
        Ok(row(&report?))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if let Some(key) = self.session {
            let _ = self.node.console(key, Command::EndSession);
        }
    }
}

/// Whether the console carried out a command.
fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Console { outcome: Ok(_) })
}

fn row(report: &LoadReport) -> LoadRow {
    let LoadReport { connected, step_finished, has_progressed, finished, error, snapshot } = report;
    let quantile = |part| snapshot.latencies.quantile(part).0;
    LoadRow {
        connected: *connected,
        step_finished: *step_finished,
        has_progressed: *has_progressed,
        finished: *finished,
        failure: error.as_ref().map(failure),
        elapsed_ns: snapshot.elapsed.0,
        ops: snapshot.ops,
        bytes: snapshot.bytes,
        errors: snapshot.errors.iter().map(|(kind, count)| (kind.to_string(), *count)).collect(),
        latency: LoadLatency {
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            p9999_ns: quantile(0.9999),
            max_ns: snapshot.latencies.max().0,
        },
        lost: snapshot.lost,
        lost_age_max_ns: snapshot.lost_age_max.0,
        down_ns: snapshot.down.0,
        window_bytes: snapshot.window.map(|window| window.window),
    }
}

fn failure(error: &ClientError) -> LoadFailure {
    let kind = match error {
        ClientError::NoAnswer(_) | ClientError::NotRemoved(_) => LoadFailureKind::NoAnswer,
        ClientError::Busy { .. } => LoadFailureKind::Busy,
        ClientError::Refused { .. } | ClientError::Memory { .. } | ClientError::Forgetful => {
            LoadFailureKind::Other
        }
    };
    LoadFailure { kind, message: error.to_string() }
}
