//! `lustrine routerstat`: rates of a running node, a line for each interval.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_tools::node::Env;
use lustrine_tools::routerstat::Counters;

use super::tool::running::RunningNode;
use crate::common::ControlOptions;
use crate::output::{Failure, print};

/// Messages and bytes of a running node: totals, then rates
#[derive(Args, Debug)]
#[command(
    after_help = "M messages alive (most at once), E errors, S sent, R received, F forwarded, \
                        D dropped: bytes/messages first, then MiB/messages per second. \
                        docs/lnetctl.md tells the rest. A link named routerstat to this program is \
                        routerstat."
)]
pub(crate) struct RouterstatArgs {
    /// Seconds from line to line; without it there is one line, of totals
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    interval: Option<u32>,

    #[command(flatten)]
    control: ControlOptions,
}

/// Runs the command. With an interval, a signal ends it.
pub(crate) fn run(args: &RouterstatArgs) -> Result<(), Failure> {
    let mut node = RunningNode::at(&args.control);
    let mut ask = || {
        let counters = node
            .counters()
            .map_err(|trouble| Failure::Failed(format!("LNet stats not available: {trouble}")))?;
        Ok::<_, Failure>((Counters::from_map(&counters), Instant::now()))
    };
    let mut before = ask()?;
    print(&before.0.totals())?;
    let Some(interval) = args.interval else { return Ok(()) };
    loop {
        thread::sleep(Duration::from_secs(interval.into()));
        let now = ask()?;
        print(&now.0.rates(&before.0, now.1 - before.1))?;
        before = now;
    }
}
