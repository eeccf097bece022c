//! What several commands share: how a node is described on the command line, how to reach one.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use lustrine_reactor::config::{
    AcceptPolicy, IdentityChoice, NetConfig, NodeConfig, Place, Strictness,
};
use lustrine_reactor::{Answer, Node, Request, control};
use lustrine_wire::nid::Nid;

/// An error for people, already with its hint.
pub(crate) type Failure = String;

/// Prints an error and turns it into an exit status.
pub(crate) fn fail(error: &str) -> ExitCode {
    eprintln!("lustrine: {error}");
    ExitCode::FAILURE
}

/// How a node is described.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeOptions {
    /// Configuration in lnetctl's YAML (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A net: tcp[N][=ADDRESS|INTERFACE][:PORT]; may be given several times
    #[arg(long, value_name = "NET")]
    pub(crate) net: Vec<String>,

    /// How to appear to peers: node needs source ports below 1024
    #[arg(long, value_enum)]
    pub(crate) identity: Option<IdentityWord>,

    /// Which incoming connections to take
    #[arg(long, value_enum)]
    pub(crate) accept: Option<AcceptWord>,

    /// Set a tunable (docs/tunables.md); may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,

    /// Pass over parts of the configuration file that this release does not implement
    #[arg(long)]
    pub(crate) lenient: bool,
}

/// The identities by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdentityWord {
    /// Node where it is possible, userland otherwise
    Auto,
    /// Dial from privileged source ports
    Node,
    /// Dial from any port and push first; the peer must have accept=all
    Userland,
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcceptWord {
    /// From source ports below 1024 only
    Secure,
    /// From any port
    All,
    /// None: do not listen
    None,
}

impl NodeOptions {
    /// Whether anything was said about a node of one's own.
    pub(crate) fn describes_node(&self) -> bool {
        self.config.is_some() || !self.net.is_empty()
    }

    /// The configuration these options describe.
    ///
    /// # Errors
    /// When a file, a net or a value makes no sense.
    pub(crate) fn node_config(&self) -> Result<NodeConfig, Failure> {
        let mut config = match &self.config {
            Some(path) => self.read_config(path)?,
            None => NodeConfig::default(),
        };
        if !self.net.is_empty() {
            config.nets.clear();
        }
        for word in &self.net {
            config.nets.push(word.parse::<NetConfig>().map_err(|error| error.to_string())?);
        }
        if let Some(word) = self.identity {
            config.identity = match word {
                IdentityWord::Auto => IdentityChoice::Auto,
                IdentityWord::Node => IdentityChoice::Node,
                IdentityWord::Userland => IdentityChoice::Userland,
            };
        }
        if let Some(word) = self.accept {
            config.accept = match word {
                AcceptWord::Secure => AcceptPolicy::Secure,
                AcceptWord::All => AcceptPolicy::All,
                AcceptWord::None => AcceptPolicy::None,
            };
        }
        for pair in &self.set {
            let example = "an example is --set peer_credits=32";
            let (name, value) =
                pair.split_once('=').ok_or(format!("--set {pair}: no '='; {example}"))?;
            let value: i64 = value
                .trim()
                .parse()
                .map_err(|_| format!("--set {pair}: {value:?} is no number; {example}"))?;
            config.tunables.set(name.trim(), value).map_err(|error| error.to_string())?;
        }
        config.check().map_err(|error| error.to_string())?;
        Ok(config)
    }

    fn read_config(&self, path: &Path) -> Result<NodeConfig, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let strictness = if self.lenient { Strictness::Lenient } else { Strictness::Strict };
        let name = path.display().to_string();
        let (config, warnings) =
            NodeConfig::from_yaml(&text, &name, strictness).map_err(|error| error.to_string())?;
        for warning in warnings {
            eprintln!("lustrine: {warning}");
        }
        Ok(config)
    }

    /// The configuration of a node that lives for one command towards `target`: without a net of
    /// its own it takes the local address that leads there; it does not listen.
    ///
    /// # Errors
    /// As [`NodeOptions::node_config`], and when no local address leads there.
    pub(crate) fn short_lived(
        &self,
        target: &Nid,
        port: Option<u16>,
    ) -> Result<NodeConfig, Failure> {
        let mut config = self.node_config()?;
        if config.nets.is_empty() {
            let ip = local_address_towards(target)?;
            let mut net = NetConfig::new(target.net(), Place::Address(ip));
            net.port = port;
            config.nets.push(net);
        } else if port.is_some() {
            for net in &mut config.nets {
                net.port = port;
            }
        }
        if self.accept.is_none() {
            config.accept = AcceptPolicy::None;
        }
        Ok(config)
    }
}

/// The address of this machine from which packets to `target` leave. Two nodes cannot share a
/// NID, so towards an address of this very machine it is one of the loopback's others.
fn local_address_towards(target: &Nid) -> Result<IpAddr, Failure> {
    let ip = target
        .ip()
        .ok_or_else(|| format!("{target}: only nets of type tcp can be reached, such as tcp"))?;
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing; it only asks the routing table.
    let local = UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((ip, 988)).and_then(|()| socket.local_addr()))
        .map_err(|error| format!("no local address leads to {ip}: {error}; give one with --net"))?
        .ip();
    Ok(match (local, ip) {
        (IpAddr::V4(local), IpAddr::V4(target)) if target.is_loopback() => {
            // All of 127.0.0.0/8 is ours; keep clear of the target.
            let other = if local == target { Ipv4Addr::new(127, 0, 0, 77) } else { local };
            IpAddr::V4(if other == target { Ipv4Addr::new(127, 0, 0, 78) } else { other })
        }
        (IpAddr::V4(local), IpAddr::V4(target)) if local == target => {
            IpAddr::V4(Ipv4Addr::new(127, 0, 0, 77))
        }
        (local, _) => local,
    })
}

/// Where to find a node that is running.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ControlOptions {
    /// Control socket of the node [default: /run/lustrine.sock for root, or lustrine.sock in
    /// XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH", env = "LUSTRINE_CONTROL")]
    pub(crate) control: Option<PathBuf>,
}

impl ControlOptions {
    /// The path in force, if this user has one.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.control.clone().or_else(default_control)
    }
}

/// Where a node listens for its owner unless told otherwise.
pub(crate) fn default_control() -> Option<PathBuf> {
    if lustrine_sys::process::is_root() {
        return Some(PathBuf::from("/run/lustrine.sock"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty())?;
    Some(Path::new(&runtime).join("lustrine.sock"))
}

/// Puts a question to the running node, or to one that lives for this question only.
///
/// # Errors
/// When neither can be had; an [`Answer::Error`] is an error here too.
pub(crate) fn ask(
    options: &NodeOptions,
    control: &ControlOptions,
    target: Option<&Nid>,
    port: Option<u16>,
    request: &Request,
) -> Result<Answer, Failure> {
    let own_node = options.describes_node() || options.identity.is_some() || port.is_some();
    if !own_node && let Some(path) = control.path() {
        // A socket nobody serves is no reason to fail when a node of one's own would do.
        match control::ask(&path, request) {
            Ok(answer) => return no_error(answer),
            Err(error) if control.control.is_some() || target.is_none() => {
                return Err(error.to_string());
            }
            Err(_) => {}
        }
    }
    let config = match target {
        Some(target) => options.short_lived(target, port)?,
        None if own_node => options.node_config()?,
        None => return Err("no node is running here, and no --net describes one".to_owned()),
    };
    let node = Node::start(&config).map_err(|error| error.to_string())?;
    let answer = node.call(request);
    node.stop();
    no_error(answer)
}

fn no_error(answer: Answer) -> Result<Answer, Failure> {
    match answer {
        Answer::Error { message, .. } => Err(message),
        answer => Ok(answer),
    }
}

/// Prints an answer as JSON.
pub(crate) fn print_json(value: &impl serde::Serialize) -> ExitCode {
    match serde_json::to_string_pretty(value) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&format!("cannot write JSON: {error}")),
    }
}
