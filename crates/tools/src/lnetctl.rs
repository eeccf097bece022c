//! `lnetctl` for a running Lustrine node.
//!
//! Layouts are those of the real tool, byte for byte. Values that a Lustrine node does not have,
//! such as health, have no key: none is invented. Commands about such features are refused with the
//! reason. docs/lnetctl.md lists both.

mod ask;
mod change;
mod export;
mod import;
mod manual;
mod refuse;
mod show;
mod table;

use crate::node::{Env, ToolError};
use crate::parse::Parsed;
use crate::shell::{Compat, Exit, Program, Terminal};
use crate::table::Tool;
use crate::yaml::{self, Dialect, Map, Yaml, entry};

pub use manual::MANUAL;
pub use table::LNETCTL;

/// Refused or invalid: the status of the real tool since 2.16, whatever the error number.
pub const REFUSED: Exit = Exit(234);

/// Settings of a tool from its command line and environment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// The release whose output it follows.
    pub compat: Compat,
    /// The version that it prints.
    pub version: String,
}

/// A running `lnetctl`.
#[derive(Debug)]
pub struct Lnetctl<'a, O> {
    env: &'a mut O,
    settings: &'a Settings,
}

impl<'a, O: Env> Lnetctl<'a, O> {
    /// With this environment and these settings.
    pub fn new(env: &'a mut O, settings: &'a Settings) -> Lnetctl<'a, O> {
        Lnetctl { env, settings }
    }

    fn command(&mut self, path: &[&'static str], parsed: &Parsed) -> Result<(), Exit> {
        match path {
            ["net", "show"] => self.show_net(parsed),
            ["peer", "show"] => self.show_peer(parsed),
            ["peer", "list"] => self.list_peers(),
            ["stats", "show"] => self.show_stats(),
            ["global", "show"] => self.show_global(),
            ["route", "show"] => self.show_none("route"),
            ["routing", "show"] => self.show_none("routing"),
            ["udsp", "show"] => self.show_none("udsp"),
            ["ping"] => self.ping(parsed),
            ["discover"] => self.discover(parsed),
            ["export"] => self.export(parsed),
            ["import"] => self.import(parsed),
            ["set", key] if table::refused(key).is_none() => self.set(key, parsed),
            ["net", "set"] => self.set_net(parsed),
            ["net", "add"] => self.add_net(parsed),
            ["net", "del"] => self.del_net(parsed),
            ["peer", "add"] => self.add_peer(parsed),
            ["peer", "del"] => self.del_peer(parsed),
            ["peer", "set"] => self.set_peer(),
            ["stats", "reset"] => self.reset_stats(),
            other => Err(self.refuse(other)),
        }
    }

    /// The dialect of commands that later releases moved to netlink.
    fn dialect(&self) -> Dialect {
        match self.settings.compat {
            Compat::V2_15 => Dialect::A,
            Compat::V2_16 => Dialect::B,
        }
    }

    fn print(&mut self, map: &Map, dialect: Dialect) {
        self.env.out(&yaml::write(map, dialect));
    }

    /// Prints an error and returns the exit status.
    fn fail(&mut self, verb: &str, noun: &str, errno: i32, said: String) -> Exit {
        let why = vec![entry("errno", errno), entry("descr", Yaml::Said(said))];
        match self.settings.compat {
            Compat::V2_15 => {
                let map = vec![entry(verb, vec![vec![entry(noun, why)]])];
                self.env.err(&yaml::write(&map, Dialect::A));
                Exit::FAILURE
            }
            Compat::V2_16 => {
                let mut item = vec![entry(noun, Yaml::Empty)];
                item.extend(why);
                let text = yaml::write(&vec![entry(verb, vec![item])], Dialect::B);
                self.env.err(&format!("---\n{text}...\n"));
                REFUSED
            }
        }
    }

    /// The same for an error from the node.
    fn fail_with(&mut self, verb: &str, noun: &str, trouble: ToolError) -> Exit {
        let said = match trouble.text.is_empty() {
            true => crate::errno::text(trouble.errno).into_owned(),
            false => trouble.text,
        };
        self.fail(verb, noun, trouble.errno, said)
    }
}

impl<O: Env> Program for Lnetctl<'_, O> {
    fn tool(&self) -> &'static Tool {
        &LNETCTL
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
        self.command(path, parsed)
    }
}
