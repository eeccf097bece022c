//! The daemon: samples when they are due, until a signal.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_sys::{ServiceManager, ServiceState, Signals};
use lustrine_watch::{
    Backoff, Bandwidth, Detector, Event, PathSample, Refusals, Route, Rtt, Sample, line,
};
use lustrine_wire::nid::Nid;

use super::jobs::Jobs;
use super::keeper::{Keeper, Taken};
use super::nodes::{WatchNode, nodes};
use super::pings::{First, NoSample, Pinged, Wanted};
use super::scrape::Scrape;
use super::slots::{Last, of_round};
use super::{RunArgs, ms};
use crate::commands::doctor::path::{self, ClaimOfLook, Claims, Handshake, PathSeen, PathWanted};
use crate::commands::node::watch_stdin;
use crate::commands::tune::{Direction, Load, make_state_dir_of};
use crate::log::LogForm;
use crate::output::Failure;
use crate::values::utc;

/// The wait between two looks at signals.
const LOOK: Duration = Duration::from_millis(50);
/// The longest time of a measurement of bandwidth, in each direction.
const LOAD_TIME: Duration = Duration::from_secs(20);

/// Most additional looks in a row, when one differs from those before.
const LOOKS_AGAIN: u32 = 2;
/// Most different reasons of one peer that are said: some have words of the peer in them.
const SAID_MAX: usize = 64;
/// A round that takes longer hangs: then systemd gets no more keep-alives.
const ROUND_MAX: Duration = Duration::from_secs(1800);

/// A peer.
struct Watched {
    nid: Nid,
    name: String,
    /// The index of its node.
    node: usize,
    detector: Detector,
    backoff: Backoff,
    /// Whether the latest sample had an answer.
    is_answered: bool,
    /// Whether its node, one of this process, was started since its latest sample.
    is_node_new: bool,
    due: Instant,
    look_due: Option<Instant>,
    refusals: Refusals,
    /// When a look may connect to it.
    handshake_due: Instant,
    /// Additional looks since the last usual one.
    looked_again: u32,
    load_due: Option<Instant>,
    /// What could not be seen, and was said.
    said: BTreeSet<String>,
}

impl Watched {
    /// Whether a reason is to be said: it was not yet, and there are not too many.
    fn is_new(&mut self, why: &str) -> bool {
        self.said.len() < SAID_MAX && self.said.insert(why.to_owned())
    }
}

/// Whether the program is to end; and the service manager, which gets keep-alives.
struct Stop {
    signals: Signals,
    eof: Option<thread::JoinHandle<()>>,
    flag: Arc<AtomicBool>,
    manager: Option<ServiceManager>,
    /// When the last keep-alive was sent.
    notified: Cell<Instant>,
    /// When the present round began.
    round: Cell<Instant>,
}

impl Stop {
    fn new(args: &RunArgs) -> Result<Stop, Failure> {
        let signals =
            Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
        let manager = ServiceManager::from_variables(|name| std::env::var_os(name));
        let manager = manager.unwrap_or_else(|error| {
            tracing::warn!(%error, "the service manager cannot be notified");
            None
        });
        Ok(Stop {
            signals,
            eof: args.until_eof.then(watch_stdin),
            flag: Arc::default(),
            manager,
            notified: Cell::new(Instant::now()),
            round: Cell::new(Instant::now()),
        })
    }

    fn notify(&self, state: ServiceState<'_>) {
        if let Some(Err(error)) = self.manager.as_ref().map(|manager| manager.notify(state)) {
            tracing::warn!(%error, "the service manager does not receive a message");
        }
    }

    fn is_wanted(&self) -> bool {
        let patience = self.manager.as_ref().and_then(ServiceManager::watchdog);
        let is_due = patience.is_some_and(|patience| self.notified.get().elapsed() >= patience / 4);
        if is_due && self.round.get().elapsed() < ROUND_MAX {
            self.notified.set(Instant::now());
            self.notify(ServiceState::Alive);
        }
        let pending = self.signals.take();
        let at_end = self.eof.as_ref().is_some_and(thread::JoinHandle::is_finished);
        // Without its terminal it would go on sending; `nohup` keeps it.
        if pending.terminate || pending.hangup || at_end {
            self.flag.store(true, Ordering::Relaxed);
        }
        self.flag.load(Ordering::Relaxed)
    }
}

/// Runs until a signal.
pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let Some(db) = args.db.clone() else {
        return Err(Failure::Usage("--db is missing".to_owned()));
    };
    let stop = Stop::new(args)?;
    let names: Vec<String> = args.to.iter().map(Nid::to_string).collect();
    let scrape = Scrape::default();
    // First, so that no file is made by a command that cannot run.
    let server = args.metrics.as_ref().map(|address| scrape.serve(address)).transpose()?;
    make_state_dir_of(&db)?;
    let keeper = Keeper::open(db, args.limits(), &names).map_err(|error| error.to_string())?;
    let (nodes, indices) = nodes(args)?;
    if let Some(server) = &server {
        tracing::info!(address = %server.local(), "metrics");
    }
    let mut daemon = Daemon::new(args, keeper, nodes, &indices, scrape);
    let outcome = daemon.run(&stop);
    // What was taken is stored; connections are closed in order.
    daemon.nodes.iter_mut().for_each(WatchNode::stop);
    drop(server);
    outcome
}

struct Daemon<'a> {
    args: &'a RunArgs,
    keeper: Keeper,
    nodes: Vec<WatchNode>,
    /// What was said of a node that cannot be used.
    node_trouble: Vec<Option<String>>,
    peers: Vec<Watched>,
    /// The pings of samples.
    pings: Jobs<Result<Pinged, NoSample>>,
    scrape: Scrape,
}

/// The wait until the next look at what is due. Peers that are overdue, and not asked, wait for a
/// job of others to end.
fn pause(now: Instant, dues: impl Iterator<Item = Instant>) -> Duration {
    let next = dues.filter(|due| *due > now).min();
    next.map_or(LOOK, |due| due.saturating_duration_since(now).min(LOOK))
}

/// A sample that is being taken.
struct Begun {
    peer: usize,
    pinged: Pinged,
    path: Option<PathSample>,
    bandwidth: Option<Bandwidth>,
}

impl Begun {
    fn new(peer: usize, pinged: Pinged) -> Begun {
        Begun { peer, pinged, path: None, bandwidth: None }
    }
}

impl<'a> Daemon<'a> {
    fn new(
        args: &'a RunArgs,
        mut keeper: Keeper,
        nodes: Vec<WatchNode>,
        indices: &[usize],
        scrape: Scrape,
    ) -> Daemon<'a> {
        let now = Instant::now();
        let day = Duration::from_secs(86_400);
        let look_every = ms(args.path_every.0.unwrap_or(day));
        let load_every = ms(args.bandwidth_every.unwrap_or(day));
        let count = args.to.len();
        let peers = args.to.iter().zip(indices).enumerate().map(|(at, (nid, node))| {
            let name = nid.to_string();
            let every = ms(args.every);
            let detector = match keeper.take_detector(&name) {
                Some(detector) => detector.at_pace(every, look_every, load_every),
                None => Detector::new(every, look_every, load_every),
            };
            Watched {
                nid: *nid,
                name,
                node: *node,
                detector,
                backoff: Backoff::default(),
                is_answered: true,
                is_node_new: true,
                due: now,
                look_due: args.path_every.0.map(|_| now),
                refusals: Refusals::default(),
                handshake_due: now,
                looked_again: 0,
                load_due: args.bandwidth_every.map(|every| first_load(now, every, at, count)),
                said: BTreeSet::new(),
            }
        });
        let peers: Vec<Watched> = peers.collect();
        let node_trouble = nodes.iter().map(|_| None).collect();
        Daemon { args, keeper, nodes, node_trouble, peers, pings: Jobs::default(), scrape }
    }

    fn run(&mut self, stop: &Stop) -> Result<(), Failure> {
        for node in &mut self.nodes {
            node.start()?;
            node.announce();
        }
        let names: Vec<&str> = self.peers.iter().map(|peer| peer.name.as_str()).collect();
        stop.notify(ServiceState::Ready(&names.join(" ")));
        while !stop.is_wanted() {
            let now = Instant::now();
            let due = self.due(now);
            let late = self.pings.take(&[], now, || false);
            if due.is_empty() && late.is_empty() {
                stop.round.set(now);
                thread::sleep(pause(now, self.peers.iter().map(|peer| peer.due)));
                continue;
            }
            stop.round.set(now);
            self.round(&due, late, stop);
            stop.round.set(Instant::now());
        }
        tracing::info!("stopping: received a signal");
        stop.notify(ServiceState::Stopping);
        Ok(())
    }

    /// The peers of the next round: those that are due, and whose latest sample has ended. All
    /// peers of a running node have that node.
    fn due(&self, now: Instant) -> Vec<usize> {
        let silent = |at: &usize| !self.peers[*at].is_answered && self.pings.has(*at);
        let in_flight = (0..self.peers.len()).filter(silent).count();
        let most = self.nodes.first().map_or(usize::MAX, WatchNode::most_silent);
        let due = self.peers.iter().enumerate();
        let due = due.filter(|(at, peer)| peer.due <= now && !self.pings.has(*at));
        let due = due.map(|(at, peer)| {
            (at, peer.due, if peer.is_answered { Last::Answered } else { Last::Silent })
        });
        of_round(due, most.saturating_sub(in_flight))
    }

    /// Takes a sample of each of these peers, and completes those whose pings have ended since the
    /// last round.
    fn round(&mut self, due: &[usize], late: Vec<(usize, Result<Pinged, NoSample>)>, stop: &Stop) {
        self.find_routes();
        self.restart_nodes();
        let mut ended: Vec<usize> = late.iter().map(|(peer, _)| *peer).collect();
        let mut begun = self.pinged(late);
        self.pings(due, &mut begun, &mut ended, stop);
        if !stop.is_wanted() {
            self.looks(&mut begun, &mut ended, stop);
        }
        // A load takes long: what is complete is stored before it, and there is one in a round.
        let loaded = (!stop.is_wanted()).then(|| self.next_load(&begun)).flatten();
        let loaded = loaded.map(|at| begun.remove(at));
        self.keep(begun);
        if let Some(mut loaded) = loaded {
            self.load(&mut loaded, stop);
            self.keep(vec![loaded]);
        }
        let now = Instant::now();
        for at in ended {
            let peer = &mut self.peers[at];
            let wait = self.args.every * peer.backoff.intervals();
            peer.due += wait;
            // Samples that were missed are not made up for.
            if peer.due <= now {
                peer.due = now + self.args.every.min(wait) / 2;
            }
        }
    }

    /// Judges samples and stores them.
    fn keep(&mut self, begun: Vec<Begun>) {
        let taken: Vec<Taken> = begun.into_iter().map(|begun| self.judge(begun)).collect();
        for taken in &taken {
            self.scrape.note(taken);
        }
        self.keeper.store(taken);
        self.scrape.note_waiting(self.keeper.waiting());
    }

    /// Looks for routes to peers that had none. A peer that is reached from the address of another
    /// node has that node: two of this process with one NID would disturb each other.
    fn find_routes(&mut self) {
        for peer in &mut self.peers {
            let Some(config) = self.nodes[peer.node].find_route() else { continue };
            tracing::info!("{}: there is a route now", peer.name);
            let same = |node: &WatchNode| node.nets() == Some(&config.nets);
            match self.nodes.iter().position(same) {
                Some(node) => peer.node = node,
                None => self.nodes[peer.node].become_own(config),
            }
        }
    }

    /// Starts nodes that could not be started before.
    fn restart_nodes(&mut self) {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
    }

    fn start(&mut self, node: usize) {
        match self.nodes[node].start() {
            Ok(false) => {}
            Ok(true) => {
                let peers = self.peers.iter_mut().filter(|peer| peer.node == node);
                peers.for_each(|peer| peer.is_node_new = true);
            }
            Err(Failure::Failed(why)) => self.trouble(node, Some(why)),
            Err(_) => {}
        }
    }

    /// Says what is wrong with a node, and when it is over, once each.
    fn trouble(&mut self, node: usize, why: Option<String>) {
        match (&self.node_trouble[node], &why) {
            (None, Some(why)) => tracing::error!("no samples can be taken: {why}"),
            (Some(_), None) => tracing::info!("samples are taken again"),
            _ => {}
        }
        self.node_trouble[node] = why;
    }

    fn wanted(&self, at: usize, stop: &Stop) -> Option<Wanted> {
        let peer = &self.peers[at];
        let node = &self.nodes[peer.node];
        let first = match peer.is_answered {
            false => First::Ping,
            true if node.is_own() && peer.is_node_new => First::Discovery,
            true => First::Nothing,
        };
        Some(Wanted {
            asker: node.asker()?,
            nid: peer.nid,
            count: self.args.pings,
            timeout: self.args.timeout,
            every: self.args.every,
            first,
            stopped: Arc::clone(&stop.flag),
        })
    }

    /// The pings of these peers, all at once. Those that do not answer are not waited for: the rest
    /// of the round, and the next ones, are of the others.
    fn pings(
        &mut self,
        due: &[usize],
        begun: &mut Vec<Begun>,
        ended: &mut Vec<usize>,
        stop: &Stop,
    ) {
        for at in due {
            if let Some(why) = self.nodes[self.peers[*at].node].no_route() {
                let pinged = Ok(Pinged::unsent(self.args.pings, why));
                begun.extend(self.pinged(vec![(*at, pinged)]));
            } else if let Some(wanted) = self.wanted(*at, stop) {
                self.peers[*at].is_node_new = false;
                self.pings.begin(*at, move || wanted.pings());
            }
        }
        let answer = |at: &usize| self.peers[*at].is_answered;
        let awaited: Vec<usize> = due.iter().copied().filter(answer).collect();
        // Pings that are answered are spread over half of the interval.
        let until = Instant::now() + self.args.every * 3 / 4;
        self.collect(&awaited, until, begun, ended, stop);
        // Without a node, or a thread, there is no job.
        ended.extend(due.iter().filter(|at| !self.pings.has(**at)));
        ended.sort_unstable();
        ended.dedup();
    }

    /// Takes the results of pings that are there when those of these peers have ended, or at this
    /// time.
    fn collect(
        &mut self,
        awaited: &[usize],
        until: Instant,
        begun: &mut Vec<Begun>,
        ended: &mut Vec<usize>,
        stop: &Stop,
    ) {
        let results = self.pings.take(awaited, until, || stop.is_wanted());
        ended.extend(results.iter().map(|(peer, _)| *peer));
        begun.extend(self.pinged(results));
        begun.sort_by_key(|begun| begun.peer);
    }

    /// What came of pings: the samples of which there are some.
    fn pinged(&mut self, results: Vec<(usize, Result<Pinged, NoSample>)>) -> Vec<Begun> {
        let mut begun = Vec::new();
        // A node that fails in the middle of a round has answered before.
        let mut failed: BTreeMap<usize, Option<String>> = BTreeMap::new();
        for (at, pinged) in results {
            let peer = &mut self.peers[at];
            match pinged {
                Ok(mut pinged) => {
                    let why = pinged.node_failed.take();
                    let known = failed.entry(peer.node).or_default();
                    *known = known.take().or(why);
                    let is_answered = !pinged.times.is_empty();
                    if !is_answered && peer.is_answered {
                        let Watched { name, .. } = peer;
                        tracing::warn!("{name}: no answer: {}; it is asked again", pinged.why);
                    }
                    peer.is_answered = is_answered;
                    begun.push(Begun::new(at, pinged));
                }
                Err(NoSample::Stopped) => {}
                Err(NoSample::Node(why)) => {
                    failed.insert(peer.node, Some(why));
                }
                Err(NoSample::NoSlot) => {
                    let why = "a sample was left out: too many peers ceased to answer at once";
                    if peer.is_new(why) {
                        tracing::warn!("{}: {why}", peer.name);
                    }
                }
            }
        }
        for (node, why) in failed {
            self.trouble(node, why);
        }
        begun
    }

    /// Looks at the paths for which it is time. A node of this process is ended for it, because
    /// the peer would send its replies over any connection of one NID. A peer that refused it is
    /// not connected to for a while; the rest of the look goes on.
    fn looks(&mut self, begun: &mut Vec<Begun>, ended: &mut Vec<usize>, stop: &Stop) {
        let now = Instant::now();
        let wants = |begun: &Begun| {
            let is_due = self.peers[begun.peer].look_due.is_some_and(|due| due <= now);
            is_due && !begun.pinged.times.is_empty()
        };
        let due: Vec<usize> = begun.iter().filter(|one| wants(one)).map(|one| one.peer).collect();
        if due.is_empty() {
            return;
        }
        let line = |at: &usize| {
            let peer = &self.peers[*at];
            let node = &self.nodes[peer.node];
            let (local, to) = node.line(&peer.nid, self.args.port)?;
            let (incarnation, follows_route) = (node.incarnation(), node.follows_route());
            Some((*at, PathWanted { nid: peer.nid, to, local, follows_route, incarnation }))
        };
        let wanted: Vec<(usize, PathWanted)> = due.iter().filter_map(line).collect();
        let is_due = |at: &usize| self.peers[*at].handshake_due <= now;
        let nodes: BTreeSet<usize> =
            due.iter().copied().filter(is_due).map(|at| self.peers[at].node).collect();
        let own: Vec<usize> = nodes.into_iter().filter(|at| self.nodes[*at].is_own()).collect();
        // The pings of others that answered last would be lost with the node.
        let disturbed = |at: &usize| {
            let peer = &self.peers[*at];
            peer.is_answered && self.pings.has(*at) && own.contains(&peer.node)
        };
        let others: Vec<usize> = (0..self.peers.len()).filter(disturbed).collect();
        self.collect(&others, Instant::now() + ROUND_MAX, begun, ended, stop);
        own.iter().for_each(|node| self.nodes[*node].stop());
        let flag = &stop.flag;
        let mut claims = Claims::default();
        let jobs = wanted.into_iter().map(|(at, wanted)| {
            let flag = Arc::clone(flag);
            let (handshake, claim) = match self.peers[at].handshake_due <= now {
                true => claims.handshake(&wanted),
                false => (Handshake::LeftOut, ClaimOfLook::default()),
            };
            let is_stopped = move || flag.load(Ordering::Relaxed);
            (at, move || (handshake, path::look(&wanted, handshake, claim, &is_stopped)))
        });
        // All claims are made before the first look begins.
        let jobs: Vec<_> = jobs.collect();
        drop(claims);
        let seen = in_parallel(jobs, stop);
        if stop.is_wanted() {
            return;
        }
        own.into_iter().for_each(|node| self.start(node));
        for (at, (handshake, seen)) in seen {
            if handshake != Handshake::LeftOut {
                let peer = &mut self.peers[at];
                peer.refusals.observe(seen.is_refused);
                peer.handshake_due =
                    Instant::now() + Duration::from_millis(peer.refusals.wait_ms());
            }
            let path = self.looked(at, seen);
            if let Some(begun) = begun.iter_mut().find(|begun| begun.peer == at) {
                begun.path = path;
            }
        }
    }

    /// What a look has shown, and when the next one is due.
    fn looked(&mut self, at: usize, seen: PathSeen) -> Option<PathSample> {
        let every = self.args.path_every.0?;
        let peer = &mut self.peers[at];
        peer.look_due = Some(Instant::now() + every);
        let is_again = peer.looked_again < LOOKS_AGAIN && peer.detector.wants_look();
        peer.looked_again = if is_again { peer.looked_again + 1 } else { 0 };
        for why in seen.unseen {
            if peer.is_new(&why) {
                tracing::info!("{}: not seen: {why}", peer.name);
            }
        }
        let mut route = Route::default();
        if let Some(view) = seen.route {
            (route.local, route.interface) = (Some(view.local), view.interface);
            route.gateway = view.gateway;
        }
        if let Some(view) = seen.icmp {
            (route.hops_out, route.hops_back) = (view.hops_out, view.hops_back);
        }
        Some(PathSample { mtu_out: seen.mtu_out, mtu_back: seen.mtu_back, route })
    }

    /// The sample of the peer whose bandwidth is to be measured in this round.
    fn next_load(&self, begun: &[Begun]) -> Option<usize> {
        let answered = |begun: &&Begun| !begun.pinged.times.is_empty();
        let due = |begun: &Begun| self.peers[begun.peer].load_due;
        let dues = begun.iter().map(|one| Some(one).filter(answered).and_then(due));
        longest_due(dues, Instant::now())
    }

    /// Measures the bandwidth of a path.
    fn load(&mut self, begun: &mut Begun, stop: &Stop) {
        let peer = &mut self.peers[begun.peer];
        peer.load_due = self.args.bandwidth_every.map(|every| Instant::now() + every);
        let (nid, node) = (peer.nid, peer.node);
        let Some(link) = self.nodes[node].take() else { return };
        let mut load = Load::new(link, nid, "lustrine-watch", false);
        let half = self.args.bandwidth_bytes / 2;
        let mut carry = |way| load.carry(way, half, LOAD_TIME, &|| stop.is_wanted());
        let outcome = carry(Direction::Read)
            .and_then(|read| Ok(Bandwidth { read, write: carry(Direction::Write)? }));
        self.nodes[node].put(load.into_link());
        match outcome {
            Ok(bandwidth) => begun.bandwidth = Some(bandwidth),
            Err(Failure::Failed(why)) => {
                let peer = &mut self.peers[begun.peer];
                let why = format!("bandwidth: {why}");
                if peer.is_new(&why) {
                    tracing::warn!("{}: not seen: {why}", peer.name);
                }
            }
            Err(_) => {}
        }
    }

    /// Completes a sample, and says what it means.
    fn judge(&mut self, begun: Begun) -> Taken {
        let peer = &mut self.peers[begun.peer];
        let Begun { pinged, path, bandwidth, .. } = begun;
        let sample = Sample {
            at_ms: pinged.at_ms,
            sent: pinged.sent,
            lost: pinged.lost,
            rtt: Rtt::of(pinged.times),
            path,
            bandwidth,
        };
        peer.backoff.observe(sample.is_answered());
        let events = peer.detector.observe(&sample);
        let again = peer.looked_again < LOOKS_AGAIN;
        if sample.path.is_some() && peer.detector.wants_look() && again {
            peer.look_due = peer.look_due.map(|_| Instant::now());
        }
        events.iter().for_each(|event| say(self.args.log, &peer.name, event));
        Taken { peer: peer.name.clone(), sample, events, detector: peer.detector.clone() }
    }
}

/// When the bandwidth of a peer is measured first: the peers are spread over the interval.
fn first_load(now: Instant, every: Duration, at: usize, count: usize) -> Instant {
    let part = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    now + every / part(count).max(1) * part(at)
}

/// Which of these has been due for the longest time; `None` if none is.
fn longest_due(dues: impl Iterator<Item = Option<Instant>>, now: Instant) -> Option<usize> {
    let due = dues.enumerate().filter_map(|(at, due)| Some((due.filter(|due| *due <= now)?, at)));
    due.min().map(|(_, at)| at)
}

/// One line of the log.
fn say(form: LogForm, peer: &str, event: &Event) {
    let alarm = event.alarm();
    let since = utc(i64::try_from(alarm.since_ms / 1000).unwrap_or(i64::MAX));
    let text = line(peer, event, &format!("{since} UTC"));
    match (form, event) {
        (LogForm::Text, Event::Raised(_)) => tracing::warn!("{text}"),
        (LogForm::Text, Event::Over(_)) => tracing::info!("{text}"),
        (LogForm::Json, Event::Raised(_)) => tracing::warn!(
            peer,
            alarm = alarm.kind.name(),
            part = alarm.part,
            state = "raised",
            since_ms = alarm.since_ms,
            before = alarm.before,
            after = alarm.after,
            evidence = alarm.evidence,
            "{text}"
        ),
        (LogForm::Json, Event::Over(_)) => tracing::info!(
            peer,
            alarm = alarm.kind.name(),
            part = alarm.part,
            state = "over",
            since_ms = alarm.since_ms,
            before = alarm.before,
            after = alarm.after,
            "{text}"
        ),
    }
}

/// Runs jobs at once, each in a thread. After a signal those that have not ended are left alone:
/// the process ends.
fn in_parallel<T: Send + 'static>(
    jobs: Vec<(usize, impl FnOnce() -> T + Send + 'static)>,
    stop: &Stop,
) -> Vec<(usize, T)> {
    let mut all = Jobs::default();
    let peers: Vec<usize> = jobs.iter().map(|(peer, _)| *peer).collect();
    jobs.into_iter().for_each(|(peer, job)| all.begin(peer, job));
    all.take(&peers, Instant::now() + ROUND_MAX, || stop.is_wanted())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that is overdue and may not be asked yet does not keep the loop busy.
    #[test]
    fn the_loop_sleeps_until_something_is_due() {
        let (now, moment) = (Instant::now(), LOOK / 2);
        let wait = |dues: &[Instant]| pause(now, dues.iter().copied());
        assert_eq!((wait(&[]), wait(&[now])), (LOOK, LOOK));
        assert_eq!(wait(&[now, now + moment, now + 2 * LOOK]), moment);
        assert_eq!(wait(&[now + 2 * LOOK]), LOOK);
    }

    #[test]
    fn bandwidth_is_measured_of_one_peer_at_a_time_and_of_each() {
        let (now, every) = (Instant::now(), Duration::from_secs(3600));
        let mut dues: Vec<Option<Instant>> =
            (0..64).map(|at| Some(first_load(now, every, at, 64))).collect();
        assert_eq!(longest_due(dues.iter().copied(), now), Some(0));
        dues[0] = Some(now + every);
        assert_eq!(longest_due(dues.iter().copied(), now), None, "not all at the start");
        // Late rounds: those that are due take turns.
        let late = now + every / 2;
        for at in 1..=32 {
            assert_eq!(longest_due(dues.iter().copied(), late), Some(at));
            dues[at] = Some(late + every);
        }
        assert_eq!(longest_due(dues.iter().copied(), late), None);
        dues[5] = None;
        assert!(dues.iter().flatten().all(|due| *due <= late + every));
    }
}
