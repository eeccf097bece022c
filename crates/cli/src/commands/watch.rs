//! `lustrine watch`: records the quality of paths over time, and says when one changes.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use lustrine_config::Address;
use lustrine_watch::{LookCost, PINGS_MIN, Plan};
use lustrine_watch_store::{FILE_MAX, FILE_MIN, Limits};
use lustrine_wire::nid::{NetKind, Nid};

use crate::access::NodeChoice;
use crate::commands::doctor::path;
use crate::common::TemporaryNodeOptions;
use crate::log::{self, LogForm};
use crate::output::{Failure, note, print};
use crate::values::{self, PORTS, duration};

mod daemon;
mod jobs;
mod keeper;
mod nodes;
mod pings;
mod report;
mod scrape;
mod slots;
mod words;

/// Pings of a sample: with fewer, some alarms cannot be raised.
const PINGS: RangeInclusive<u64> = PINGS_MIN as u64..=1000;

/// Most peers of one daemon.
const PEERS_MAX: usize = 64;

/// Record the quality of paths over time, and say when one changes.
///
/// Runs in the foreground until SIGTERM or Ctrl-C. Samples each peer: pings; less often the path
/// MTU and the route; and, only if asked, the bandwidth. Reports on standard error when a path has
/// changed and when it is as before again (docs/watch.md).
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct WatchArgs {
    #[command(subcommand)]
    command: Option<WatchCommand>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand, Debug)]
enum WatchCommand {
    Report(report::ReportArgs),
}

/// What is watched, and how.
#[derive(Args, Debug)]
struct RunArgs {
    /// Peers; at most 64
    #[arg(long, value_name = "NID", value_parser = values::nid, value_delimiter = ',')]
    #[arg(num_args = 1.., required = true)]
    to: Vec<Nid>,

    /// The file in which samples are kept; created if it does not exist
    #[arg(long, value_name = "FILE", required_unless_present = "dry_run")]
    db: Option<PathBuf>,

    /// Time between two samples, such as 10s; at least 100ms
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = interval)]
    every: Duration,

    /// Pings of a sample, 3 to 1000
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = values::whole::<u32>(PINGS))]
    pings: u32,

    /// Time after which a ping counts as lost
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    timeout: Duration,

    /// Time between two checks of the path (path MTU, route), or `off`
    #[arg(long, value_name = "TIME|off", default_value = "5m", value_parser = pace)]
    path_every: Pace,

    /// Time between two measurements of bandwidth, which load the path [default: none]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    bandwidth_every: Option<Duration>,

    /// Bytes of a measurement of bandwidth, reads and writes together
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = values::bytes)]
    #[arg(requires = "bandwidth_every")]
    bandwidth_bytes: u64,

    /// How long samples are kept; after that, only one row per hour is kept
    #[arg(long, value_name = "TIME", default_value = "2d", value_parser = duration)]
    keep_samples: Duration,

    /// How long hourly rows, and alarms that have ended, are kept
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = duration)]
    keep: Duration,

    /// Maximum size of the file, 8M to 1G; the oldest rows are dropped to stay below it
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = file_size)]
    max_size: u64,

    /// Serve metrics for Prometheus at HOST:PORT, path /metrics; there is no password
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<Address>,

    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    log: LogForm,

    /// Send nothing and store nothing: say what would be sent
    #[arg(long)]
    dry_run: bool,

    /// TCP port of the peers
    #[arg(long, value_parser = values::whole::<u16>(PORTS))]
    port: Option<u16>,

    #[command(flatten)]
    node: TemporaryNodeOptions,

    #[command(flatten)]
    choice: NodeChoice,

    /// End when standard input is closed (for programs that start this one)
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// Time between two looks; `None`: there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace(Option<Duration>);

fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(86_400);
    let time = duration(text).ok().filter(|time| range.contains(time));
    time.ok_or_else(|| "expected a time from 100ms to 24h with its unit, such as 10s".to_owned())
}

fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "off" => Ok(Pace(None)),
        text => match interval(text) {
            Ok(time) => Ok(Pace(Some(time))),
            Err(expected) => Err(format!("{expected}, or off")),
        },
    }
}

fn file_size(text: &str) -> Result<u64, String> {
    let bytes = values::bytes(text)?;
    let fits = (FILE_MIN..=FILE_MAX).contains(&bytes);
    fits.then_some(bytes).ok_or_else(|| "expected 8M to 1G".to_owned())
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The peer's address.
fn address(nid: &Nid) -> Result<IpAddr, Failure> {
    nid.ip().filter(|_| nid.net().kind == NetKind::TCP).ok_or_else(|| {
        let words = "only peers on tcp networks can be watched, such as 10.0.0.1@tcp";
        Failure::Usage(format!("{nid}: {words}"))
    })
}

impl RunArgs {
    fn limits(&self) -> Limits {
        Limits {
            samples_ms: ms(self.keep_samples),
            keep_ms: ms(self.keep.max(self.keep_samples)),
            bytes: self.max_size,
        }
    }

    /// What will be sent.
    fn plan(&self) -> Result<Plan, Failure> {
        let mut look = LookCost { bytes: 0, bytes_max: path::BYTES_MAX, messages: 0 };
        for nid in &self.to {
            let (bytes, messages) = path::usual_cost(address(nid)?);
            look.bytes = look.bytes.max(bytes);
            look.messages = look.messages.max(messages);
        }
        Ok(Plan {
            peers: self.to.len() as u64,
            every_ms: ms(self.every),
            pings: self.pings.into(),
            ping_bytes: path::PING_BYTES,
            look_every_ms: self.path_every.0.map(ms),
            look,
            load: self.bandwidth_every.map(|every| (ms(every), self.bandwidth_bytes)),
        })
    }
}

/// Runs the command.
pub(crate) fn run(args: &WatchArgs) -> Result<(), Failure> {
    if let Some(WatchCommand::Report(args)) = &args.command {
        return report::run(args);
    }
    let args = &args.run;
    values::distinct(&args.to)?;
    if args.to.len() > PEERS_MAX {
        return Err(Failure::Usage(format!("--to has more than {PEERS_MAX} peers")));
    }
    let announcement = words::announcement(args, &args.plan()?);
    if args.dry_run {
        return print(&announcement);
    }
    let _log = log::start(args.log);
    match args.log {
        LogForm::Json => announcement.lines().for_each(|line| tracing::info!("{line}")),
        LogForm::Text => note(announcement.trim_end()),
    }
    daemon::run(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With fewer pings neither a queue nor, with one, a loss would ever be an alarm.
    #[test]
    fn a_sample_has_pings_enough_for_all_alarms() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            run: RunArgs,
        }
        let parsed = |pings: &str| {
            let words = ["watch", "--to", "10.0.0.2@tcp", "--dry-run", "--pings", pings];
            <Line as clap::Parser>::try_parse_from(words).map(|line| line.run.pings)
        };
        assert_eq!([parsed("3").ok(), parsed("1000").ok()], [Some(3), Some(1000)]);
        assert!(["0", "1", "2", "1001"].iter().all(|pings| parsed(pings).is_err()));
    }

    #[test]
    fn options_are_checked() {
        assert_eq!(pace("off"), Ok(Pace(None)));
        assert_eq!(pace("1h"), Ok(Pace(Some(Duration::from_secs(3600)))));
        assert!(["99ms", "2d", "5", "on"].iter().all(|text| pace(text).is_err()));
        assert_eq!(file_size("64M"), Ok(64 << 20));
        assert!(["1M", "2G", "x"].iter().all(|text| file_size(text).is_err()));
    }
}
