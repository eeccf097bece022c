//! `lustrine tune`: measures the path to a node and computes the settings that fill it.
//!
//! It measures with nodes of its own, which end with it. Settings are printed and, where the user
//! asks for that, written to files, and applied to what runs on this host.

use std::cell::Cell;
use std::path::PathBuf;

use clap::Args;
use lustrine_report::numbers::{counted, grouped};
use lustrine_tune::{Host, Path, Purpose, Settings, Streams, advise};
use lustrine_wire::nid::Nid;

use crate::common::TemporaryNodeOptions;
use crate::interrupt::Interrupt;
use crate::output::{Failure, note, print, print_error, print_json};
use crate::values::{self, PORTS, seconds};

mod applied;
mod apply;
mod budget;
mod files;
mod host;
mod load;
mod measure;
mod path_notes;
mod report;
pub(super) mod start;
mod step;
mod store;
mod words;

pub(super) use store::make_state_dir_of;

use apply::ApplyArgs;
use budget::Budget;
use files::Files;
use measure::Wanted;
use report::{PeerReport, Report, StepRow};

pub(super) use load::{Direction, Load};

/// Bytes of each RPC of the load: the longest message of LNet.
const MESSAGE: u64 = 1 << 20;
/// Most RPCs in flight in the ramp: half of what a load can have.
const IN_FLIGHT_MAX: u32 = 512;
/// Lustre's default of `max_rpcs_in_flight`.
const RPCS_BEFORE: u64 = 8;

/// Measure the path to a node, and compute the settings that fill it.
#[derive(Args, Debug)]
pub(crate) struct TuneArgs {
    /// The nodes at the other end; all of them are measured, one after the other
    #[arg(long, value_name = "NID", value_parser = values::nid, value_delimiter = ',')]
    #[arg(required_unless_present = "undo", num_args = 1..)]
    to: Vec<Nid>,

    /// Maximum number of bytes to send and receive in total, such as 512M or 4G. RPCs in flight
    /// when the budget is used up still complete
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = values::bytes)]
    budget_bytes: u64,

    /// Maximum time of load in seconds, in total [default: 120; for each node with a long or slow
    /// path, the time that 1200 round trips or 1200 MiB take on it, up to 600]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    #[arg(allow_negative_numbers = true)]
    budget_time: Option<f64>,

    /// Send no load: measure the idle round trip, and show what would be done
    #[arg(long)]
    dry_run: bool,

    /// Send no load, and compute for a path of this many bits per second, such as 10G
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    rate: Option<u64>,

    /// With --rate: how much of that rate a single TCP stream carries, in bits per second
    #[arg(long, value_name = "RATE", value_parser = values::rate, requires = "rate")]
    stream_rate: Option<u64>,

    /// Bytes of one bulk RPC of the file system [default: 4M]
    #[arg(long, value_name = "BYTES", value_parser = words::rpc_bytes)]
    rpc_size: Option<u64>,

    /// Peers that this host talks to at the same time [default: the number of --to]
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>(1..=100_000))]
    peers: Option<u32>,

    /// Targets (OSTs) on each peer, among which RPCs are divided
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = values::whole::<u32>(1..=10_000))]
    targets: u32,

    /// Clients that use a server at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = values::whole::<u32>(1..=1_000_000))]
    clients: u32,

    /// Memory that a server has for the data of all RPCs, such as 64G
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    server_memory: Option<u64>,

    /// Threads of a server that serve bulk RPCs
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>(1..=1_000_000))]
    service_threads: Option<u32>,

    /// Write the settings to files in this directory: lnetctl.yaml, ksocklnd.conf, set_param.sh and
    /// sysctl.conf
    #[arg(long, value_name = "DIR", conflicts_with = "dry_run")]
    write: Option<PathBuf>,

    /// TCP port of the nodes
    #[arg(long, value_parser = values::whole::<u16>(PORTS))]
    port: Option<u16>,

    /// Take over an existing session of another console on a node, such as that of a `tune` that
    /// was killed. A Lustrine node permits this only to the consoles that its setting
    /// `selftest_consoles` lists (docs/lst.md); a kernel node whose test is running may hang until
    /// it is rebooted
    #[arg(long)]
    take_over: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    apply: ApplyArgs,

    #[command(flatten)]
    node: TemporaryNodeOptions,
}

/// Bytes of one bulk RPC of the file system, as Lustre sets it.
const RPC_SIZE: u64 = 4 << 20;

/// Time of load for all nodes together, in nanoseconds.
const BUDGET_TIME_NS: u64 = 120_000_000_000;
/// Where that is more, time of load to each node in round trips, because each step lets TCP grow
/// for 14 of them, or in times that 1 MiB takes, of which the ramps and the runs of a slow path
/// need that many; and the most that it is, in nanoseconds.
const BUDGET_UNITS: u64 = 1200;
const BUDGET_TIME_MAX_NS: u64 = 600_000_000_000;

impl TuneArgs {
    fn purpose(&self) -> Purpose {
        Purpose {
            rpc_bytes: self.rpc_size.unwrap_or(RPC_SIZE),
            peers: self.peers.unwrap_or(1).max(self.to.len() as u32),
            targets: self.targets,
            clients: self.clients,
            server_memory: self.server_memory,
            server_threads: self.service_threads,
        }
    }

    /// Whether load is sent.
    fn loads(&self) -> bool {
        !self.dry_run && self.rate.is_none()
    }

    /// The budget for one of the nodes, to which an idle round trip, or 1 MiB, takes so many
    /// nanoseconds.
    fn budget(&self, unit_ns: u64) -> Budget {
        let nodes = self.to.len() as u64;
        let time_ns = match self.budget_time {
            Some(seconds) => (seconds * 1e9) as u64 / nodes,
            None => {
                let long = unit_ns.saturating_mul(BUDGET_UNITS).min(BUDGET_TIME_MAX_NS);
                (BUDGET_TIME_NS / nodes).max(long)
            }
        };
        Budget { bytes: self.budget_bytes / nodes, time_ns }
    }
}

/// Runs the command.
pub(crate) fn run(args: &TuneArgs) -> Result<(), Failure> {
    args.apply.check()?;
    if args.apply.undo {
        return apply::run_undo(args);
    }
    values::distinct(&args.to)?;
    let wanted = match args.apply.apply.is_empty() {
        true => None,
        false => Some(apply::Plan::new(args)?),
    };
    let files = args.write.as_deref().map(Files::open).transpose()?;
    let interrupt = Interrupt::catch()?;
    note(&words::announcement(args));
    let purpose = args.purpose();
    let mut report = Report::new(purpose, args.loads());
    let warned = Cell::new(false);
    for nid in &args.to {
        match peer(args, nid, &purpose, (&interrupt, &warned)) {
            Ok(peer) => {
                report.budget = report.budget.plus(peer.purse.whole());
                report.peers.push(peer);
            }
            // The others may be all right.
            Err(Failure::Failed(why)) if args.to.len() > 1 => {
                print_error(&why);
                report.leave_out(*nid, &why);
            }
            Err(failure) => return Err(failure),
        }
    }
    if report.peers.is_empty() {
        return Err("none of the nodes could be measured".to_owned().into());
    }
    report.combine();
    if args.loads()
        && let Some(settings) = report.settings
    {
        run_with(args, &settings, &mut report, &interrupt)?;
        let first = report.peers.clone();
        if let Some(more) = correct(&mut report) {
            run_with(args, &more, &mut report, &interrupt)?;
            keep_better(&mut report, first);
        }
        for peer in &mut report.peers {
            peer.unverified = not_compared(peer);
            peer.notes.extend(more_carried_notes(peer));
            peer.notes.extend(shortfall_note(peer));
            peer.notes.extend(slower_notes(peer));
        }
    }
    for peer in &mut report.peers {
        peer.used = peer.purse.used();
    }
    if let (Some(files), Some(settings)) = (files, &report.settings) {
        let servers: Vec<String> = report.measured().map(|peer| peer.nid.to_string()).collect();
        let is_size_given = args.rpc_size.is_some();
        report.files = files.write(settings, &report.peers[0], &servers, is_size_given)?;
    }
    let incomplete = report.peers.iter().find(|peer| peer.incomplete.is_some());
    let incomplete = incomplete.map(|peer| peer.nid);
    let unverified = report.peers.iter().find(|peer| peer.unverified.is_some());
    let unverified = unverified.map(|peer| peer.nid);
    if let Some(plan) = wanted
        && report.failures() == 0
        && report.not_measured.is_empty()
        && incomplete.or(unverified).is_none()
    {
        report.applied = Some(plan.carry_out(args, &report));
    }
    match args.json {
        true => print_json(&report)?,
        false => print(&words::report(&report))?,
    }
    let kept = if args.apply.apply.is_empty() { "" } else { ", and nothing is applied" };
    if let [first, ..] = report.not_measured.as_slice() {
        let others = match report.not_measured.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let settings = match report.settings {
            Some(_) => "the settings are for the other nodes",
            None => "there are no settings",
        };
        return Err(format!(
            "{}{others} could not be measured to the end; {settings}{kept}",
            first.nid
        )
        .into());
    }
    match (report.failures(), &report.applied, incomplete) {
        (0, Some(applied), _) => applied.whole(),
        (0, None, Some(nid)) => Err(format!(
            "INCOMPLETE: the budget ended too early for the path to {nid}; the results say what is \
             missing{kept}"
        )
        .into()),
        (0, None, None) => match unverified {
            Some(nid) => Err(format!(
                "NOT VERIFIED: the values before and after were not compared over the path to \
                 {nid}; the results say why{kept}"
            )
            .into()),
            None => Ok(()),
        },
        (failed, ..) => {
            let failed = counted(failed, "RPC");
            Err(format!("{failed} of the load failed; the results say when{kept}").into())
        }
    }
}

/// Measures the path to one node, and computes its settings. `warned`: as of [`measure::peer`].
fn peer(
    args: &TuneArgs,
    nid: &Nid,
    purpose: &Purpose,
    (interrupt, warned): (&Interrupt, &Cell<bool>),
) -> Result<PeerReport, Failure> {
    let wanted = Wanted::new(args, nid, interrupt)?;
    let mut report = measure::peer(&wanted, purpose, warned)?;
    if let Some(path) = &report.path {
        let host = host(&report);
        let (settings, advice) = advise(path, &host, purpose);
        let buffers = args.loads().then(|| buffers_note(path, &host, &settings)).flatten();
        report.notes.extend(buffers);
        report.notes.extend(path_notes::all(&report));
        report.notes.extend(words::speed_note(path.rate, &report.host, report.rate_is_given));
        (report.settings, report.advice) = (Some(settings), advice);
    }
    Ok(report)
}

/// The limits of this host. The speed that /sys says is none for a rate that the user has given.
fn host(report: &PeerReport) -> Host {
    let limits = report.host.limits();
    Host {
        conns_per_peer: Some(report.values.conns_per_peer),
        credits: Some([report.values.peer_credits, report.values.credits]),
        interface_rate: limits.interface_rate.filter(|_| !report.rate_is_given),
        ..limits
    }
}

/// Runs again with these values, to each of the nodes that were measured. One that fails now keeps
/// what was measured before.
fn run_with(
    args: &TuneArgs,
    settings: &Settings,
    report: &mut Report,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut failed = Vec::new();
    let left_out: Vec<Nid> = report.not_measured.iter().map(|one| one.nid).collect();
    for peer in report.peers.iter_mut().filter(|peer| !left_out.contains(&peer.nid)) {
        let nid = peer.nid;
        let wanted = Wanted::new(args, &nid, interrupt)?;
        match measure::after(&wanted, &report.purpose, settings, peer) {
            Ok(()) => {}
            Err(Failure::Failed(why)) if args.to.len() > 1 => {
                print_error(&why);
                failed.push((nid, why));
            }
            Err(failure) => return Err(failure),
        }
    }
    failed.into_iter().for_each(|(nid, why)| report.leave_out(nid, &why));
    report.combine();
    Ok(())
}

/// Computes again with the latency of RPCs where the run with the new values did not reach the
/// rate, and with the rate of that run where it was clearly higher. Returns the settings for all if
/// they are others.
fn correct(report: &mut Report) -> Option<Settings> {
    let before = report.settings;
    for peer in &mut report.peers {
        let Some(path) = peer.path else { continue };
        let (latency, more) = (peer.longer_latency(), peer.more_carried());
        if latency.is_none() && more.is_none() {
            continue;
        }
        let path = Path { rpc_latency_ns: latency, rate: more.unwrap_or(path.rate), ..path };
        let (settings, advice) = advise(&path, &host(peer), &report.purpose);
        (peer.path, peer.settings, peer.advice) = (Some(path), Some(settings), advice);
    }
    report.combine();
    let corrected = report.settings.filter(|after| before != Some(*after))?;
    for peer in &mut report.peers {
        peer.by_round_trips = peer.after.take();
    }
    Some(corrected)
}

/// Takes the settings of the first run back if the second one, with more RPCs, left a node below
/// the rate and carried no more to it.
fn keep_better(report: &mut Report, first: Vec<PeerReport>) {
    if report.measured().all(PeerReport::is_better) {
        return;
    }
    for (peer, first) in report.peers.iter_mut().zip(first) {
        let tried = peer.after.take();
        if let Some(tried) = &tried {
            peer.notes.push(words::no_better(tried));
        }
        let PeerReport { path, settings, advice, after, .. } = first;
        (peer.path, peer.settings, peer.advice, peer.after) = (path, settings, advice, after);
        peer.by_round_trips = None;
        peer.more_tried = tried;
    }
    report.combine();
}

/// That a run carried more than the ramp, and what that means for the settings.
fn more_carried_notes(peer: &PeerReport) -> Vec<String> {
    let Some(path) = peer.path else { return Vec::new() };
    let ramp = peer.ramp_rate().filter(|ramp| *ramp < path.rate);
    let raised = ramp.map(|ramp| words::more_than_ramp(path.rate, ramp));
    let speed = ramp.and_then(|_| words::speed_note(path.rate, &peer.host, false));
    let speed = speed.filter(|note| !peer.notes.contains(note));
    let more = peer.more_carried().map(|more| words::more_than_advised(more, path.rate));
    [raised, speed, more].into_iter().flatten().collect()
}

/// Why the values before and after were not compared.
fn not_compared(peer: &PeerReport) -> Option<String> {
    let runs = [&peer.before, &peer.after];
    let rows = || runs.into_iter().flatten().flat_map(|both| [&both.read, &both.write]);
    if rows().any(|row| row.as_ref().is_none_or(|row| row.cut)) {
        return Some(
            "the budget ended before all was measured with the values before and after: \
             --budget-time or --budget-bytes gives more"
                .to_owned(),
        );
    }
    rows().flatten().any(StepRow::is_short).then(|| {
        "RPCs took longer than a run with the values before or after: run this again while the \
         path and both hosts have less to do"
            .to_owned()
    })
}

/// What the new values left of the rate that they were computed for, if it is much.
fn shortfall_note(peer: &PeerReport) -> Option<String> {
    let (path, after) = (peer.path?, peer.after.as_ref()?);
    let rows = [&after.read, &after.write].into_iter().flatten();
    let best = rows.filter(|row| !row.is_short()).max_by_key(|row| row.rate)?;
    let part = u128::from(best.rate) * 100 / u128::from(path.rate.max(1));
    let round_trips = grouped(best.p50_ns as f64 / path.rtt_idle_ns.max(1) as f64);
    (part < 80).then(|| {
        format!(
            "the new values carried {part} % of the rate that they were computed for: an RPC took \
             {round_trips} round trips; the ramp shows what more in flight carried"
        )
    })
}

/// In which direction the new values carried clearly less than those before.
fn slower_notes(peer: &PeerReport) -> Vec<String> {
    let (Some(before), Some(after)) = (&peer.before, &peer.after) else { return Vec::new() };
    let pairs = [(&before.read, &after.read), (&before.write, &after.write)];
    let slower = pairs.into_iter().filter_map(|(before, after)| {
        let (before, after) = (before.as_ref()?, after.as_ref()?);
        if before.is_short() || after.is_short() {
            return None;
        }
        let is_less = u128::from(after.rate) * 10 < u128::from(before.rate) * 9;
        is_less.then(|| {
            format!(
                "{}s were slower with the new values than before: other traffic or a busy host may \
                 be the reason; run this again before you use them",
                after.test.name()
            )
        })
    });
    slower.collect()
}

/// Whether the buffers of today may be what limited the rate. Buffers that are advised to stay as
/// they are did not.
fn buffers_note(path: &Path, host: &Host, settings: &Settings) -> Option<String> {
    let smallest = host.tcp_buffers?.into_iter().min()?;
    if smallest >= settings.tcp_buffer {
        return None;
    }
    // Half of a buffer is window; a little less is as much as a connection reaches.
    let carried = u128::from(smallest / 2) * 8_000_000_000 / u128::from(path.rtt_idle_ns.max(1));
    let one = u128::from(match path.streams {
        Streams::One(one) => one,
        Streams::OneIsEnough | Streams::Unknown => path.rate,
    });
    // What carried more than that was not limited by it.
    (one * 10 > carried * 8 && one * 10 < carried * 11).then(|| {
        "the TCP buffers of this host may have limited the rate: apply the sysctl.conf that \
         --write creates, and run this again"
            .to_owned()
    })
}

#[cfg(test)]
mod tests;
