//! `lustrine plan-node`: the node that `lustrine selftest --plan` has started on another host.
//!
//! Users do not run it. Its standard input and output lead to the process that has started it,
//! through ssh or another program: a line that begins with [`MARK`] reports what it does, and any
//! line that it reads shows that the other side is alive. It ends when standard input ends, when no
//! line arrives for a minute, and with the signals that end processes. It has no control socket and
//! writes no file; its program's file is removed before it reports.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_control::{ChangeRequest, ImportMode};
use lustrine_node::{Mode, Node};
use lustrine_plan::NodeSettings;
use lustrine_selftest::{ConsoleList, ServiceMode};
use lustrine_sys::Signals;
use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

use super::node::identity_word;
use crate::common::NodeOptions;
use crate::log::{self, LogForm};
use crate::output::{Failure, print, print_error};
use crate::provenance;
use crate::values::seconds;

/// How lines of the script and of the node begin; others are of no interest.
pub(crate) const MARK: &str = "lustrine-start: ";

/// How the directories begin that the script makes for the program.
pub(crate) const DIRECTORY: &str = "lustrine-start.";

/// The name of the program's file in that directory.
pub(crate) const PROGRAM: &str = "lustrine";

/// The node answers, as a [`PlanNode`] in JSON.
pub(crate) const NODE: &str = "node";

/// The node trusts its console.
pub(crate) const READY: &str = "ready";

/// What precedes the NIDs of the console that the node is to trust.
pub(crate) const CONSOLES: &str = "consoles ";

/// The interval at which the other side sends a line.
pub(crate) const PULSE: Duration = Duration::from_secs(5);

/// Longest line that is read.
const LINE_MAX: u64 = 64 << 10;

/// The interval at which signals are checked.
const LOOK: Duration = Duration::from_millis(100);

/// The node for a plan (started by lustrine selftest --plan).
#[derive(Args, Debug)]
pub(crate) struct PlanNodeArgs {
    #[command(flatten)]
    node: NodeOptions,

    /// Remove the program's file and its directory first
    #[arg(long)]
    remove_program: bool,

    /// End after this many seconds without a line on standard input: the machine at the other end
    /// may have lost its network or its power, which ends no connection
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    silence: f64,
}

/// What the node reports of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PlanNode {
    /// Its NIDs, the primary one first.
    pub(crate) nids: Vec<Nid>,
    /// `node` or `userland`.
    pub(crate) identity: String,
    /// Its release, devices and tunables.
    pub(crate) settings: NodeSettings,
}

/// Runs the command.
pub(crate) fn run(args: &PlanNodeArgs) -> Result<(), Failure> {
    let _log = log::start(LogForm::Text);
    let signals = Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
    if args.remove_program {
        remove_program();
    }
    let mut config = args.node.node_config(print_error)?;
    // Until its console is known it carries out requests of none.
    config.selftest.mode = ServiceMode::Off;
    let node = Node::start(&config).map_err(|error| error.to_string())?;
    let served = serve(&node, &signals, Duration::from_secs_f64(args.silence));
    node.stop();
    served
}

/// Removes this program's file, and the directory that was made for it. On a file system that
/// cannot remove the file of a running program the script does it afterwards.
fn remove_program() {
    let Ok(program) = std::env::current_exe() else { return };
    let Some(directory) = program.parent() else { return };
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.starts_with(DIRECTORY) && program.ends_with(PROGRAM) {
        let _ = fs::remove_file(&program).and_then(|()| fs::remove_dir(directory));
    }
}

fn serve(node: &Node, signals: &Signals, silence: Duration) -> Result<(), Failure> {
    let info = node.info();
    let nid = info.nids[0];
    let version = Some(provenance::own_version());
    let about = PlanNode {
        nids: info.nids.clone(),
        identity: identity_word(info.identity).to_owned(),
        settings: provenance::of_node(nid, version, &mut |request| Some(node.call(request))),
    };
    let about = serde_json::to_string(&about).map_err(|error| format!("no JSON: {error}"))?;
    say(&format!("{NODE} {about}"))?;
    let (sender, lines) = mpsc::sync_channel(16);
    thread::spawn(move || {
        let mut input = BufReader::new(std::io::stdin());
        loop {
            let mut line = String::new();
            match (&mut input).take(LINE_MAX).read_line(&mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    let mut heard = Instant::now();
    loop {
        let pending = signals.take();
        if pending.terminate || pending.hangup {
            return Err("the node ends: it received a signal".to_owned().into());
        }
        if !node.is_sound() {
            return Err("an event loop has failed; its message is above".to_owned().into());
        }
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                heard = Instant::now();
                if let Some(consoles) = line.trim_end().strip_prefix(CONSOLES) {
                    trust(node, consoles)?;
                    say(READY)?;
                }
            }
            Err(RecvTimeoutError::Timeout) if heard.elapsed() >= silence => {
                let silence = silence.as_secs();
                return Err(format!("the node ends: nothing was heard for {silence} s").into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// From now on only these consoles may use the selftest service.
fn trust(node: &Node, consoles: &str) -> Result<(), Failure> {
    let list: ConsoleList = consoles.parse().map_err(|why| format!("{consoles:?}: {why}"))?;
    if list.is_empty() {
        return Err("no console is named".to_owned().into());
    }
    let change = ChangeRequest::Import {
        text: format!("lustrine:\n  selftest: serve\n  selftest_consoles: \"{list}\"\n"),
        source_name: "consoles".to_owned(),
        mode: ImportMode::Add,
        lenient: false,
    };
    node.change(&change, Mode::Apply).map_err(|error| error.text)?;
    Ok(())
}

fn say(what: &str) -> Result<(), Failure> {
    print(&format!("{MARK}{what}\n"))
}
