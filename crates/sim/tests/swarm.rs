//! Random worlds: random links, tunables, loads and faults. Then the faults heal, and everything
//! must work, be quiet, and have come to nobody's harm.
//!
//! `LUSTRINE_SEEDS=1000` runs so many seeds, `LUSTRINE_SEEDS=17..18` just those.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lustrine_lnet::time::Nanos;
use lustrine_node::{ProbeResult, Ticket};
use lustrine_selftest::{ClientArgs, Lane, Limit, Rung, Snapshot, Takeover, Test, TestError};
use lustrine_sim::{Chunking, Death, HostId, Link, NodeSpec, Rng, World, check};
use lustrine_wire::nid::{Nid, ProcessId};
use lustrine_wire::srpc::{BrwCheck, Name};

/// Seeds of an ordinary test run.
const SEEDS: core::ops::Range<u64> = 0..25;

const SECOND: Nanos = Nanos::from_secs(1);

/// Of every client.
const LANE: Lane = Lane(1);

/// What healed must have caught up with everything after so long.
const RECOVERY: Nanos = Nanos::from_secs(300);

/// A session that nobody disturbs must end within so long.
const CALM: Nanos = Nanos::from_secs(120);

/// After so many equal loads memory must have stopped growing.
const LOADS_MAX: u32 = 6;

struct Swarm {
    world: World,
    rng: Rng,
    nodes: Vec<(HostId, Nid)>,
    lives: u64,
    sessions: u8,
}

impl Swarm {
    fn new(seed: u64) -> Swarm {
        let mut rng = Rng::new(seed);
        let mut world = World::new(rng.draw());
        let mut nodes = Vec::new();
        let count = rng.between(2, 3);
        let nid: fn(u32) -> Nid = if rng.chance(1, 3) { nid6 } else { nid4 };
        let base = tunables(&mut rng, NodeSpec::new(nid(0)));
        for index in 0..count as u32 {
            let mut spec = NodeSpec {
                nids: vec![nid(index)],
                incarnation: 0x1000_0000 + (u64::from(index) << 16),
                wall_seconds: 0x6000_0000 + u64::from(index) * 100,
                seed: rng.draw(),
                ..base.clone()
            };
            if rng.chance(1, 3) {
                // Nodes need not agree.
                spec = tunables(&mut rng, spec);
            }
            nodes.push((world.add_node(spec), nid(index)));
        }
        for one in &nodes {
            for two in &nodes {
                let link = link(&mut rng);
                world.network().set_link(one.0, two.0, link);
            }
        }
        Swarm { world, rng, nodes, lives: 1, sessions: 0 }
    }

    /// A load for every node.
    fn draw_load(&mut self, count: u64) -> Vec<Rung> {
        let rng = &mut self.rng;
        let mut rung = || Rung {
            test: test(rng),
            concurrency: rng.between(1, 16) as u32,
            limit: Limit::Count(count),
            warm_up: Nanos(0),
        };
        self.nodes.iter().map(|_| rung()).collect()
    }

    /// Every node loads its neighbour.
    fn start_load(&mut self, load: &[Rung]) {
        let hosts: Vec<(HostId, Nid)> = self.nodes.clone();
        for (index, (host, console)) in hosts.iter().enumerate() {
            let target = hosts[(index + 1) % hosts.len()].1;
            self.sessions = self.sessions % 200 + 1;
            let args = ClientArgs {
                target: ProcessId::lustre(target),
                local: None,
                console: *console,
                lane: LANE,
                name: Name::new("swarm").expect("a short name"),
                takeover: Takeover::Force,
                patience: Nanos::from_secs(3600),
                wall_seconds: 0x6000_0000 + u64::from(self.sessions) * 7,
            };
            let rung = load[index];
            self.world.with(*host, |now, partition| {
                partition.start_client(now, args).expect("no other client");
                let client = partition.client(LANE).expect("it was just made");
                client.start_rung(rung).expect("a harmless rung");
            });
        }
    }

    /// Whether all clients that are there have ended their rung.
    fn rungs_are_over(world: &mut World, nodes: &[(HostId, Nid)]) -> bool {
        nodes.iter().all(|(host, _)| {
            world.look(*host, |partition| {
                partition.client(LANE).is_none_or(|client| client.rung_finished())
            })
        })
    }

    /// Waits for the load; what each client saw.
    fn finish_load(&mut self, limit: Nanos) -> Vec<Snapshot> {
        let nodes = self.nodes.clone();
        let over = self.world.run_until(limit, |world| Swarm::rungs_are_over(world, &nodes));
        let mut seen = Vec::new();
        for (host, nid) in &nodes {
            let snapshot = self.world.with(*host, |now, partition| {
                let client = partition.client(LANE)?;
                let snapshot = client.progress(now);
                assert!(over, "{nid}: {} {:?}", told(&snapshot), client.error());
                client.finish(now);
                Some(snapshot)
            });
            seen.extend(snapshot);
        }
        let finished = self.world.run_until(limit, |world| {
            nodes.iter().all(|(host, _)| {
                world.look(*host, |partition| {
                    partition.client(LANE).is_none_or(|client| client.finished())
                })
            })
        });
        assert!(finished, "a session did not end");
        seen
    }

    /// Something goes wrong.
    fn disturb(&mut self) {
        let one = self.rng.pick(&self.nodes).0;
        let two = self.rng.pick(&self.nodes).0;
        match self.rng.below(12) {
            0..=3 => {
                let streams = self.world.network().streams_of(one);
                if !streams.is_empty() {
                    let stream = *self.rng.pick(&streams);
                    self.world.network().break_stream(stream);
                }
            }
            4 | 5 => self.world.network().sever(one, two),
            6 | 7 => self.world.network().mend(one, two),
            8 => self.world.refuse(one),
            9 => self.world.admit(one),
            _ => self.restart(one),
        }
    }

    fn restart(&mut self, host: HostId) {
        let death = *self.rng.pick(&[Death::Crash, Death::Silence, Death::Orderly]);
        let spec = self.world.stop(host, death);
        let away = Nanos::from_millis(self.rng.below(3000));
        self.world.run_for(away);
        self.lives += 1;
        let incarnation = spec.incarnation + 0x100;
        let wall_seconds = spec.wall_seconds + 10;
        self.world.start(host, NodeSpec { incarnation, wall_seconds, ..spec });
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
    fn everybody_answers(&mut self) {
        self.ping_everybody();
        for (host, ticket) in self.ping_everybody() {
            let result = self.world.node(host).result(ticket);
            assert!(matches!(result, Some(ProbeResult::Ping(Ok(_)))), "{host:?} {result:?}");
        }
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

fn nid4(index: u32) -> Nid {
    format!("10.1.0.{}@tcp", index + 1).parse().expect("a NID")
}

fn nid6(index: u32) -> Nid {
    format!("fd77::{}@tcp", index + 1).parse().expect("a NID")
}

fn link(rng: &mut Rng) -> Link {
    Link {
        latency: Nanos(10_u64.pow(rng.between(4, 7) as u32)),
        jitter: Nanos(rng.below(2_000_000)),
        window: 1 << rng.between(15, 21),
        chunking: match rng.below(3) {
            0 => Chunking::Whole,
            1 => Chunking::Random,
            _ => Chunking::AtMost(1 << rng.between(10, 16)),
        },
    }
}

fn tunables(rng: &mut Rng, spec: NodeSpec) -> NodeSpec {
    let peer_credits = rng.between(1, 32);
    let values = [
        ("peer_credits", peer_credits),
        ("credits", rng.between(peer_credits, 256)),
        ("conns_per_peer", rng.between(1, 3)),
        ("min_bulk", *rng.pick(&[0, 100, 1024, 65_536])),
        ("zero_copy", rng.below(2)),
        ("zc_min_payload", *rng.pick(&[2048, 16_384, 100_000])),
        ("discovery", rng.below(2)),
        ("protocol", *rng.pick(&[0, 0, 0, 1, 2, 3, 4])),
        ("enable_csum", rng.below(2)),
        ("keepalive", rng.below(10)),
        ("sock_timeout", rng.between(3, 20)),
        ("min_reconnectms", rng.between(50, 1000)),
        ("max_reconnectms", rng.between(1000, 5000)),
        ("transaction_timeout", rng.between(10, 60)),
        ("rpc_timeout", rng.between(40, 64)),
        ("selftest_memory", rng.between(32, 256)),
    ];
    values.iter().fold(spec, |spec, (name, value)| spec.with(name, *value as i64))
}

fn test(rng: &mut Rng) -> Test {
    let len = match rng.below(4) {
        0 => 8 * rng.between(1, 512) as u32,
        1 if rng.chance(1, 2) => 1 << 20,
        _ => 4096 * rng.between(1, 40) as u32,
    };
    let check = *rng.pick(&[BrwCheck::Simple, BrwCheck::Full, BrwCheck::Full]);
    match rng.below(3) {
        0 => Test::Ping,
        1 => Test::Read { len, check },
        _ => Test::Write { len, check },
    }
}

/// A snapshot without its histogram.
fn told(snapshot: &Snapshot) -> String {
    let Snapshot { elapsed, ops, errors, outstanding, down, latencies, .. } = snapshot;
    let longest = latencies.max();
    format!("{elapsed:?} {ops} {errors:?} {outstanding} out, down {down:?}, longest {longest:?}")
}

/// Whatever goes wrong, what arrives is right.
fn assert_nothing_corrupt(seen: &[Snapshot]) {
    const EBADMSG: u32 = 74;
    for (error, count) in seen.iter().flat_map(|snapshot| &snapshot.errors) {
        let wrong = matches!(
            error,
            TestError::Corrupt | TestError::Short | TestError::Echo | TestError::Remote(EBADMSG)
        );
        assert!(!wrong, "{count} times {error:?}");
    }
}

/// One world's life; its trace.
fn live(seed: u64) -> (u64, u64) {
    let mut swarm = Swarm::new(seed);
    let load = swarm.draw_load(200);
    swarm.start_load(&load);
    for _ in 0..swarm.rng.below(20) {
        let pause = Nanos::from_millis(swarm.rng.below(2000));
        swarm.world.run_for(pause);
        swarm.disturb();
    }
    swarm.heal();
    let seen = swarm.finish_load(RECOVERY);
    assert_nothing_corrupt(&seen);
    swarm.everybody_answers();

    // Nobody disturbs any more: nothing may fail, and sooner or later a load needs no more memory
    // than the one before (what was needed once is kept).
    let load = swarm.draw_load(40);
    let mut before = None;
    for round in 0.. {
        swarm.start_load(&load);
        let seen = swarm.finish_load(CALM);
        assert_eq!(seen.len(), swarm.nodes.len());
        for snapshot in &seen {
            assert!(snapshot.errors.is_empty(), "{}", told(snapshot));
        }
        for _ in 0..CALM.0 / SECOND.0 {
            swarm.world.run_for(SECOND);
            if check::unquiet(&swarm.world).is_empty() {
                break;
            }
        }
        check::assert_quiet(&swarm.world);
        for (_, node) in swarm.world.nodes() {
            assert_eq!(check::rest(node), Vec::<String>::new());
        }
        let now = check::spans(&swarm.world);
        let grown = before.replace(now).map(|before| check::leaks(&swarm.world, &before));
        if grown == Some(Vec::new()) {
            break;
        }
        assert!(round < LOADS_MAX, "{grown:?}");
    }
    (swarm.world.trace().hash(), swarm.world.trace().count())
}

fn seeds() -> core::ops::Range<u64> {
    let Ok(text) = std::env::var("LUSTRINE_SEEDS") else { return SEEDS };
    let number = |text: &str| text.parse().expect("LUSTRINE_SEEDS is a number or a range a..b");
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => 0..number(&text),
    }
}

#[test]
fn swarm() {
    let mut failed = Vec::new();
    for seed in seeds() {
        if catch_unwind(AssertUnwindSafe(|| live(seed))).is_err() {
            eprintln!("seed {seed} failed: LUSTRINE_SEEDS={seed}..{}", seed + 1);
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
}

#[test]
fn a_seed_is_a_life() {
    assert_eq!(live(7), live(7));
    assert_ne!(live(7).0, live(8).0);
}
