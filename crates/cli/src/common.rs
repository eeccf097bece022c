//! Code that several commands share: options that describe a node, and where a control socket is.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use clap::{Args, ValueEnum};
use lustrine_config::{
    AcceptPolicy, IdentityChoice, InterfaceChoice, NetConfig, NetDriver, NodeConfig, Strictness,
    Tuning,
};
use lustrine_node::control::is_served;
use lustrine_node::{NID_IN_USE, Node, StartError};
use lustrine_selftest::{ConsoleList, ServiceMode};
use lustrine_wire::nid::Nid;

use crate::output::{Failure, print_error};
use crate::values::Setting;

/// Options that describe the temporary node of a command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TemporaryNodeOptions {
    /// Configuration file in lnetctl's YAML (docs/configuration.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Network and interface of this node: tcp[N][=ADDRESS|INTERFACE][:PORT]; may be repeated;
    /// replaces the networks of --config
    #[arg(long, value_name = "NET", value_parser = net)]
    pub(crate) net: Vec<NetConfig>,

    /// Identity towards peers; `node` needs source ports below 1024
    #[arg(long, value_enum)]
    pub(crate) identity: Option<IdentityArg>,

    /// Set a tunable (docs/tunables.md); may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<Setting>,

    /// Ignore parts of the configuration file that this release does not implement
    #[arg(long, requires = "config")]
    pub(crate) lenient: bool,

    /// What the file contains, once it was read, also for copies: a pipe gives it once.
    #[arg(skip)]
    pub(crate) text: Arc<OnceLock<String>>,
}

/// Options that describe a node which other nodes use.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct NodeOptions {
    #[command(flatten)]
    pub(crate) basic: TemporaryNodeOptions,

    /// Which incoming connections to accept
    #[arg(long, value_enum)]
    pub(crate) accept: Option<AcceptArg>,

    /// Selftest for consoles: `serve` answers tests but sends none to other nodes, `full` sends
    /// them for any console, `off` answers nothing [default: serve]
    #[arg(long, value_name = "off|serve|full")]
    pub(crate) selftest: Option<ServiceMode>,

    /// Accept selftest sessions only from these consoles, which may do everything: have this node
    /// send tests, and take over sessions with --force. NIDs and ranges such as
    /// 10.0.0.[1-5]@tcp, separated by spaces
    #[arg(long, value_name = "NIDS")]
    pub(crate) selftest_consoles: Option<ConsoleList>,

    /// `auto`: selftest sends as much as each path carries, and credits are set high enough not to
    /// limit it (docs/auto-tuning.md); --set replaces single values
    #[arg(long, value_name = "auto|fixed")]
    pub(crate) tuning: Option<Tuning>,
}

impl From<&TemporaryNodeOptions> for NodeOptions {
    fn from(basic: &TemporaryNodeOptions) -> NodeOptions {
        NodeOptions { basic: basic.clone(), ..NodeOptions::default() }
    }
}

/// The identities by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdentityArg {
    /// Node where possible, otherwise userland
    Auto,
    /// Connect from privileged source ports
    Node,
    /// Connect from any port; a kernel peer must have accept=all
    Userland,
}

/// The policies by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AcceptArg {
    /// From source ports below 1024 only
    Secure,
    /// From any port
    All,
    /// None; do not listen
    None,
}

/// Parses a value of `--net`. clap repeats the value in its error, so it is removed here.
pub(crate) fn net(text: &str) -> Result<NetConfig, String> {
    let parsed = text.parse::<NetConfig>().map_err(|error| error.to_string());
    parsed.map_err(|said| match said.strip_prefix(&format!("{text:?}: ")) {
        Some(reason) => reason.to_owned(),
        None => said,
    })
}

/// The value that [`net`] parses to this.
fn net_word(net: &NetConfig) -> String {
    // Behind `=`, a colon would begin the port.
    if let InterfaceChoice::Interface(alias) = &net.place
        && alias.contains(':')
    {
        let port = net.port.map(|port| format!(":{port}")).unwrap_or_default();
        return format!("{}({alias}){port}", net.net);
    }
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
    /// The same options as arguments of another command line.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut say = |option: &str, value: OsString| words.extend([option.into(), value]);
        if let Some(file) = &self.basic.config {
            say("--config", file.into());
        }
        for net in &self.basic.net {
            say("--net", net_word(net).into());
        }
        let identity = self.basic.identity.and_then(|word| word.to_possible_value());
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
        if let Some(tuning) = self.tuning {
            say("--tuning", tuning.to_string().into());
        }
        for setting in &self.basic.set {
            say("--set", setting.to_string().into());
        }
        if self.basic.lenient {
            words.push("--lenient".into());
        }
        words
    }

    /// Whether any option describes a temporary node for this command.
    pub(crate) fn describes_node(&self) -> bool {
        self.basic.config.is_some() || self.adds_to_file()
    }

    /// Whether any option except the file describes such a node.
    pub(crate) fn adds_to_file(&self) -> bool {
        !self.basic.net.is_empty()
            || !self.basic.set.is_empty()
            || self.tuning.is_some()
            || self.basic.identity.is_some()
            || self.accept.is_some()
            || self.selftest.is_some()
            || self.selftest_consoles.is_some()
    }

    /// The configuration that these options describe. Parts of the file that are ignored, and
    /// options without effect, are reported to `warn`.
    ///
    /// # Errors
    /// When the file is invalid, or values contradict each other.
    pub(crate) fn node_config(&self, warn: fn(&str)) -> Result<NodeConfig, Failure> {
        let mut config = match (&self.basic.config, self.config_text()?) {
            (Some(path), Some(text)) => self.parsed(path, text, warn)?,
            _ => NodeConfig::default(),
        };
        if !self.basic.net.is_empty() {
            config.nets = self.basic.net.clone();
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
        if let Some(word) = self.basic.identity {
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
        if let Some(tuning) = self.tuning {
            config.set_tuning(tuning);
        }
        for Setting { name, value } in &self.basic.set {
            config.tunables.set(name, *value).map_err(|error| error.to_string())?;
        }
        config.check().map_err(|error| match self.basic.config {
            Some(_) => Failure::Input(error.to_string()),
            None => Failure::Usage(error.to_string()),
        })?;
        Ok(config)
    }

    /// The text of the file of `--config`, if there is one. It is read once.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn config_text(&self) -> Result<Option<&str>, Failure> {
        let Some(path) = &self.basic.config else { return Ok(None) };
        if let Some(text) = self.basic.text.get() {
            return Ok(Some(text));
        }
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::Input(format!("cannot read {}: {error}", path.display())))?;
        Ok(Some(self.basic.text.get_or_init(|| text)))
    }

    fn parsed(&self, path: &Path, text: &str, warn: fn(&str)) -> Result<NodeConfig, Failure> {
        let strictness = if self.basic.lenient { Strictness::Lenient } else { Strictness::Strict };
        let name = path.display().to_string();
        let (config, warnings) = NodeConfig::from_yaml(text, &name, strictness)
            .map_err(|error| Failure::Input(error.to_string()))?;
        warnings.iter().for_each(|warning| warn(&warning.to_string()));
        Ok(config)
    }

    /// The configuration of a temporary node towards `target`. Without `--net` it takes the local
    /// address from which packets to the target leave.
    ///
    /// # Errors
    /// As [`NodeOptions::node_config`], and when no local address reaches the target.
    pub(crate) fn short_lived(
        &self,
        target: &Nid,
        port: Option<u16>,
    ) -> Result<NodeConfig, Failure> {
        Ok(self.towards(self.node_config(print_error)?, target, port)?)
    }

    /// The same of what [`NodeOptions::node_config`] has given.
    ///
    /// # Errors
    /// The reason, when no local address reaches the target.
    pub(crate) fn towards(
        &self,
        mut config: NodeConfig,
        target: &Nid,
        port: Option<u16>,
    ) -> Result<NodeConfig, String> {
        if config.nets.is_empty() {
            let used = port.map_or(config.tunables.socklnd.accept_port, i64::from);
            let (ip, made_up) = local_address_towards(target, u16::try_from(used).unwrap_or(0))?;
            // To the loopback, any address of it is as good.
            if made_up && !target.ip().is_some_and(|ip| ip.is_loopback()) {
                let nid = Nid::from_ip(target.net(), ip);
                print_error(&format!(
                    "this command uses the NID {nid}: {target} is an address of this machine, and \
                     two nodes at one address would share a NID; choose another with --net"
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

/// The address of this machine from which packets to `target` leave. Two nodes cannot share a NID,
/// so for a target on this machine another loopback address is taken, if there is one at which no
/// program listens on this port; the second value is true then.
fn local_address_towards(target: &Nid, port: u16) -> Result<(IpAddr, bool), String> {
    let ip = match NetDriver::of(target.net().kind) {
        Some(NetDriver::Socklnd) => target.ip(),
        None => None,
    };
    let ip = ip.ok_or_else(|| {
        format!("{target}: only peers on tcp networks can be reached, such as 10.0.0.1@tcp")
    })?;
    let any: IpAddr = match ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing; it only consults the routing table.
    let local = UdpSocket::bind((any, 0))
        .and_then(|socket| socket.connect((ip, 988)).and_then(|()| socket.local_addr()))
        .map_err(|error| {
            format!("no route from this machine to {ip}: {error}; name an address with --net")
        })?
        .ip();
    if local != ip || ip.is_ipv6() {
        return Ok((local, false));
    }
    // All of 127.0.0.0/8 is local; take an address other than the target's.
    let mut others = (77..=92).map(|last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)));
    let first = others.clone().find(|other| *other != ip).unwrap_or(ip);
    let is_free = |other: &IpAddr| *other != ip && !is_listened_at(SocketAddr::new(*other, port));
    Ok((others.find(is_free).unwrap_or(first), true))
}

/// Whether a program of this machine listens there.
fn is_listened_at(at: SocketAddr) -> bool {
    TcpListener::bind(at).is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

/// What a command can do with another node of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherNode {
    /// It has --control.
    CanBeAsked,
    /// It needs a node of its own.
    CannotBeAsked,
}

/// Starts a temporary node.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn start_for_command(config: &NodeConfig, other: OtherNode) -> Result<Node, Failure> {
    started(Node::start_for_command(config), other)
}

/// The same with the incarnation that peers see, for a command that has --control.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn start_for_command_as(config: &NodeConfig, incarnation: u64) -> Result<Node, Failure> {
    started(Node::start_for_command_as(config, incarnation), OtherNode::CanBeAsked)
}

/// The same for a node that does not have to listen: without the privilege for its port it is
/// started with `accept: none`. Its peers answer over the connections that it makes.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn start_and_listen_if_permitted(mut config: NodeConfig) -> Result<Node, Failure> {
    match Node::start_for_command(&config) {
        Err(StartError::Listen { error, .. })
            if error.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            config.accept = AcceptPolicy::None;
            start_for_command(&config, OtherNode::CannotBeAsked)
        }
        result => started(result, OtherNode::CannotBeAsked),
    }
}

fn started(result: Result<Node, StartError>, other: OtherNode) -> Result<Node, Failure> {
    let node = result.map_err(|error| error.to_string())?;
    let info = node.info();
    if info.identity_reason == NID_IN_USE {
        print_error(&in_use(&info.nids[0], other));
    }
    Ok(node)
}

/// What is said when another node of this machine has the address of a command.
fn in_use(nid: &Nid, other: OtherNode) -> String {
    let ask = match other {
        OtherNode::CanBeAsked => {
            "; if that is a `lustrine node`, this command can use it with --control and its socket"
        }
        OtherNode::CannotBeAsked => "",
    };
    format!(
        "{NID_IN_USE}, {nid}: this command appears as userland, which a kernel takes only with \
         accept=all; give it an address of its own with --net, or stop that program{ask}"
    )
}

/// Control socket of a node that root runs.
pub(crate) const ROOTS_CONTROL: &str = "/run/lustrine.sock";

/// Control socket of the node that the package's systemd unit runs; root may use it.
pub(crate) const SERVICES_CONTROL: &str = "/run/lustrine/node.sock";

/// Where the control socket of a node is.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ControlOptions {
    /// Control socket of the node [env: LUSTRINE_CONTROL] [default: the one that the file of
    /// --config names; otherwise /run/lustrine.sock for root (clients also try the service's,
    /// /run/lustrine/node.sock) and $XDG_RUNTIME_DIR/lustrine.sock for others]
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
}

/// Where the control socket of a running node is, for a command that reads no configuration file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RunningNodeOptions {
    /// Control socket of the node [env: LUSTRINE_CONTROL] [default: /run/lustrine.sock for root,
    /// or the service's, /run/lustrine/node.sock; $XDG_RUNTIME_DIR/lustrine.sock for others]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

impl From<&RunningNodeOptions> for ControlOptions {
    fn from(options: &RunningNodeOptions) -> ControlOptions {
        ControlOptions { control: options.control.clone() }
    }
}

/// The path of a control socket, and its origin.
pub(crate) struct ControlPath {
    pub(crate) path: PathBuf,
    /// Which option or default named it, for messages.
    pub(crate) reason: &'static str,
    /// Whether the user named it; otherwise it is a default.
    pub(crate) chosen: bool,
}

impl ControlOptions {
    /// The path at which a command looks for the running node, if there is one.
    pub(crate) fn search(&self) -> Option<ControlPath> {
        let mut place = self.resolve(None)?;
        let roots = !place.chosen && place.path == Path::new(ROOTS_CONTROL);
        // A node that was killed leaves its socket behind: the file alone proves nothing. A stopped
        // node accepts no connection, so a blocking connect would wait without end.
        let is_there = |path: &Path| is_served(path).is_ok_and(|is_served| is_served);
        if roots && Path::new(SERVICES_CONTROL).exists() && !is_there(&place.path) {
            place.path = SERVICES_CONTROL.into();
            place.reason = "the default of the service";
        }
        Some(place)
    }

    /// The effective path, if there is one.
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
        if let Some(path) = environment(LAB_CONTROL_VARIABLE) {
            return Some(place(path, "the default on a host of a laboratory", false));
        }
        if lustrine_sys::process::is_root() {
            return Some(place(ROOTS_CONTROL.into(), "the default for root", false));
        }
        let runtime = environment("XDG_RUNTIME_DIR")?;
        Some(place(runtime.join("lustrine.sock"), "the default in XDG_RUNTIME_DIR", false))
    }
}

/// What is set for programs on a host of a laboratory: where the control socket of its node is.
pub(crate) const LAB_CONTROL_VARIABLE: &str = "LUSTRINE_LAB_CONTROL";

/// The directory for sockets of this user's processes.
pub(crate) fn runtime_directory() -> Option<PathBuf> {
    match lustrine_sys::process::is_root() {
        true => Path::new(ROOTS_CONTROL).parent().map(Path::to_owned),
        false => environment("XDG_RUNTIME_DIR"),
    }
}

/// A path from the environment; an empty one counts as unset.
fn environment(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn only_commands_that_have_the_option_name_it() {
        let nid = "10.0.0.1@tcp".parse().unwrap();
        assert!(in_use(&nid, OtherNode::CanBeAsked).contains("with --control"));
        assert!(!in_use(&nid, OtherNode::CannotBeAsked).contains("--control"));
    }

    /// As of `--config <(command)` and of /dev/stdin.
    #[test]
    fn a_configuration_that_can_be_read_once_is_read_once() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        writer.write_all(b"net: [{net type: tcp3}]\n").expect("it has room");
        drop(writer);
        let config = Some(format!("/proc/self/fd/{}", reader.as_raw_fd()).into());
        let basic = TemporaryNodeOptions { config, ..TemporaryNodeOptions::default() };
        let options = NodeOptions::from(&basic);
        let nets = |options: &NodeOptions| {
            let config = options.node_config(|_| {}).expect("it is valid");
            config.nets.iter().map(|net| net.net.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(nets(&options), ["tcp3"]);
        assert_eq!(nets(&options), ["tcp3"]);
        assert_eq!(nets(&NodeOptions::from(&basic)), ["tcp3"]);
    }

    #[test]
    fn a_network_as_an_argument_is_parsed_to_the_same_network() {
        for word in [
            "tcp",
            "tcp3",
            "tcp=10.0.0.1",
            "tcp=[2001:db8::1]",
            "tcp=[::1]:1988",
            "tcp2=eth0:1988",
            "tcp(eth0:1)",
            "tcp1(eth0:1):1988",
        ] {
            let parsed = net(word).unwrap_or_else(|why| panic!("{word}: {why}"));
            assert_eq!(net(&net_word(&parsed)), Ok(parsed), "{word}");
        }
    }
}
