//! `lctl`: its network commands, for a running Lustrine node [TOOL-17] [TOOL-18].

mod list;
mod manual;
mod table;

use lustrine_wire::nid::{Net, NetKind, Nid};

use crate::errno;
use crate::lnetctl::Settings;
use crate::nids;
use crate::node::{Env, ToolError};
use crate::parse::Parsed;
use crate::shell::{self, Compat, Exit, NameMatching, Program, Terminal};
use crate::table::Tool;

pub use manual::MANUAL;
pub use table::LCTL;

/// A running `lctl`.
#[derive(Debug)]
pub struct Lctl<'a, O> {
    env: &'a mut O,
    settings: &'a Settings,
    /// The network that was selected.
    net: Option<Net>,
}

impl<'a, O: Env> Lctl<'a, O> {
    /// With this environment and these settings.
    pub fn new(env: &'a mut O, settings: &'a Settings) -> Lctl<'a, O> {
        Lctl { env, settings, net: None }
    }

    fn command(&mut self, name: &'static str, parsed: &Parsed) -> Result<(), Exit> {
        match name {
            "--net" => self.with_net(parsed.positionals()),
            "network" => self.network(parsed.positional(0)),
            "list_nids" => self.list_nids(parsed.positional(0)),
            "which_nid" => self.which_nid(parsed.positionals()),
            "ping" => self.ping(parsed),
            "peer_list" => self.peer_list(),
            "conn_list" => self.conn_list(),
            "show_route" | "route_list" => self.ask(Env::nis).map(|_| ()),
            "net_drop_list" => self.no_rules("drop"),
            "net_delay_list" => self.no_rules("delay"),
            other => Err(self.refuse(other)),
        }
    }

    /// `--net NET COMMAND`: a command, with this network selected.
    fn with_net(&mut self, words: &[String]) -> Result<(), Exit> {
        let (net, command) = words.split_first().ok_or(Exit::FAILURE)?;
        if command.first().is_some_and(|word| word == "--net") {
            return Err(self.fail(errno::EINVAL, "--net is allowed only once, before the command"));
        }
        let before = self.net;
        self.select(net)?;
        let exit = shell::run(self, command, NameMatching::Exact);
        self.net = before;
        if exit.is_success() { Ok(()) } else { Err(exit) }
    }

    fn network(&mut self, word: &str) -> Result<(), Exit> {
        let instead = match word {
            "up" | "configure" => "start a node with `lustrine node --config FILE`",
            "down" | "unconfigure" => "end the process of the node, `lustrine node`, with SIGTERM",
            net => return self.select(net),
        };
        Err(self.fail(errno::EOPNOTSUPP, instead))
    }

    fn select(&mut self, text: &str) -> Result<(), Exit> {
        match text.parse::<Net>() {
            Ok(net) => {
                self.net = Some(net);
                Ok(())
            }
            Err(why) => Err(self.fail(errno::EINVAL, &format!("cannot parse net '{text}': {why}"))),
        }
    }

    fn list_nids(&mut self, word: &str) -> Result<(), Exit> {
        let nis = self.ask(Env::nis)?;
        let lo = (word == "all").then_some(Nid::LO);
        let nids = lo.into_iter().chain(nis.nets.iter().map(|ni| ni.nid));
        let text: String = nids.map(|nid| format!("{nid}\n")).collect();
        self.env.out(&text);
        Ok(())
    }

    /// The nearest NID: one of this node, or else the first on a network of this node.
    fn which_nid(&mut self, words: &[String]) -> Result<(), Exit> {
        let nids = self.nids(words)?;
        let nis = self.ask(Env::nis)?;
        let own = |nid: &&Nid| nid.is_lo() || nis.nets.iter().any(|ni| ni.nid == **nid);
        let near = |nid: &&Nid| nis.on(nid.net()).next().is_some();
        match nids.iter().find(own).or_else(|| nids.iter().find(near)) {
            Some(nid) => {
                self.env.out(&format!("{nid}\n"));
                Ok(())
            }
            None => {
                self.env.err("No reachable NID\n");
                Err(Exit::FAILURE)
            }
        }
    }

    fn ping(&mut self, parsed: &Parsed) -> Result<(), Exit> {
        let words = &parsed.positionals()[..1];
        let seconds = parsed.positional(1).parse().unwrap_or(1);
        let nids = self.nids(words)?;
        let [nid] = nids[..] else {
            return Err(self.fail(errno::EINVAL, "ping takes one NID; lnetctl ping takes several"));
        };
        // Without a node, no ping is sent.
        self.ask(Env::nis)?;
        match self.env.ping(nid, seconds) {
            Ok(identity) => {
                // Every node has a loopback; later releases print the other NIDs without a process
                // id.
                let before = match self.settings.compat {
                    Compat::V2_15 => "12345-",
                    Compat::V2_16 => "",
                };
                let others = identity.peer_ni.iter().map(|ni| ni.nid).filter(|nid| !nid.is_lo());
                let others: String = others.map(|nid| format!("{before}{nid}\n")).collect();
                let text = format!("12345-{}\n{others}", Nid::LO);
                self.env.out(&text);
                Ok(())
            }
            Err(ToolError { errno, text }) => {
                let known = if text.is_empty() { text } else { format!(" ({text})") };
                let said = format!("failed to ping {}: {}{known}\n", words[0], errno::text(errno));
                match self.settings.compat {
                    Compat::V2_15 => self.env.err(&said),
                    Compat::V2_16 => self.env.out(&said),
                }
                Err(status(errno))
            }
        }
    }

    fn no_rules(&mut self, kind: &str) -> Result<(), Exit> {
        self.ask(Env::nis)?;
        let title = format!("LNet {kind} rules:\n");
        match self.settings.compat {
            Compat::V2_15 => self.env.out(&title),
            Compat::V2_16 => self.env.err(&title),
        }
        self.env.out("found total 0\n");
        Ok(())
    }

    fn refuse(&mut self, name: &str) -> Exit {
        let said = match name {
            "interface_list" => "not supported in this release; use lnetctl net show",
            "add_route" | "del_route" => "routing is not supported in this release",
            _ => "not supported in this release; docs/lnetctl.md lists what is",
        };
        self.fail(errno::EOPNOTSUPP, &format!("{name}: {said}"))
    }

    fn nids(&mut self, words: &[String]) -> Result<Vec<Nid>, Exit> {
        nids::list(words, |host| self.env.resolve(host))
            .map_err(|why| self.fail(errno::EINVAL, &format!("cannot parse NID: {why}")))
    }

    /// The selected network, which must be one with IP addresses to list connections of.
    fn selected(&mut self) -> Result<Net, Exit> {
        match self.net {
            Some(net) if net.kind == NetKind::TCP => Ok(net),
            Some(net) => Err(self.fail(errno::EINVAL, &format!("{net} has no such list; tcp has"))),
            None => {
                let said = "select a network first: --net NET before the command, or network NET";
                Err(self.fail(errno::EINVAL, said))
            }
        }
    }

    fn ask<T>(&mut self, ask: impl Fn(&mut O) -> Result<T, ToolError>) -> Result<T, Exit> {
        ask(self.env).map_err(|ToolError { errno, text }| {
            let said = if text.is_empty() { errno::text(errno).into_owned() } else { text };
            self.env.err(&format!("lctl: {said}\n"));
            status(errno)
        })
    }

    fn fail(&mut self, errno: u32, said: &str) -> Exit {
        self.env.err(&format!("lctl: {said}\n"));
        status(errno as i32)
    }
}

/// The status for an error number: itself, as the real tool has it.
fn status(errno: i32) -> Exit {
    Exit(u8::try_from(errno.unsigned_abs()).unwrap_or(255).max(1))
}

impl<O: Env> Program for Lctl<'_, O> {
    fn tool(&self) -> &'static Tool {
        &LCTL
    }

    fn compat(&self) -> Compat {
        self.settings.compat
    }

    fn version(&self) -> &str {
        &self.settings.version
    }

    fn terminal(&mut self) -> &mut dyn Terminal {
        self.env
    }

    fn run(&mut self, path: &[&'static str], parsed: &Parsed) -> Result<(), Exit> {
        self.command(path.first().copied().unwrap_or_default(), parsed)
    }
}
