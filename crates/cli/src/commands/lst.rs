//! `lustrine lst`: LNet selftest as administrators know it. Grammar and layouts are
//! [`lustrine_tools`]'; here it gets consoles, a clock, lines and a screen.

mod link;
pub(crate) mod resident;

use std::io::{self, BufRead, IsTerminal};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::time::Duration;
use std::{env, thread};

use clap::{Args, ValueEnum};
use lustrine_selftest::console::{Answer, Command};
use lustrine_tools::lst::{AskError, Lst, Outside, Settings, Slept};
use lustrine_tools::shell::{
    self, Compat, Exit, Interpreter, Invocation, Mode, Names, Next, Screen,
};

use crate::common::{ControlOptions, NodeOptions};
use crate::output::{self, Failure};
use link::Link;

/// LNet selftest as Lustre's administrators know it: sessions, groups, batches, tests
#[derive(Args, Debug)]
#[command(
    after_help = "`lustrine lst help` lists its commands, `lustrine lst help CMD` explains one; \
                        docs/lst.md tells the rest. A link named lst to this program is lst."
)]
pub(crate) struct LstArgs {
    /// Whose habits it has [env: LUSTRINE_COMPAT]
    #[arg(long, value_enum)]
    compat: Option<CompatWord>,

    #[command(flatten)]
    node: NodeOptions,

    #[command(flatten)]
    control: ControlOptions,

    /// A command of lst and its words; without one, commands are read from standard input
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    words: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CompatWord {
    /// Those of the 2.15 line
    #[value(name = "2.15")]
    V2_15,
    /// Those of 2.16 and later
    #[value(name = "2.16")]
    V2_16,
}

/// Runs the command.
pub(crate) fn run(args: &LstArgs) -> Result<(), Failure> {
    let settings = Settings {
        compat: compat(args.compat)?,
        session: env::var("LST_SESSION").ok(),
        features: env::var("LST_FEATURES").ok(),
        whoami: whoami(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let link = Link { node: args.node.clone(), control: args.control.clone() };
    let mut here = Here { link, unwritten: None };
    let mut lst = Lst::new(&mut here, &settings);
    let exit = match shell::invocation(&args.words) {
        Invocation::Command(words) => shell::run(&mut lst, &words, Names::Exact),
        Invocation::Lines { ignore_errors } => lines(&mut lst, ignore_errors)?,
    };
    match (here.unwritten, exit) {
        (Some(failure), _) => Err(failure),
        (None, Exit(0)) => Ok(()),
        (None, Exit(status)) => Err(Failure::Told(status)),
    }
}

fn compat(word: Option<CompatWord>) -> Result<Compat, Failure> {
    let word = match word {
        Some(word) => Some(word),
        None => match env::var("LUSTRINE_COMPAT") {
            Ok(text) if !text.is_empty() => {
                Some(CompatWord::from_str(&text, false).map_err(|_| {
                    Failure::Usage(format!("LUSTRINE_COMPAT is {text:?}: 2.15 and 2.16 are known"))
                })?)
            }
            _ => None,
        },
    };
    Ok(match word {
        Some(CompatWord::V2_15) => Compat::V2_15,
        Some(CompatWord::V2_16) | None => Compat::V2_16,
    })
}

/// `user@host`.
fn whoami() -> String {
    let user = env::var("USER").or_else(|_| env::var("LOGNAME"));
    let user = user.unwrap_or_else(|_| lustrine_sys::process::user_id().to_string());
    format!("{user}@{}", lustrine_sys::process::host_name())
}

/// Commands of the standard input.
fn lines(lst: &mut Lst<'_, Here>, ignore_errors: bool) -> Result<Exit, Failure> {
    let stdin = io::stdin();
    let prompted = stdin.is_terminal();
    let mode = if prompted { Mode::Prompt } else { Mode::Script { ignore_errors } };
    let mut interpreter = Interpreter::new(mode);
    let mut input = stdin.lock();
    loop {
        output::print(&interpreter.prompt(lst))?;
        let line = match read_line(&mut input)? {
            Some(line) => line,
            None => {
                if prompted {
                    output::print("\n")?;
                }
                return Ok(interpreter.exit());
            }
        };
        if let Next::Quit(exit) = interpreter.line(lst, &line) {
            return Ok(exit);
        }
    }
}

/// The next line, or as much of it as no command needs; `None` at the end.
fn read_line(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut line = Vec::new();
    let limit = shell::LINE_MAX as u64 + 1;
    let read = io::Read::take(&mut *input, limit).read_until(b'\n', &mut line);
    match read.map_err(|error| format!("cannot read standard input: {error}"))? {
        0 => Ok(None),
        _ => Ok(Some(String::from_utf8_lossy(&line).into_owned())),
    }
}

/// The world as `lst` needs it.
struct Here {
    link: Link,
    /// What it meant that something could not be printed.
    unwritten: Option<Failure>,
}

impl Screen for Here {
    fn out(&mut self, text: &str) {
        if self.unwritten.is_none() {
            self.unwritten = output::print(text).err();
        }
    }

    fn err(&mut self, text: &str) {
        output::note(text.strip_suffix('\n').unwrap_or(text));
    }
}

impl Outside for Here {
    fn ask(&mut self, key: u32, command: Command) -> Result<Answer, AskError> {
        self.link.ask(key, &command)
    }

    fn new_session(&mut self, key: u32, command: Command) -> Result<Answer, AskError> {
        self.link.new_session(key, &command)
    }

    /// A signal ends the program as ever; what it said so far is written.
    fn sleep(&mut self, time: Duration) -> Slept {
        if self.unwritten.is_some() {
            // Nobody reads what comes of it.
            return Slept::Interrupted;
        }
        thread::sleep(time);
        Slept::Over
    }

    fn resolve(&mut self, host: &str) -> Result<Ipv4Addr, String> {
        let found = (host, 0).to_socket_addrs().map_err(|error| error.to_string())?;
        let mut found = found.filter_map(|address| match address.ip() {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        });
        found
            .next()
            .ok_or_else(|| "it has no IPv4 address, and selftest knows no others".to_owned())
    }
}
