//! `lustrine top`: what the running node and mounts do, again and again.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use lustrine_top::{Screen, SortBy, View, text};

use crate::access::{NodeChoice, running_node};
use crate::common::{NodeOptions, RunningNodeOptions};
use crate::interrupt::Interrupt;
use crate::output::{Failure, print};
use crate::values::seconds;

mod sampler;
mod terminal;

use sampler::Sampler;

/// The wait between two looks at the samplers.
const LOOK: Duration = Duration::from_millis(20);

/// Show what the running node and mounts do: rates, credits, round trips, RPCs.
///
/// Keys: q ends, s sorts by the next column, p pauses, Tab changes between the node and the mounts,
/// arrows scroll. Standard output must be a terminal, unless --once or --json is given.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Seconds between two samples
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    #[arg(allow_negative_numbers = true)]
    interval: f64,

    /// Print what happened in one interval as text, and end
    #[arg(long)]
    once: bool,

    /// Print one line of JSON after each interval; with --once, only one
    #[arg(long)]
    json: bool,

    /// Initial sort column: name, received, sent, queued, time or errors
    #[arg(long, value_name = "COLUMN", default_value = "name", value_parser = sort)]
    sort: SortBy,

    /// Only this mount; may be repeated [default: all mounts of `lustrine mount`]
    #[arg(long, value_name = "DIR")]
    mount: Vec<PathBuf>,

    #[command(flatten)]
    node: RunningNodeOptions,
}

fn interval(text: &str) -> Result<f64, String> {
    let value = seconds(text).ok().filter(|value| (0.1..=3600.0).contains(value));
    value.ok_or_else(|| {
        "expected a number of seconds from 0.1 to 3600, such as 2.5, or a time with its unit, such \
         as 500ms"
            .to_owned()
    })
}

fn sort(text: &str) -> Result<SortBy, String> {
    let found = SortBy::ALL.into_iter().find(|order| order.name() == text);
    found.ok_or_else(|| {
        let names = SortBy::ALL.map(SortBy::name).join(", ");
        format!("expected one of {names}")
    })
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let plain = args.once || args.json;
    if !plain && !io::stdout().is_terminal() {
        let words = "standard output is not a terminal: use --once for text or --json for lines";
        return Err(Failure::Usage(words.to_owned()));
    }
    let choice = NodeChoice::running((&args.node).into());
    let node = running_node(&NodeOptions::default(), &choice, None)?;
    let place = node.as_ref().map(|node| node.place().to_owned());
    if place.is_none() && args.mount.is_empty() && sampler::mounts()?.is_empty() {
        let words = "no node runs here, and `lustrine mount` has mounted nothing: name the \
                     control socket of a node with --control";
        return Err(words.to_owned().into());
    }
    let missing = sampler::not_mounted(&args.mount)?;
    if !missing.is_empty() {
        let each: Vec<String> = missing.iter().map(|dir| dir.display().to_string()).collect();
        let words = format!(
            "no mount of `lustrine mount` at {}; `lustrine fs status` lists all mounts",
            each.join(", ")
        );
        return Err(words.into());
    }
    let interrupt = Interrupt::catch()?;
    if !plain {
        // No thread has started yet.
        terminal::prepare()?;
    }
    let interval = Duration::from_secs_f64(args.interval);
    let mut sampler = Sampler::begin(place, args.mount.clone(), interval)?;
    match plain {
        true => print_views(args, &mut sampler, &interrupt),
        false => terminal::run(Screen::new(args.sort), &mut sampler, interrupt),
    }
}

/// Prints views until they are no longer wanted: one for each interval.
fn print_views(
    args: &TopArgs,
    sampler: &mut Sampler,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    loop {
        interrupt.check()?;
        thread::sleep(LOOK);
        sampler.pull();
        if !sampler.is_due() {
            continue;
        }
        show(args, &sampler.view())?;
        if args.once {
            return Ok(());
        }
    }
}

fn show(args: &TopArgs, view: &View) -> Result<(), Failure> {
    match args.json {
        true => {
            let line = serde_json::to_string(view)
                .map_err(|error| format!("cannot write JSON: {error}"))?;
            print(&format!("{line}\n"))
        }
        false => print(&text(view, args.sort)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_orders_are_checked() {
        assert_eq!(interval("0.5"), Ok(0.5));
        assert!(["0", "0.01", "4000", "-1", "x"].iter().all(|text| interval(text).is_err()));
        assert_eq!(sort("queued"), Ok(SortBy::Queued));
        assert!(sort("size").is_err_and(|error| error.contains("name, received, sent")));
    }
}
