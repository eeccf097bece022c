//! What several commands share: how a node is described on the command line, how to reach one.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use lustrine_node::config::{
    AcceptPolicy, IdentityChoice, InterfaceChoice, NetConfig, NodeConfig, Strictness,
};
use lustrine_node::control::ControlError;
use lustrine_node::{Answer, NID_IN_USE, Node, Request, control};
use lustrine_selftest::{ConsoleList, ServiceMode};
use lustrine_wire::nid::Nid;

use crate::output::{Failure, print_error};
use crate::values::Setting;

/// How a node is described.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeOptions {
    /// Configuration in lnetctl's YAML (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A net: tcp[N][=ADDRESS|INTERFACE][:PORT]; may be given several times; replaces all nets of
    /// --config
    #[arg(long, value_name = "NET", value_parser = net)]
    pub(crate) net: Vec<NetConfig>,

    /// How to appear to peers: node needs source ports below 1024
    #[arg(long, value_enum)]
    pub(crate) identity: Option<IdentityArg>,

    /// Which incoming connections to take
    #[arg(long, value_enum)]
    pub(crate) accept: Option<AcceptArg>,

    /// What the selftest service does for consoles: serve answers tests but sends none to other
    /// nodes, full sends them for any console, off answers nothing [default: serve]
    #[arg(long, value_name = "off|serve|full")]
    pub(crate) selftest: Option<ServiceMode>,

    /// Consoles that the selftest service obeys, and no others: NIDs and ranges such as
    /// 10.0.0.[1-5]@tcp, separated by spaces
    #[arg(long, value_name = "NIDS")]
    pub(crate) selftest_consoles: Option<ConsoleList>,

    /// Set a tunable (docs/tunables.md); may be given several times
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<Setting>,

    /// Pass over parts of the configuration file that this release does not implement
    #[arg(long, requires = "config")]
    pub(crate) lenient: bool,
}

/// The identities by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdentityArg {
    /// Node where it is possible, userland otherwise
    Auto,
    /// Dial from privileged source ports
    Node,
    /// Dial from any port and push first; the peer must have accept=all
    Userland,
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcceptArg {
    /// From source ports below 1024 only
    Secure,
    /// From any port
    All,
    /// None: do not listen
    None,
}

/// The word for a net. clap repeats the word itself.
fn net(text: &str) -> Result<NetConfig, String> {
    let parsed = text.parse::<NetConfig>().map_err(|error| error.to_string());
    parsed.map_err(|said| match said.strip_prefix(&format!("{text:?}: ")) {
        Some(reason) => reason.to_owned(),
        None => said,
    })
}

/// The word that [`net`] reads as this.
fn net_word(net: &NetConfig) -> String {
    let mut word = net.net.to_string();
    match &net.place {
        InterfaceChoice::Default => {}
        InterfaceChoice::Address(IpAddr::V6(ip)) => word += &format!("=[{ip}]"),
        InterfaceChoice::Address(ip) => word += &format!("={ip}"),
        InterfaceChoice::Interface(name) => word += &format!("={name}"),
    }
    if let Some(port) = net.port {
        word += &format!(":{port}");
    }
    word
}

impl NodeOptions {
    /// The words of a command line that say the same.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut say = |option: &str, value: OsString| words.extend([option.into(), value]);
        if let Some(file) = &self.config {
            say("--config", file.into());
        }
        for net in &self.net {
            say("--net", net_word(net).into());
        }
        let identity = self.identity.and_then(|word| word.to_possible_value());
        let accept = self.accept.and_then(|word| word.to_possible_value());
        for (option, value) in [("--identity", identity), ("--accept", accept)] {
            if let Some(value) = value {
                say(option, value.get_name().into());
            }
        }
        if let Some(mode) = self.selftest {
            say("--selftest", mode.to_string().into());
        }
        if let Some(consoles) = &self.selftest_consoles {
            say("--selftest-consoles", consoles.to_string().into());
        }
        for setting in &self.set {
            say("--set", setting.to_string().into());
        }
        if self.lenient {
            words.push("--lenient".into());
        }
        words
    }

    /// Whether anything was said about a node of one's own.
    pub(crate) fn describes_node(&self) -> bool {
        self.config.is_some() || self.adds_to_file()
    }

    /// Whether anything was said about such a node beside its file.
    fn adds_to_file(&self) -> bool {
        !self.net.is_empty()
            || !self.set.is_empty()
            || self.identity.is_some()
            || self.accept.is_some()
            || self.selftest.is_some()
            || self.selftest_consoles.is_some()
    }

    /// The configuration these options describe. What was read leniently, or has no effect, goes
    /// to `warn`.
    ///
    /// # Errors
    /// When the file makes no sense, or values do not go together.
    pub(crate) fn node_config(&self, warn: fn(&str)) -> Result<NodeConfig, Failure> {
        let mut config = match &self.config {
            Some(path) => self.read_config(path, warn)?,
            None => NodeConfig::default(),
        };
        if !self.net.is_empty() {
            config.nets = self.net.clone();
            for net in &config.nets {
                if let Some(cpts) = &net.cpts {
                    warn(&format!(
                        "--net {}: CPT {cpts} has no effect yet: every partition serves every \
                         interface",
                        net.net
                    ));
                }
            }
        }
        if let Some(word) = self.identity {
            config.identity = match word {
                IdentityArg::Auto => IdentityChoice::Auto,
                IdentityArg::Node => IdentityChoice::Node,
                IdentityArg::Userland => IdentityChoice::Userland,
            };
        }
        if let Some(word) = self.accept {
            config.accept = match word {
                AcceptArg::Secure => AcceptPolicy::Secure,
                AcceptArg::All => AcceptPolicy::All,
                AcceptArg::None => AcceptPolicy::None,
            };
        }
        if let Some(mode) = self.selftest {
            config.selftest.mode = mode;
        }
        if let Some(consoles) = &self.selftest_consoles {
            config.selftest.consoles = consoles.clone();
        }
        for Setting { name, value } in &self.set {
            config.tunables.set(name, *value).map_err(|error| error.to_string())?;
        }
        config.check().map_err(|error| match self.config {
            Some(_) => Failure::Failed(error.to_string()),
            None => Failure::Usage(error.to_string()),
        })?;
        Ok(config)
    }

    fn read_config(&self, path: &Path, warn: fn(&str)) -> Result<NodeConfig, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let strictness = if self.lenient { Strictness::Lenient } else { Strictness::Strict };
        let name = path.display().to_string();
        let (config, warnings) =
            NodeConfig::from_yaml(&text, &name, strictness).map_err(|error| error.to_string())?;
        warnings.iter().for_each(|warning| warn(&warning.to_string()));
        Ok(config)
    }

    /// The configuration of a node that lives for one command towards `target`: without a net of
    /// its own it takes the local address that leads there.
    ///
    /// # Errors
    /// As [`NodeOptions::node_config`], and when no local address leads there.
    pub(crate) fn short_lived(
        &self,
        target: &Nid,
        port: Option<u16>,
    ) -> Result<NodeConfig, Failure> {
        let mut config = self.node_config(print_error)?;
        if config.nets.is_empty() {
            let (ip, made_up) = local_address_towards(target)?;
            if made_up {
                let nid = Nid::from_ip(target.net(), ip);
                print_error(&format!(
                    "for this command we are {nid}: {target} is an address of this machine, and \
                     two nodes at one address would share a NID; --net gives us another"
                ));
            }
            let mut net = NetConfig::new(target.net(), InterfaceChoice::Address(ip));
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
/// NID, so towards an address of this very machine it is one of the loopback's others: then it is
/// made up, which is the second value.
fn local_address_towards(target: &Nid) -> Result<(IpAddr, bool), Failure> {
    let ip = target.ip().ok_or_else(|| {
        format!("{target}: only peers on tcp nets can be reached, such as 10.0.0.1@tcp")
    })?;
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing; it only asks the routing table.
    let local = UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((ip, 988)).and_then(|()| socket.local_addr()))
        .map_err(|error| format!("no local address leads to {ip}: {error}; give one with --net"))?
        .ip();
    if local != ip || ip.is_ipv6() {
        return Ok((local, false));
    }
    // All of 127.0.0.0/8 is ours; keep clear of the target.
    let others = [Ipv4Addr::new(127, 0, 0, 77), Ipv4Addr::new(127, 0, 0, 78)];
    Ok((IpAddr::V4(if ip == others[0] { others[1] } else { others[0] }), true))
}

/// Starts a node that lives for one command.
///
/// # Errors
/// When it cannot be had.
pub(crate) fn start_for_command(config: &NodeConfig) -> Result<Node, Failure> {
    let node = Node::start_for_command(config).map_err(|error| error.to_string())?;
    let info = node.info();
    if info.identity_reason == NID_IN_USE {
        print_error(&format!(
            "{NID_IN_USE}, {}: this command appears as userland, which a kernel takes only with \
             accept=all; give it an address of its own with --net, or ask that node",
            info.nids[0]
        ));
    }
    Ok(node)
}

/// Where root's node listens for its owner.
const ROOTS_CONTROL: &str = "/run/lustrine.sock";

/// Where a node listens for its owner.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ControlOptions {
    /// Control socket of the node [env: LUSTRINE_CONTROL] [default: the one that the file of
    /// --config names, /run/lustrine.sock for root, lustrine.sock in XDG_RUNTIME_DIR for others]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// The path of a control socket, and who chose it.
pub(crate) struct ControlPath {
    pub(crate) path: PathBuf,
    /// For people.
    pub(crate) reason: &'static str,
    /// Whether a person did.
    chosen: bool,
}

impl ControlOptions {
    /// The place in force, if there is one.
    pub(crate) fn resolve(&self, configured: Option<PathBuf>) -> Option<ControlPath> {
        let place = |path, reason, chosen| ControlPath { path, reason, chosen };
        if let Some(path) = &self.control {
            return Some(place(path.clone(), "--control", true));
        }
        if let Some(path) = environment("LUSTRINE_CONTROL") {
            return Some(place(path, "LUSTRINE_CONTROL", true));
        }
        if let Some(path) = configured {
            return Some(place(path, "the configuration", true));
        }
        if lustrine_sys::process::is_root() {
            return Some(place(ROOTS_CONTROL.into(), "the default of root", false));
        }
        let runtime = environment("XDG_RUNTIME_DIR")?;
        Some(place(runtime.join("lustrine.sock"), "the default in XDG_RUNTIME_DIR", false))
    }
}

/// Where sockets of this user's processes may be.
pub(crate) fn runtime_directory() -> Option<PathBuf> {
    match lustrine_sys::process::is_root() {
        true => Path::new(ROOTS_CONTROL).parent().map(Path::to_owned),
        false => environment("XDG_RUNTIME_DIR"),
    }
}

/// A path in the environment.
fn environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The control socket of the node that a configuration file describes, if the file names one and
/// nothing was said beside it. It is looked for where `lustrine node` would put it.
fn described_place(
    options: &NodeOptions,
    control: &ControlOptions,
    port: Option<u16>,
) -> Result<Option<ControlPath>, Failure> {
    if options.config.is_none() || options.adds_to_file() || port.is_some() {
        return Ok(None);
    }
    // The node that runs has told its owner the warnings, and one made here tells them itself.
    let configured = options.node_config(|_| {})?.control;
    Ok(configured.and_then(|path| control.resolve(Some(path))))
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
    let own_node = options.describes_node() || port.is_some();
    if own_node && control.control.is_some() {
        let both = "--control asks a node that runs; --net, --config, --identity, --accept, --set \
                    and --port describe a node of this command's own: give one or the other";
        return Err(Failure::Usage(both.to_owned()));
    }
    let place = match own_node {
        true => described_place(options, control, port)?,
        false => control.resolve(None),
    };
    if let Some(place) = &place {
        // A socket nobody serves is no reason to fail when a node of one's own would do.
        match control::ask(&place.path, request) {
            Ok(answer) => return no_error(answer),
            Err(ControlError::NotRunning { .. })
                if target.is_some() && (own_node || !place.chosen) => {}
            Err(error) => return Err(not_asked(place, options, &error).into()),
        }
    }
    let config = match target {
        Some(target) => options.short_lived(target, port)?,
        None if own_node => options.node_config(print_error)?,
        None => {
            return Err(NOWHERE.to_owned().into());
        }
    };
    let node = start_for_command(&config)?;
    let answer = node.call(request);
    node.stop();
    no_error(answer)
}

/// What is said where no node could be.
const NOWHERE: &str = "where to ask a node is not known: XDG_RUNTIME_DIR is not set, as after su \
                       or sudo -u. Name its control socket with --control; its log tells it";

/// Puts a question to the running node alone.
///
/// # Errors
/// When there is none, for people. An [`Answer::Error`] is an answer.
pub(crate) fn ask_running(control: &ControlOptions, request: &Request) -> Result<Answer, String> {
    let place = control.resolve(None).ok_or_else(|| NOWHERE.to_owned())?;
    control::ask(&place.path, request)
        .map_err(|error| not_asked(&place, &NodeOptions::default(), &error))
}

/// Why a running node could not be asked, and who else may be meant.
fn not_asked(place: &ControlPath, options: &NodeOptions, error: &ControlError) -> String {
    if let (ControlError::NotRunning { path, error }, Some(file)) = (error, &options.config) {
        let (path, file) = (path.display(), file.display());
        return format!(
            "no node answers at {path} ({error}); start it with `lustrine node --config {file}`"
        );
    }
    let others = matches!(error, ControlError::NotRunning { .. })
        && place.path != Path::new(ROOTS_CONTROL)
        && Path::new(ROOTS_CONTROL).exists();
    let hint = if others { "; root's node can be asked as root" } else { "" };
    format!("{error}{hint}")
}

fn no_error(answer: Answer) -> Result<Answer, Failure> {
    match answer {
        Answer::Error { message, .. } => Err(message.into()),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_net_is_read_as_the_same_net() {
        for word in
            ["tcp", "tcp3", "tcp=10.0.0.1", "tcp=[2001:db8::1]", "tcp=[::1]:1988", "tcp2=eth0:1988"]
        {
            let parsed = net(word).unwrap_or_else(|why| panic!("{word}: {why}"));
            assert_eq!(net(&net_word(&parsed)), Ok(parsed), "{word}");
        }
    }
}
