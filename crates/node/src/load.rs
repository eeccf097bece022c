//! A selftest load on a running node, from another thread.

use std::sync::mpsc;
use std::time::Duration;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::{ClientArgs, LoadStep, SessionMode};
use lustrine_sys::{Clock, Sender};
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::srpc::Name;

use crate::handle::NodeHandle;
use crate::mailbox::{LOAD_SLOT, LoadError, LoadReport, LoadRequest, LoopMessage, home_loop};

/// How long an event loop may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A load: a session with one node, and steps of load one after the other.
pub struct Load {
    home: Sender<LoopMessage>,
}

impl NodeHandle {
    /// Makes a session with `target`, from the event loop that owns it. [`Load::progress`] shows
    /// when it is established.
    ///
    /// # Errors
    /// When another load is running there.
    pub fn start_load(
        &self,
        target: &Nid,
        name: Name,
        session: SessionMode,
        patience: Nanos,
    ) -> Result<Load, LoadError> {
        let args = ClientArgs {
            target: ProcessId { nid: *target, pid: PID_LUSTRE },
            local: None,
            console: self.info().nids[0],
            slot: LOAD_SLOT,
            name,
            session,
            patience,
            wall_seconds: Clock::Wall.now() / 1_000_000_000,
        };
        let load = Load { home: self.loops[home_loop(target, self.loops.len())].clone() };
        load.ask(|reply| LoadRequest::Start(Box::new(args), reply))??;
        Ok(load)
    }
}

impl Load {
    /// Starts a step, which waits for the session if necessary.
    ///
    /// # Errors
    /// When it would harm a kernel node, or another step is running.
    pub fn start_step(&self, rung: LoadStep) -> Result<(), LoadError> {
        self.ask(|reply| LoadRequest::LoadStep(rung, reply))?
    }

    /// The progress of the load.
    ///
    /// # Errors
    /// When the event loop does not answer.
    pub fn progress(&self) -> Result<LoadReport, LoadError> {
        self.ask(LoadRequest::Progress)
    }

    /// Ends the step and the session; [`Load::progress`] shows when that is done.
    ///
    /// # Errors
    /// When the event loop does not answer.
    pub fn finish(&self) -> Result<(), LoadError> {
        self.home.push(LoopMessage::Load(LoadRequest::Finish)).map_err(|_| LoadError::Gone)
    }

    fn ask<T>(&self, order: impl FnOnce(mpsc::Sender<T>) -> LoadRequest) -> Result<T, LoadError> {
        let (reply, answer) = mpsc::channel();
        self.home.push(LoopMessage::Load(order(reply))).map_err(|_| LoadError::Gone)?;
        answer.recv_timeout(ANSWER_TIMEOUT).map_err(|_| LoadError::Gone)
    }
}
