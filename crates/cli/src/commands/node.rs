//! `lustrine node`: a node in the foreground, until SIGTERM or SIGINT.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use lustrine_reactor::Node;
use lustrine_reactor::control::ControlServer;
use lustrine_sys::Signals;

use crate::common::{NodeOptions, default_control, fail};

/// How often the node looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(100);

/// Run a node in the foreground until SIGTERM or SIGINT.
#[derive(Args, Debug)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    node: NodeOptions,

    /// Control socket [default: /run/lustrine.sock for root, or lustrine.sock in
    /// XDG_RUNTIME_DIR; none if there is no such directory]
    #[arg(long, value_name = "PATH", env = "LUSTRINE_CONTROL")]
    control: Option<PathBuf>,

    /// Form of the log on standard error
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    log: LogForm,

    /// End when standard input is closed (for programs that start a node)
    #[arg(long, hide = true)]
    until_eof: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogForm {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

/// Runs the command.
pub(crate) fn run(args: &NodeArgs) -> ExitCode {
    start_log(args.log);
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the log reads this as well.
        Err(error) if args.log == LogForm::Json => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => fail(&error),
    }
}

fn start_log(form: LogForm) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("LUSTRINE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match form {
        LogForm::Text => {
            let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
            builder.with_target(false).with_ansi(colours).init();
        }
        LogForm::Json => builder.json().init(),
    }
}

fn serve(args: &NodeArgs) -> Result<(), String> {
    let config = args.node.node_config()?;
    let signals = Signals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
    let node = Node::start(&config).map_err(|error| error.to_string())?;
    announce(&node);
    let path = args.control.clone().or(config.control).or_else(default_control);
    let control = match &path {
        Some(path) => {
            let server =
                ControlServer::start(path, node.handle()).map_err(|error| error.to_string())?;
            tracing::info!(path = %path.display(), "control socket");
            Some(server)
        }
        None => {
            tracing::info!("no control socket: XDG_RUNTIME_DIR is not set, and no --control");
            None
        }
    };
    let eof = args.until_eof.then(watch_stdin);
    loop {
        if signals.take().terminate {
            tracing::info!("stopping: told by a signal");
            break;
        }
        if eof.as_ref().is_some_and(std::thread::JoinHandle::is_finished) {
            tracing::info!("stopping: standard input was closed");
            break;
        }
        if !node.is_sound() {
            return Err("an event loop has failed; its message is above".to_owned());
        }
        std::thread::sleep(LOOK);
    }
    // Nobody shall ask a node that is stopping; then its connections are closed in order.
    drop(control);
    node.stop();
    Ok(())
}

fn announce(node: &Node) {
    let info = node.info();
    for (index, nid) in info.nids.iter().enumerate() {
        match info.listening[index] {
            Some(addr) => tracing::info!(%nid, listening = %addr, "interface"),
            None => tracing::info!(%nid, "interface, not listening"),
        }
    }
    let identity = match info.identity {
        lustrine_lnet::topology::Identity::Node => "node",
        lustrine_lnet::topology::Identity::Userland => "userland",
    };
    tracing::info!(identity, reason = info.identity_reason, "identity");
    tracing::info!(cpts = ?info.partitions, "event loops");
}

fn watch_stdin() -> std::thread::JoinHandle<()> {
    std::thread::spawn(|| {
        // Bytes are of no interest, only the end.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    })
}
