//! What `lnetctl`, `lctl` and `routerstat` need of their environment: a running node, names of
//! hosts, and files.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;

use lustrine_control::{ChangeReport, ChangeRequest, NetInfo, PeerIdentity, PeerRow};
use lustrine_wire::nid::Nid;

use crate::shell::Terminal;

/// The environment of these tools.
pub trait Env: Terminal {
    /// The node's interfaces.
    ///
    /// # Errors
    /// When the node cannot be reached, or refuses; the same holds for every request below.
    fn nis(&mut self) -> Result<NetInfo, ToolError>;

    /// The peers that the node knows, one row for each NID.
    ///
    /// # Errors
    /// [`ToolError`].
    fn peers(&mut self) -> Result<Vec<PeerRow>, ToolError>;

    /// The node's counters, by LNet's names.
    ///
    /// # Errors
    /// [`ToolError`].
    fn counters(&mut self) -> Result<BTreeMap<String, u64>, ToolError>;

    /// The node's tunables, by their names in Lustrine, and `lnd_timeout`.
    ///
    /// # Errors
    /// [`ToolError`].
    fn tunables(&mut self) -> Result<BTreeMap<String, i64>, ToolError>;

    /// Lets the node ping a NID, and waits for at most `seconds`.
    ///
    /// # Errors
    /// [`ToolError`].
    fn ping(&mut self, nid: Nid, seconds: u32) -> Result<PeerIdentity, ToolError>;

    /// Lets the node discover a NID, even if it was discovered before.
    ///
    /// # Errors
    /// [`ToolError`].
    fn discover(&mut self, nid: Nid) -> Result<PeerIdentity, ToolError>;

    /// The address of a host.
    ///
    /// # Errors
    /// A message that says why it has none.
    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String>;

    /// Changes the node; with `dry_run` it only reports what the change would do.
    ///
    /// # Errors
    /// [`ToolError`]; nothing was changed then.
    fn change(&mut self, change: &ChangeRequest, dry_run: bool) -> Result<ChangeReport, ToolError>;

    /// The node's configuration, as a file for `lustrine node --config`.
    ///
    /// # Errors
    /// [`ToolError`].
    fn backup(&mut self) -> Result<String, ToolError>;

    /// Reads a file, or the standard input.
    ///
    /// # Errors
    /// A message that says why it cannot be read.
    fn read(&mut self, path: Option<&str>) -> Result<String, String>;

    /// Writes a file and replaces what it held.
    ///
    /// # Errors
    /// A message that says why it cannot be written.
    fn write(&mut self, path: &str, text: &str) -> Result<(), String>;
}

/// Why a node did not carry out a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ToolError {
    /// LNet's number: a negative errno.
    pub errno: i32,
    /// What happened and what to do next; empty where the number says it.
    pub text: String,
}
