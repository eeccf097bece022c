//! Changes that a person, or a program, asks of a running node.
//!
//! Whoever changes holds the node's one lock for that from looking to the last loop's answer, so
//! that changes have one order, the same on all loops. What is asked makes a configuration of the
//! one in force; the difference is made whole or not at all ([`crate::config`]).

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::{Duration, Instant};

use lustrine_lnet::PeerByHand;
use lustrine_lnet::shard::NoRoom;
use lustrine_node::Change;
use lustrine_sys::{Listener, Refused as Unposted};
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

use crate::config::{AcceptPolicy, Manner, NodeConfig, PeerConfig, Step, Strictness, steps};
use crate::letters::{ChangeOrder, Letter};
use crate::node::{NodeHandle, NodeInfo, StartError, listeners, socket_options};
use crate::resolve::{ResolvedNi, resolve_one};

mod wishes;

/// How long the loops may take to make a change.
const LOOPS_MAX: Duration = Duration::from_secs(10);

/// How long a node may work on a change.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(40);

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case", deny_unknown_fields)]
pub enum Wish {
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
        which: Which,
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
        which: Which,
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
        manner: Manner,
        /// Leave out what is not known, or cannot be, with a warning each.
        lenient: bool,
    },
}

/// Which interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
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
pub struct Changed {
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
pub struct NotChanged {
    /// LNet's number: a negative errno.
    pub errno: i32,
    /// What, why, and what to do instead.
    pub text: String,
}

/// Whether a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Making {
    /// It is.
    Real,
    /// It is only found out what it would do.
    Trial,
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
    pub fn change(&self, wish: &Wish, making: Making) -> Result<Changed, NotChanged> {
        let order = &self.current.changing;
        let _ordered = order.lock().unwrap_or_else(PoisonError::into_inner);
        let info = self.info();
        let mut plan = self.plan(&info, wish)?;
        let stays = |nid: &Nid| plan.after.peers.iter().any(|peer| peer.nids.contains(nid));
        plan.forget.retain(|nid| !stays(nid));
        let mut told: Vec<String> =
            plan.steps.iter().flat_map(|step| wishes::tell(step, &info, &plan.after)).collect();
        if !plan.forget.is_empty() {
            told.push(format!("forget {}", wishes::list(&plan.forget)));
        }
        if plan.reset {
            told.push("reset the counters".to_owned());
        }
        let changed = Changed {
            steps: told,
            warnings: plan.warnings.clone(),
            before: info.config.to_backup(),
            after: plan.after.to_backup(),
        };
        if making == Making::Real {
            self.make(&info, plan)?;
        }
        Ok(changed)
    }

    fn make(&self, info: &NodeInfo, plan: Plan) -> Result<(), NotChanged> {
        let mut described = Vec::new();
        let mut changes = Vec::new();
        let mut doors = Vec::new();
        let mut next = info.clone();
        next.config = plan.after;
        next.tunables = next.config.tunables.clone();
        let mut forget = plan.forget;
        for step in plan.steps {
            match step {
                Step::DescribePeer(peer) => described.push(peer),
                Step::RemoveNids(nids) => forget.extend(nids),
                Step::Tunables(_) => {
                    let tunables = self.current.life.limited(&next.tunables);
                    changes.push(Change::Tunables(Box::new(tunables)));
                }
                Step::RemoveNet(index) => {
                    let nid = info.nids[index];
                    changes.push(Change::RemoveNi { nid });
                    let at = next.nids.iter().position(|other| *other == nid);
                    next.forget_ni(at.expect("an interface of the node"));
                }
                Step::AddNet(index) => {
                    let (ni, opened) = self.new_ni(&next.config, index)?;
                    doors.extend(opened.into_iter().map(|(door, addr)| (ni.nid, door, addr)));
                    let listening = doors.iter().find(|(nid, ..)| *nid == ni.nid);
                    next.add_ni(&ni, listening.map(|(.., addr)| *addr));
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
        self.tell_loops(changes, doors, &next)?;
        let mut current = self.current.info.write().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(next);
        Ok(())
    }

    /// Descriptions are the one part that can fail on a loop; then all are undone.
    fn describe(&self, before: &[PeerConfig], peers: &[PeerConfig]) -> Result<(), NotChanged> {
        if peers.is_empty() {
            return Ok(());
        }
        let info = self.info();
        let change = |peer: &PeerConfig| Change::DescribePeer(by_hand(peer));
        let made = self.tell_loops(peers.iter().map(change).collect(), Vec::new(), &info);
        let Err(error) = made else { return Ok(()) };
        let is_new = |peer: &&PeerConfig| !before.iter().any(|old| old.nids[0] == peer.nids[0]);
        let new: Vec<Nid> =
            peers.iter().filter(is_new).flat_map(|peer| peer.nids.clone()).collect();
        let mut undo = vec![Change::RemoveNids(new)];
        undo.extend(before.iter().map(change));
        let _ = self.tell_loops(undo, Vec::new(), &info);
        Err(error)
    }

    /// Takes in the peers of a configuration that the node starts with.
    pub(crate) fn describe_peers(&self, peers: &[PeerConfig]) -> Result<(), StartError> {
        self.describe(&[], peers).map_err(|_| StartError::Peers)
    }

    fn new_ni(
        &self,
        config: &NodeConfig,
        index: usize,
    ) -> Result<(ResolvedNi, Vec<(Listener, SocketAddr)>), NotChanged> {
        let not = |errno: i32, text: String| NotChanged { errno, text };
        let ni = resolve_one(&config.nets[index], &config.tunables);
        let ni = ni.map_err(|error| not(EINVAL, error.to_string()))?;
        let doors = match config.accept {
            AcceptPolicy::None => Vec::new(),
            _ => listeners(config, &ni).map_err(|error| not(EBUSY, error.to_string()))?,
        };
        Ok((ni, doors))
    }

    /// Has all loops make changes. The first one is the last to do so: it lets peers in by an
    /// interface when all others know it.
    fn tell_loops(
        &self,
        changes: Vec<Change>,
        doors: Vec<(Nid, Listener, SocketAddr)>,
        next: &NodeInfo,
    ) -> Result<(), NotChanged> {
        let tunes = changes.iter().any(|change| matches!(change, Change::Tunables(_)));
        let changes: Arc<[Change]> = changes.into();
        if changes.is_empty() {
            return Ok(());
        }
        let order = |doors, reply| {
            let options = tunes.then(|| (socket_options(&next.tunables), next.tunables.spin_us));
            ChangeOrder { changes: Arc::clone(&changes), doors, options, reply }
        };
        let deadline = Instant::now() + LOOPS_MAX;
        let (reply, answers) = mpsc::channel();
        for index in 1..self.loops.len() {
            self.post(index, order(Vec::new(), reply.clone()), deadline)?;
        }
        let others = await_all(&answers, self.loops.len() - 1, deadline);
        others?;
        self.post(0, order(doors, reply), deadline)?;
        await_all(&answers, 1, deadline)
    }

    fn post(&self, index: usize, order: ChangeOrder, deadline: Instant) -> Result<(), NotChanged> {
        let mut letter = Letter::Change(Box::new(order));
        loop {
            letter = match self.loops[index].push(letter) {
                Ok(()) => return Ok(()),
                Err(Unposted::Full(letter)) if Instant::now() < deadline => letter,
                Err(_) => return Err(gone()),
            };
            std::thread::yield_now();
        }
    }
}

fn await_all(
    answers: &mpsc::Receiver<Result<(), NoRoom>>,
    count: usize,
    deadline: Instant,
) -> Result<(), NotChanged> {
    let mut made = Ok(());
    for _ in 0..count {
        let left = deadline.saturating_duration_since(Instant::now());
        made = made.and(answers.recv_timeout(left).map_err(|_| gone())?);
    }
    made.map_err(|NoRoom| NotChanged {
        errno: ENOMEM,
        text: "the table of peers is full of others that are in use; nothing was changed: start \
               the node with a larger peers_max"
            .to_owned(),
    })
}

fn gone() -> NotChanged {
    let text = "the node does not answer; it is stopping, or one of its event loops has failed";
    NotChanged { errno: ESHUTDOWN, text: text.to_owned() }
}

fn by_hand(peer: &PeerConfig) -> PeerByHand {
    PeerByHand {
        primary: peer.nids[0],
        nids: peer.nids.clone(),
        multi_rail: peer.multi_rail,
        locked: peer.locked,
    }
}

impl NodeInfo {
    fn forget_ni(&mut self, at: usize) {
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
