//! `lst`, LNet selftest (cli-habits 2).
//!
//! Grammar and layouts are those of the real tool, byte for byte, where it works as documented.
//! What releases from 2.16 on do wrong is done as 2.15 does it, whatever [`Compat`] says:
//!
//! - `list_group` names groups `(null)`, and shows the header with the wrong form;
//! - `stat` and `show_error` report as many nodes as there are groups, and know no NIDs;
//! - `ping --session` fails;
//! - a `new_session` that is refused ends the session there is;
//! - without a session, errors of the kernel interface precede "No session exists", or replace it.
//!
//! In every release `stat --read` prints the rows `[W]`, and `--write` those of `[R]`. Scripts
//! depend on it, so it stays. The minimum is the least rate of all nodes, though: the real one
//! passes over nodes that stand still, depending on their order.
//!
//! Where the old text of an error says little, what is known besides follows in parentheses.

mod batch;
mod group;
mod listing;
mod manual;
mod session;
mod stat;
mod table;
mod talk;
mod test;

use core::net::Ipv4Addr;
use core::time::Duration;

use lustrine_selftest::console::{Answer, Command, Refusal};

use crate::parse::Parsed;
pub use crate::shell::Compat;
use crate::shell::{Exit, Program, Terminal};
use crate::table::Tool;

pub use manual::MANUAL;
pub use table::LST;

/// Some RPC failed.
pub const RPC_FAILED: Exit = Exit(254);
/// Some node answered with an error.
pub const NODE_REFUSED: Exit = Exit(253);

/// What `lst` needs of the world.
pub trait Env: Terminal {
    /// Has the console carry out a command, with the key of its session, and waits for the answer.
    /// [`Command::ShowSession`] is answered whatever the key is: it tells the key.
    ///
    /// # Errors
    /// [`ConsoleError`].
    fn ask(&mut self, key: u32, command: Command) -> Result<Answer, ConsoleError>;

    /// The same for a [`Command::NewSession`], for which there may be no console yet.
    ///
    /// # Errors
    /// [`ConsoleError`].
    fn new_session(&mut self, key: u32, command: Command) -> Result<Answer, ConsoleError> {
        self.ask(key, command)
    }

    /// Waits.
    fn sleep(&mut self, time: Duration) -> WaitOutcome;

    /// The address of a host.
    ///
    /// # Errors
    /// Why it has none, for people.
    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String>;
}

/// Why there is no answer of a console.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleError {
    /// It refuses.
    #[error("{0}")]
    Refused(Refusal),
    /// There is none, and so no session.
    #[error("no console runs")]
    NoConsole,
    /// The user does not want to wait for it.
    #[error("interrupted")]
    Interrupted,
    /// It cannot be talked to.
    #[error("{0}")]
    Failed(String),
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The time is over.
    Elapsed,
    /// The user does not want to wait.
    Interrupted,
}

/// What `lst` finds where it is started.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Whose habits it has.
    pub compat: Compat,
    /// The value of `LST_SESSION`.
    pub session: Option<String>,
    /// The value of `LST_FEATURES`.
    pub features: Option<String>,
    /// `user@host`: the name of sessions without one, cut to the length of names.
    pub whoami: String,
    /// The version it says it has.
    pub version: String,
}

/// `lst` at work.
#[derive(Debug)]
pub struct Lst<'a, O> {
    env: &'a mut O,
    settings: &'a Settings,
}

impl<'a, O: Env> Lst<'a, O> {
    /// In these surroundings.
    pub fn new(env: &'a mut O, settings: &'a Settings) -> Lst<'a, O> {
        Lst { env, settings }
    }

    fn command(&mut self, name: &str, parsed: &Parsed) -> Result<(), Exit> {
        match name {
            "new_session" => self.new_session(parsed),
            "show_session" => self.show_session(),
            "end_session" => self.end_session(),
            "ping" => self.ping(parsed),
            "add_group" => self.add_group(parsed),
            "del_group" => self.del_group(parsed.positional(0)),
            "update_group" => self.update_group(parsed),
            "list_group" => self.list_group(parsed),
            "add_batch" => self.add_batch(parsed.positional(0)),
            "list_batch" => self.list_batch(parsed),
            "add_test" => self.add_test(parsed),
            "run" => self.run_batch(parsed),
            "stop" => self.stop_batch(parsed),
            "query" => self.query_batch(parsed),
            "stat" => self.stat(parsed),
            "show_error" => self.show_error(parsed),
            other => unreachable!("{other} is in the table and not here"),
        }
    }
}

impl<O: Env> Program for Lst<'_, O> {
    fn tool(&self) -> &'static Tool {
        &LST
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
        let name = path.last().copied().unwrap_or_default();
        self.check_features()?;
        self.check_key(name)?;
        self.command(name, parsed)
    }
}
