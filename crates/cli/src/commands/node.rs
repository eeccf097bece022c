//! `lustrine node`: a node in the foreground, until SIGTERM, SIGINT or SIGHUP.

mod links;
mod service;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_config::{Address, NodeConfig};
use lustrine_lnet::topology::Identity;
use lustrine_node::control::ControlSocket;
use lustrine_node::metrics::MetricsSocket;
use lustrine_node::{Node, ResolveError};
use lustrine_sys::Signals;

use crate::common::{ControlOptions, NodeOptions};
use crate::log::{self, LogForm};
use crate::output::Failure;
use links::Links;
use service::Service;

/// The interval at which the node checks whether it should stop.
const LOOK: Duration = Duration::from_millis(100);

/// Run a node in the foreground until SIGTERM, SIGINT or SIGHUP.
#[derive(Args, Debug)]
pub(crate) struct NodeArgs {
    #[command(flatten)]
    node: NodeOptions,

    #[command(flatten)]
    control: ControlOptions,

    /// Serve metrics for Prometheus at HOST:PORT, path /metrics (docs/metrics.md); there is no
    /// password. Also in the file of --config, as `metrics`
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<Address>,

    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    log: LogForm,

    /// End when standard input is closed (for programs that start a node)
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// Runs the command.
pub(crate) fn run(args: &NodeArgs) -> Result<(), Failure> {
    // All of it is written before the error, if there is one.
    let _log = log::start(args.log);
    serve(args).map_err(|failure| match &failure {
        // The log should show this error as well, unless LUSTRINE_LOG leaves it out.
        Failure::Failed(error) | Failure::Usage(error) | Failure::Input(error)
            if args.log == LogForm::Json && tracing::enabled!(tracing::Level::ERROR) =>
        {
            tracing::error!("{error}");
            Failure::Reported(failure.status())
        }
        _ => failure,
    })
}

fn serve(args: &NodeArgs) -> Result<(), Failure> {
    let mut config = args.node.node_config(|warning| tracing::warn!("{warning}"))?;
    if config.nets.is_empty() && args.node.basic.config.is_none() {
        return Err(Failure::Usage(ResolveError::NoNet.to_string()));
    }
    let signals = Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
    let place = args.control.resolve(config.control.clone().map(PathBuf::from));
    args.take_places(&mut config);
    // The control socket comes first: a node that cannot be queried is of no use.
    let socket = match &place {
        Some(place) => Some(ControlSocket::bind(&place.path).map_err(|error| error.to_string())?),
        None => None,
    };
    let metrics = match &config.metrics {
        Some(address) => Some(MetricsSocket::bind(address).map_err(|error| error.to_string())?),
        None => None,
    };
    let node = Node::start(&config).map_err(|error| error.to_string())?;
    announce(&node);
    let metrics = match metrics {
        Some(socket) => Some(socket.serve(node.handle()).map_err(|error| error.to_string())?),
        None => None,
    };
    if let Some(metrics) = &metrics {
        tracing::info!(address = %metrics.local(), "metrics");
    }
    let control = match socket {
        Some(socket) => Some(socket.serve(node.handle()).map_err(|error| error.to_string())?),
        None => None,
    };
    match &place {
        Some(place) => {
            let path = place.path.display();
            tracing::info!(%path, chosen_by = place.reason, "control socket");
        }
        None => tracing::warn!(
            "the tools cannot reach this node: no control socket path is set; name one with \
             --control (XDG_RUNTIME_DIR, which gives the default, is not set)"
        ),
    }
    let eof = args.until_eof.then(watch_stdin);
    let mut service = Service::from_environment();
    service.ready(&node);
    let mut links = Links::new();
    loop {
        let pending = signals.take();
        if pending.terminate {
            tracing::info!("stopping: received a signal");
            break;
        }
        if pending.hangup {
            match service.is_managed() {
                // Its terminal is gone, or the user who has logged out.
                false => {
                    tracing::info!("stopping: received SIGHUP");
                    break;
                }
                true => tracing::warn!(
                    "SIGHUP has no effect: the configuration file is read at the start; `lnetctl \
                     import` changes a running node"
                ),
            }
        }
        if eof.as_ref().is_some_and(std::thread::JoinHandle::is_finished) {
            tracing::info!("stopping: standard input was closed");
            break;
        }
        if !node.is_sound() {
            return Err("an event loop has failed; its message is above".to_owned().into());
        }
        let now = Instant::now();
        service.watch(now, &node);
        links.watch(now, &node);
        std::thread::sleep(LOOK.min(service.pace()));
    }
    service.stopping();
    // A node that is stopping takes no requests; then its connections are closed cleanly.
    drop((control, metrics));
    node.stop();
    Ok(())
}

impl NodeArgs {
    /// Adds the places that the command line names to the configuration that the node reports, as a
    /// file would contain them.
    fn take_places(&self, config: &mut NodeConfig) {
        if let Some(path) = &self.control.control {
            // The configuration may be used from another directory.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            // A configuration file is text, so a path that is not text is left out.
            config.control = path.to_str().map(str::to_owned);
        }
        if let Some(address) = &self.metrics {
            config.metrics = Some(address.clone());
        }
    }
}

fn announce(node: &Node) {
    let info = node.info();
    for (index, nid) in info.nids.iter().enumerate() {
        match info.listening[index] {
            Some(addr) => tracing::info!(%nid, listening = %addr, "interface"),
            None => tracing::info!(%nid, "interface, not listening"),
        }
    }
    let identity = identity_word(info.identity);
    tracing::info!(identity, reason = info.identity_reason, "identity");
    tracing::info!(cpts = ?info.partitions, "event loops");
}

/// An identity as options and results name it.
pub(super) fn identity_word(identity: Identity) -> &'static str {
    match identity {
        Identity::Node => "node",
        Identity::Userland => "userland",
    }
}

/// A thread that ends when standard input is closed.
pub(crate) fn watch_stdin() -> std::thread::JoinHandle<()> {
    std::thread::spawn(|| {
        // The bytes are ignored; only the end matters.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    })
}
