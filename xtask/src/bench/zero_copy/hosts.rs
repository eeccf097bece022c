//! Two hosts and a link: network namespaces that a veth pair joins, or a laboratory with its TUN
//! devices.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::laboratory::{self, EAST, Laboratory, WEST};
use crate::process::{self, ChildGuard};

/// The name of the laboratory.
const NAME: &str = "bench-zero-copy";
/// How long a command that makes something may take.
const COMMAND_MAX: Duration = Duration::from_secs(30);
/// The interface of both hosts.
pub(super) const INTERFACE: &str = "eth0";
/// The addresses of the client and the server: those that a laboratory gives to the hosts of its
/// first link.
const CLIENT_ADDRESS: &str = "10.99.0.1";
pub(super) const SERVER_ADDRESS: &str = "10.99.0.2";
/// The link of the laboratory: no slower than the machine, and with a queue that is never full.
const TUN_GIGABITS: f64 = 100.0;
const TUN_MTU: u32 = 9000;
const TUN_QUEUE: u64 = 64 << 20;
const TUN_BUFFER: u64 = 4 << 20;

/// How the two hosts are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// The kernel hands packets from one device of the pair to the other.
    Veth { mtu: u32 },
    /// A process reads the packets of one TUN device and writes them to another one.
    Tun,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Veth { mtu } => write!(f, "veth, MTU {mtu}"),
            Link::Tun => write!(f, "TUN (lustrine lab), MTU {TUN_MTU}"),
        }
    }
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Client,
    Server,
}

/// Both hosts; dropping them removes them.
pub(super) enum Hosts<'p> {
    Veth(Veth),
    Tun(Laboratory<'p>),
}

impl<'p> Hosts<'p> {
    pub(super) fn up(program: &'p Path, link: Link, congestion: &str) -> Result<Hosts<'p>> {
        match link {
            Link::Veth { mtu } => Ok(Hosts::Veth(Veth::up(mtu, congestion)?)),
            Link::Tun => {
                // What a run that was killed has left. Without it, this fails.
                let mut down = Command::new(program);
                let _ = process::capture(down.args(["lab", "down", NAME]), COMMAND_MAX);
                let link = laboratory::Link {
                    round_trip_ms: 0.0,
                    gigabits: TUN_GIGABITS,
                    mtu: TUN_MTU,
                    queue: Some(TUN_QUEUE),
                    buffer: TUN_BUFFER,
                    congestion: Some(congestion.to_owned()),
                };
                Ok(Hosts::Tun(Laboratory::up(program, NAME, &link)?))
            }
        }
    }

    /// A command on one of them.
    pub(super) fn at(&self, end: End, words: &[&str]) -> Command {
        match (self, end) {
            (Hosts::Veth(veth), End::Client) => veth.client.at(words),
            (Hosts::Veth(veth), End::Server) => veth.server.at(words),
            (Hosts::Tun(lab), End::Client) => lab.at(EAST, words),
            (Hosts::Tun(lab), End::Server) => lab.at(WEST, words),
        }
    }
}

/// Two namespaces and the pair of devices between them.
pub(super) struct Veth {
    client: Namespace,
    server: Namespace,
}

impl Veth {
    fn up(mtu: u32, congestion: &str) -> Result<Veth> {
        let veth = Veth { client: Namespace::new()?, server: Namespace::new()? };
        let (client, server) = (veth.client.id(), veth.server.id());
        let mtu = mtu.to_string();
        let mut pair = Command::new("ip");
        pair.args(["link", "add", INTERFACE, "mtu", &mtu, "netns", &client, "type", "veth"]);
        pair.args(["peer", "name", INTERFACE, "mtu", &mtu, "netns", &server]);
        done(&mut pair)?;
        for (namespace, address) in [(&veth.client, CLIENT_ADDRESS), (&veth.server, SERVER_ADDRESS)]
        {
            let address = format!("{address}/24");
            done(&mut namespace.at(&["ip", "address", "add", &address, "dev", INTERFACE]))?;
            done(&mut namespace.at(&["ip", "link", "set", INTERFACE, "up"]))?;
            done(&mut namespace.at(&["ip", "link", "set", "lo", "up"]))?;
            let set = format!("echo {congestion} > {CONGESTION}");
            done(&mut namespace.at(&["sh", "-c", &set]))?;
        }
        Ok(veth)
    }
}

/// A network namespace without a name. It lives as long as a process in it, which ends with its
/// standard input, and so with this process, however that ends.
struct Namespace(ChildGuard);

impl Namespace {
    fn new() -> Result<Namespace> {
        let mut holder = Command::new("unshare");
        holder.args(["--net", "sh", "-c", "echo ready; exec cat"]);
        let mut holder = ChildGuard::piped(holder.stdin(Stdio::piped()).stdout(Stdio::piped()))?;
        let mut line = String::new();
        let stdout = holder.stdout().context("it is piped")?;
        BufReader::new(stdout).read_line(&mut line)?;
        ensure!(line == "ready\n", "unshare cannot make a network namespace");
        Ok(Namespace(holder))
    }

    fn id(&self) -> String {
        self.0.id().to_string()
    }

    fn at(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).args(words);
        command
    }
}

const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// TCP's congestion control outside of the namespaces.
pub(super) fn machines_congestion() -> Result<String> {
    Ok(fs::read_to_string(CONGESTION).context(CONGESTION)?.trim().to_owned())
}

fn done(command: &mut Command) -> Result<()> {
    let what = format!("{command:?}");
    process::capture(command, COMMAND_MAX)?.output(&what).map(drop)
}
