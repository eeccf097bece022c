//! The theoretical bound of a load: RPCs in flight x size / (k x round trip), limited by what the
//! links on the path carry.
//!
//! A ping takes one round trip. A read or a write takes two, because selftest's servers move the
//! data and wait for their acknowledgement or reply before they answer. The results are shown to
//! people, so floating point is allowed here.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_selftest::Test;
use lustrine_sim::Simulation;
use lustrine_sim::fabric::{Fabric, Hashing, Hop};

use crate::model::{Load, Scenario};
use crate::outcome::SharedLinks;
use crate::stage::Stage;

/// What limits a load, and to how many RPCs per second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bound {
    pub(crate) ops_per_s: f64,
    pub(crate) limit: String,
}

/// The bounds of all loads.
pub(crate) struct Bounds {
    /// Of each load; `None` when nothing limits it.
    pub(crate) loads: Vec<Option<Bound>>,
    /// What limits several of them together.
    pub(crate) shared: Vec<SharedLinks>,
}

/// The bounds of all loads of a scenario.
pub(crate) fn bounds(scenario: &Scenario, stage: &Stage, sim: &mut dyn Simulation) -> Bounds {
    let fabric = sim.fabric();
    let ways: Vec<Option<DataWay>> =
        scenario.loads.iter().map(|load| DataWay::new(scenario, stage, load, fabric)).collect();
    let loads = scenario.loads.iter().zip(&ways);
    let loads = loads.map(|(load, way)| bound(load, way.as_ref()?, fabric)).collect();
    Bounds { loads, shared: shared(scenario, &ways, fabric) }
}

/// The bound of a load; `None` when nothing limits it.
fn bound(load: &Load, way: &DataWay, fabric: &Fabric) -> Option<Bound> {
    let trips = if load.test == Test::Ping { 1.0 } else { 2.0 };
    let size = f64::from(load.test.len());
    let rpcs = way.pairs as f64 * f64::from(load.concurrency);
    // Without delay there is no limit but the links'.
    let by_delay = match way.round_trip {
        0.0 => f64::INFINITY,
        trip => rpcs / (trips * trip),
    };
    let mut best = Bound { ops_per_s: by_delay, limit: "delay".to_owned() };
    if size > 0.0 {
        let per_pair = by_delay / way.pairs as f64 * size;
        for (name, stretch) in &way.stretches {
            let ops_per_s = stretch.carries(per_pair, fabric) / size;
            if ops_per_s < best.ops_per_s {
                best = Bound { ops_per_s, limit: name.clone() };
            }
        }
    }
    best.ops_per_s.is_finite().then_some(best)
}

/// Links that the data of several loads pass. Where two loads have a link in common, all links that
/// each of them may use instead belong to it.
fn shared(scenario: &Scenario, ways: &[Option<DataWay>], fabric: &Fabric) -> Vec<SharedLinks> {
    let mut found: Vec<(BTreeSet<Hop>, Vec<usize>)> = Vec::new();
    for (load, way) in ways.iter().enumerate() {
        let carries_data = scenario.loads[load].test != Test::Ping;
        for (_, stretch) in way.iter().filter(|_| carries_data).flat_map(|way| &way.stretches) {
            let (mut hops, mut loads) = (stretch.hops(), vec![load]);
            found.retain(|(others, users)| {
                let apart = hops.is_disjoint(others);
                if !apart {
                    hops.extend(others);
                    loads.extend(users);
                }
                apart
            });
            found.push((hops, loads));
        }
    }
    let links = found.into_iter().filter_map(|(hops, mut loads)| {
        loads.sort_unstable();
        loads.dedup();
        let rates = hops.iter().map(|hop| fabric.spec(*hop).rate);
        let bits: u64 = rates.map(|rate| rate.map(|rate| rate.bits())).sum::<Option<u64>>()?;
        (loads.len() > 1).then_some(SharedLinks { loads, bytes_per_s: bits as f64 / 8.0 })
    });
    links.collect()
}

/// The path of a load's data. All nodes of a group are at one site, so the path is the same for all
/// pairs, except for the choice among parallel links.
struct DataWay {
    pairs: u64,
    /// The round trip, in seconds.
    round_trip: f64,
    /// What all the data pass, by name.
    stretches: Vec<(String, Stretch)>,
}

/// Parallel links, and how many pairs use each of them.
#[derive(Default)]
struct Stretch {
    pairs: BTreeMap<Hop, u64>,
    /// Links that share the work regardless of its content: all links of a trunk that hashes by
    /// stream.
    pool: Vec<Hop>,
}

impl DataWay {
    fn new(
        scenario: &Scenario,
        stage: &Stage,
        load: &Load,
        fabric: &mut Fabric,
    ) -> Option<DataWay> {
        let (from, to) = (&scenario.groups[load.from], &scenario.groups[load.to]);
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut pairs, mut round_trip) = (0, 0.0);
        for (client, server) in load.spread.pairs(from.count, to.count) {
            let client = stage.hosts[load.from][client as usize];
            let server = stage.hosts[load.to][server as usize];
            let (source, sink) = match load.test {
                Test::Read { .. } => (server, client),
                Test::Ping | Test::Write { .. } => (client, server),
            };
            let there = fabric.hops(source, sink, 0)?;
            if pairs == 0 {
                let back = fabric.hops(sink, source, 0)?;
                round_trip = fabric.delay(&there).as_secs_f64() + fabric.delay(&back).as_secs_f64();
                stretches.resize_with(there.len(), Stretch::default);
            }
            pairs += 1;
            for (stretch, hop) in stretches.iter_mut().zip(&there) {
                *stretch.pairs.entry(*hop).or_default() += 1;
            }
        }
        let last = stretches.len() - 1;
        let (source, sink) = match load.test {
            Test::Read { .. } => (&to.name, &from.name),
            Test::Ping | Test::Write { .. } => (&from.name, &to.name),
        };
        let name = |(index, mut stretch): (usize, Stretch)| match index {
            0 => (format!("interfaces of {source}"), stretch),
            index if index == last => (format!("interfaces of {sink}"), stretch),
            _ => {
                let name = stretch.join_way(scenario, stage, fabric);
                (name, stretch)
            }
        };
        let stretches = stretches.into_iter().enumerate().map(name).collect();
        Some(DataWay { pairs, round_trip, stretches })
    }
}

impl Stretch {
    /// Finds the trunk that these links belong to, and returns its name.
    fn join_way(&mut self, scenario: &Scenario, stage: &Stage, fabric: &Fabric) -> String {
        for (way, id) in scenario.trunks.iter().zip(&stage.trunks) {
            let links = fabric.links(*id);
            let forward = links.iter().any(|(there, _)| self.pairs.contains_key(there));
            let backward = links.iter().any(|(_, back)| self.pairs.contains_key(back));
            if !forward && !backward {
                continue;
            }
            if way.hashing == Hashing::Streams {
                let side = |(there, back): &(Hop, Hop)| if forward { *there } else { *back };
                self.pool = links.iter().map(side).collect();
            }
            let (one, two) = (&scenario.sites[way.between.0], &scenario.sites[way.between.1]);
            return format!("links {one} - {two}");
        }
        "links".to_owned()
    }

    /// All of its links.
    fn hops(&self) -> BTreeSet<Hop> {
        self.pairs.keys().chain(&self.pool).copied().collect()
    }

    /// Bytes per second, if each pair wants `wanted` of them.
    fn carries(&self, per_pair: f64, fabric: &Fabric) -> f64 {
        let rate = |hop: &Hop| {
            fabric.spec(*hop).rate.map_or(f64::INFINITY, |rate| rate.bits() as f64 / 8.0)
        };
        if !self.pool.is_empty() {
            return self.pool.iter().map(rate).sum();
        }
        self.pairs.iter().map(|(hop, pairs)| rate(hop).min(per_pair * *pairs as f64)).sum()
    }
}
