//! A selftest load on a running node, from another thread.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::{ClientArgs, LoadStep, SessionMode};
use lustrine_sys::{Clock, Sender};
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::srpc::Name;

use crate::error::LoadError;
use crate::handle::NodeHandle;
use crate::load_owners::LoadOwners;
use crate::mailbox::{LOAD_SLOT, LoadReport, LoadRequest, LoopMessage, home_loop};

/// How long an event loop may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a node may work on an order: it starts something, and reports.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(20);

/// A load: a session with one node, and steps of load one after the other. Dropping it ends both.
pub(crate) struct Load {
    home: Sender<LoopMessage>,
    /// The index of its event loop.
    index: usize,
    /// Its number among the loads of the node.
    number: u64,
    owners: Arc<LoadOwners>,
}

/// What a load is.
pub(crate) struct LoadArgs {
    /// The node to load.
    pub(crate) target: Nid,
    /// The name of the session.
    pub(crate) name: Name,
    /// What to do about another session there.
    pub(crate) session: SessionMode,
    /// The load is given up after this time without any answer.
    pub(crate) patience: Nanos,
}

impl NodeHandle {
    /// Makes a session with a node, from the event loop that owns it. [`Load::progress`] shows when
    /// it is established.
    ///
    /// # Errors
    /// When another load is running there.
    pub(crate) fn start_load(&self, load: LoadArgs) -> Result<Load, LoadError> {
        let LoadArgs { target, name, session, patience } = load;
        let args = ClientArgs {
            target: ProcessId { nid: target, pid: PID_LUSTRE },
            local: None,
            console: self.info().nids[0],
            slot: LOAD_SLOT,
            name,
            session,
            patience,
            wall_seconds: Clock::Wall.now() / 1_000_000_000,
        };
        let index = home_loop(&target, self.loops.len());
        let home = &self.loops[index];
        let mut owners = self.loads.lock();
        ask(home, |reply| LoadRequest::Start(Box::new(args), reply))??;
        owners.count += 1;
        let number = owners.count;
        owners.latest.insert(index, number);
        Ok(Load { home: home.clone(), index, number, owners: Arc::clone(&self.loads) })
    }
}

impl Load {
    /// Starts a step, which waits for the session if necessary.
    ///
    /// # Errors
    /// When it would harm a kernel node, or another step is running.
    pub(crate) fn start_step(&self, step: LoadStep) -> Result<(), LoadError> {
        self.check()?;
        ask(&self.home, |reply| LoadRequest::LoadStep(step, reply))?
    }

    /// The progress of the load.
    ///
    /// # Errors
    /// When the event loop does not answer.
    pub(crate) fn progress(&self) -> Result<LoadReport, LoadError> {
        self.check()?;
        ask(&self.home, LoadRequest::Progress)
    }

    /// Ends the step and the session; [`Load::progress`] shows when that is done.
    ///
    /// # Errors
    /// When the event loop does not answer.
    pub(crate) fn finish(&self) -> Result<(), LoadError> {
        let owners = self.owners.lock();
        if owners.latest.get(&self.index) != Some(&self.number) {
            return Err(LoadError::None);
        }
        self.home.push(LoopMessage::Load(LoadRequest::Finish)).map_err(|_| LoadError::Gone)
    }

    /// # Errors
    /// When another load has taken its place.
    fn check(&self) -> Result<(), LoadError> {
        match self.owners.lock().latest.get(&self.index) == Some(&self.number) {
            true => Ok(()),
            false => Err(LoadError::None),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

fn ask<T>(
    home: &Sender<LoopMessage>,
    order: impl FnOnce(mpsc::Sender<T>) -> LoadRequest,
) -> Result<T, LoadError> {
    let (reply, answer) = mpsc::channel();
    home.push(LoopMessage::Load(order(reply))).map_err(|_| LoadError::Gone)?;
    answer.recv_timeout(ANSWER_TIMEOUT).map_err(|_| LoadError::Gone)
}
