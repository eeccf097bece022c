//! `lustrine sim replay`: what happened to one RPC of a simulation, message by message.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use lustrine_scenario::replay::{
    Head, LINE_MAX, Moment, Outcome, Phase, Rpc, Trace, TraceReader, linked,
};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use super::Length;
use crate::output::{Failure, print, print_json};

mod tell;

/// RPCs that are listed without --slowest.
const LISTED: usize = 5;

/// Show what happened to one RPC of a simulation, message by message
///
/// Without --rpc it tells which RPCs there are, which were slow, which failed, and how to see one
/// of them.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// What lustrine sim run --trace wrote
    #[arg(value_name = "TRACE")]
    file: PathBuf,

    /// Show this RPC step by step; may be given several times
    #[arg(long, value_name = "ID", conflicts_with_all = ["slowest", "failed"])]
    rpc: Vec<usize>,

    /// List so many of the slowest
    #[arg(long, value_name = "N")]
    slowest: Option<usize>,

    /// Only those that failed or are not over, all of them listed
    #[arg(long)]
    failed: bool,

    /// Only those that this node began
    #[arg(long, value_name = "NID")]
    from: Option<Nid>,

    /// Only those with this node
    #[arg(long, value_name = "NID")]
    to: Option<Nid>,

    /// Only those of a kind, such as read, write, ping, "LNet ping"
    #[arg(long, value_name = "KIND")]
    what: Option<String>,

    /// Only those that end after this time of the simulation, such as "1.5 s"
    #[arg(long, value_name = "TIME")]
    since: Option<Length>,

    /// Only those that begin before this time of the simulation
    #[arg(long, value_name = "TIME")]
    until: Option<Length>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One RPC as JSON.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    rpc: &'a Rpc,
    phases: Vec<Phase>,
    stuck: Vec<String>,
    moments: Vec<Moment>,
}

/// Many as JSON.
#[derive(Serialize)]
struct Listed<'a> {
    trace: &'a Head,
    rpcs: Vec<&'a Rpc>,
}

pub(super) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let trace = read(&args.file)?;
    let rpcs = linked(&trace);
    if !args.rpc.is_empty() {
        return step_by_step(args, &trace, &rpcs);
    }
    let chosen: Vec<&Rpc> = rpcs.iter().filter(|rpc| args.wants(rpc)).collect();
    let mut slowest = chosen.clone();
    slowest.sort_by_key(|rpc| (std::cmp::Reverse(rpc.took()), rpc.id));
    if args.json {
        if let Some(count) = args.slowest {
            slowest.truncate(count);
        }
        let rpcs = if args.slowest.is_some() { slowest } else { chosen };
        return print_json(&Listed { trace: &trace.head, rpcs });
    }
    slowest.retain(|rpc| rpc.took().is_some());
    slowest.truncate(args.slowest.unwrap_or(LISTED));
    let failed = chosen.iter().copied().filter(|rpc| rpc.outcome != Outcome::Ok);
    let failed: Vec<&Rpc> = failed.collect();
    let listed = if args.failed { failed.len() } else { LISTED };
    print(&tell::summary(&args.file, &trace, &chosen, &slowest, (&failed, listed)))
}

impl ReplayArgs {
    fn wants(&self, rpc: &Rpc) -> bool {
        self.from.is_none_or(|nid| rpc.from == nid)
            && self.to.is_none_or(|nid| rpc.to == nid)
            && self.what.as_ref().is_none_or(|what| rpc.what == *what)
            && self.since.is_none_or(|since| rpc.ended.is_none_or(|ended| ended >= since.0.0))
            && self.until.is_none_or(|until| rpc.began <= until.0.0)
            && (!self.failed || rpc.outcome != Outcome::Ok)
    }
}

fn step_by_step(args: &ReplayArgs, trace: &Trace, rpcs: &[Rpc]) -> Result<(), Failure> {
    let mut told = Vec::new();
    for id in &args.rpc {
        let rpc = id.checked_sub(1).and_then(|index| rpcs.get(index)).ok_or_else(|| {
            let (file, count) = (args.file.display(), rpcs.len());
            format!(
                "there is no RPC {id} in {file}: it has 1 to {count}; \
                 see lustrine sim replay {file}"
            )
        })?;
        let (phases, moments) = (rpc.phases(trace), rpc.moments(trace));
        told.push(Told { rpc, phases, stuck: rpc.stuck(trace), moments });
    }
    if args.json {
        return print_json(&told);
    }
    let text: Vec<String> = told.iter().map(tell::one).collect();
    print(&text.join("\n"))
}

/// Reads a trace line by line; never more of a line than one may have.
fn read(path: &Path) -> Result<Trace, Failure> {
    let shown = path.display();
    let told = |error: &dyn std::fmt::Display| Failure::Failed(format!("{shown}: {error}"));
    let file = File::open(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut file = BufReader::new(file);
    let mut reader = TraceReader::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limit = LINE_MAX as u64 + 2;
        let read = file.by_ref().take(limit).read_until(b'\n', &mut line);
        if read.map_err(|error| format!("cannot read {shown}: {error}"))? == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = std::str::from_utf8(text).map_err(|_| {
            format!("{shown}: line {number}: not UTF-8 text; a trace is lines of JSON")
        })?;
        reader.line(text).map_err(|error| told(&error))?;
    }
    reader.finish().map_err(|error| told(&error))
}
