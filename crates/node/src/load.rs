//! A selftest load on a running node, from another thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::{ClientArgs, LoadStep, SessionMode};
use lustrine_sys::Sender;
use lustrine_wire::nid::{Nid, PID_LUSTRE, ProcessId};
use lustrine_wire::srpc::Name;

use crate::error::LoadError;
use crate::handle::NodeHandle;
use crate::mailbox::{LOAD_SLOT, LoadId, LoadReport, LoadRequest, LoopMessage, home_loop};
use crate::node::wall_clock;

/// How long an event loop may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a node may work on an order: the event loop is asked about an earlier load, starts
/// something, and reports.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(30);

/// A load: a session with one node, and steps of load one after the other. Dropping it ends both.
pub(crate) struct Load {
    home: Sender<LoopMessage>,
    id: LoadId,
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
        let args = Box::new(self.client_args(load));
        let home = self.loops[home_loop(&args.target.nid, self.loops.len())].clone();
        // If the event loop does not answer in time, dropping this ends what it may still start.
        let load = Load { home, id: next_id(&self.loads) };
        load.ask(|load, reply| LoadRequest::Start { args, load, reply })??;
        Ok(load)
    }

    fn client_args(&self, load: LoadArgs) -> ClientArgs {
        let LoadArgs { target, name, session, patience } = load;
        ClientArgs {
            target: ProcessId { nid: target, pid: PID_LUSTRE },
            local: None,
            console: self.info().nids[0],
            slot: LOAD_SLOT,
            name,
            session,
            patience,
            wall: wall_clock(),
        }
    }
}

/// Counts the loads of a node.
fn next_id(loads: &AtomicU64) -> LoadId {
    LoadId(loads.fetch_add(1, Ordering::Relaxed))
}

impl Load {
    /// Starts a step, which waits for the session if necessary.
    ///
    /// # Errors
    /// When it would harm a kernel node, or another step is running.
    pub(crate) fn start_step(&self, step: LoadStep) -> Result<(), LoadError> {
        self.ask(|load, reply| LoadRequest::LoadStep { step, load, reply })?
    }

    /// The progress of the load.
    ///
    /// # Errors
    /// When another load has taken its place, or the event loop does not answer.
    pub(crate) fn progress(&self) -> Result<LoadReport, LoadError> {
        self.ask(|load, reply| LoadRequest::Progress { load, reply })?
    }

    /// Ends the step and the session; [`Load::progress`] shows when that is done.
    ///
    /// # Errors
    /// When the event loop does not answer.
    pub(crate) fn finish(&self) -> Result<(), LoadError> {
        let order = LoadRequest::Finish { load: self.id };
        self.home.push(LoopMessage::Load(order)).map_err(|_| LoadError::Gone)
    }

    fn ask<T>(
        &self,
        order: impl FnOnce(LoadId, mpsc::Sender<T>) -> LoadRequest,
    ) -> Result<T, LoadError> {
        let (reply, answer) = mpsc::channel();
        let order = order(self.id, reply);
        self.home.push(LoopMessage::Load(order)).map_err(|_| LoadError::Gone)?;
        answer.recv_timeout(ANSWER_TIMEOUT).map_err(|_| LoadError::Gone)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use lustrine_config::{AcceptPolicy, IdentityChoice, InterfaceChoice, NetConfig, NodeConfig};
    use lustrine_control::{Answer, LoadOrder, LoadRow, Request};
    use lustrine_wire::nid::Net;

    use super::*;
    use crate::caller::Caller;
    use crate::node::Node;

    /// Longer than any load needs to end; only a failing test tries so often.
    const TRIES_MAX: u32 = 10_000;
    const PAUSE: Duration = Duration::from_millis(2);

    /// A node that listens nowhere.
    fn node() -> Node {
        let own = Ipv4Addr::new(127, 55, 0, 1);
        let config = NodeConfig {
            nets: vec![NetConfig::new(Net::TCP, InterfaceChoice::Address(IpAddr::V4(own)))],
            identity: IdentityChoice::Userland,
            accept: AcceptPolicy::None,
            ..NodeConfig::default()
        };
        Node::start(&config).unwrap()
    }

    /// An address at which no node is.
    fn target() -> Nid {
        "127.55.0.2@tcp".parse().unwrap()
    }

    fn args() -> LoadArgs {
        LoadArgs {
            target: target(),
            name: Name::new("test").unwrap(),
            session: SessionMode::IfFree,
            patience: Nanos::from_secs(3600),
        }
    }

    fn order(caller: &mut Caller, order: LoadOrder) -> Result<LoadRow, i32> {
        match caller.call(&Request::Load { order }) {
            Answer::Load { load } => Ok(load),
            Answer::Error { errno, .. } => Err(errno),
            other => panic!("{other:?}"),
        }
    }

    fn start(caller: &mut Caller) -> Result<LoadRow, i32> {
        let (name, force, patience_ms) = ("test".to_owned(), false, 3_600_000);
        order(caller, LoadOrder::Start { target: target(), name, force, patience_ms })
    }

    /// Tries until what is in the way has ended.
    fn eventually<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
        let tries = (0..TRIES_MAX).find_map(|_| {
            let done = attempt();
            if done.is_none() {
                std::thread::sleep(PAUSE);
            }
            done
        });
        tries.expect("the load before has not ended")
    }

    #[test]
    fn a_load_whose_caller_has_given_up_makes_room() {
        let node = node();
        let index = home_loop(&target(), node.loops.len());
        let (reply, answer) = mpsc::channel();
        drop(answer);
        let client_args = Box::new(node.handle().client_args(args()));
        let start = LoadRequest::Start { args: client_args, load: next_id(&node.loads), reply };
        assert!(node.loops[index].push(LoopMessage::Load(start)).is_ok());
        let second = eventually(|| match node.start_load(args()) {
            Ok(load) => Some(load),
            Err(LoadError::Busy) => None,
            Err(error) => panic!("{error}"),
        });
        assert!(!second.progress().unwrap().finished);
    }

    #[test]
    fn a_load_that_was_replaced_does_not_reach_the_next_one() {
        let node = node();
        let first = node.start_load(args()).unwrap();
        assert!(matches!(node.start_load(args()), Err(LoadError::Busy)));
        first.finish().unwrap();
        let second = eventually(|| node.start_load(args()).ok());
        assert!(matches!(first.progress(), Err(LoadError::None)));
        drop(first);
        assert!(!second.progress().unwrap().finished);
    }

    #[test]
    fn a_second_start_of_a_caller_leaves_its_load_alone() {
        let node = node();
        let mut caller = Caller::of(node.handle());
        assert!(!start(&mut caller).unwrap().finished && caller.holds_load());
        assert_eq!(start(&mut caller), Err(-16));
        assert!(!order(&mut caller, LoadOrder::Progress).unwrap().finished);
        assert!(caller.holds_load());
        order(&mut caller, LoadOrder::Finish).unwrap();
        assert!(!caller.holds_load());
        // The end of the load is still shown.
        eventually(|| order(&mut caller, LoadOrder::Progress).unwrap().finished.then_some(()));
        assert!(!caller.holds_load());
        assert!(!start(&mut caller).unwrap().finished && caller.holds_load());
    }
}
