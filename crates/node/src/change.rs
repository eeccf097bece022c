//! Changes that a person, or a program, asks of a running node.
//!
//! Whoever changes holds the node's one lock for that from looking to the last loop's answer, so
//! that changes have one order, the same on all loops. What is asked makes a configuration of the
//! one in force; the difference is made whole or not at all ([`crate::config`]).

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

use lustrine_lnet::ConfiguredPeer;
use lustrine_lnet::shard::PeerTableFull;
use lustrine_partition::Change;
use lustrine_sys::PushError;
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

use crate::config::{AcceptPolicy, ImportMode, NodeConfig, PeerConfig, Step, Strictness, steps};
use crate::event_loop::BoundListener;
use crate::mailbox::{ChangeOrder, LoopMessage};
use crate::node::{NodeHandle, NodeInfo, StartError, open_listener, socket_options};
use crate::resolve::{ResolvedNi, resolve_one};

mod plan;

/// How long the loops may take to make a change.
const LOOPS_MAX: Duration = Duration::from_secs(10);

/// How long changes of others are waited for.
const OTHERS_MAX: Duration = Duration::from_secs(15);

/// Waits are counted in steps of this, not by the clock: a machine that was suspended for an hour
/// has not waited.
const TICK: Duration = Duration::from_millis(5);

/// How long a node may work on a change.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(40);

/// Steps of one change that are logged in words.
const LOGGED_MAX: usize = 8;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum ChangeRequest {
    /// Another value for all of the node.
    Set {
        /// A tunable, by our name or LNet's.
        name: String,
        /// Its new value.
        value: i64,
    },
    /// Other values for interfaces.
    SetNet {
        /// Which.
        which: NiSelector,
        /// Bulk connections per peer and direction; 0 follows the link's speed.
        conns_per_peer: Option<u16>,
        /// LNet's time-out of the driver, in seconds.
        lnd_timeout: Option<u32>,
    },
    /// More interfaces.
    AddNet(Box<NewNet>),
    /// Fewer interfaces.
    DelNet {
        /// Which; with a network, of the interfaces of these names if there are any.
        which: NiSelector,
        /// Names of interfaces.
        interfaces: Vec<String>,
    },
    /// A peer by hand, or more NIDs of one.
    AddPeer {
        /// Its NIDs, the primary one first, in text form.
        nids: Vec<String>,
        /// Whether they belong to one multi-rail node.
        multi_rail: bool,
        /// Whether the primary NID stays whatever it says itself.
        locked: bool,
    },
    /// Forget a peer, or some of its NIDs.
    DelPeer {
        /// Its primary NID.
        primary: String,
        /// These only, if there are any.
        nids: Vec<String>,
        /// Even if its primary NID shall stay.
        force: bool,
    },
    /// Show counters from here on only.
    ResetStats,
    /// What a file says.
    Import {
        /// lnetctl's YAML.
        text: String,
        /// How messages call it.
        source_name: String,
        /// What the file is for.
        manner: ImportMode,
        /// Leave out what is not known, or cannot be, with a warning each.
        lenient: bool,
    },
}

/// Which interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NiSelector {
    /// All.
    All,
    /// The one of this NID, in text form.
    Nid(String),
    /// Those of this network, in text form.
    Net(String),
}

/// An interface to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewNet {
    /// The network, in text form; or by the NID.
    pub net: Option<String>,
    /// Names of interfaces; none is the first that is up.
    pub interfaces: Vec<String>,
    /// The NID, in text form.
    pub nid: Option<String>,
    /// Own value instead of the tunable of the same name.
    pub peer_credits: Option<u32>,
    /// Own value instead of the tunable of the same name.
    pub credits: Option<u32>,
    /// Own value instead of the tunable of the same name.
    pub conns_per_peer: Option<u16>,
    /// Own value instead of the tunable of the same name.
    pub tos: Option<i16>,
}

/// What a change did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// One by one, in words.
    pub steps: Vec<String>,
    /// What was left out.
    pub warnings: Vec<String>,
    /// The node's configuration before.
    pub before: String,
    /// The same afterwards.
    pub after: String,
}

/// Why nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ChangeError {
    /// LNet's number: a negative errno.
    pub errno: i32,
    /// What, why, and what to do instead.
    pub text: String,
}

/// Whether a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is.
    Apply,
    /// It is only found out what it would do.
    DryRun,
}

const EINVAL: i32 = -22;
const EBUSY: i32 = -16;
const ESHUTDOWN: i32 = -108;
const ENOMEM: i32 = -12;

/// What is to be done.
struct Plan {
    after: NodeConfig,
    steps: Vec<Step>,
    warnings: Vec<String>,
    /// Beyond the configuration: NIDs to be forgotten, and counters.
    forget: Vec<Nid>,
    reset: bool,
}

impl NodeHandle {
    /// Makes a change, or finds out what it would do. All of it, or nothing.
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
        let mut told: Vec<String> =
            plan.steps.iter().flat_map(|step| plan::tell(step, &info, &plan.after)).collect();
        if !plan.forget.is_empty() {
            told.push(format!("forget {}", plan::list(&plan.forget)));
        }
        if plan.reset {
            told.push("reset the counters".to_owned());
        }
        let changed = ChangeReport {
            steps: told,
            warnings: plan.warnings.clone(),
            before: info.config.to_backup(),
            after: plan.after.to_backup(),
        };
        if mode == Mode::Apply {
            self.make(&info, plan).inspect_err(|why| {
                // Loops that were told may have made it, and others not.
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
                    let text = "changes of others are under way; nothing was changed: try again";
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
        let mut changes = Vec::new();
        let mut listeners = Vec::new();
        let mut next = info.clone();
        next.config = plan.after;
        next.tunables = next.config.tunables.clone();
        let mut forget = plan.forget;
        for step in plan.steps {
            match step {
                Step::Noted(..) => {}
                Step::ConfigurePeer(peer) => described.push(peer),
                Step::RemoveNids(nids) => forget.extend(nids),
                Step::Tunables(_) => {
                    let tunables = self.current.life.limited(&next.tunables);
                    changes.push(Change::Tunables(Box::new(tunables)));
                }
                Step::SelftestPolicy => {
                    let policy = Box::new(next.config.selftest.clone());
                    changes.push(Change::SelftestPolicy(policy));
                }
                Step::RemoveNet(index) => {
                    let nid = info.nids[index];
                    changes.push(Change::RemoveNi { nid });
                    let at = next.nids.iter().position(|other| *other == nid);
                    next.finish_ni_removal(at.expect("an interface of the node"));
                }
                Step::AddNet(index) => {
                    let ni = resolve_one(&next.config.nets[index], &next.tunables);
                    let ni = ni.map_err(plan::unresolved)?;
                    let lets_in = next.config.accept != AcceptPolicy::None;
                    if lets_in {
                        open_listeners(info, &next.config, &ni, &mut listeners)?;
                    }
                    next.add_ni(&ni, lets_in.then(|| ni.addrs()[0]));
                    changes.push(Change::AddNi {
                        core: self.current.life.core_ni(&ni),
                        driver: self.current.life.driver_ni(&ni),
                    });
                }
                Step::ConnsPerPeer(index, conns_per_peer) => {
                    // Interfaces that are there stand before those that are added, in order.
                    let nid = next.nids[index];
                    next.conns_per_peer[index] = conns_per_peer;
                    changes.push(Change::ConnsPerPeer { nid, conns_per_peer });
                }
            }
        }
        if !forget.is_empty() {
            changes.push(Change::RemoveNids(forget));
        }
        if plan.reset {
            changes.push(Change::ResetStats);
        }
        self.describe(&info.config.peers, &described)?;
        let told = self.tell_loops(changes, listeners, &next);
        // After a description there is no "nothing was changed".
        told.map_err(|why| if described.is_empty() { why } else { gone() })?;
        let mut current = self.current.info.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(next);
        Ok(())
    }

    /// Descriptions are the one part that can fail on a loop; then all are undone.
    fn describe(&self, before: &[PeerConfig], peers: &[PeerConfig]) -> Result<(), ChangeError> {
        if peers.is_empty() {
            return Ok(());
        }
        let info = self.info();
        let change = |peer: &PeerConfig| Change::ConfigurePeer(configured(peer));
        let made = self.tell_loops(peers.iter().map(change).collect(), Vec::new(), &info);
        let Err(error) = made else { return Ok(()) };
        // What was known of them before they were described stays, and so do their connections.
        let tried: HashSet<Nid> = peers.iter().map(|peer| peer.nids[0]).collect();
        let mut undo = vec![Change::UnconfigurePeers(tried.iter().copied().collect())];
        undo.extend(before.iter().filter(|old| tried.contains(&old.nids[0])).map(change));
        let _ = self.tell_loops(undo, Vec::new(), &info);
        Err(error)
    }

    /// Takes in the peers of a configuration that the node starts with.
    pub(crate) fn describe_peers(&self, peers: &[PeerConfig]) -> Result<(), StartError> {
        self.describe(&[], peers).map_err(|_| StartError::Peers)
    }

    /// Has all loops make changes. The first one is the last to do so: it lets peers in by an
    /// interface when all others know it.
    fn tell_loops(
        &self,
        changes: Vec<Change>,
        listeners: Vec<BoundListener>,
        next: &NodeInfo,
    ) -> Result<(), ChangeError> {
        let tunes = changes.iter().any(|change| matches!(change, Change::Tunables(_)));
        let changes: Arc<[Change]> = changes.into();
        if changes.is_empty() {
            return Ok(());
        }
        let order = |listeners, reply| {
            let options = tunes.then(|| (socket_options(&next.tunables), next.tunables.spin_us));
            ChangeOrder { changes: Arc::clone(&changes), listeners, options, reply }
        };
        let mut left = LOOPS_MAX;
        let (reply, answers) = mpsc::channel();
        for index in 1..self.loops.len() {
            let posted = self.post(index, order(Vec::new(), reply.clone()), &mut left);
            posted.map_err(|Full| if index == 1 { full() } else { gone() })?;
        }
        await_all(&answers, self.loops.len() - 1, &mut left)?;
        let alone = self.loops.len() == 1;
        let posted = self.post(0, order(listeners, reply), &mut left);
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
        text: "the table of peers is full of others that are in use; nothing was changed: start \
               the node with a larger peers_max"
            .to_owned(),
    })
}

/// An event loop does not take a message.
struct Full;

/// None of them has been told.
fn full() -> ChangeError {
    let text = "the node's event loops take nothing in: it is stopping, or overloaded; nothing was \
                changed: try again";
    ChangeError { errno: EBUSY, text: text.to_owned() }
}

/// Opens the listeners of an interface that are not open yet, whoever they are for.
fn open_listeners(
    info: &NodeInfo,
    config: &NodeConfig,
    ni: &ResolvedNi,
    listeners: &mut Vec<BoundListener>,
) -> Result<(), ChangeError> {
    let bulk = u16::try_from(config.tunables.accept_port_bulk).unwrap_or(0);
    let is_open = |addr: &SocketAddr| {
        info.listening.iter().flatten().any(|open| {
            open.ip() == addr.ip() && (open.port() == addr.port() || bulk == addr.port())
        })
    };
    for addr in ni.addrs() {
        if !is_open(&addr) && !listeners.iter().any(|listener| listener.local == addr) {
            let listener = open_listener(config, addr);
            let text = |error: StartError| ChangeError { errno: EBUSY, text: error.to_string() };
            listeners.push(listener.map_err(text)?);
        }
    }
    Ok(())
}

/// Leaves a trace of a change: who looks later wants to know when it was made.
fn log(steps: &[String]) {
    let shown = &steps[..steps.len().min(LOGGED_MAX)];
    let more = steps.len() - shown.len();
    if !shown.is_empty() {
        tracing::info!(steps = shown.join("; "), more, "changed");
    }
}

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    /// Some event loops may have made a change and others not.
    unfinished: bool,
}

fn gone() -> ChangeError {
    let text = "the node's event loops do not answer: it is stopping, or one of them has failed. \
                A part of the change may be in force, so it takes no further ones";
    ChangeError { errno: ESHUTDOWN, text: text.to_owned() }
}

const UNFINISHED: &str = "an earlier change was not finished by all of the node's event loops; \
                          nothing was changed: start the node again";

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

/// How strictly a file is read.
fn strictness(lenient: bool) -> Strictness {
    if lenient { Strictness::Lenient } else { Strictness::Strict }
}
