//! The one place that decides which node carries out a command: the running node of this machine,
//! or a node that the command starts for itself; and how a command reaches it.
//!
//! A node in another network namespace has other interfaces and reaches other peers. If its control
//! socket is at the default path, it is therefore not "the running node"; if the user names the
//! socket, it is asked, and the command says where it is.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::Args;
use lustrine_config::NodeConfig;
use lustrine_control::{Answer, NodeAbout, Request};
use lustrine_node::control::{self, Connection, ControlError};
use lustrine_node::{Caller, NID_IN_USE, Node, NodeHandle, own_netns};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use crate::common::{
    ControlOptions, ControlPath, NodeOptions, OtherNode, ROOTS_CONTROL, SERVICES_CONTROL,
    TemporaryNodeOptions, start_for_command, start_for_command_as,
};
use crate::output::{Failure, note, print_error};
use crate::values::{self, PORTS, millis, seconds};

/// Which node a command uses.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeChoice {
    #[command(flatten)]
    pub(crate) control: ControlOptions,

    /// Use a node of this command's own, even if a node runs on this machine
    #[arg(long, conflicts_with = "control")]
    pub(crate) no_node: bool,

    /// Whether the command has no such option.
    #[arg(skip)]
    only_running: bool,
}

impl NodeChoice {
    /// The choice of a command that uses a running node or none.
    pub(crate) fn running(control: ControlOptions) -> NodeChoice {
        NodeChoice { control, no_node: false, only_running: true }
    }
}

/// A peer that a command sends something to, and the node that does it.
#[derive(Args, Debug)]
pub(crate) struct PeerArgs {
    /// NID of the peer, such as 10.0.0.1@tcp
    #[arg(value_parser = values::nid)]
    pub(crate) nid: Nid,

    /// Time to wait for each answer, in seconds
    #[arg(long, default_value_t = 10.0, value_parser = seconds, allow_negative_numbers = true)]
    timeout: f64,

    /// TCP port of the peer; implies a temporary node for this command
    #[arg(long, value_parser = values::whole::<u16>(PORTS))]
    port: Option<u16>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    node: TemporaryNodeOptions,

    #[command(flatten)]
    choice: NodeChoice,
}

impl PeerArgs {
    /// Time to wait for each answer, in milliseconds.
    pub(crate) fn timeout_ms(&self) -> u64 {
        millis(self.timeout)
    }

    /// The link to the node.
    ///
    /// # Errors
    /// When there is none, and none can be started.
    pub(crate) fn open(&self) -> Result<Link, Failure> {
        Link::open(&(&self.node).into(), &self.choice, &self.nid, self.port)
    }
}

/// The result of the search for a running node.
enum Found {
    /// There is one.
    Running(RunningNode),
    /// There is none, or the command is to have a node of its own.
    None,
    /// The one at the default path is in another network namespace.
    Elsewhere { why: String },
    /// A process listens there and does not answer as a node does.
    Unusable { why: String },
}

/// A running node that has answered.
#[derive(Clone, Debug)]
pub(crate) struct RunningNode {
    place: PathBuf,
    pub(crate) used: UsedNode,
}

/// The node that a command uses, for messages and JSON.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct UsedNode {
    pub(crate) kind: UsedKind,
    /// Its primary NID.
    nid: Option<Nid>,
    /// `node` or `userland`, or `unknown`.
    identity: &'static str,
    /// The control socket of a running node.
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<String>,
    #[serde(skip)]
    elsewhere: bool,
}

impl UsedNode {
    /// Its primary NID.
    pub(crate) fn nid(&self) -> Option<Nid> {
        self.nid
    }

    /// Whether it is in another network namespace than this process.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.elsewhere
    }
}

/// How a command has its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UsedKind {
    /// It was running.
    Running,
    /// The command has started it.
    Temporary,
}

/// A result, and the node that it comes from.
#[derive(Serialize)]
pub(crate) struct WithNode<'a, T> {
    #[serde(flatten)]
    pub(crate) result: &'a T,
    pub(crate) node: &'a UsedNode,
}

impl fmt::Display for UsedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            UsedKind::Running => "the running node",
            UsedKind::Temporary => "a temporary node",
        };
        let nid = self.nid.map_or_else(|| "without a NID".to_owned(), |nid| nid.to_string());
        write!(f, "{kind} {nid} ({} identity", self.identity)?;
        if let Some(control) = &self.control {
            write!(f, ", {control}")?;
        }
        if self.elsewhere {
            f.write_str(", in another network namespace")?;
        }
        f.write_str(")")
    }
}

/// The running node that a command is to use; `None` if it is to start its own. `port`, the peer's,
/// implies a temporary node.
///
/// # Errors
/// When options contradict each other, when the node that the user named does not run, and when a
/// node is there and does not answer.
pub(crate) fn running_node(
    options: &NodeOptions,
    choice: &NodeChoice,
    port: Option<u16>,
) -> Result<Option<RunningNode>, Failure> {
    match find(options, choice, port)? {
        Found::Running(node) => Ok(Some(node)),
        Found::None => Ok(None),
        Found::Elsewhere { why } => {
            print_error(&format!("{why}; this command uses a node of its own"));
            Ok(None)
        }
        Found::Unusable { why } if choice.only_running => Err(why.into()),
        Found::Unusable { why } => {
            Err(format!("{why}. --no-node uses a node of this command's own").into())
        }
    }
}

fn find(options: &NodeOptions, choice: &NodeChoice, port: Option<u16>) -> Result<Found, Failure> {
    let own = options.describes_node() || port.is_some();
    if own && choice.control.control.is_some() {
        let both = "--control names a running node; options such as --net, --config, --identity, \
                    --set and --port describe a temporary node: use one or the other";
        return Err(Failure::Usage(both.to_owned()));
    }
    if choice.no_node {
        return Ok(Found::None);
    }
    let place = match own {
        true => described_place(options, &choice.control, port)?,
        false => choice.control.search(),
    };
    let Some(place) = place else {
        return Ok(Found::None);
    };
    Ok(match look(&place) {
        Ok(node) if node.used.elsewhere && !place.chosen => {
            Found::Elsewhere { why: elsewhere(&place.path) }
        }
        Ok(node) => Found::Running(node),
        Err(error) => {
            let why = not_asked(&place, options, &error);
            match error {
                ControlError::NotRunning { .. } if own || !place.chosen => Found::None,
                ControlError::NotRunning { .. } => return Err(why.into()),
                _ => Found::Unusable { why },
            }
        }
    })
}

/// The identity that a node says it has, if it is one that this program knows: the text is another
/// program's.
fn identity_of(about: &NodeAbout) -> &'static str {
    let known = ["node", "userland"].into_iter().find(|known| *known == about.identity);
    known.unwrap_or("unknown")
}

/// Asks the node at a place which one it is.
fn look(place: &ControlPath) -> Result<RunningNode, ControlError> {
    let connection = Connection::open(&place.path)?;
    let about = connection.about();
    let used = UsedNode {
        kind: UsedKind::Running,
        nid: about.nid,
        identity: identity_of(about),
        control: Some(place.path.display().to_string()),
        elsewhere: about.is_elsewhere(own_netns()),
    };
    Ok(RunningNode { place: place.path.clone(), used })
}

fn elsewhere(path: &Path) -> String {
    let path = path.display();
    format!(
        "the node at {path} is in another network namespace, so it is not asked (--control {path} \
         asks it)"
    )
}

impl RunningNode {
    /// Its control socket.
    pub(crate) fn place(&self) -> &Path {
        &self.place
    }
}

/// The node that carries out a command.
pub(crate) enum Link {
    /// A running node.
    Running {
        node: RunningNode,
        /// The connection of a load or a session, which end with it.
        held: Option<Connection>,
    },
    /// A node that the command has started.
    Own {
        used: UsedNode,
        /// Dropped before the node, so that its load and session end in order.
        caller: Caller,
        node: Node,
    },
}

impl Link {
    /// The running node, or else a temporary one: towards `target`, or as `options` describe it.
    /// Says on standard error which one it is.
    ///
    /// # Errors
    /// As [`find`], and when a temporary node cannot be started.
    pub(crate) fn open(
        options: &NodeOptions,
        choice: &NodeChoice,
        target: &Nid,
        port: Option<u16>,
    ) -> Result<Link, Failure> {
        let link = match running_node(options, choice, port)? {
            Some(node) => Link::to(node),
            None => Link::own(&options.short_lived(target, port)?)?,
        };
        link.announce();
        Ok(link)
    }

    /// The way to a running node.
    pub(crate) fn to(node: RunningNode) -> Link {
        Link::Running { node, held: None }
    }

    /// A temporary node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn own(config: &NodeConfig) -> Result<Link, Failure> {
        start_for_command(config, OtherNode::CanBeAsked).map(Link::of)
    }

    /// The same for a command that says itself what it is to it if another program has the address
    /// ([`Link::taken_address`]).
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn own_unannounced(config: &NodeConfig) -> Result<Link, Failure> {
        let node = Node::start_for_command(config).map_err(|error| error.to_string())?;
        Ok(Link::of(node))
    }

    /// A temporary node that follows an earlier one of this command
    /// ([`Node::start_for_command_as`]).
    ///
    /// # Errors
    /// When it cannot be started.
    pub(crate) fn own_as(config: &NodeConfig, incarnation: u64) -> Result<Link, Failure> {
        start_for_command_as(config, incarnation).map(Link::of)
    }

    fn of(node: Node) -> Link {
        let about = node.about();
        let used = UsedNode {
            kind: UsedKind::Temporary,
            nid: about.nid,
            identity: identity_of(&about),
            control: None,
            elsewhere: false,
        };
        Link::Own { used, caller: Caller::of(node.handle()), node }
    }

    /// The NID of a temporary node that is userland because another program has its address.
    pub(crate) fn taken_address(&self) -> Option<Nid> {
        match self {
            Link::Own { used, node, .. } if node.info().identity_reason == NID_IN_USE => used.nid,
            Link::Own { .. } | Link::Running { .. } => None,
        }
    }

    /// Says on standard error which node it is.
    pub(crate) fn announce(&self) {
        note(&format!("through {}", self.used()));
    }

    /// Which node it is.
    pub(crate) fn used(&self) -> &UsedNode {
        match self {
            Link::Running { node, .. } => &node.used,
            Link::Own { used, .. } => used,
        }
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// When the node does not answer; an [`Answer::Error`] is an error here too.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        match self {
            Link::Own { caller, .. } => no_error(caller.call(request), None),
            Link::Running { node, held } if lasts(request) => {
                let connection = match held {
                    Some(connection) => connection,
                    None => held.insert(Connection::open(&node.place).map_err(to_failure)?),
                };
                no_error(connection.ask(request).map_err(to_failure)?, Some(&node.used))
            }
            Link::Running { node, .. } => ask_at(node, request),
        }
    }

    /// What another thread needs to send requests that do not last.
    pub(crate) fn requester(&self) -> Requester {
        match self {
            Link::Running { node, .. } => Requester::Running(node.clone()),
            Link::Own { node, .. } => Requester::Own(node.handle()),
        }
    }

    /// Ends what was begun, and a temporary node.
    pub(crate) fn stop(self) {
        match self {
            Link::Running { held, .. } => drop(held),
            Link::Own { caller, node, .. } => {
                drop(caller);
                node.stop();
            }
        }
    }
}

/// Sends requests from another thread.
pub(crate) enum Requester {
    Running(RunningNode),
    Own(NodeHandle),
}

impl Requester {
    /// As [`Link::ask`].
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        match self {
            Requester::Running(node) => ask_at(node, request),
            Requester::Own(node) => no_error(node.call(request), None),
        }
    }
}

/// Whether a request begins or continues something that lasts as long as its connection.
fn lasts(request: &Request) -> bool {
    matches!(request, Request::Load { .. } | Request::Console { held: true, .. })
}

fn ask_at(node: &RunningNode, request: &Request) -> Result<Answer, Failure> {
    no_error(control::ask(&node.place, request).map_err(to_failure)?, Some(&node.used))
}

fn to_failure(error: ControlError) -> Failure {
    Failure::Failed(error.to_string())
}

/// An error of a running node names it: the user may have meant another one.
fn no_error(answer: Answer, asked: Option<&UsedNode>) -> Result<Answer, Failure> {
    match (answer, asked) {
        (Answer::Error { message, .. }, None) => Err(message.into()),
        (Answer::Error { message, .. }, Some(node)) => {
            Err(format!("{message} (reported by {node})").into())
        }
        (answer, _) => Ok(answer),
    }
}

/// The control socket of the node that a configuration file describes, if the file names one and
/// no other option describes a node. It is where `lustrine node` with that file creates it.
fn described_place(
    options: &NodeOptions,
    control: &ControlOptions,
    port: Option<u16>,
) -> Result<Option<ControlPath>, Failure> {
    if options.basic.config.is_none() || options.adds_to_file() || port.is_some() {
        return Ok(None);
    }
    // A running node has logged these warnings already, and a node started here prints them itself.
    let configured = options.node_config(|_| {})?.control;
    Ok(configured.and_then(|path| control.resolve(Some(path.into()))))
}

/// Asks the running node for its state: the one that the file of `--config` describes, or else
/// the one at the control socket.
///
/// # Errors
/// When there is none; an [`Answer::Error`] is an error here too.
pub(crate) fn show(
    options: &NodeOptions,
    control: &ControlOptions,
    request: &Request,
) -> Result<Answer, Failure> {
    let configured = match &options.basic.config {
        Some(_) => options.node_config(|_| {})?.control.map(PathBuf::from),
        None => None,
    };
    let place = match configured {
        Some(path) => control.resolve(Some(path)),
        None => control.search(),
    };
    let place = place.ok_or_else(|| Failure::from(NOWHERE.to_owned()))?;
    let node = look(&place).map_err(|error| not_asked(&place, options, &error))?;
    if node.used.elsewhere && !place.chosen {
        return Err(elsewhere(&place.path).into());
    }
    ask_at(&node, request)
}

/// The error when it is unknown where a running node would listen.
const NOWHERE: &str = "the control socket of the node is unknown: XDG_RUNTIME_DIR is not set, as \
                       after su or sudo -u. Name the socket with --control; the log of the node \
                       shows its path";

/// Sends a request to the running node.
///
/// # Errors
/// A message for people when there is no running node. An [`Answer::Error`] is an answer.
pub(crate) fn ask_running(control: &ControlOptions, request: &Request) -> Result<Answer, String> {
    let place = control.search().ok_or_else(|| NOWHERE.to_owned())?;
    let not_asked = |error| not_asked(&place, &NodeOptions::default(), &error);
    if !place.chosen && look(&place).map_err(not_asked)?.used.elsewhere {
        return Err(elsewhere(&place.path));
    }
    control::ask(&place.path, request).map_err(not_asked)
}

/// Why a running node could not be reached, with a hint at another node that may be meant.
fn not_asked(place: &ControlPath, options: &NodeOptions, error: &ControlError) -> String {
    if let (ControlError::NotRunning { path, error }, Some(file)) = (error, &options.basic.config) {
        let (path, file) = (path.display(), file.display());
        return format!(
            "no node answers at {path} ({error}); start it with `lustrine node --config {file}`"
        );
    }
    let others = matches!(error, ControlError::NotRunning { .. })
        && ![ROOTS_CONTROL, SERVICES_CONTROL].map(Path::new).contains(&place.path.as_path());
    let hint = roots_node().filter(|_| others).map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{error}{hint}")
}

/// The hint at a node of root, which this user may not ask, if one seems to run.
pub(crate) fn roots_node() -> Option<String> {
    let is_there = || [ROOTS_CONTROL, SERVICES_CONTROL].iter().any(|path| Path::new(path).exists());
    (!lustrine_sys::process::is_root() && is_there())
        .then(|| "a node of root may run on this machine: connect as root".to_owned())
}
