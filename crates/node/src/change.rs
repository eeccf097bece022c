//! Changes of a running node.
//!
//! A change holds the node's one lock for changes from reading the configuration to the last
//! loop's answer, so that all loops see the changes in the same order. A request makes a new
//! configuration out of the one in force; the difference is applied as a whole or not at all
//! ([`lustrine_config`]).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

use lustrine_config::{AcceptPolicy, NodeConfig, PeerConfig, ResolvedNi, Step, Strictness, steps};
use lustrine_control::{ChangeError, ChangeReport, ChangeRequest};
use lustrine_lnet::ConfiguredPeer;
use lustrine_lnet::shard::PeerTableFull;
use lustrine_lnet::topology::Identity;
use lustrine_partition::Change;
use lustrine_selftest::ServicePolicy;
use lustrine_sys::{Clock, PushError};
use lustrine_wire::nid::Nid;

use crate::error::StartError;
use crate::handle::{Changing, NodeHandle, NodeInfo};
use crate::kernel_lnet::KernelNid;
use crate::listener::{Bound, socket_options};
use crate::mailbox::{ChangeOrder, LoopMessage};
use crate::node::not_of_kernel;
use crate::resolve::resolve_one;

mod plan;

/// How long the loops may take to make a change.
const LOOPS_MAX: Duration = Duration::from_secs(10);

/// How long to wait for other changes.
const OTHERS_MAX: Duration = Duration::from_secs(15);

/// Waits are counted in steps of this, not by the clock: the time of a suspended machine does not
/// count.
const TICK: Duration = Duration::from_millis(5);

/// How long a node may work on a change.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(40);

/// The most steps of one change in its log line.
const LOGGED_MAX: usize = 8;

/// Whether to make a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Make it.
    Apply,
    /// Only report what it would do.
    DryRun,
}

const EINVAL: i32 = -22;
const EBUSY: i32 = -16;
const ESHUTDOWN: i32 = -108;
const ENOMEM: i32 = -12;

/// What to do.
struct Plan {
    after: NodeConfig,
    steps: Vec<Step>,
    warnings: Vec<String>,
    /// Besides the configuration: NIDs to be removed, and whether to reset the counters.
    forget: Vec<Nid>,
    reset: bool,
}

/// What the loops of a node are to change.
#[derive(Default)]
struct LoopWork {
    changes: Vec<Change>,
    /// Listeners and claims of interfaces that are added.
    bound: Bound,
    /// The consoles that the selftest service accepts.
    selftest: Option<Arc<ServicePolicy>>,
}

impl LoopWork {
    fn of(changes: Vec<Change>) -> LoopWork {
        LoopWork { changes, ..LoopWork::default() }
    }
}

impl NodeHandle {
    /// Makes a change as a whole or not at all, or reports what it would do.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn change(&self, change: &ChangeRequest, mode: Mode) -> Result<ChangeReport, ChangeError> {
        let mut changing = self.after_others()?;
        if changing.unfinished {
            return Err(ChangeError { errno: ESHUTDOWN, text: UNFINISHED.to_owned() });
        }
        let info = self.info();
        let mut plan = self.plan(&info, change)?;
        let stays: HashSet<Nid> = match plan.forget.is_empty() {
            true => HashSet::new(),
            false => plan.after.peers.iter().flat_map(|peer| peer.nids.iter().copied()).collect(),
        };
        let goes_anyway: HashSet<Nid> = plan.steps.iter().flat_map(Step::removed).collect();
        plan.forget.retain(|nid| !stays.contains(nid) && !goes_anyway.contains(nid));
        let mut lines: Vec<String> =
            plan.steps.iter().flat_map(|step| plan::describe(step, &info, &plan.after)).collect();
        if !plan.forget.is_empty() {
            lines.push(format!("remove {}", plan::list(&plan.forget)));
        }
        if plan.reset {
            lines.push("reset the counters".to_owned());
        }
        let changed = ChangeReport {
            steps: lines,
            warnings: plan.warnings.clone(),
            before: info.config.to_backup(),
            after: plan.after.to_backup(),
        };
        if mode == Mode::Apply {
            self.make(&info, plan).inspect_err(|why| {
                // Some loops may have made it and others not.
                changing.unfinished |= why.errno == ESHUTDOWN;
                tracing::warn!(%why, "a change failed");
            })?;
            log(&changed.steps);
        }
        Ok(changed)
    }

    /// Waits for a turn.
    fn after_others(&self) -> Result<MutexGuard<'_, Changing>, ChangeError> {
        let mut left = OTHERS_MAX;
        loop {
            match self.current.changing.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if left.is_zero() => {
                    let text = "other changes are in progress; nothing was changed: try again";
                    return Err(ChangeError { errno: EBUSY, text: text.to_owned() });
                }
                Err(TryLockError::WouldBlock) => {}
            }
            thread::sleep(TICK);
            left = left.saturating_sub(TICK);
        }
    }

    fn make(&self, info: &NodeInfo, plan: Plan) -> Result<(), ChangeError> {
        let mut described = Vec::new();
        let mut work = LoopWork::default();
        let mut next = info.clone();
        next.config = plan.after;
        next.tunables = next.config.tunables.clone();
        let mut forget = plan.forget;
        for step in plan.steps {
            match step {
                Step::KeepOnly(..) => {}
                Step::ConfigurePeer(peer) => described.push(peer),
                Step::RemoveNids(nids) => forget.extend(nids),
                Step::Tunables(_) => {
                    let tunables = self.current.context.limited(&next.tunables);
                    work.changes.push(Change::Tunables(Box::new(tunables)));
                }
                Step::SelftestPolicy => {
                    work.selftest = Some(Arc::new(next.config.selftest.clone()));
                }
                Step::RemoveNet(index) => {
                    let nid = info.nids[index];
                    work.changes.push(Change::RemoveNi { nid });
                    let at = next.nids.iter().position(|other| *other == nid);
                    next.finish_ni_removal(at.expect("an interface of the node"));
                }
                Step::AddNet(index) => {
                    let ni = resolve_one(&next.config.nets[index], &next.tunables);
                    let ni = ni.map_err(plan::unresolved)?;
                    let lets_in = next.config.accept != AcceptPolicy::None;
                    bind(info, &next.config, &ni, &mut work.bound)?;
                    next.add_ni(&ni, lets_in.then(|| ni.addrs()[0]));
                    work.changes.push(Change::AddNi {
                        core: self.current.context.core_ni(&ni),
                        driver: self.current.context.driver_ni(&ni, Clock::Wall.now()),
                    });
                }
                Step::ConnsPerPeer(index, conns_per_peer) => {
                    // Interfaces that are there stand before those that are added, in order.
                    let nid = next.nids[index];
                    next.conns_per_peer[index] = conns_per_peer;
                    work.changes.push(Change::ConnsPerPeer { nid, conns_per_peer });
                }
            }
        }
        if !forget.is_empty() {
            work.changes.push(Change::RemoveNids(forget));
        }
        if plan.reset {
            work.changes.push(Change::ResetStats);
        }
        self.describe(&info.config.peers, &described)?;
        let applied = self.apply_on_loops(work, &next);
        // Once peers were configured, "nothing was changed" would be wrong.
        applied.map_err(|why| if described.is_empty() { why } else { gone() })?;
        let mut current = self.current.info.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(next);
        Ok(())
    }

    /// Configures peers: the one part that can fail on a loop. All are undone then.
    fn describe(&self, before: &[PeerConfig], peers: &[PeerConfig]) -> Result<(), ChangeError> {
        if peers.is_empty() {
            return Ok(());
        }
        let info = self.info();
        let change = |peer: &PeerConfig| Change::ConfigurePeer(configured(peer));
        let made = self.apply_on_loops(LoopWork::of(peers.iter().map(change).collect()), &info);
        let Err(error) = made else { return Ok(()) };
        // What was discovered of them before stays, and so do their connections.
        let tried: HashSet<Nid> = peers.iter().map(|peer| peer.nids[0]).collect();
        let mut undo = vec![Change::UnconfigurePeers(tried.iter().copied().collect())];
        undo.extend(before.iter().filter(|old| tried.contains(&old.nids[0])).map(change));
        let _ = self.apply_on_loops(LoopWork::of(undo), &info);
        Err(error)
    }

    /// Configures the peers of the configuration that the node starts with.
    pub(crate) fn describe_peers(&self, peers: &[PeerConfig]) -> Result<(), StartError> {
        self.describe(&[], peers).map_err(|_| StartError::Peers)
    }

    /// Has all loops make changes. The first loop is the last one: it accepts connections on a new
    /// interface when all others know it.
    fn apply_on_loops(&self, work: LoopWork, next: &NodeInfo) -> Result<(), ChangeError> {
        let LoopWork { changes, bound, selftest } = work;
        let tunes = changes.iter().any(|change| matches!(change, Change::Tunables(_)));
        let changes: Arc<[Change]> = changes.into();
        if changes.is_empty() && selftest.is_none() {
            return Ok(());
        }
        let order = |bound, reply| {
            let options =
                tunes.then(|| (socket_options(&next.tunables), next.tunables.loops.spin_us));
            let (changes, selftest) = (Arc::clone(&changes), selftest.clone());
            ChangeOrder { changes, selftest, bound, options, reply }
        };
        let mut left = LOOPS_MAX;
        let (reply, answers) = mpsc::channel();
        for index in 1..self.loops.len() {
            let posted = self.post(index, order(Bound::default(), reply.clone()), &mut left);
            posted.map_err(|Full| if index == 1 { full() } else { gone() })?;
        }
        await_all(&answers, self.loops.len() - 1, &mut left)?;
        let alone = self.loops.len() == 1;
        let posted = self.post(0, order(bound, reply), &mut left);
        posted.map_err(|Full| if alone { full() } else { gone() })?;
        await_all(&answers, 1, &mut left)
    }

    fn post(&self, index: usize, order: ChangeOrder, left: &mut Duration) -> Result<(), Full> {
        let mut message = LoopMessage::Change(Box::new(order));
        loop {
            message = match self.loops[index].push(message) {
                Ok(()) => return Ok(()),
                Err(PushError::Full(message)) if !left.is_zero() => message,
                Err(_) => return Err(Full),
            };
            thread::sleep(TICK);
            *left = left.saturating_sub(TICK);
        }
    }
}

fn await_all(
    answers: &mpsc::Receiver<Result<(), PeerTableFull>>,
    count: usize,
    left: &mut Duration,
) -> Result<(), ChangeError> {
    let mut made = Ok(());
    for _ in 0..count {
        let answer = loop {
            match answers.recv_timeout(TICK) {
                Ok(answer) => break answer,
                Err(mpsc::RecvTimeoutError::Timeout) if !left.is_zero() => {
                    *left = left.saturating_sub(TICK);
                }
                Err(_) => return Err(gone()),
            }
        };
        made = made.and(answer);
    }
    made.map_err(|PeerTableFull| ChangeError {
        errno: ENOMEM,
        text: "the table of peers is full of peers that are in use; nothing was changed: start \
               the node with a larger peers_max"
            .to_owned(),
    })
}

/// An event loop does not take a message.
struct Full;

/// No loop got the change.
fn full() -> ChangeError {
    let text = "the node's event loops accept no changes: the node is stopping or overloaded; \
                nothing was changed: try again";
    ChangeError { errno: EBUSY, text: text.to_owned() }
}

/// Opens the listeners of an interface that are not open yet, for all its users, or claims its
/// addresses.
fn bind(
    info: &NodeInfo,
    config: &NodeConfig,
    ni: &ResolvedNi,
    bound: &mut Bound,
) -> Result<(), ChangeError> {
    let bulk = u16::try_from(config.tunables.socklnd.accept_port_bulk).unwrap_or(0);
    let is_open = |addr: &SocketAddr| {
        // A node that does not listen has claimed the addresses of its interfaces.
        let own = info.nids.iter().zip(&info.ports);
        let mut own = own.filter_map(|(nid, port)| Some(SocketAddr::new(nid.ip()?, *port)));
        own.any(|open| {
            open.ip() == addr.ip() && (open.port() == addr.port() || bulk == addr.port())
        })
    };
    let text = |error: StartError| ChangeError { errno: EBUSY, text: error.to_string() };
    if info.identity == Identity::Node {
        not_of_kernel(core::slice::from_ref(ni), &[KernelNid::Has]).map_err(text)?;
    }
    for addr in ni.addrs().into_iter().filter(|addr| !is_open(addr)) {
        bound.add(config, addr, info.identity).map_err(text)?;
    }
    Ok(())
}

/// Logs a change.
fn log(steps: &[String]) {
    let shown = &steps[..steps.len().min(LOGGED_MAX)];
    let more = steps.len() - shown.len();
    if !shown.is_empty() {
        tracing::info!(steps = shown.join("; "), more, "changed");
    }
}

fn gone() -> ChangeError {
    let text = "the node's event loops do not answer: the node is stopping, or one of them has \
                failed. A part of the change may be in force, so no further changes are accepted";
    ChangeError { errno: ESHUTDOWN, text: text.to_owned() }
}

const UNFINISHED: &str = "an earlier change was not finished by all event loops; nothing was \
                          changed: restart the node";

fn configured(peer: &PeerConfig) -> ConfiguredPeer {
    ConfiguredPeer {
        primary: peer.nids[0],
        nids: peer.nids.clone(),
        multi_rail: peer.multi_rail,
        locked: peer.locked,
    }
}

impl NodeInfo {
    fn finish_ni_removal(&mut self, at: usize) {
        self.nids.remove(at);
        self.interfaces.remove(at);
        self.listening.remove(at);
        self.ports.remove(at);
        self.conns_per_peer.remove(at);
        self.peer_credits.remove(at);
    }

    fn add_ni(&mut self, ni: &ResolvedNi, listening: Option<SocketAddr>) {
        self.nids.push(ni.nid);
        self.interfaces.push(ni.interface.clone());
        self.listening.push(listening);
        self.ports.push(ni.port);
        self.conns_per_peer.push(ni.conns_per_peer);
        self.peer_credits.push(ni.peer_credits);
    }
}

/// How a file is read.
fn strictness(lenient: bool) -> Strictness {
    if lenient { Strictness::Lenient } else { Strictness::Strict }
}

#[cfg(test)]
mod tests;
