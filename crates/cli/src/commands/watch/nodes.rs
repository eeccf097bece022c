//! The nodes that samples are taken with: the running one, or nodes of this process, one for each
//! set of peers that are reached from the same address.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use lustrine_config::{NetConfig, NodeConfig};
use lustrine_sys::Clock;
use lustrine_wire::nid::Nid;

use super::pings::Asker;
use super::slots::{SILENT_SLOTS, Slots};
use super::{RunArgs, address};
use crate::access::{Link, RunningNode, running_node};
use crate::common::NodeOptions;
use crate::output::{Failure, print_error};

/// A node.
pub(super) struct WatchNode {
    kind: Kind,
    link: Option<Link>,
    /// Who may ask it at once, if it is the running one.
    slots: Arc<Slots>,
    /// That peers see of each node of this process and of looks, which follow each other: to a peer
    /// it is one node that connects anew.
    incarnation: u64,
    /// Whether its address is the one from which packets to its peers left when it was made.
    follows_route: bool,
}

enum Kind {
    Running(Box<RunningNode>),
    Own(Box<NodeConfig>),
    /// None so far: no address of this host leads to the peer.
    NoRoute(Box<Unrouted>),
}

/// A peer to which no address of this host leads.
struct Unrouted {
    nid: Nid,
    options: NodeOptions,
    /// The configuration without a network.
    config: NodeConfig,
    port: Option<u16>,
    /// What the system said.
    why: String,
}

/// The longest wait of a node of this process before it dials a peer again, in milliseconds: a peer
/// that is back is to be seen soon.
const RECONNECT_MS: i64 = 2_000;
const RECONNECT: &str = "max_reconnectms";

/// The nodes, and for each peer the index of its own. None is started yet.
///
/// # Errors
/// When options contradict each other, and when a peer is not on a network that can be watched.
pub(super) fn nodes(args: &RunArgs) -> Result<(Vec<WatchNode>, Vec<usize>), Failure> {
    let options = NodeOptions::from(&args.node);
    if let Some(node) = running_node(&options, &args.choice, args.port)? {
        let node = WatchNode::new(Kind::Running(Box::new(node)), false);
        return Ok((vec![node], vec![0; args.to.len()]));
    }
    let mut base = options.node_config(print_error)?;
    if args.node.set.iter().all(|setting| setting.name != RECONNECT) {
        base.tunables.set(RECONNECT, RECONNECT_MS).map_err(|error| error.to_string())?;
    }
    let follows_route = base.nets.is_empty();
    let mut nodes: Vec<WatchNode> = Vec::new();
    let mut indices = Vec::new();
    for nid in &args.to {
        address(nid)?;
        let (config, port, why) = (base.clone(), args.port, String::new());
        let mut unrouted = Unrouted { nid: *nid, options: options.clone(), config, port, why };
        let kind = match unrouted.find() {
            Some(config) => Kind::Own(Box::new(config)),
            None => Kind::NoRoute(Box::new(unrouted)),
        };
        let node = WatchNode::new(kind, follows_route);
        let same = |other: &WatchNode| node.nets().is_some() && node.nets() == other.nets();
        let index = nodes.iter().position(same).unwrap_or(nodes.len());
        if index == nodes.len() {
            nodes.push(node);
        }
        indices.push(index);
    }
    Ok((nodes, indices))
}

impl Unrouted {
    /// The configuration of a node that reaches the peer, if there is a route now.
    fn find(&mut self) -> Option<NodeConfig> {
        match self.options.towards(self.config.clone(), &self.nid, self.port) {
            Ok(config) => Some(config),
            Err(why) => {
                self.why = why;
                None
            }
        }
    }
}

impl WatchNode {
    fn new(kind: Kind, follows_route: bool) -> WatchNode {
        let (slots, incarnation) = (Arc::default(), Clock::Wall.now());
        WatchNode { kind, link: None, slots, incarnation, follows_route }
    }

    /// Whether its address was chosen by the route to its peers, and not by the user.
    pub(super) fn follows_route(&self) -> bool {
        self.follows_route
    }

    /// What peers see of it and of looks.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Most peers of a round that did not answer last.
    pub(super) fn most_silent(&self) -> usize {
        match &self.kind {
            Kind::Running(_) => SILENT_SLOTS,
            Kind::Own(_) | Kind::NoRoute(_) => usize::MAX,
        }
    }

    /// Its networks, if it is one of this process.
    pub(super) fn nets(&self) -> Option<&Vec<NetConfig>> {
        match &self.kind {
            Kind::Running(_) | Kind::NoRoute(_) => None,
            Kind::Own(config) => Some(&config.nets),
        }
    }

    /// Why there is no route to its peer.
    pub(super) fn no_route(&self) -> Option<&str> {
        match &self.kind {
            Kind::NoRoute(unrouted) => Some(&unrouted.why),
            Kind::Running(_) | Kind::Own(_) => None,
        }
    }

    /// The configuration of a node that reaches its peer, if there was no route and is one now.
    pub(super) fn find_route(&mut self) -> Option<NodeConfig> {
        match &mut self.kind {
            Kind::NoRoute(unrouted) => unrouted.find(),
            Kind::Running(_) | Kind::Own(_) => None,
        }
    }

    /// Is a node of this process from now on, which is to be started.
    pub(super) fn become_own(&mut self, config: NodeConfig) {
        self.kind = Kind::Own(Box::new(config));
    }

    /// Whether it is one of this process, which may be ended and started again.
    pub(super) fn is_own(&self) -> bool {
        matches!(self.kind, Kind::Own(_))
    }

    /// Starts it unless it runs; whether it was started now.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn start(&mut self) -> Result<bool, Failure> {
        if self.link.is_some() {
            return Ok(false);
        }
        self.link = Some(match &self.kind {
            Kind::Running(node) => Link::to((**node).clone()),
            Kind::Own(config) => Link::own_as(config, self.incarnation)?,
            Kind::NoRoute(_) => return Ok(false),
        });
        Ok(self.is_own())
    }

    /// Says on standard error which one it is.
    pub(super) fn announce(&self) {
        if let Some(link) = &self.link {
            tracing::info!("through {}", link.used());
        }
    }

    /// Ends it.
    pub(super) fn stop(&mut self) {
        if let Some(link) = self.link.take() {
            link.stop();
        }
    }

    /// Gives it away; it has to be put back.
    pub(super) fn take(&mut self) -> Option<Link> {
        self.link.take()
    }

    pub(super) fn put(&mut self, link: Link) {
        self.link = Some(link);
    }

    /// The way to ask it; `None` while it does not run.
    pub(super) fn asker(&self) -> Option<Asker> {
        Some(match self.link.as_ref()? {
            Link::Running { node, .. } => {
                Asker::Running(node.place().to_owned(), Arc::clone(&self.slots))
            }
            Link::Own { node, .. } => Asker::Own(node.handle()),
        })
    }

    /// Its address on the network of a peer, and the peer's address and port.
    pub(super) fn line(
        &self,
        nid: &Nid,
        port: Option<u16>,
    ) -> Option<(Option<IpAddr>, SocketAddr)> {
        let to = nid.ip()?;
        let own: Vec<Nid> = match self.link.as_ref()? {
            Link::Running { node, .. } => node.used.nid().into_iter().collect(),
            Link::Own { node, .. } => node.info().nids.clone(),
        };
        let configured = match &self.kind {
            Kind::Own(config) => {
                let net = config.nets.iter().find(|net| net.net == nid.net());
                net.and_then(|net| net.port)
                    .or_else(|| u16::try_from(config.tunables.socklnd.accept_port).ok())
            }
            Kind::Running(_) | Kind::NoRoute(_) => None,
        };
        let local = own.iter().find(|own| own.net() == nid.net()).and_then(Nid::ip);
        let port = port.or(configured).unwrap_or(LNET_PORT);
        Some((local, SocketAddr::new(to, port)))
    }
}

/// LNet's port.
const LNET_PORT: u16 = 988;
