//! Living a plan, and telling what went wrong.

use lustrine_lnet::time::Nanos;
use lustrine_node::{ProbeResult, Ticket};
use lustrine_selftest::{ClientArgs, Lane, Limit, Rung, Snapshot, Takeover, TestError};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::Name;

use super::plan::{Load, Plan, Trouble, Wires};
use crate::check;
use crate::fabric::{Hashing, LinkSpec, Rate};
use crate::network::{HostId, Link};
use crate::node::NodeSpec;
use crate::recording::{Recording, Wanted};
use crate::simulation::{Cost, Place, Simulation};
use crate::tcp::{Algorithm, TcpSpec};
use crate::trace::Entry;
use crate::world::World;

const SECOND: Nanos = Nanos::from_secs(1);

/// Of every client.
const LANE: Lane = Lane(1);

/// What healed must have caught up with everything after so long.
const RECOVERY: Nanos = Nanos::from_secs(300);

/// A session that nobody disturbs must end within so long.
const CALM: Nanos = Nanos::from_secs(120);

/// After so many equal loads memory must have stopped growing.
const LOADS_MAX: u32 = 6;

/// A life that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The trace's hash and length.
    pub hash: u64,
    /// Events in it.
    pub events: u64,
    /// How long it was, in virtual time.
    pub length: Nanos,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In words.
    pub what: String,
    /// When, since the beginning of the world.
    pub at: Nanos,
}

/// Lives a plan.
///
/// # Errors
/// What went wrong. A mistake of ours that an assertion catches is a panic.
pub fn live(plan: &Plan) -> Result<Life, Failure> {
    replay(plan).0
}

/// Lives a plan, and tells the end of its trace too.
pub fn replay(plan: &Plan) -> (Result<Life, Failure>, Vec<Entry>) {
    let (result, entries, _) = lived(World::new(plan.seed), plan);
    (result, entries)
}

/// Lives a plan, and records what happened to each message.
pub fn record(plan: &Plan, wanted: Wanted) -> (Result<Life, Failure>, Vec<Entry>, Recording) {
    let mut world = World::new(plan.seed);
    Simulation::record(&mut world, wanted);
    lived(world, plan)
}

fn lived(world: World, plan: &Plan) -> (Result<Life, Failure>, Vec<Entry>, Recording) {
    let mut swarm = match Swarm::new(world, plan) {
        Ok(swarm) => swarm,
        Err(what) => {
            let failure = Failure { what, at: Nanos::ZERO };
            return (Err(failure), Vec::new(), Recording::default());
        }
    };
    let begin = swarm.world.now();
    let lived = swarm.live(plan);
    let trace = swarm.world.trace();
    let (length, hash, events) = (swarm.world.now().since(begin), trace.hash(), trace.count());
    let told = match lived {
        Ok(()) => Ok(Life { hash, events, length }),
        Err(what) => Err(Failure { what, at: length }),
    };
    let last = trace.last().copied().collect();
    (told, last, swarm.world.take_recording().unwrap_or_default())
}

struct Swarm {
    world: World,
    nodes: Vec<(HostId, Nid)>,
    lives: u64,
    sessions: u64,
}

impl Swarm {
    fn new(mut world: World, plan: &Plan) -> Result<Swarm, String> {
        let first = plan.links.first().ok_or("a plan without links")?;
        let tcp = TcpSpec {
            algorithm: if plan.wires == Wires::Bbr { Algorithm::Bbr } else { Algorithm::Cubic },
            send_buffer: first.window.max(16_384),
            receive_buffer: first.window.max(16_384),
            ..TcpSpec::default()
        };
        let mut nodes = Vec::new();
        let mut sites = Vec::new();
        for (index, node) in plan.nodes.iter().enumerate() {
            let nid: Nid = node.nid.parse().map_err(|error| format!("{}: {error}", node.nid))?;
            let mut spec = NodeSpec {
                incarnation: 0x1000_0000 + ((index as u64) << 16),
                wall_seconds: 0x6000_0000 + index as u64 * 100,
                seed: plan.seed ^ (index as u64 + 1),
                cpts: node.cpts,
                skew: Nanos::from_micros(node.skew_us),
                ..NodeSpec::new(nid)
            };
            for (name, value) in &node.tunables {
                spec.tunables.set(name, *value).map_err(|error| error.to_string())?;
            }
            let host = match plan.wires {
                Wires::Plain => world.add_node(spec),
                Wires::Cubic | Wires::Bbr => {
                    let site = Simulation::fabric(&mut world).add_site();
                    sites.push(site);
                    let interface = LinkSpec { delay: Nanos(1000), ..LinkSpec::default() };
                    world.add_placed(spec, Place { site, interface, cost: Cost::default(), tcp })
                }
            };
            nodes.push((host, nid));
        }
        for wire in &plan.links {
            let (one, two) = wire.between;
            if one.max(two) >= nodes.len() {
                return Err(format!("a link of node {}, of {}", one.max(two), nodes.len()));
            }
            let link = Link {
                latency: wire.latency(),
                jitter: Nanos::from_micros(wire.jitter_us),
                window: wire.window as usize,
                chunking: wire.chunking(),
            };
            world.network().set_link(nodes[one].0, nodes[two].0, link);
            if plan.wires != Wires::Plain {
                let spec = LinkSpec {
                    rate: Rate::from_bits(wire.megabits * 1_000_000),
                    delay: wire.latency(),
                    jitter: Nanos::from_micros(wire.jitter_us),
                    queue: wire.queue,
                    loss: wire.lost_ppm.saturating_mul(1000),
                };
                let fabric = Simulation::fabric(&mut world);
                fabric.add_way((sites[one], sites[two]), &[spec], Hashing::Streams);
            }
        }
        Ok(Swarm { world, nodes, lives: 1, sessions: 0 })
    }

    fn live(&mut self, plan: &Plan) -> Result<(), String> {
        self.start_load(&plan.storm)?;
        for trouble in &plan.troubles {
            self.world.run_for(trouble.after());
            self.disturb(trouble);
        }
        self.heal();
        let seen = self.finish_load(RECOVERY)?;
        for snapshot in &seen {
            nothing_corrupt(snapshot)?;
        }
        self.everybody_answers()?;
        self.rest_of_life(plan)
    }

    /// Nobody disturbs any more: nothing may fail, and sooner or later a load needs no more memory
    /// than the one before (what was needed once is kept).
    fn rest_of_life(&mut self, plan: &Plan) -> Result<(), String> {
        let mut before = None;
        for _ in 0..LOADS_MAX {
            self.start_load(&plan.calm)?;
            for snapshot in &self.finish_load(CALM)? {
                if !snapshot.errors.is_empty() {
                    return Err(format!("a load in calm had errors: {}", told(snapshot)));
                }
            }
            for _ in 0..CALM.0 / SECOND.0 {
                self.world.run_for(SECOND);
                if check::unquiet(&self.world).is_empty() {
                    break;
                }
            }
            let mut wrong = check::unquiet(&self.world);
            wrong.extend(self.world.nodes().flat_map(|(_, node)| check::rest(node)));
            if !wrong.is_empty() {
                return Err(format!("not quiet: {}", wrong.join("; ")));
            }
            let now = check::spans(&self.world);
            let grown = before.replace(now).map(|before| check::leaks(&self.world, &before));
            if grown == Some(Vec::new()) {
                return Ok(());
            }
        }
        Err("memory grows with every load".to_owned())
    }

    /// Every node loads its neighbour.
    fn start_load(&mut self, load: &[Load]) -> Result<(), String> {
        let hosts = self.nodes.clone();
        for (index, ((host, console), load)) in hosts.iter().zip(load).enumerate() {
            let target = hosts[(index + 1) % hosts.len()].1;
            self.sessions += 1;
            let args = ClientArgs {
                target: ProcessId::lustre(target),
                local: None,
                console: *console,
                lane: LANE,
                name: Name::new("swarm").expect("a short name"),
                takeover: Takeover::Force,
                patience: Nanos::from_secs(3600),
                wall_seconds: 0x6000_0000 + self.sessions * 7,
            };
            let rung = Rung {
                test: load.test(),
                concurrency: load.concurrency,
                limit: Limit::Count(load.count),
                warm_up: Nanos::ZERO,
            };
            self.world.start_client(*host, args);
            let client = Simulation::client(&mut self.world, *host, LANE).expect("just made");
            client.start_rung(rung).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Waits until something holds for every client that is there.
    fn wait(
        &mut self,
        limit: Nanos,
        holds: impl Fn(&lustrine_selftest::Client) -> bool,
    ) -> Result<(), String> {
        let nodes = self.nodes.clone();
        let over = self.world.run_until(limit, |world| {
            nodes.iter().all(|(host, _)| world.peek(*host, LANE).is_none_or(&holds))
        });
        if over {
            return Ok(());
        }
        let now = self.world.now();
        let late = nodes.iter().filter_map(|(host, nid)| {
            let client = self.world.peek(*host, LANE).filter(|client| !holds(client))?;
            Some(format!("{nid}: {} {:?}", told(&client.progress(now)), client.error()))
        });
        Err(format!("after {} s a load is not over: {}", limit.as_secs_f64(), {
            late.collect::<Vec<_>>().join("; ")
        }))
    }

    /// Waits for the load; what each client saw.
    fn finish_load(&mut self, limit: Nanos) -> Result<Vec<Snapshot>, String> {
        self.wait(limit, |client| client.rung_finished())?;
        let mut seen = Vec::new();
        let now = self.world.now();
        for (host, _) in self.nodes.clone() {
            if let Some(client) = Simulation::client(&mut self.world, host, LANE) {
                seen.push(client.progress(now));
                client.finish(now);
            }
        }
        self.wait(limit, |client| client.finished())?;
        Ok(seen)
    }

    /// Something goes wrong.
    fn disturb(&mut self, trouble: &Trouble) {
        let host = |node: usize| self.nodes[node % self.nodes.len()].0;
        match *trouble {
            Trouble::Break { node, stream, .. } => {
                let host = host(node);
                let streams = self.world.network().streams_of(host);
                if !streams.is_empty() {
                    let stream = streams[stream as usize % streams.len()];
                    self.world.network().break_stream(stream);
                }
            }
            Trouble::Sever { between: (one, two), .. } => {
                let (one, two) = (host(one), host(two));
                self.world.network().sever(one, two);
            }
            Trouble::Mend { between: (one, two), .. } => {
                let (one, two) = (host(one), host(two));
                self.world.network().mend(one, two);
            }
            Trouble::Refuse { node, .. } => self.world.refuse(host(node)),
            Trouble::Admit { node, .. } => self.world.admit(host(node)),
            Trouble::Restart { node, death, away_ms, .. } => {
                let host = host(node);
                let spec = World::stop(&mut self.world, host, death.into());
                self.world.run_for(Nanos::from_millis(away_ms));
                self.lives += 1;
                let incarnation = spec.incarnation + 0x100;
                let wall_seconds = spec.wall_seconds + 10;
                let spec = NodeSpec { incarnation, wall_seconds, ..spec };
                World::start(&mut self.world, host, spec);
            }
        }
    }

    fn heal(&mut self) {
        let nodes = self.nodes.clone();
        for one in &nodes {
            self.world.admit(one.0);
            for two in &nodes {
                self.world.network().mend(one.0, two.0);
            }
        }
    }

    /// The first message after a fault may find out that a stream is dead; then all is well.
    fn everybody_answers(&mut self) -> Result<(), String> {
        self.ping_everybody();
        for (host, ticket) in self.ping_everybody() {
            let result = self.world.node(host).result(ticket);
            if !matches!(result, Some(ProbeResult::Ping(Ok(_)))) {
                return Err(format!("{host:?} has pinged in calm: {result:?}"));
            }
        }
        Ok(())
    }

    fn ping_everybody(&mut self) -> Vec<(HostId, Ticket)> {
        let mut tickets = Vec::new();
        for (host, _) in &self.nodes {
            for (other, nid) in &self.nodes {
                if host != other {
                    tickets.push((*host, self.world.ping(*host, nid, Nanos::from_secs(20))));
                }
            }
        }
        self.world.run_for(Nanos::from_secs(25));
        tickets
    }
}

/// A snapshot without its histogram.
fn told(snapshot: &Snapshot) -> String {
    let Snapshot { elapsed, ops, errors, outstanding, down, latencies, .. } = snapshot;
    let longest = latencies.max();
    format!("{elapsed:?} {ops} {errors:?} {outstanding} out, down {down:?}, longest {longest:?}")
}

/// Whatever goes wrong, what arrives is right.
fn nothing_corrupt(snapshot: &Snapshot) -> Result<(), String> {
    const EBADMSG: u32 = 74;
    for (error, count) in &snapshot.errors {
        let wrong = matches!(
            error,
            TestError::Corrupt | TestError::Short | TestError::Echo | TestError::Remote(EBADMSG)
        );
        if wrong {
            return Err(format!("{count} times {error:?}"));
        }
    }
    Ok(())
}
