//! A fake node that answers like the one of the recordings.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use lustrine_control::{
    ChangeReport, ChangeRequest, Messages, NetInfo, NetRow, PeerIdentity, PeerNiRow, PeerRow,
};
use lustrine_tools::node::{Env, ToolError};
use lustrine_tools::shell::Terminal;
use lustrine_wire::nid::Nid;

pub(crate) fn nid(text: &str) -> Nid {
    text.parse().unwrap()
}

/// The content of a file of recordings, without the lines about its origin.
pub(crate) fn recorded(name: &str) -> String {
    let path = format!("{}/../../testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let lines = text.lines().skip_while(|line| line.starts_with('#') || line.starts_with("[vm2]#"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A node like machine 2, and its output.
pub(crate) struct Fake {
    pub(crate) trouble: Option<ToolError>,
    pub(crate) nis: NetInfo,
    pub(crate) peers: Vec<PeerRow>,
    /// NIDs that do not answer, with their errors; others answer.
    pub(crate) silent: BTreeMap<Nid, ToolError>,
    pub(crate) files: BTreeMap<String, String>,
    /// The requests, and whether each was a dry run.
    pub(crate) changes: Vec<(ChangeRequest, bool)>,
    /// The results of changes, or their error.
    pub(crate) changed: Result<ChangeReport, ToolError>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Fake {
    /// Machine 2, which has machine 3 as a peer; they exchanged these messages.
    pub(crate) fn new(first: u64, second: u64) -> Fake {
        let ni = |text: &str, interface: &str, messages| NetRow {
            interface: Some(interface.to_owned()),
            peer_credits: 8,
            credits_configured: 256,
            messages,
            ..NetRow::new(nid(text))
        };
        let messages = |count| Messages { sent: count, received: count, ..Messages::default() };
        let nets = vec![
            ni("10.77.0.2@tcp", "eth0", messages(first)),
            ni("10.77.1.2@tcp1", "eth1", messages(second)),
        ];
        let peer = |text: &str, count| PeerRow {
            credits: 8,
            credits_available: 8,
            credits_min: 7,
            messages: messages(count),
            connections: ["BULK_IN", "BULK_OUT", "CONTROL"].map(|kind| (kind.to_owned(), 1)).into(),
            ..PeerRow::new(nid(text), machine_3())
        };
        Fake {
            trouble: None,
            nis: NetInfo { cpts: vec![vec![0]], nets, ..NetInfo::default() },
            peers: vec![peer("10.77.0.3@tcp", first), peer("10.77.1.3@tcp1", second)],
            silent: BTreeMap::new(),
            files: BTreeMap::new(),
            changes: Vec::new(),
            changed: Ok(ChangeReport::default()),
            out: String::new(),
            err: String::new(),
        }
    }

    /// The same, with a NID that does not answer.
    pub(crate) fn silent(mut self, text: &str, errno: i32, why: &str) -> Fake {
        self.silent.insert(nid(text), ToolError { errno, text: why.to_owned() });
        self
    }

    /// The output since the last call, as whole lines.
    pub(crate) fn said(&mut self) -> (String, String) {
        for text in [&self.out, &self.err] {
            assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
        }
        (std::mem::take(&mut self.out), std::mem::take(&mut self.err))
    }

    fn there<T>(&self, value: T) -> Result<T, ToolError> {
        self.trouble.clone().map_or(Ok(value), Err)
    }

    fn identity(&self, nid: Nid) -> Result<PeerIdentity, ToolError> {
        self.silent.get(&nid).cloned().map_or(Ok(machine_3()), Err)
    }
}

/// The ping information of machine 3.
fn machine_3() -> PeerIdentity {
    let nids = ["10.77.0.3@tcp", "10.77.1.3@tcp1"];
    PeerIdentity {
        primary_nid: nid("10.77.0.3@tcp"),
        multi_rail: true,
        peer_ni: nids.map(|text| PeerNiRow { nid: nid(text), up: true }).to_vec(),
    }
}

impl Terminal for Fake {
    fn out(&mut self, text: &str) {
        self.out += text;
    }

    fn err(&mut self, text: &str) {
        self.err += text;
    }
}

impl Env for Fake {
    fn nis(&mut self) -> Result<NetInfo, ToolError> {
        self.there(self.nis.clone())
    }

    fn peers(&mut self) -> Result<Vec<PeerRow>, ToolError> {
        self.there(self.peers.clone())
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, ToolError> {
        let values = [
            ("msgs_alloc", 0),
            ("msgs_max", 1),
            ("errors", 0),
            ("send_count", 8),
            ("response_timeout_count", 0),
            ("local_error_count", 0),
            ("remote_dropped_count", 0),
            ("remote_error_count", 0),
            ("network_timeout_count", 0),
            ("recv_count", 8),
            ("drop_count", 0),
            ("dropped.put", 0),
            ("send_length", 192),
            ("recv_length", 320),
            ("drop_length", 0),
        ];
        self.there(values.map(|(name, value)| (name.to_owned(), value)).into())
    }

    fn tunables(&mut self) -> Result<BTreeMap<String, i64>, ToolError> {
        let values = [
            ("max_interfaces", 200),
            ("discovery", 1),
            ("retry_count", 2),
            ("transaction_timeout", 150),
            ("lnd_timeout", 49),
            ("sock_timeout", 50),
            ("tos", -1),
        ];
        self.there(values.map(|(name, value)| (name.to_owned(), value)).into())
    }

    fn ping(&mut self, nid: Nid, seconds: u32) -> Result<PeerIdentity, ToolError> {
        assert!((1..=3600).contains(&seconds));
        self.identity(nid)
    }

    fn discover(&mut self, nid: Nid) -> Result<PeerIdentity, ToolError> {
        self.identity(nid)
    }

    fn change(&mut self, change: &ChangeRequest, dry_run: bool) -> Result<ChangeReport, ToolError> {
        self.there(())?;
        self.changes.push((change.clone(), dry_run));
        self.changed.clone()
    }

    fn backup(&mut self) -> Result<String, ToolError> {
        self.there("net:\n-     net type: tcp\n".to_owned())
    }

    fn read(&mut self, path: Option<&str>) -> Result<String, String> {
        let found = self.files.get(path.unwrap_or("stdin"));
        found.cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        match host {
            "vm3" => Ok(Ipv4Addr::new(10, 77, 0, 3)),
            _ => Err("it is not known".to_owned()),
        }
    }

    fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        if path.contains('/') {
            return Err("no such directory".to_owned());
        }
        self.files.insert(path.to_owned(), text.to_owned());
        Ok(())
    }
}
