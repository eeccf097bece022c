//! `lustrine sim replay`: shows what happened to one RPC of a simulation, message by message.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::PathBuf;

use clap::Args;
use lustrine_trace::{
    LINE_MAX, Outcome, Phase, Rpc, TimelineEntry, Trace, TraceHeader, TraceReader, link_rpcs,
    printable,
};
use lustrine_wire::nid::Nid;
use serde::Serialize;

use super::Length;
use crate::output::{Failure, print, print_json};

mod text;

/// RPCs that are listed by default.
const LISTED: usize = 5;

/// Show what happened to an RPC of a simulation, message by message
///
/// Without --rpc it lists the RPCs of the trace: the slowest ones and those that failed.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    /// A file that lustrine sim run --trace wrote; "-" is standard input
    #[arg(value_name = "TRACE")]
    file: PathBuf,

    /// Show this RPC step by step; may be given several times
    #[arg(long, value_name = "ID")]
    #[arg(conflicts_with_all = ["slowest", "failed", "from", "to", "what", "since", "until"])]
    rpc: Vec<usize>,

    /// Number of the slowest RPCs to list
    #[arg(long, value_name = "N")]
    slowest: Option<usize>,

    /// List all RPCs that failed or did not end, and no others
    #[arg(long)]
    failed: bool,

    /// Only RPCs that this node started
    #[arg(long, value_name = "NID")]
    from: Option<Nid>,

    /// Only RPCs to this node
    #[arg(long, value_name = "NID")]
    to: Option<Nid>,

    /// Only RPCs of a kind, such as read, "read 1 MiB", ping, "LNet ping"
    #[arg(long, value_name = "KIND")]
    what: Option<String>,

    /// Only RPCs that end after this time of the simulation, such as "1.5 s"
    #[arg(long, value_name = "TIME")]
    since: Option<Length>,

    /// Only RPCs that begin before this time of the simulation
    #[arg(long, value_name = "TIME")]
    until: Option<Length>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The JSON document.
#[derive(Serialize)]
struct Listed<'a> {
    trace: &'a TraceHeader,
    rpcs: Vec<ShownRpc<'a>>,
}

/// One RPC of it.
#[derive(Serialize)]
struct ShownRpc<'a> {
    #[serde(flatten)]
    rpc: &'a Rpc,
    phases: Vec<Phase>,
    problems: Vec<String>,
    /// Its steps, if it was selected by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeline: Option<Vec<TimelineEntry>>,
}

impl<'a> ShownRpc<'a> {
    fn of(rpc: &'a Rpc, trace: &Trace) -> ShownRpc<'a> {
        ShownRpc { rpc, phases: rpc.phases(trace), problems: rpc.problems(trace), timeline: None }
    }
}

pub(super) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let trace = read(args)?;
    let rpcs = link_rpcs(&trace);
    if !args.rpc.is_empty() {
        return step_by_step(args, &trace, &rpcs);
    }
    let chosen: Vec<&Rpc> = rpcs.iter().filter(|rpc| args.wants(rpc)).collect();
    let shown: Vec<&Rpc> =
        chosen.iter().copied().filter(|rpc| !args.failed || is_bad(rpc)).collect();
    let mut slowest = shown.clone();
    slowest.retain(|rpc| rpc.duration().is_some());
    slowest.sort_by_key(|rpc| (std::cmp::Reverse(rpc.duration()), rpc.id));
    if args.json {
        slowest.truncate(args.slowest.unwrap_or(usize::MAX));
        let rpcs = if args.slowest.is_some() { slowest } else { shown };
        let rpcs = rpcs.into_iter().map(|rpc| ShownRpc::of(rpc, &trace)).collect();
        return print_json(&Listed { trace: &trace.head, rpcs });
    }
    slowest.truncate(args.slowest.unwrap_or(LISTED));
    let bad: Vec<&Rpc> = shown.iter().copied().filter(|rpc| is_bad(rpc)).collect();
    let listed = if args.failed { bad.len() } else { LISTED };
    let mut out = text::about(&trace, &rpcs);
    if chosen.is_empty() {
        out += &text::nothing(&rpcs);
    } else if shown.is_empty() {
        out += &text::none_failed(&chosen);
    } else {
        out += &text::summary(&args.name(), &trace, &shown, &slowest, (&bad, listed));
    }
    print(&out)
}

/// Whether it failed or is not over.
fn is_bad(rpc: &Rpc) -> bool {
    matches!(rpc.outcome, Outcome::Failed(_) | Outcome::Unfinished)
}

impl ReplayArgs {
    fn wants(&self, rpc: &Rpc) -> bool {
        self.from.is_none_or(|nid| rpc.from == nid)
            && self.to.is_none_or(|nid| rpc.to == nid)
            && self.what.as_ref().is_none_or(|what| is_called(rpc, what))
            && self.since.is_none_or(|since| rpc.ended.is_none_or(|ended| ended >= since.0.0))
            && self.until.is_none_or(|until| rpc.began <= until.0.0)
    }

    fn is_stdin(&self) -> bool {
        self.file.as_os_str() == "-"
    }

    /// The file as it is written on a command line.
    fn name(&self) -> String {
        printable(&self.file.display().to_string())
    }
}

fn is_called(rpc: &Rpc, what: &str) -> bool {
    let lower = what.to_lowercase();
    rpc.what.to_lowercase() == lower || rpc.label().to_lowercase() == lower
}

fn step_by_step(args: &ReplayArgs, trace: &Trace, rpcs: &[Rpc]) -> Result<(), Failure> {
    let mut shown_rpcs: Vec<ShownRpc<'_>> = Vec::new();
    for id in &args.rpc {
        if shown_rpcs.iter().any(|shown| shown.rpc.id == *id) {
            continue;
        }
        let rpc = id.checked_sub(1).and_then(|index| rpcs.get(index)).ok_or_else(|| {
            let (file, count) = (args.name(), rpcs.len());
            format!(
                "there is no RPC {id} in {file}: it has 1 to {count}; \
                 see lustrine sim replay {file}"
            )
        })?;
        shown_rpcs
            .push(ShownRpc { timeline: Some(rpc.timeline(trace)), ..ShownRpc::of(rpc, trace) });
    }
    if args.json {
        return print_json(&Listed { trace: &trace.head, rpcs: shown_rpcs });
    }
    let text: Vec<String> = shown_rpcs.iter().map(text::one).collect();
    print(&text.join("\n"))
}

/// Reads a trace line by line, and never more of a line than the longest permitted one.
fn read(args: &ReplayArgs) -> Result<Trace, Failure> {
    let shown = if args.is_stdin() { "standard input".to_owned() } else { args.name() };
    let failed = |error: &dyn std::fmt::Display| Failure::Input(format!("{shown}: {error}"));
    let cannot = |error| Failure::Input(format!("cannot read {shown}: {error}"));
    let mut file: Box<dyn BufRead> = if args.is_stdin() {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(failed(&"a terminal; pipe a trace into it"));
        }
        Box::new(stdin.lock())
    } else {
        let file = File::open(&args.file);
        Box::new(BufReader::new(file.map_err(cannot)?))
    };
    let mut reader = TraceReader::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let limit = LINE_MAX as u64 + 2;
        let read = file.by_ref().take(limit).read_until(b'\n', &mut line);
        if read.map_err(cannot)? == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = std::str::from_utf8(text).map_err(|_| {
            failed(&format!("line {number}: not UTF-8 text; a trace is lines of JSON"))
        })?;
        reader.line(text).map_err(|error| failed(&error))?;
    }
    reader.finish().map_err(|error| failed(&error))
}
