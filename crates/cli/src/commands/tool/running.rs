//! The running node behind `lnetctl`, `lctl` and `routerstat`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;

use clap::Args;
use lustrine_config::FILE_MAX;
use lustrine_control::{
    Answer, ChangeReport, ChangeRequest, NetInfo, PeerIdentity, PeerRow, Request,
};
use lustrine_sys::files;
use lustrine_tools::lnetctl::Settings;
use lustrine_tools::node::{Env, ToolError};
use lustrine_tools::shell::Terminal;
use lustrine_wire::nid::Nid;

use super::{CompatArg, StdTerminal};
use crate::access::ask_running;
use crate::common::{ControlOptions, RunningNodeOptions};
use crate::hosts::resolve;
use crate::output::Failure;

/// Errnos for a node that is not running, and for an unexpected reply.
const NETWORK_DOWN: i32 = -100;
const PROTOCOL: i32 = -71;

/// How long discovery may take, in milliseconds.
const DISCOVERY_MS: u64 = 10_000;

/// Arguments of a tool: the node to query, the output format, and a command.
#[derive(Args, Debug)]
pub(crate) struct ToolArgs {
    /// Release of Lustre whose output format to use [env: LUSTRINE_COMPAT]
    #[arg(long, value_enum)]
    compat: Option<CompatArg>,

    /// Print JSON: the answers of the node, and the output and status of the tool
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: RunningNodeOptions,

    /// A command of the tool with its arguments; without one, commands are read from standard input
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) words: Vec<String>,
}

impl ToolArgs {
    /// The node, to which nothing was sent yet, and the tool's settings.
    ///
    /// # Errors
    /// When LUSTRINE_COMPAT is not a known release.
    pub(crate) fn connect(&self) -> Result<(RunningNode, Settings), Failure> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let settings = Settings { compat: super::compat(self.compat)?, version };
        let terminal = StdTerminal::of(self.json, &self.words);
        Ok((RunningNode { control: (&self.node).into(), terminal }, settings))
    }
}

/// A running node, and a terminal.
pub(crate) struct RunningNode {
    pub(crate) control: ControlOptions,
    pub(crate) terminal: StdTerminal,
}

impl RunningNode {
    /// The node that these options name; nothing was sent yet.
    pub(crate) fn at(control: &ControlOptions) -> RunningNode {
        RunningNode { control: control.clone(), terminal: StdTerminal::default() }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, ToolError> {
        let answer = ask_running(&self.control, request);
        if let Ok(answer) = &answer {
            self.terminal.answered(answer);
        }
        match answer {
            // The tools print the operation and its NID themselves.
            Ok(Answer::Error { errno, hint, .. }) if is_about_nid(request) => {
                Err(ToolError { errno, text: hint })
            }
            Ok(Answer::Error { errno, message, .. }) => Err(ToolError { errno, text: message }),
            Ok(answer) => Ok(answer),
            Err(text) => Err(ToolError { errno: NETWORK_DOWN, text }),
        }
    }
}

impl Terminal for RunningNode {
    fn out(&mut self, text: &str) {
        self.terminal.out(text);
    }

    fn err(&mut self, text: &str) {
        self.terminal.err(text);
    }
}

impl Env for RunningNode {
    fn nis(&mut self) -> Result<NetInfo, ToolError> {
        match self.ask(&Request::ShowNet)? {
            Answer::Net(info) => Ok(info),
            _ => Err(unexpected()),
        }
    }

    fn peers(&mut self) -> Result<Vec<PeerRow>, ToolError> {
        match self.ask(&Request::ShowPeer)? {
            Answer::Peer { peers } => Ok(peers),
            _ => Err(unexpected()),
        }
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, ToolError> {
        match self.ask(&Request::ShowStats)? {
            Answer::Stats { stats } => Ok(stats.lnet),
            _ => Err(unexpected()),
        }
    }

    fn tunables(&mut self) -> Result<BTreeMap<String, i64>, ToolError> {
        match self.ask(&Request::ShowTunables)? {
            Answer::Tunables { mut values, lnd_timeout } => {
                values.insert("lnd_timeout".to_owned(), lnd_timeout);
                Ok(values)
            }
            _ => Err(unexpected()),
        }
    }

    fn ping(&mut self, nid: Nid, seconds: u32) -> Result<PeerIdentity, ToolError> {
        match self.ask(&Request::Ping { nid, timeout_ms: u64::from(seconds) * 1000 })? {
            Answer::Ping { identity, .. } => Ok(identity),
            _ => Err(unexpected()),
        }
    }

    fn discover(&mut self, nid: Nid) -> Result<PeerIdentity, ToolError> {
        match self.ask(&Request::Discover { nid, timeout_ms: DISCOVERY_MS })? {
            Answer::Discover { peer } => Ok(peer.identity),
            _ => Err(unexpected()),
        }
    }

    fn change(&mut self, change: &ChangeRequest, dry_run: bool) -> Result<ChangeReport, ToolError> {
        let change = Box::new(change.clone());
        match self.ask(&Request::Change { change, dry_run })? {
            Answer::Changed { changed } => Ok(changed),
            _ => Err(unexpected()),
        }
    }

    fn backup(&mut self) -> Result<String, ToolError> {
        match self.ask(&Request::ShowConfig)? {
            Answer::Config { text } => Ok(text),
            _ => Err(unexpected()),
        }
    }

    fn read(&mut self, path: Option<&str>) -> Result<String, String> {
        let mut bytes = Vec::new();
        let read = match path {
            Some(path) => fs::File::open(path).and_then(|file| take(file, &mut bytes)),
            None => take(io::stdin().lock(), &mut bytes),
        };
        read.map_err(|error| error.to_string())?;
        if bytes.len() > FILE_MAX {
            return Err(format!("the file has more than {FILE_MAX} bytes"));
        }
        String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_owned())
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        resolve(host)
    }

    fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        files::write(Path::new(path), text).map_err(|error| error.to_string())
    }
}

/// No more than a node would read.
fn take(from: impl Read, bytes: &mut Vec<u8>) -> io::Result<usize> {
    from.take(FILE_MAX as u64 + 1).read_to_end(bytes)
}

fn is_about_nid(request: &Request) -> bool {
    matches!(request, Request::Ping { .. } | Request::Discover { .. })
}

fn unexpected() -> ToolError {
    let text =
        "unexpected reply from the node; the versions of the node and of this tool may differ";
    ToolError { errno: PROTOCOL, text: text.to_owned() }
}
