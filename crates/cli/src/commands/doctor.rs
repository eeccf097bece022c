//! `lustrine doctor`: looks at this host, its node and its peers, and says what is wrong.
//!
//! It observes and changes nothing; `lustrine_doctor` judges.

use std::path::PathBuf;

use clap::Args;
use lustrine_doctor::{Finding, Observed, PeerView, Severity, diagnose, worst};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use crate::common::{ControlOptions, NodeOptions, TemporaryNodeOptions};
use crate::interrupt::Interrupt;
use crate::output::{Failure, note, print, print_json};
use crate::values::{self, PORTS, seconds};

mod budget;
mod bundle;
mod conversation;
mod host;
mod icmp;
mod node;
pub(super) mod path;
mod peer;
mod remote;
mod sizes;
mod words;

use budget::{Budget, Used};
use node::Asked;

/// Exit statuses for the worst finding.
const WARNING: u8 = 3;
const ERROR: u8 = 4;

/// Look at this host, its node and its peers, and say what is wrong.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit status: 0: nothing worse than a notice; 1: not all checks could be made; \
                  2: usage error, or the file of --config cannot be read; 3: the worst \
                  finding is a warning; 4: it is an error; 130: interrupted. Settings of this host \
                  and of others are never changed."
)]
pub(crate) struct DoctorArgs {
    /// Peers to look at, one after the other [default: this host alone]
    #[arg(long, value_name = "NID", value_parser = values::nid, value_delimiter = ',')]
    #[arg(num_args = 1..)]
    to: Vec<Nid>,

    /// A command that runs `lustrine` on the peer, such as 'ssh oss1 lustrine', so that the path
    /// is examined from that end as well; only with a single peer in --to
    #[arg(long, value_name = "COMMAND", requires = "to")]
    both_ends: Option<String>,

    /// What the path to the peers should carry, in bits per second, such as 10G [default: the
    /// speed of the interface]
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    rate: Option<u64>,

    /// Maximum number of bytes to send and receive in total
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = values::bytes)]
    budget_bytes: u64,

    /// Maximum number of seconds for each peer
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    budget_time: f64,

    /// Send nothing: show what would be sent, and look at this host alone
    #[arg(long)]
    dry_run: bool,

    /// Write what was found, and what is needed to understand it, to this file, a .tar.gz
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    bundle: Option<PathBuf>,

    /// TCP port of the peers
    #[arg(long, value_parser = values::whole::<u16>(PORTS))]
    port: Option<u16>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: TemporaryNodeOptions,

    #[command(flatten)]
    control: ControlOptions,
}

/// All results.
#[derive(Debug, Serialize)]
struct Report {
    severity: Severity,
    findings: Vec<Finding>,
    /// What could not be seen, and why.
    unseen: Vec<String>,
    used: Used,
    observed: Observed,
    bundle: Option<PathBuf>,
    /// Whether the other end was to be asked and could not be.
    #[serde(skip)]
    far_end_failed: bool,
}

impl Report {
    /// Peers with which there was no conversation, which neither a finding nor the budget explains.
    fn unreached(&self) -> Vec<&str> {
        let explained = |nid: &str| {
            let about = |finding: &&Finding| finding.peer.as_deref() == Some(nid);
            self.findings.iter().filter(about).any(|one| one.severity == Severity::Error)
        };
        let is_silent = |peer: &&PeerView| peer.rtt_ns.is_none() && peer.left_out.is_empty();
        let peers = self.observed.peers.iter().filter(is_silent);
        peers.map(|peer| peer.nid.as_str()).filter(|nid| !explained(nid)).collect()
    }

    /// Peers of which something was left out that could be wrong: because the budget ended, or
    /// because nothing has shown what becomes of full packets.
    fn partly_seen(&self) -> Vec<&str> {
        let is_cut = |peer: &&PeerView| {
            !peer.left_out.is_empty() || peer.rtt_ns.is_some() && !peer.shows_full_packets()
        };
        self.observed.peers.iter().filter(is_cut).map(|peer| peer.nid.as_str()).collect()
    }
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), Failure> {
    values::distinct(&args.to)?;
    if args.both_ends.is_some() && args.to.len() > 1 {
        return Err(Failure::Usage("--both-ends needs a single peer in --to".to_owned()));
    }
    let options = NodeOptions::from(&args.node);
    // Its content may be what is wrong; a file that cannot be read is an error of the command line.
    let config_text = options.config_text()?;
    let bundle = args.bundle.as_deref().map(bundle::Bundle::create).transpose()?;
    let interrupt = Interrupt::catch()?;
    if !args.to.is_empty() {
        note(&words::announcement(args));
    }
    let (mut unseen, mut budget) =
        (Vec::new(), Budget::new(args.budget_bytes).stopped_by(interrupt.flag()));
    let mut observed = Observed { host: host::look(), ..Observed::default() };
    let running = match node::ask(&args.control)? {
        Asked::Answered(info) => Some(info),
        Asked::Silent(node) => {
            observed.silent_node = Some(node);
            None
        }
        Asked::NotSeen(why) => {
            unseen.push(format!("counters of a running Lustrine node: {why}"));
            None
        }
    };
    let net_info = running.as_ref();
    observed.node = match net_info {
        Some(info) => Some(node::view(info, &args.control)),
        None => node::kernel(),
    };
    let (config, tunables) = node::config(&options, net_info, &observed.host);
    observed.config = config;
    let is_stopped = observed.silent_node.as_ref().is_some_and(|node| node.is_running);
    observed.host.port_holder = host::port_holder(&tunables, running.is_some() || is_stopped);
    for nid in &args.to {
        if args.dry_run {
            unseen.push(format!("{nid}: not looked at (--dry-run)"));
        } else {
            interrupt.check()?;
            budget.begin(args.budget_time);
            let context = peer::Context {
                args,
                host: &observed.host,
                node: observed.node.as_ref(),
                tunables: &tunables,
                interrupt: &interrupt,
            };
            let view = peer::look(&context, nid, &mut budget, &mut unseen)?;
            observed.peers.push(view);
        }
    }
    let findings = diagnose(&observed);
    let is_asked = args.both_ends.is_some() && !args.dry_run;
    let far_end_failed = is_asked && observed.peers.iter().any(|peer| peer.remote.is_none());
    let mut report = Report {
        severity: worst(&findings),
        findings,
        unseen,
        used: budget.used(),
        observed,
        bundle: args.bundle.clone(),
        far_end_failed,
    };
    report.unseen.dedup();
    if let Some(bundle) = bundle {
        bundle.write(&report, args, config_text, running.is_some())?;
    }
    match args.json {
        true => print_json(&report)?,
        false => print(&words::report(&report))?,
    }
    let unreached = report.unreached();
    match report.severity {
        Severity::Ok | Severity::Notice if !unreached.is_empty() => {
            let list = unreached.join(", ");
            Err(format!("{list}: could not be examined; see \"not seen\" for the reason").into())
        }
        Severity::Ok | Severity::Notice if !report.partly_seen().is_empty() => {
            let list = report.partly_seen().join(", ");
            Err(format!("{list}: not all of it was seen; \"not seen\" says what").into())
        }
        Severity::Ok | Severity::Notice if report.far_end_failed => {
            let words = "the other end could not be asked; \"not seen\" says why";
            Err(words.to_owned().into())
        }
        Severity::Ok | Severity::Notice => Ok(()),
        Severity::Warning => Err(Failure::Reported(WARNING)),
        Severity::Error => Err(Failure::Reported(ERROR)),
    }
}
