//! `lst`, LNet selftest.
//!
//! Grammar and layouts are those of the real tool, byte for byte, where it works as documented. The
//! faults of 2.16 and later are not copied; these commands behave as in 2.15, whatever [`Compat`]
//! says:
//!
//! - `list_group` shows the name `(null)`, and the header of another form;
//! - `stat` and `show_error` report as many nodes as there are groups, and take no NIDs;
//! - `ping --session` fails;
//! - a `new_session` that is refused ends the existing session;
//! - without a session, errors of the kernel interface precede "No session exists", or replace it.
//!
//! In every release `stat --read` prints the rows `[W]`, and `--write` those of `[R]`. Scripts
//! depend on it, so it stays. The minimum is the lowest rate of all nodes, though; the real tool
//! skips idle nodes, depending on their order.
//!
//! Where the text of an error says little, details follow in parentheses.

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

/// Exit status when a node did not answer an RPC.
pub const RPC_FAILED: Exit = Exit(254);
/// Exit status when a node answered with an error.
pub const NODE_REFUSED: Exit = Exit(253);

/// What `lst` needs of its environment.
pub trait Env: Terminal {
    /// Sends a command to the console of the session with this key and waits for the answer.
    /// [`Command::ShowSession`] works with any key: its answer contains the key.
    ///
    /// # Errors
    /// [`ConsoleError`].
    fn ask(&mut self, key: u32, command: Command) -> Result<Answer, ConsoleError>;

    /// The same for [`Command::NewSession`]; the console may have to be started first.
    ///
    /// # Errors
    /// [`ConsoleError`].
    fn new_session(&mut self, key: u32, command: Command) -> Result<Answer, ConsoleError> {
        self.ask(key, command)
    }

    /// Waits for this time, or until the user interrupts.
    fn sleep(&mut self, time: Duration) -> WaitOutcome;

    /// The IPv4 address of a host.
    ///
    /// # Errors
    /// A message for people.
    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String>;
}

/// Why a console gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConsoleError {
    /// The console refuses the command.
    #[error("{0}")]
    Refused(Refusal),
    /// There is no console, and so no session.
    #[error("no console is running")]
    NoConsole,
    /// The user interrupted the wait.
    #[error("interrupted")]
    Interrupted,
    /// The console cannot be reached.
    #[error("{0}")]
    Failed(String),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The time has elapsed.
    Elapsed,
    /// The user interrupted it.
    Interrupted,
}

/// Settings of `lst` from its command line and environment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// The release whose output it follows.
    pub compat: Compat,
    /// The value of `LST_SESSION`.
    pub session: Option<String>,
    /// The value of `LST_FEATURES`.
    pub features: Option<String>,
    /// `user@host`, the default name of sessions, cut to the maximum length.
    pub whoami: String,
    /// The version that it prints.
    pub version: String,
}

/// A running `lst`.
#[derive(Debug)]
pub struct Lst<'a, O> {
    env: &'a mut O,
    settings: &'a Settings,
}

impl<'a, O: Env> Lst<'a, O> {
    /// With this environment and these settings.
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
