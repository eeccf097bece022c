//! What others need to talk to a running node.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use lustrine_config::{NodeConfig, ResolvedNi};
use lustrine_control::NetNamespace;
use lustrine_lnet::topology::{Identity, Ni, credits_per_cpt};
use lustrine_partition::tunables::Tunables;
use lustrine_selftest::console::{Answer, Command, Refusal};
use lustrine_socklnd::NiConfig;
use lustrine_sys::Sender;
use lustrine_wire::nid::Nid;

use crate::console::{ConsoleSlot, QUEUE_MAX, duration_max};
use crate::error::CallError;
use crate::listener::Leaving;
use crate::mailbox::{ConsoleMessage, LoopMessage};
use crate::snapshot::{LoopConns, LoopReport, LoopSnapshot, SnapshotQuery};

/// The network namespace of this process, if the system shows it.
pub fn own_netns() -> Option<NetNamespace> {
    let (device, inode) = lustrine_sys::process::network_namespace()?;
    Some(NetNamespace { device, inode })
}

/// How long the loops may take to report.
pub(crate) const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The properties of a node, some of which can change.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    /// Its NIDs; the first one is primary.
    pub nids: Vec<Nid>,
    /// The name of each NID's interface, if it has one.
    pub interfaces: Vec<Option<String>>,
    /// The address at which each NID listens; `None` if the node accepts no connections.
    pub listening: Vec<Option<SocketAddr>>,
    /// The TCP port at which peers of each NID's net are dialled.
    pub ports: Vec<u16>,
    /// Bulk connections per peer and direction, per NID.
    pub conns_per_peer: Vec<u16>,
    /// Messages to one peer that may be in flight at once, per NID.
    pub peer_credits: Vec<u32>,
    /// The tunables of the node.
    pub tunables: Tunables,
    /// The whole configuration, with every interface's own values; its nets are in the order of the
    /// NIDs.
    pub config: NodeConfig,
    /// Its identity.
    pub identity: Identity,
    /// The reason for it, as text.
    pub identity_reason: &'static str,
    /// The CPUs of each partition.
    pub partitions: Vec<Vec<u32>>,
}

/// A handle to a node. It does not keep the node running: calls to one that has stopped fail.
#[derive(Clone)]
pub struct NodeHandle {
    pub(crate) current: Arc<Current>,
    pub(crate) loops: Arc<[Sender<LoopMessage>]>,
    pub(crate) console: Arc<ConsoleSlot>,
    /// The number of selftest loads so far.
    pub(crate) loads: Arc<AtomicU64>,
}

/// The present configuration of a node.
pub(crate) struct Current {
    pub(crate) info: RwLock<Arc<NodeInfo>>,
    /// Held during a change, from reading the configuration to the last loop's answer, so that
    /// changes have an order.
    pub(crate) changing: Mutex<Changing>,
    pub(crate) context: NodeContext,
}

/// What does not change while a node runs, and what later parts need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeContext {
    pub(crate) cpts: u16,
    /// Of this start: the handles of its descriptors have it in them.
    pub(crate) incarnation: u64,
    /// That peers see.
    pub(crate) hello_incarnation: u64,
    /// Largest number of connections of all loops together, limited by the descriptors.
    pub(crate) connections_max: i64,
}

impl Current {
    /// A handle to a node whose loops answer nothing.
    #[cfg(test)]
    pub(crate) fn of(info: NodeInfo) -> Current {
        let context =
            NodeContext { cpts: 1, incarnation: 1, hello_incarnation: 1, connections_max: 16 };
        Current { info: RwLock::new(Arc::new(info)), changing: Mutex::default(), context }
    }
}

/// The state of changes.
#[derive(Debug, Default)]
pub(crate) struct Changing {
    /// Some event loops may have made a change and others not.
    pub(crate) unfinished: bool,
}

impl NodeHandle {
    /// The present properties of the node.
    pub fn info(&self) -> Arc<NodeInfo> {
        Arc::clone(&self.current.info.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says that this node ends soon, until the value is dropped. Commands that are started
    /// meanwhile wait for its addresses.
    pub fn leaving(&self) -> Leaving {
        let info = self.info();
        let addrs = info.nids.iter().zip(&info.ports);
        // One that is userland has no address that another node would wait for.
        let addrs = addrs.filter(|_| info.identity == Identity::Node);
        Leaving::of(addrs.filter_map(|(nid, port)| Some(SocketAddr::new(nid.ip()?, *port))))
    }

    /// Gives the node's console a command of the session with this key, and waits for the answer:
    /// up to [`Command::duration_max`], plus the time of the commands before it.
    ///
    /// # Errors
    /// When the node has stopped, or the system cannot start a thread.
    pub fn console(
        &self,
        key: u32,
        command: Command,
    ) -> Result<Result<Answer, Refusal>, CallError> {
        let patience = duration_max(&command) + QUEUE_MAX;
        let (reply, answer) = mpsc::channel();
        let mail = ConsoleMessage::Command { key, command, reply };
        self.console.post(mail, &self.loops, &self.info().nids)?;
        let mut answer = answer.recv_timeout(patience).map_err(|_| CallError::NotResponding)?;
        if let Ok(Answer::Replies(replies)) = &mut answer {
            self.explain(replies);
        }
        Ok(answer)
    }

    /// Whether its console has a session, or commands to process. This query is not a command: it
    /// does not keep a session alive.
    pub fn console_in_use(&self) -> bool {
        let (reply, answer) = mpsc::channel();
        let asked = self.console.ask(ConsoleMessage::InUse(reply));
        asked && answer.recv_timeout(QUEUE_MAX).unwrap_or(false)
    }

    /// Reports of all loops, by CPU partition.
    pub(crate) fn reports(&self) -> Result<Vec<LoopReport>, CallError> {
        let mut reports = self.ask_all(LoopMessage::Report)?;
        reports.sort_by_key(|report| report.cpt);
        Ok(reports)
    }

    /// Queries all loops.
    pub(crate) fn snapshots(&self, query: SnapshotQuery) -> Result<Vec<LoopSnapshot>, CallError> {
        let mut snapshots = self.ask_all(|reply| LoopMessage::Snapshot(query, reply))?;
        snapshots.sort_by_key(|snapshot| snapshot.report.cpt);
        Ok(snapshots)
    }

    /// Open connections of all loops, or those of one peer NID.
    pub(crate) fn conns(&self, only: Option<Nid>) -> Result<Vec<LoopConns>, CallError> {
        let mut conns = self.ask_all(|reply| LoopMessage::Conns(only, reply))?;
        conns.sort_by_key(|conns| conns.cpt);
        Ok(conns)
    }

    /// The answers of all loops to a message, as they come in.
    fn ask_all<T>(
        &self,
        message: impl Fn(mpsc::Sender<T>) -> LoopMessage,
    ) -> Result<Vec<T>, CallError> {
        let (reply, answers) = mpsc::channel();
        for sender in self.loops.iter() {
            sender.push(message(reply.clone())).map_err(|_| CallError::NotResponding)?;
        }
        drop(reply);
        let deadline = Instant::now() + REPORT_TIMEOUT;
        let mut all = Vec::new();
        while all.len() < self.loops.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            all.push(answers.recv_timeout(left).map_err(|_| CallError::NotResponding)?);
        }
        Ok(all)
    }

    /// Whether latencies are measured at all.
    pub(crate) fn takes_latencies(&self) -> bool {
        self.info().tunables.lnet.latency_peers > 0
    }
}

impl NodeContext {
    /// The tunables of the node, with no more connections than it can have. The driver of each
    /// loop takes its share of these.
    pub(crate) fn limited(&self, tunables: &Tunables) -> Tunables {
        let mut limited = tunables.clone();
        let most = &mut limited.socklnd.connections_max;
        *most = (*most).min(self.connections_max);
        limited
    }

    pub(crate) fn core_ni(&self, ni: &ResolvedNi) -> Ni {
        Ni {
            nid: ni.nid,
            credits: credits_per_cpt(ni.credits, ni.peer_credits, self.cpts),
            peer_credits: ni.peer_credits,
        }
    }

    /// An interface of the drivers of all loops; `incarnation` is when it starts, by the wall
    /// clock.
    pub(crate) fn driver_ni(&self, ni: &ResolvedNi, incarnation: u64) -> NiConfig {
        NiConfig {
            nid: ni.nid,
            local_ip: Some(ni.ip),
            port: ni.port,
            port_bulk: ni.port_bulk,
            conns_per_peer: ni.conns_per_peer,
            incarnation,
        }
    }
}
