//! The points of a plan, which are measured one after the other.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_lnet::time::Nanos;
use lustrine_selftest::Test as RpcTest;
use lustrine_selftest::console::{Distribution as Rows, NewTest};
use lustrine_wire::nid::Nid;
use lustrine_wire::srpc::FEATURES_KNOWN;

use crate::model::{Dimension, Plan, Size, Spread, Step, Test, TestKind};

/// The name of the batch of every point.
pub(crate) const BATCH: &str = "plan";

/// The nodes of each group, in the plan's order.
pub type Nodes = Vec<Vec<Nid>>;

/// Largest number of points in a plan.
const POINTS_MAX: usize = 10_000;

/// Largest number of NIDs that all points hold together: 20 bytes each.
const PLACES_MAX: usize = 4_000_000;

/// Largest number of tests in a batch of consoles and nodes.
const FLOWS_MAX: usize = 256;

/// Largest number of servers of one client: kernel nodes misread longer lists [LST-26].
const SERVERS_MAX: usize = 341;

/// Tests that run together, once.
#[derive(Clone, Debug)]
pub struct Point {
    /// The step's index.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// The varied names, with their values in this point.
    pub labels: Vec<(String, String)>,
    /// The number of the repetition, from 0.
    pub repeat: u32,
    /// How long the tests are measured.
    pub time: Nanos,
    /// How long the tests run before that.
    pub warm_up: Nanos,
    /// The lines of its table.
    pub lines: Vec<Line>,
    /// The tests of the console's batch.
    pub flows: Vec<Flow>,
}

/// The subject of one line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What each RPC does.
    pub what: TestKind,
    /// The group of the clients.
    pub from: String,
    /// The group of the servers.
    pub to: String,
    /// Number of clients.
    pub clients: u32,
    /// Number of servers.
    pub servers: u32,
    /// Bytes per RPC; 0 for ping.
    pub size: u32,
    /// RPCs in flight of each client to each of its servers.
    pub concurrency: u32,
    /// Largest number of RPCs per second of each client; 0 for no limit.
    pub rate: u32,
}

/// One test of the console's batch.
#[derive(Clone, Debug)]
pub struct Flow {
    /// The line to which its results belong.
    pub line: usize,
    /// What each RPC does.
    pub test: RpcTest,
    /// The clients, each once.
    pub clients: Vec<Nid>,
    /// The servers, each once.
    pub servers: Vec<Nid>,
    /// Which clients have which servers.
    pub spread: Rows,
    /// RPCs in flight of each client to each of its servers.
    pub concurrency: u32,
    /// Largest number of RPCs per second of each client; 0 for no limit.
    pub rate: u32,
    /// The offset in a page at which the clients' data begin, in bytes.
    pub offset: u32,
}

/// Why these nodes cannot carry out a plan; a message for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step}: {why}")]
pub struct TooManyPoints {
    step: String,
    why: String,
}

/// All points in order. The whole sweep is repeated, so that slow changes affect all combinations
/// in the same way.
///
/// # Errors
/// When a step needs more nodes than there are, or more than a session can hold.
pub fn points(plan: &Plan, nodes: &Nodes) -> Result<Vec<Point>, TooManyPoints> {
    let (mut points, mut places) = (Vec::new(), 0);
    for (index, step) in plan.steps.iter().enumerate() {
        let wrong = |why: String| TooManyPoints { step: step.name.clone(), why };
        let combinations = combinations(step).filter(|count| *count <= POINTS_MAX);
        let combinations = combinations.ok_or_else(|| wrong(too_many_points()))?;
        for repeat in 0..step.repeat {
            for combination in 0..combinations {
                let chosen = Chosen::new(plan, step, nodes, combination).map_err(wrong)?;
                for turn in chosen.turns() {
                    let (lines, flows) = chosen.flows(plan, step, &turn).map_err(wrong)?;
                    places += flows.iter().map(Flow::places).sum::<usize>();
                    if places > PLACES_MAX {
                        return Err(wrong(format!(
                            "with this step, the points name more than {PLACES_MAX} nodes; vary \
                             less, or use fewer nodes"
                        )));
                    }
                    let mut labels = chosen.labels.clone();
                    labels.extend(turn.label());
                    points.push(Point {
                        step: index,
                        name: step.name.clone(),
                        labels,
                        repeat,
                        time: step.time,
                        warm_up: step.warm_up,
                        lines,
                        flows,
                    });
                    if points.len() > POINTS_MAX {
                        return Err(wrong(too_many_points()));
                    }
                }
            }
        }
    }
    Ok(points)
}

impl Point {
    /// Every node that takes part, each once, in order.
    pub fn nodes(&self) -> Vec<Nid> {
        let all = self.flows.iter().flat_map(|flow| flow.clients.iter().chain(&flow.servers));
        all.copied().collect::<BTreeSet<Nid>>().into_iter().collect()
    }

    /// The server of a client in the tests of a line, if it has only one.
    pub(crate) fn only_server(&self, line: usize, client: &Nid) -> Option<Nid> {
        let mut servers = BTreeSet::new();
        for flow in self.flows.iter().filter(|flow| flow.line == line) {
            for place in flow.clients.iter().enumerate().filter(|(_, nid)| *nid == client) {
                let Rows { clients, servers: row } = flow.spread;
                let first = place.0 / clients as usize * row as usize;
                let places = (first..).take(row as usize);
                servers.extend(places.map(|place| flow.servers[place % flow.servers.len()]));
            }
        }
        servers.pop_first().filter(|_| servers.is_empty())
    }

    /// The step, the varied values, and the repetition.
    pub fn title(&self, repeats: u32) -> String {
        let mut title = self.name.clone();
        for (name, value) in &self.labels {
            title += &format!(", {name} {value}");
        }
        if repeats > 1 {
            title += &format!(" ({} of {repeats})", self.repeat + 1);
        }
        title
    }
}

fn combinations(step: &Step) -> Option<usize> {
    step.sweep.iter().try_fold(1usize, |product, axis| product.checked_mul(axis.len()))
}

fn too_many_points() -> String {
    format!("with this step there are more than {POINTS_MAX} points; vary less, or reduce `repeat`")
}

impl Flow {
    /// The number of NIDs that it holds.
    fn places(&self) -> usize {
        self.clients.len() + self.servers.len()
    }
}

/// One combination of the varied values.
struct Chosen {
    labels: Vec<(String, String)>,
    nodes: Nodes,
    concurrency: Option<u32>,
    size: Option<u32>,
    rate: Option<u32>,
    /// Pairs of clients and servers that run one after the other; empty without `pairs` or
    /// `rounds`.
    rounds: Vec<Vec<(Nid, Nid)>>,
    /// Whether each of them is a single pair.
    by_pairs: bool,
}

/// One of the pairs or rounds of a combination.
enum Turn {
    /// There are none.
    Only,
    Pair(Nid, Nid),
    Round(usize, Vec<(Nid, Nid)>),
}

impl Turn {
    fn label(&self) -> Option<(String, String)> {
        match self {
            Turn::Only => None,
            Turn::Pair(from, to) => Some(("pair".to_owned(), format!("{from} -> {to}"))),
            Turn::Round(index, _) => Some(("round".to_owned(), (index + 1).to_string())),
        }
    }
}

impl Chosen {
    fn new(
        plan: &Plan,
        step: &Step,
        nodes: &Nodes,
        mut combination: usize,
    ) -> Result<Chosen, String> {
        let mut chosen = Chosen {
            labels: Vec::new(),
            nodes: nodes.clone(),
            concurrency: None,
            size: None,
            rate: None,
            rounds: Vec::new(),
            by_pairs: false,
        };
        let mut places = Vec::new();
        for axis in step.sweep.iter().rev() {
            places.push(combination % axis.len());
            combination /= axis.len();
        }
        for (axis, place) in step.sweep.iter().zip(places.into_iter().rev()) {
            let label = match axis {
                Dimension::Concurrency(values) => {
                    chosen.concurrency = Some(values[place]);
                    ("concurrency".to_owned(), values[place].to_string())
                }
                Dimension::Size(values) => {
                    chosen.size = Some(values[place]);
                    ("size".to_owned(), lustrine_report::numbers::size(values[place]))
                }
                Dimension::Rate(values) => {
                    chosen.rate = Some(values[place]);
                    ("rate".to_owned(), values[place].to_string())
                }
                Dimension::Nodes(group, values) => {
                    let (name, wanted) = (&plan.groups[*group].name, values[place] as usize);
                    let there = chosen.nodes[*group].len();
                    if wanted > there {
                        return Err(format!(
                            "{wanted} nodes of group {name} are required, and it has {there}"
                        ));
                    }
                    chosen.nodes[*group].truncate(wanted);
                    (name.clone(), wanted.to_string())
                }
            };
            chosen.labels.push(label);
        }
        if let Some(test) = step.tests.iter().find(|test| test.spread.is_in_turns()) {
            let (clients, servers) = (&chosen.nodes[test.from], &chosen.nodes[test.to]);
            let pairs = clients.len().saturating_mul(servers.len());
            if pairs > PLACES_MAX || test.spread == Spread::Pairs && pairs > 2 * POINTS_MAX {
                return Err(too_many_points());
            }
            chosen.rounds = rounds(clients, servers);
            chosen.by_pairs = test.spread == Spread::Pairs;
            if chosen.rounds.is_empty() {
                return Err("there is no pair of two nodes in its groups".to_owned());
            }
            if test.spread == Spread::Pairs {
                let pairs = chosen.rounds.iter().flatten();
                chosen.rounds = pairs.map(|pair| vec![*pair]).collect();
                chosen.rounds.sort_unstable();
            }
        }
        Ok(chosen)
    }

    fn turns(&self) -> Vec<Turn> {
        if self.rounds.is_empty() {
            return vec![Turn::Only];
        }
        let turn = |(index, pairs): (usize, &Vec<(Nid, Nid)>)| match pairs[..] {
            [(from, to)] if self.by_pairs => Turn::Pair(from, to),
            _ => Turn::Round(index, pairs.clone()),
        };
        self.rounds.iter().enumerate().map(turn).collect()
    }

    fn flows(
        &self,
        plan: &Plan,
        step: &Step,
        turn: &Turn,
    ) -> Result<(Vec<Line>, Vec<Flow>), String> {
        let (mut lines, mut flows) = (Vec::new(), Vec::new());
        for test in &step.tests {
            let concurrency = self.concurrency.unwrap_or(test.concurrency);
            let rate = self.rate.unwrap_or(test.rate);
            let ends = self.ends(test, turn)?;
            let clients: BTreeSet<&Nid> = ends.iter().flat_map(|ends| &ends.clients).collect();
            let servers: BTreeSet<&Nid> = ends.iter().flat_map(|ends| &ends.servers).collect();
            for share in shares(test, concurrency, rate, self.size)? {
                let line = lines.len();
                lines.push(Line {
                    what: test.what,
                    from: plan.groups[test.from].name.clone(),
                    to: plan.groups[test.to].name.clone(),
                    clients: clients.len() as u32,
                    servers: servers.len() as u32,
                    size: share.bytes,
                    concurrency: share.concurrency,
                    rate: share.rate,
                });
                flows.extend(ends.iter().map(|ends| Flow {
                    line,
                    test: rpc_test(test, share.bytes),
                    clients: ends.clients.clone(),
                    servers: ends.servers.clone(),
                    spread: ends.spread,
                    concurrency: share.concurrency,
                    rate: share.rate,
                    offset: test.offset,
                }));
            }
        }
        for (index, flow) in flows.iter().enumerate() {
            // Errors that the console would report later are reported now.
            let test = new_test(index, flow);
            test.examine(FEATURES_KNOWN).map_err(|refusal| refusal.to_string())?;
        }
        let mut entries: BTreeMap<Nid, usize> = BTreeMap::new();
        for nid in flows.iter().flat_map(|flow| flow.clients.iter().chain(&flow.servers)) {
            *entries.entry(*nid).or_default() += 1;
        }
        let most = entries.into_values().max().unwrap_or(0).max(flows.len());
        match most > FLOWS_MAX {
            true => Err(format!(
                "it takes {most} tests at once at some node; a batch has at most {FLOWS_MAX}: take \
                 fewer nodes, or spread \"all\", or \"rounds\""
            )),
            false => Ok((lines, flows)),
        }
    }

    /// Which clients have which servers.
    fn ends(&self, test: &Test, turn: &Turn) -> Result<Vec<Ends>, String> {
        let (clients, servers) = (&self.nodes[test.from], &self.nodes[test.to]);
        if clients.is_empty() || servers.is_empty() {
            return Err("a group has no nodes".to_owned());
        }
        let of_pair = |pair: &(Nid, Nid)| Ends {
            clients: vec![pair.0],
            servers: vec![pair.1],
            spread: Rows::ONE_TO_ONE,
        };
        let ends = match (turn, test.spread) {
            (Turn::Pair(from, to), _) => vec![of_pair(&(*from, *to))],
            // In a round the i-th client has the i-th server: one test is enough.
            (Turn::Round(_, pairs), _) => vec![Ends {
                clients: pairs.iter().map(|pair| pair.0).collect(),
                servers: pairs.iter().map(|pair| pair.1).collect(),
                spread: Rows::ONE_TO_ONE,
            }],
            (Turn::Only, Spread::Rows { clients: row, servers: of }) => vec![Ends {
                clients: clients.clone(),
                servers: servers.clone(),
                spread: Rows { clients: row, servers: of },
            }],
            (Turn::Only, Spread::Others) if clients.iter().any(|nid| servers.contains(nid)) => {
                let others = |client: &Nid| {
                    let servers: Vec<Nid> =
                        servers.iter().copied().filter(|server| server != client).collect();
                    let spread = Rows { clients: 1, servers: servers.len() as u32 };
                    Ends { clients: vec![*client], servers, spread }
                };
                clients.iter().map(others).filter(|ends| !ends.servers.is_empty()).collect()
            }
            (Turn::Only, _) => vec![Ends {
                clients: clients.clone(),
                servers: servers.clone(),
                spread: Rows { clients: 1, servers: servers.len() as u32 },
            }],
        };
        if ends.is_empty() {
            return Err("there is no pair of two nodes in its groups".to_owned());
        }
        for Ends { servers, spread, .. } in &ends {
            let (wanted, there) = (spread.servers as usize, servers.len());
            if wanted > there {
                return Err(format!(
                    "{wanted} servers for a client are required; there are {there}"
                ));
            }
            if wanted > SERVERS_MAX {
                return Err(format!(
                    "{wanted} servers for a client are wanted; at most {SERVERS_MAX} can be, for \
                     kernel nodes misread longer lists"
                ));
            }
        }
        Ok(ends)
    }
}

/// Clients and servers of a flow.
struct Ends {
    clients: Vec<Nid>,
    servers: Vec<Nid>,
    spread: Rows,
}

/// The parameters of a test with one size.
struct Share {
    bytes: u32,
    concurrency: u32,
    rate: u32,
}

/// The concurrency and rate of each size of a test, divided by weight; no share is empty.
fn shares(
    test: &Test,
    concurrency: u32,
    rate: u32,
    size: Option<u32>,
) -> Result<Vec<Share>, String> {
    let one;
    let sizes = match (test.what, size) {
        (TestKind::Ping, _) => return Ok(vec![Share { bytes: 0, concurrency, rate }]),
        (_, Some(bytes)) => {
            one = [Size { bytes, weight: 1 }];
            &one[..]
        }
        (_, None) => &test.sizes[..],
    };
    let count = sizes.len() as u32;
    if concurrency < count {
        return Err(format!(
            "concurrency {concurrency} is too little for a mix of {count} sizes: each needs an \
             RPC in flight"
        ));
    }
    if rate > 0 && rate < count {
        return Err(format!(
            "a rate of {rate} is too little for a mix of {count} sizes: each needs one RPC a second"
        ));
    }
    let concurrencies = parted(concurrency, sizes);
    let rates = if rate == 0 { vec![0; sizes.len()] } else { parted(rate, sizes) };
    let parts = sizes.iter().zip(concurrencies).zip(rates);
    let share = |((size, concurrency), rate): ((&Size, u32), u32)| Share {
        bytes: size.bytes,
        concurrency,
        rate,
    };
    Ok(parts.map(share).collect())
}

/// A number divided by weight without remainder: each part is at least one, and the rest goes one
/// by one to the parts that are farthest below their share.
fn parted(whole: u32, sizes: &[Size]) -> Vec<u32> {
    let weights: Vec<u64> = sizes.iter().map(|size| u64::from(size.weight)).collect();
    let all: u64 = weights.iter().sum::<u64>().max(1);
    let fair = |weight: &u64| u64::from(whole) * weight / all;
    let mut parts: Vec<u64> = weights.iter().map(|weight| fair(weight).max(1)).collect();
    let mut sum: u64 = parts.iter().sum();
    while sum != u64::from(whole) {
        // How far a part is above its fair share, in units of 1 / all.
        let above = |(place, part): (usize, &u64)| {
            (*part * all) as i128 - i128::from(u64::from(whole) * weights[place])
        };
        let places = parts.iter().enumerate();
        let place = if sum < u64::from(whole) {
            places.min_by_key(|at| above(*at)).map(|(place, _)| place)
        } else {
            places
                .filter(|(_, part)| **part > 1)
                .max_by_key(|at| above(*at))
                .map(|(place, _)| place)
        };
        let Some(place) = place else { break };
        if sum < u64::from(whole) {
            (parts[place], sum) = (parts[place] + 1, sum + 1);
        } else {
            (parts[place], sum) = (parts[place] - 1, sum - 1);
        }
    }
    parts.into_iter().map(|part| part as u32).collect()
}

fn rpc_test(test: &Test, len: u32) -> RpcTest {
    let check = test.check;
    match test.what {
        TestKind::Ping => RpcTest::Ping,
        TestKind::Read => RpcTest::Read { len, check },
        TestKind::Write => RpcTest::Write { len, check },
    }
}

/// All pairs of two nodes, in rounds in which each node is client at most once and server at most
/// once: in round r the i-th client has the (i + r)-th server.
fn rounds(clients: &[Nid], servers: &[Nid]) -> Vec<Vec<(Nid, Nid)>> {
    let places = clients.len().max(servers.len());
    let round = |r: usize| {
        let pairs = clients.iter().enumerate().filter_map(|(index, client)| {
            let server = servers.get((index + r) % places)?;
            (server != client).then_some((*client, *server))
        });
        pairs.collect::<Vec<_>>()
    };
    (0..places).map(round).filter(|pairs| !pairs.is_empty()).collect()
}

/// The commands for a flow.
pub(crate) fn new_test(index: usize, flow: &Flow) -> NewTest {
    NewTest {
        batch: BATCH.to_owned(),
        from: from(index),
        to: to(index),
        test: flow.test,
        offset: flow.offset,
        loops: -1,
        concurrency: flow.concurrency,
        spread: flow.spread,
        stop_on_error: false,
        rate: flow.rate,
    }
}

pub(crate) fn from(flow: usize) -> String {
    format!("from{flow}")
}

pub(crate) fn to(flow: usize) -> String {
    format!("to{flow}")
}

#[cfg(test)]
mod tests;
