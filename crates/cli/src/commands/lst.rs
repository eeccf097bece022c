//! `lustrine lst`: LNet selftest with the commands of lst. Grammar and layouts are in
//! [`lustrine_tools`]; this module gives them consoles, a clock, input and a terminal.

mod console_client;
pub(crate) mod console_daemon;

use std::net::Ipv4Addr;
use std::time::Duration;
use std::{env, thread};

use clap::Args;
use lustrine_selftest::console::{Answer, Command};
use lustrine_tools::lst::{ConsoleError, Env, LST, Lst, Settings, WaitOutcome};
use lustrine_tools::parse::parse;
use lustrine_tools::shell::Terminal;

use super::tool::{self, CompatArg, StdTerminal};
use crate::access::NodeChoice;
use crate::common::NodeOptions;
use crate::hosts::resolve;
use crate::output::Failure;
use console_client::ConsoleClient;

/// Run LNet selftest on many nodes with the commands of lst: sessions, groups, batches, tests
#[derive(Args, Debug)]
#[command(
    after_help = "`lustrine lst help` lists the commands, `lustrine lst help CMD` explains one. \
                        See docs/lst.md. A symbolic link named lst to this program behaves as lst."
)]
pub(crate) struct LstArgs {
    /// Release of Lustre whose output to follow [env: LUSTRINE_COMPAT]
    #[arg(long, value_enum)]
    compat: Option<CompatArg>,

    /// Print JSON: the answers of the console, and the output and status of lst
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: NodeOptions,

    #[command(flatten)]
    choice: NodeChoice,

    /// A command of lst with its arguments; without one, commands are read from standard input
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: &LstArgs) -> Result<(), Failure> {
    let settings = Settings {
        compat: tool::compat(args.compat)?,
        session: env::var("LST_SESSION").ok(),
        features: env::var("LST_FEATURES").ok(),
        whoami: whoami(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    if args.json && never_ends(&args.words) {
        return Err(Failure::Usage(
            "lst --json stat needs --count: the document is printed when the command ends"
                .to_owned(),
        ));
    }
    let client = ConsoleClient { node: args.node.clone(), choice: args.choice.clone() };
    let mut here = Here { client, terminal: StdTerminal::of(args.json, &args.words) };
    let exit = tool::run(&mut Lst::new(&mut here, &settings), &args.words)?;
    here.terminal.end(exit)
}

/// Whether a command shows rates until a signal ends it.
fn never_ends(words: &[String]) -> bool {
    let Some((command, arguments)) = words.split_first() else { return false };
    let syntax = LST.commands.iter().find(|syntax| syntax.name == "stat" && syntax.name == command);
    let parsed = syntax.and_then(|syntax| parse(syntax, arguments).ok());
    parsed.is_some_and(|parsed| parsed.number("count").is_none())
}

/// `user@host`.
fn whoami() -> String {
    let user = env::var("USER").or_else(|_| env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| lustrine_sys::process::user_id().to_string());
    format!("{user}@{}", lustrine_sys::process::host_name())
}

/// What `lst` needs of its environment.
struct Here {
    client: ConsoleClient,
    terminal: StdTerminal,
}

impl Here {
    fn noted(&mut self, answer: Result<Answer, ConsoleError>) -> Result<Answer, ConsoleError> {
        if let Ok(answer) = &answer {
            self.terminal.answered(answer);
        }
        answer
    }
}

impl Terminal for Here {
    fn out(&mut self, text: &str) {
        self.terminal.out(text);
    }

    fn err(&mut self, text: &str) {
        self.terminal.err(text);
    }
}

impl Env for Here {
    fn ask(&mut self, key: u32, command: Command) -> Result<Answer, ConsoleError> {
        let answer = self.client.ask(key, &command);
        self.noted(answer)
    }

    fn new_session(&mut self, key: u32, command: Command) -> Result<Answer, ConsoleError> {
        let answer = self.client.new_session(key, &command);
        self.noted(answer)
    }

    /// A signal ends the program; its output so far has been written.
    fn sleep(&mut self, time: Duration) -> WaitOutcome {
        if !self.terminal.is_read() {
            // The output has no reader any more.
            return WaitOutcome::Interrupted;
        }
        thread::sleep(time);
        WaitOutcome::Elapsed
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        resolve(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stat_without_a_count_never_ends() {
        for (line, wanted) in [
            ("stat g", true),
            ("stat --bw g", true),
            ("stat --count 2 g", false),
            ("stat --count=2 g", false),
            ("stat --coun 2 g", false),
            ("stat --cou=2 g", false),
            // A group of this name is no option.
            ("stat -- --count", true),
            ("query b", false),
            ("", false),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(never_ends(&words), wanted, "{line}");
        }
    }
}
