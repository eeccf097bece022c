//! `lustrine routerstat`: rates of a running node, one line per interval.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lustrine_tools::node::Env;
use lustrine_tools::routerstat::Counters;

use super::tool::running::RunningNode;
use crate::common::RunningNodeOptions;
use crate::output::{Failure, print};
use crate::values;

/// Show messages and bytes of a running node: totals, then rates
#[derive(Args, Debug)]
#[command(after_help = "M: messages in use (highest number); E: errors; S: sent; R: received; F: \
                        forwarded; D: dropped. The first line has bytes/messages, the others MiB/s \
                        and messages/s. See docs/lnetctl.md. A symbolic link named routerstat to \
                        this program behaves as routerstat.")]
pub(crate) struct RouterstatArgs {
    /// Seconds between lines; without it, one line of totals is printed
    #[arg(value_parser = values::whole::<u32>(1..=86_400))]
    interval: Option<u32>,

    /// Print JSON: the node's counters, one object per line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    node: RunningNodeOptions,
}

/// Runs the command. With an interval, a signal ends it.
pub(crate) fn run(args: &RouterstatArgs) -> Result<(), Failure> {
    let mut node = RunningNode::at(&(&args.node).into());
    let mut ask = || {
        let counters = node
            .counters()
            .map_err(|trouble| Failure::Failed(format!("LNet stats not available: {trouble}")))?;
        let text = if args.json { line(&counters)? } else { String::new() };
        Ok::<_, Failure>((Counters::from_map(&counters), Instant::now(), text))
    };
    let mut before = ask()?;
    let show = |text: String, json: &str| print(if args.json { json } else { &text });
    show(before.0.totals(), &before.2)?;
    let Some(interval) = args.interval else { return Ok(()) };
    loop {
        thread::sleep(Duration::from_secs(interval.into()));
        let now = ask()?;
        show(now.0.rates(&before.0, now.1 - before.1), &now.2)?;
        before = now;
    }
}

/// Counters as a line of JSON.
fn line(counters: &BTreeMap<String, u64>) -> Result<String, Failure> {
    let text =
        serde_json::to_string(counters).map_err(|error| format!("cannot write JSON: {error}"))?;
    Ok(text + "\n")
}
