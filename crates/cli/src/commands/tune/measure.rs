//! Measurements of the path to one node, each with a node of its own.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use lustrine_config::NodeConfig;
use lustrine_control::{Answer, LoadRow, Request};
use lustrine_tune::{Point, Purpose, Ramp, Settings, Streams, rate_of};
use lustrine_wire::nid::Nid;

use self::pings::Pings;
use super::budget::{
    Allowance, Budget, Purse, WEIGHT_AFTER, WEIGHT_BEFORE, WEIGHT_CONNS, WEIGHT_RAMP,
};
use super::load::{Carried, Direction, LOOK, Load, Used, unexpected};
use super::report::{Compared, NodeValues, PeerReport, Rtts, StepRow};
use super::step::{BUDGET_BYTES, Known, RUNS, STEP, STEP_RPCS, Step};
use super::{IN_FLIGHT_MAX, MESSAGE, RPCS_BEFORE, TuneArgs};
use crate::access::{Link, RunningNode};
use crate::common::NodeOptions;
use crate::host_limits::{Dropped, HostLimits};
use crate::interrupt::Interrupt;
use crate::output::{Failure, note, print_error};

mod pings;

/// The most that a load can have in flight.
const LOAD_MAX: u64 = 1024;
/// The tunable of a node's memory for bulk data, and the MiB that the largest load needs.
const MEMORY: &str = "selftest_memory";
const MEMORY_MIB: i64 = 1024 + 64;
/// Connections of each type with which it is tried whether one is too few.
const CONNS_TRIED: u16 = 4;

/// Pings of an idle path. One more comes first: it makes the connection.
const PINGS: u32 = 10;
/// The time-out of pings and of the discovery.
const ANSWER_MS: u64 = 10_000;
/// How often a later node tries to discover the peer, and the wait in between: the shortest wait
/// of a peer before it dials again.
const DISCOVERIES: u32 = 5;
const DISCOVERY_GAP: Duration = Duration::from_secs(1);
/// A load of which no RPC has ended for so long is given up if pings are answered. An RPC of 1 MiB
/// takes as long at 0.4 Mb/s.
const STALLED: Duration = Duration::from_secs(20);
/// How much longer than planned a step may take.
const STEP_SLACK: Duration = Duration::from_secs(60);
/// The time-out for the end of a session, and after an interruption.
const FAREWELL: Duration = Duration::from_secs(15);
const FAREWELL_INTERRUPTED: Duration = Duration::from_secs(3);

/// What is to be measured.
pub(super) struct Wanted<'a> {
    pub(super) args: &'a TuneArgs,
    pub(super) nid: &'a Nid,
    pub(super) interrupt: &'a Interrupt,
    /// The temporary node, without values of this command.
    pub(super) config: NodeConfig,
}

impl<'a> Wanted<'a> {
    /// # Errors
    /// When no local address reaches the node, or the options contradict each other.
    pub(super) fn new(
        args: &'a TuneArgs,
        nid: &'a Nid,
        interrupt: &'a Interrupt,
    ) -> Result<Wanted<'a>, Failure> {
        let config = NodeOptions::from(&args.node).short_lived(nid, args.port)?;
        let config = with_memory(config)?;
        Ok(Wanted { args, nid, interrupt, config })
    }

    /// The running node, where there is no load, for which nodes with other values would be needed,
    /// and no option describes a node.
    fn running_node(&self) -> Option<RunningNode> {
        let own = NodeOptions::from(&self.args.node).describes_node() || self.args.port.is_some();
        if self.args.loads() || own {
            return None;
        }
        let (node, info) = self.args.apply.running_node()?;
        info.on(self.nid.net()).next().map(|_| node)
    }

    /// The configuration of a node with other values.
    fn with(&self, peer_credits: u64, credits: u64, conns_per_peer: u64) -> NodeConfig {
        let mut config = self.config.clone();
        for net in &mut config.nets {
            // The formulas keep them in the ranges of these types.
            net.peer_credits = u32::try_from(peer_credits).ok();
            net.credits = u32::try_from(credits).ok();
            net.conns_per_peer = u16::try_from(conns_per_peer).ok();
        }
        config
    }
}

/// The same node with enough memory for the largest load. It is a limit, of which a step takes what
/// it has in flight.
fn with_memory(mut config: NodeConfig) -> Result<NodeConfig, Failure> {
    let memory = config.tunables.value(MEMORY).unwrap_or(0).max(MEMORY_MIB);
    config.tunables.set(MEMORY, memory).map_err(|error| error.to_string())?;
    Ok(config)
}

/// Messages in flight for so many RPCs of the file system.
pub(super) fn in_flight(rpcs: u64, purpose: &Purpose) -> u32 {
    let messages = purpose.rpc_bytes.div_ceil(MESSAGE).max(1);
    let all = rpcs.saturating_mul(messages).saturating_mul(u64::from(purpose.targets));
    all.clamp(1, LOAD_MAX) as u32
}

/// Measures the path to a node: what it carries, and what it carries with the values before. These
/// come last, because the time that RPCs take is known then.
///
/// `warned`: whether the user was warned that another program has the address of this host.
///
/// # Errors
/// When the node does not answer, and after a signal; and when only a setting is to be applied that
/// cannot be measured here.
pub(super) fn peer(
    wanted: &Wanted<'_>,
    purpose: &Purpose,
    warned: &Cell<bool>,
) -> Result<PeerReport, Failure> {
    let mut session = match wanted.running_node() {
        Some(node) => Session::through(wanted, node)?,
        None => Session::first(wanted).map_err(|failure| own_node(wanted, failure))?,
    };
    let taken = session.load.link.taken_address();
    let outcome = begin(wanted, &mut session);
    session.end();
    let mut report = outcome?;
    if let Some(nid) = taken {
        if wanted.args.loads() && wanted.args.apply.is_for_the_node_alone() {
            return Err(super::words::node_is_not_measured(&nid).into());
        }
        if !warned.replace(true) {
            print_error(&super::words::address_is_taken(&nid, wanted.args));
        }
    }
    if !wanted.args.loads() {
        let streams = wanted.args.stream_rate.map_or(Streams::Unknown, Streams::One);
        report.rate_is_given = wanted.args.rate.is_some();
        report.path = wanted.args.rate.map(|rate| report.new_path(rate, streams));
        return Ok(report);
    }
    let interface = report.host.interface.clone();
    let drops = Dropped::so_far(interface.as_deref());
    note(&format!("{}: ramp", wanted.nid));
    let wide = u64::from(IN_FLIGHT_MAX) + 8;
    let rtt = report.rtt.idle_median_ns;
    let mut session = Session::next(wanted, &wanted.with(wide, wide, 1))?;
    let outcome = ramps(&mut session, rtt, &mut report);
    session.end();
    let [read, write] = outcome?;
    let best = [read, write].into_iter().flatten().max_by_key(|ramped| ramped.best.rate);
    let Some(Ramped { best, end }) = best else {
        let words = "the budget was too small for a single step of load, so no rate was measured \
                     and nothing is advised; --budget-bytes and --budget-time give more";
        report.incomplete = Some(words.to_owned());
        return Ok(report);
    };
    let cut = match (read, write, end) {
        (Some(_), Some(_), RampEnd::Flat | RampEnd::Most) => None,
        (Some(_), Some(_), RampEnd::Budget(option)) => Some(option),
        _ => Some("--budget-bytes or --budget-time"),
    };
    if let Some(option) = cut {
        report.incomplete = Some(format!(
            "the budget ended before the path was full, so the settings are for what was reached, \
             and more may be needed; {option} gives more"
        ));
    }
    let several = match report.values.identity.as_str() {
        // Of a path that is not full it would not show what one stream carries.
        "node" if matches!(end, RampEnd::Budget(_)) => {
            let words = "the ramp did not fill the path, so it is not known whether several \
                         connections carry more";
            report.notes.push(words.to_owned());
            report.purse.skip(2 * WEIGHT_CONNS);
            None
        }
        "node" => {
            let many = wanted.with(wide, wide, CONNS_TRIED.into());
            let mut session = Session::after_ramp(wanted, &many, &report.ramp)?;
            let outcome = more_conns(&mut session, rtt, best, &mut report);
            session.end();
            outcome?
        }
        _ => {
            let words = "a userland node has one connection to a peer, so it is not known whether \
                         several carry more";
            report.notes.push(words.to_owned());
            report.purse.skip(2 * WEIGHT_CONNS);
            None
        }
    };
    report.dropped =
        drops.zip(Dropped::so_far(interface.as_deref())).map(|(before, now)| now.since(before));
    let (rate, streams) = streams_of(best.rate, end, several);
    report.path = Some(report.new_path(rate, streams));
    report.rtt.loaded_ns = report.ramp.iter().max_by_key(|row| row.rate).and_then(|row| row.rtt_ns);
    note(&format!("{}: before", wanted.nid));
    let count = in_flight(RPCS_BEFORE, purpose);
    let mut session = Session::after_ramp(wanted, &wanted.config, &report.ramp)?;
    let path = Known::of(&report, rtt, count);
    let outcome = both(&mut session, &path, count, (WEIGHT_BEFORE, 2), &mut report.purse);
    session.end();
    let before = outcome?;
    // More than the ramp found.
    let is_incomplete = report.incomplete.is_some();
    let rows = before.rows().filter(|row| row.is_whole() || is_incomplete && !row.is_short());
    if let Some(most) = rows.map(|row| row.rate).max() {
        report.path = report.path.map(|path| report.with_run_before(path, best.rate, most));
    }
    report.before = Some(before);
    Ok(report)
}

/// Says which node was refused, while a running one has the address of this host.
fn own_node(wanted: &Wanted<'_>, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(why)
            if wanted.args.loads()
                && wanted.args.node.net.is_empty()
                && wanted.args.apply.running_node().is_some() =>
        {
            Failure::Failed(format!(
                "{why}. tune measures with nodes of its own, because it cannot change the credits \
                 of a running node; with --rate it only sends pings, through the running node"
            ))
        }
        other => other,
    }
}

/// The idle path, and the values of the node.
fn begin(wanted: &Wanted<'_>, session: &mut Session<'_>) -> Result<PeerReport, Failure> {
    let rtt = idle_rtts(session)?;
    let Answer::Net(info) = session.load.link.ask(&Request::ShowNet)? else {
        return Err(unexpected());
    };
    let row = info.on(wanted.nid.net()).next().or(info.nets.first()).ok_or_else(unexpected)?;
    let values = NodeValues {
        identity: info.identity.clone(),
        peer_credits: row.peer_credits,
        credits: row.credits_configured,
        conns_per_peer: row.conns_per_peer,
    };
    let host = HostLimits::read(row.interface.as_deref());
    let budget = wanted.args.budget(rtt.idle_median_ns);
    if let Some(more) = super::words::longer_budget(wanted.args, rtt.idle_median_ns, budget) {
        note(&format!("{}: {more}", wanted.nid));
    }
    Ok(PeerReport::new(*wanted.nid, rtt, values, host, Purse::new(budget)))
}

/// Runs again with the new values.
///
/// # Errors
/// As [`peer`].
pub(super) fn after(
    wanted: &Wanted<'_>,
    purpose: &Purpose,
    settings: &Settings,
    report: &mut PeerReport,
) -> Result<(), Failure> {
    note(&format!("{}: after", wanted.nid));
    let Settings { peer_credits, credits, conns_per_peer, max_rpcs_in_flight, .. } = *settings;
    let config = wanted.with(peer_credits, credits, conns_per_peer);
    let count = in_flight(max_rpcs_in_flight, purpose);
    let mut session = Session::after_ramp(wanted, &config, &report.ramp)?;
    let path = Known::of(report, report.rtt.idle_median_ns, count);
    let outcome = both(&mut session, &path, count, (WEIGHT_AFTER, 0), &mut report.purse);
    session.end();
    report.after = Some(outcome?);
    Ok(())
}

fn idle_rtts(session: &mut Session<'_>) -> Result<Rtts, Failure> {
    let request = Request::Ping { nid: *session.wanted.nid, timeout_ms: ANSWER_MS };
    let mut times = Vec::new();
    for _ in 0..=PINGS {
        session.wanted.interrupt.check()?;
        let Answer::Ping { rtt_us, .. } = session.load.link.ask(&request)? else {
            return Err(unexpected());
        };
        times.push((rtt_us * 1e3) as u64);
    }
    // The first one waited for a connection.
    times.remove(0);
    times.sort_unstable();
    Ok(Rtts {
        idle_min_ns: times.first().copied().unwrap_or(0),
        idle_median_ns: median(&times).unwrap_or(0),
        loaded_ns: None,
    })
}

/// The median of sorted values.
fn median(sorted: &[u64]) -> Option<u64> {
    sorted.get(sorted.len() / 2).copied()
}

/// Reads, then writes, with so many RPCs in flight; `later` runs follow.
fn both(
    session: &mut Session<'_>,
    path: &Known,
    count: u32,
    (weight, later): (u32, u64),
    purse: &mut Purse,
) -> Result<Compared, Failure> {
    let mut rows = [None, None];
    for (row, direction) in rows.iter_mut().zip([Direction::Read, Direction::Write]) {
        let mut allowed = purse.take(weight);
        let latency = path.latency(count);
        let least = path.least_time(allowed.left());
        let step = Step { direction, count, rtt: path.rtt, latency, least };
        let later = match direction {
            Direction::Read => later + 1,
            Direction::Write => later,
        };
        if step.times(allowed.left()).is_none() {
            purse.extend(&mut allowed, step.need(), step.runs(later));
        }
        *row = session.step(&step, &mut allowed)?;
        if let Some(short) = row.as_ref().filter(|row| row.is_short()) {
            // RPCs took longer than was expected.
            let longer = Step { latency: short.p50_ns, ..step };
            if longer.times(allowed.left()).is_none() {
                purse.extend(&mut allowed, longer.need(), longer.runs(later));
            }
            *row = session.step(&longer, &mut allowed)?.or(row.take());
        }
        purse.put(allowed);
    }
    let [read, write] = rows;
    Ok(Compared { in_flight: count, read, write })
}

/// What a ramp found.
#[derive(Clone, Copy, Debug)]
struct Ramped {
    best: Point,
    end: RampEnd,
}

/// Why a ramp ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RampEnd {
    /// More in flight brought no more.
    Flat,
    /// As many as possible were in flight.
    Most,
    /// What this option allows was used up.
    Budget(&'static str),
}

impl RampEnd {
    /// What is to be said about the highest rate.
    fn note(self, direction: Direction) -> Option<String> {
        let (why, more) = match self {
            RampEnd::Flat => return None,
            RampEnd::Most => ("as many as possible were in flight".to_owned(), String::new()),
            RampEnd::Budget(option) => {
                ("the budget ended".to_owned(), format!("; {option} gives more"))
            }
        };
        Some(format!(
            "{why} before the rate of {}s stopped growing: it is a lower bound{more}",
            direction.name()
        ))
    }
}

/// The time that 1 MiB takes beside the round trips of its RPC, of which a bulk RPC has up to two:
/// `alone` is a step with one in flight.
fn message_ns(alone: &StepRow, rtt: u64) -> u64 {
    alone.p50_ns.saturating_sub(rtt.saturating_mul(2))
}

/// Gives a path that turns out to be slow more time, unless the user has set it.
fn allow_slow(wanted: &Wanted<'_>, rtt: u64, alone: &StepRow, purse: &mut Purse) {
    let message = message_ns(alone, rtt);
    let budget = wanted.args.budget(rtt.max(message));
    if purse.lengthen(budget.time_ns) {
        note(&format!("{}: {}", wanted.nid, super::words::slow_path(budget, message)));
    }
}

/// A ramp in each direction.
fn ramps(
    session: &mut Session<'_>,
    rtt: u64,
    report: &mut PeerReport,
) -> Result<[Option<Ramped>; 2], Failure> {
    let mut found = [None, None];
    for (found, direction) in found.iter_mut().zip([Direction::Read, Direction::Write]) {
        let mut allowed = report.purse.take(WEIGHT_RAMP);
        let mut ramp = Ramp::new(IN_FLIGHT_MAX);
        let mut latency = 2 * rtt;
        session.lacks = BUDGET_BYTES;
        while let Some(count) = ramp.next() {
            let step = Step { direction, count, rtt, latency, least: STEP };
            if step.times(allowed.left()).is_none() {
                let reserve = step.reserve(allowed.used());
                report.purse.extend(&mut allowed, step.need(), reserve);
            }
            let Some(mut row) = session.step(&step, &mut allowed)? else { break };
            if count == 1 {
                allow_slow(session.wanted, rtt, &row, &mut report.purse);
            }
            if row.rpcs < STEP_RPCS && !row.cut {
                // RPCs took longer than was expected, and so few say little.
                let longer = Step { latency: row.p50_ns, ..step };
                if longer.times(allowed.left()).is_none() {
                    let reserve = longer.reserve(allowed.used());
                    report.purse.extend(&mut allowed, longer.need(), reserve);
                }
                if longer.times(allowed.left()).is_some() {
                    note(&super::words::too_few(row.rpcs));
                }
                if let Some(again) = session.step(&longer, &mut allowed)? {
                    row = again;
                }
            }
            // A step that was too short counts data that waited before it. It is better than
            // nothing.
            if row.is_rate() || ramp.best().is_none() {
                ramp.observe(row.rate);
            }
            // Once the path is full, twice as many take twice as long.
            latency = row.p50_ns.saturating_mul(2);
            let cut = row.cut;
            report.ramp.push(row);
            if cut {
                break;
            }
        }
        report.purse.put(allowed);
        let end = match (ramp.is_flat(), ramp.next()) {
            (true, _) => RampEnd::Flat,
            (false, None) => RampEnd::Most,
            (false, Some(_)) => RampEnd::Budget(session.lacks),
        };
        *found = ramp.best().map(|best| Ramped { best, end });
        report.notes.extend(end.note(direction));
    }
    report.packets = session.load.streams()?;
    Ok(found)
}

/// The rate of the path, and whether one stream carries it: from the highest rate of one connection
/// and of several.
fn streams_of(one: u64, end: RampEnd, several: Option<u64>) -> (u64, Streams) {
    match several {
        Some(several) if several > one + one / 10 => (several, Streams::One(one)),
        Some(_) if end == RampEnd::Flat => (one, Streams::OneIsEnough),
        Some(_) | None => (one, Streams::Unknown),
    }
}

/// The higher rate of both directions with several connections, and twice as much in flight as one
/// had at its best: what one stream holds in flight at most may be what limited it.
fn more_conns(
    session: &mut Session<'_>,
    rtt: u64,
    best: Point,
    report: &mut PeerReport,
) -> Result<Option<u64>, Failure> {
    let path = Known { rtt, rate: best.rate };
    let count = best.in_flight.saturating_mul(2).min(IN_FLIGHT_MAX);
    let compared = both(session, &path, count, (WEIGHT_CONNS, RUNS), &mut report.purse)?;
    // A step that was cut short counts data that waited before it.
    let best = compared.rows().filter(|row| row.is_whole()).map(|row| row.rate).max();
    report.several_connections = Some(compared);
    Ok(best)
}

/// What came of a step.
enum Tried {
    Row(StepRow),
    /// The budget was too small, or ended before there was a result.
    Budget,
    /// No RPC has ended.
    NoneEnded,
}

/// A temporary node, and its load on the peer.
struct Session<'a> {
    wanted: &'a Wanted<'a>,
    load: Load,
    /// The option that allowed too little for the latest step that the budget ended.
    lacks: &'static str,
}

impl<'a> Session<'a> {
    /// Starts the first node, which discovers the peer: that fails at once if the peer is not
    /// there.
    fn first(wanted: &'a Wanted<'a>) -> Result<Session<'a>, Failure> {
        Session::open(wanted, Link::own_unannounced(&wanted.config)?, 1)
    }

    /// The same through a running node.
    fn through(wanted: &'a Wanted<'a>, node: RunningNode) -> Result<Session<'a>, Failure> {
        let link = Link::to(node);
        link.announce();
        Session::open(wanted, link, 1)
    }

    /// Starts a later node. The peer may still be ending the connections of the one before, which
    /// had the same NID, and lose a message of the new one meanwhile.
    fn next(wanted: &'a Wanted<'a>, config: &NodeConfig) -> Result<Session<'a>, Failure> {
        Session::open(wanted, Link::own_unannounced(config)?, DISCOVERIES)
    }

    /// The same, over a path whose ramps have carried what these rows say.
    fn after_ramp(
        wanted: &'a Wanted<'a>,
        config: &NodeConfig,
        ramp: &[StepRow],
    ) -> Result<Session<'a>, Failure> {
        let any = |direction| ramp.iter().any(|row| row.test == direction && row.rpcs > 0);
        let carried = Carried { read: any(Direction::Read), write: any(Direction::Write) };
        let session = Session::next(wanted, config)?;
        Ok(Session { load: session.load.with_carried(carried), ..session })
    }

    fn open(wanted: &'a Wanted<'a>, mut link: Link, tries: u32) -> Result<Session<'a>, Failure> {
        let request = Request::Discover { nid: *wanted.nid, timeout_ms: ANSWER_MS };
        let mut left = tries;
        loop {
            left = left.saturating_sub(1);
            match (link.ask(&request), wanted.interrupt.check()) {
                (Ok(_), Ok(())) => {
                    let load = Load::new(link, *wanted.nid, "lustrine-tune", wanted.args.take_over);
                    return Ok(Session { wanted, load, lacks: BUDGET_BYTES });
                }
                (Err(_), Ok(())) if left > 0 => thread::sleep(DISCOVERY_GAP),
                (answer, interrupted) => {
                    link.stop();
                    return Err(match (interrupted, answer) {
                        (Err(failure), _) | (Ok(()), Err(failure)) => failure,
                        (Ok(()), Ok(_)) => unexpected(),
                    });
                }
            }
        }
    }

    /// Runs a step, and takes what it uses from `allowed`. `None` if that is too little, or was
    /// used up before there was a result. A step in which no RPC has ended is run again, for
    /// longer: hosts may be busy, and the path slow.
    ///
    /// # Errors
    /// When no RPC ends in the time of [`STALLED`], and none has ended before in this direction.
    fn step(&mut self, step: &Step, allowed: &mut Allowance) -> Result<Option<StepRow>, Failure> {
        let (begun, mut longer) = (Instant::now(), *step);
        loop {
            let before = Instant::now();
            match self.try_step(&longer, allowed)? {
                Tried::Row(row) => return Ok(Some(row)),
                Tried::Budget => return Ok(None),
                Tried::NoneEnded => {}
            }
            let took = u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX);
            longer.latency = longer.latency.max(took);
            let is_over = longer.times(allowed.left()).is_none();
            match self.load.has_carried() {
                // It has carried such RPCs before, and so they only take long.
                true if is_over => {
                    self.lacks = longer.lacks(allowed.left());
                    return Ok(None);
                }
                false if is_over || begun.elapsed() >= STALLED => {
                    return Err(self.load.nothing_ended().into());
                }
                _ => {}
            }
            note(&super::words::none_ended(step.direction));
        }
    }

    fn try_step(&mut self, step: &Step, allowed: &mut Allowance) -> Result<Tried, Failure> {
        let Some((warm_up_ns, time_ns)) = step.times(allowed.left()) else {
            self.lacks = step.lacks(allowed.left());
            return Ok(Tried::Budget);
        };
        self.load.start()?;
        let (before, streams, begun) = (self.load.used()?, self.load.streams()?, Instant::now());
        self.load.step(step.direction, step.count, (warm_up_ns, time_ns))?;
        let limit = Duration::from_nanos(warm_up_ns + time_ns) + STEP_SLACK;
        let mut pings = None;
        let most = allowed.left().bytes;
        let waited = self.wait(step, before, most, (begun, limit), &mut pings);
        let rtt_ns = pings.and_then(Pings::end);
        let (load, cut) = waited?;
        if cut {
            // It had the time.
            self.lacks = BUDGET_BYTES;
        }
        let after = self.load.used()?;
        // Those of the first step are made after it has begun.
        let segments = self.load.streams()?.map(|after| {
            let before = streams.map(|before| before.segments).unwrap_or_default();
            after.segments.since(&before)
        });
        let bytes = after.bytes.saturating_sub(before.bytes);
        let time_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        allowed.spend(Budget { bytes, time_ns });
        if load.elapsed_ns == 0 || load.bytes == 0 {
            // Where RPCs were given up, it was not the budget.
            return Ok(if load.errors.is_empty() { Tried::Budget } else { Tried::NoneEnded });
        }
        let p50_ns = load.latency.p50_ns;
        let mut row = StepRow {
            test: step.direction,
            in_flight: step.count,
            rate: rate_of(load.bytes, load.elapsed_ns),
            rpcs: load.ops,
            p50_ns,
            rtt_ns,
            cpu_s_per_gb: (after.cpu_s - before.cpu_s) * 1e9 / bytes.max(1) as f64,
            failed: load.errors.iter().map(|(_, count)| count).sum(),
            cut,
            time_ns: load.elapsed_ns,
            segments,
        };
        if row.is_short() {
            row.rate = row.rate.min(rate_of(step.bytes(), p50_ns));
        }
        note(&super::words::step(&row));
        Ok(Tried::Row(row))
    }

    /// Waits for the end of a step; whether the budget ended it is the second value.
    fn wait(
        &mut self,
        step: &Step,
        before: Used,
        bytes: u64,
        (begun, limit): (Instant, Duration),
        pings: &mut Option<Pings>,
    ) -> Result<(LoadRow, bool), Failure> {
        let mut last = before.bytes;
        loop {
            thread::sleep(LOOK);
            let load = self.load.progress()?;
            if load.step_finished {
                return Ok((load, false));
            }
            self.wanted.interrupt.check()?;
            if begun.elapsed() >= STALLED
                && let Some(why) = self.load.stalled()
            {
                return Err(why.into());
            }
            let now = self.load.used()?.bytes;
            let until_next_look = now.saturating_sub(last);
            last = now;
            let used = now.saturating_sub(before.bytes).saturating_add(until_next_look);
            if used.saturating_add(step.bytes()) >= bytes {
                self.load.finish(FAREWELL);
                return Ok((load, true));
            }
            if begun.elapsed() >= limit {
                let nid = self.wanted.nid;
                return Err(format!("{nid}: a step of the load did not end in time").into());
            }
            if load.elapsed_ns > 0 && pings.is_none() {
                *pings = Some(Pings::begin(&self.load.link, *self.wanted.nid));
            }
        }
    }

    /// Ends the load and the node.
    fn end(mut self) {
        if self.load.is_started {
            let interrupted = self.wanted.interrupt.check().is_err();
            self.load.finish(if interrupted { FAREWELL_INTERRUPTED } else { FAREWELL });
        }
        self.load.into_link().stop();
    }
}

#[cfg(test)]
mod tests;
