//! `cargo xtask bench wan`: how well the simulator's TCP matches Linux's.
//!
//! Real sockets over an emulated long link (two network namespaces, a TUN device in each, and a
//! process between them), compared with the same streams in the simulator. It needs root.

mod ends;
mod lab;
mod table;
mod values;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Mutex;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::ends::{Congestion, Programs};
use self::lab::{Carried, Lab};
use self::values::{Kind, Measurement};
use super::machine::{self, Machine};
use super::results;
use super::statistics::Summary;

/// The simulator's TCP against Linux's.
#[derive(Args)]
pub(crate) struct WanArgs {
    /// Rounds; each measures everything once over real sockets
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Rates of the link, in Mb/s
    #[arg(long, value_delimiter = ',', default_values_t = [20, 100, 300])]
    rates: Vec<u64>,

    /// Round trips, in ms
    #[arg(long, value_delimiter = ',', default_values_t = [10, 50])]
    round_trips: Vec<u64>,

    /// Queues, in bandwidth-delay products
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0])]
    queues: Vec<f64>,

    /// Links emulated at the same time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    parallel: u32,

    /// Only the simulated half: no root, no results
    #[arg(long)]
    simulated_only: bool,

    /// Take the real half, and which links there are, from these earlier results
    #[arg(long, value_name = "FILE", conflicts_with = "simulated_only")]
    real: Vec<PathBuf>,

    /// Write the results here [default: bench/results/wan-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An emulated link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct LinkSpec {
    megabits: u64,
    round_trip_ms: u64,
    queue_products: f64,
}

impl LinkSpec {
    fn bits(&self) -> u64 {
        self.megabits * 1_000_000
    }

    fn round_trip_ns(&self) -> u64 {
        self.round_trip_ms * 1_000_000
    }

    /// Bandwidth-delay product, in bytes on the link.
    fn product(&self) -> u64 {
        self.bits() / 8 * self.round_trip_ms / 1000
    }

    fn queue(&self) -> u64 {
        (self.product() as f64 * self.queue_products) as u64
    }
}

/// One value of one link with one algorithm.
#[derive(Debug, Serialize)]
struct Row {
    link: LinkSpec,
    congestion: Congestion,
    kind: Kind,
    what: String,
    unit: &'static str,
    /// Absent when only the simulator ran.
    real: Option<Summary>,
    simulated: f64,
    /// The error of the simulated value against the median of the real ones.
    error_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Wan {
    date: String,
    machine: Machine,
    versions: BTreeMap<String, String>,
    rounds: u32,
    parallel: u32,
    /// The algorithms that were not measured because the kernel does not have them.
    not_run: Vec<Congestion>,
    /// Statistics of the emulated links, in the order in which they ended.
    links: Vec<(LinkSpec, Carried)>,
    rows: Vec<Row>,
}

/// The real half of earlier results.
#[derive(Deserialize)]
struct Earlier {
    /// The machine of the measurement; of several files, the first one's.
    machine: Option<Machine>,
    #[serde(default)]
    not_run: Vec<Congestion>,
    links: Vec<(LinkSpec, Carried)>,
    rows: Vec<EarlierRow>,
}

#[derive(Deserialize)]
struct EarlierRow {
    link: LinkSpec,
    congestion: Congestion,
    what: String,
    real: Option<Summary>,
}

impl Earlier {
    /// All files merged.
    fn read(files: &[PathBuf]) -> Result<Earlier> {
        let mut all =
            Earlier { machine: None, not_run: Vec::new(), links: Vec::new(), rows: Vec::new() };
        for file in files {
            let name = || file.display().to_string();
            let text = fs::read_to_string(file).with_context(name)?;
            let one: Earlier = serde_json::from_str(&text).with_context(name)?;
            all.machine = all.machine.or(one.machine);
            all.not_run.extend(one.not_run);
            all.links.extend(one.links);
            all.rows.extend(one.rows);
        }
        Ok(all)
    }

    /// The links, each once.
    fn specs(&self) -> Vec<LinkSpec> {
        let mut specs: Vec<LinkSpec> = Vec::new();
        for row in &self.rows {
            if !specs.contains(&row.link) {
                specs.push(row.link);
            }
        }
        specs
    }
}

/// Values of one link, by algorithm, over rounds.
type Found = Vec<(LinkSpec, Congestion, Vec<Measurement>)>;

pub(crate) fn run(args: &WanArgs) -> Result<()> {
    let programs = Programs::build()?;
    let here = Machine::here();
    let earlier = Earlier::read(&args.real)?;
    let links = if args.real.is_empty() { links(args)? } else { earlier.specs() };
    let mut rows = Vec::new();
    for link in &links {
        for congestion in Congestion::ALL {
            let simulated = values::all(link, |run| programs.simulate(link, congestion, run))?;
            rows.extend(simulated.into_iter().map(|one| Row {
                link: *link,
                congestion,
                kind: one.kind,
                what: one.what,
                unit: one.unit,
                real: None,
                simulated: one.value,
                error_percent: None,
            }));
        }
    }
    let (mut found, mut carried, mut not_run) = (Found::new(), earlier.links, earlier.not_run);
    if !args.simulated_only && args.real.is_empty() {
        let algorithms;
        (algorithms, not_run) = available()?;
        (found, carried) = measure(args, &programs, &links, &algorithms)?;
    }
    for row in &mut rows {
        let same = |one: &&EarlierRow| {
            (one.link, one.congestion, &one.what) == (row.link, row.congestion, &row.what)
        };
        let real = earlier.rows.iter().find(same).and_then(|one| one.real.clone());
        row.compare(real.or_else(|| row.measured(&found)));
    }
    let wan = Wan {
        date: machine::today(),
        machine: earlier.machine.unwrap_or(here),
        versions: machine::versions(&[("ip", "-V")]),
        rounds: args.rounds,
        parallel: args.parallel,
        not_run,
        links: carried,
        rows,
    };
    let table = table::render(&wan);
    let named = results::kept(&wan.versions, &format!("wan-{}.json", wan.date));
    let file = match (&args.json, args.simulated_only) {
        (Some(file), _) => Some(file.clone()),
        (None, true) => None,
        (None, false) => Some(named),
    };
    results::write(file.as_deref(), &table, &wan)
}

fn links(args: &WanArgs) -> Result<Vec<LinkSpec>> {
    let mut links = Vec::new();
    for megabits in &args.rates {
        for round_trip_ms in &args.round_trips {
            for queue_products in &args.queues {
                links.push(LinkSpec {
                    megabits: *megabits,
                    round_trip_ms: *round_trip_ms,
                    queue_products: *queue_products,
                });
            }
        }
    }
    ensure!(links.iter().all(|link| link.queue() > 3000), "a queue has room for two packets");
    ensure!((1..=100).contains(&links.len()), "between 1 and 100 links");
    Ok(links)
}

/// The algorithms that the kernel has, and those that it does not have.
fn available() -> Result<(Vec<Congestion>, Vec<Congestion>)> {
    let (mut has, mut has_not) = (Vec::new(), Vec::new());
    for congestion in Congestion::ALL {
        match congestion.is_available()? {
            true => has.push(congestion),
            false => has_not.push(congestion),
        }
    }
    for congestion in &has_not {
        let name = congestion.name();
        eprintln!("not run over real sockets: {name}, because this kernel has no tcp_{name}");
    }
    Ok((has, has_not))
}

/// All rounds over real sockets, on several links at a time.
fn measure(
    args: &WanArgs,
    programs: &Programs,
    links: &[LinkSpec],
    algorithms: &[Congestion],
) -> Result<(Found, Vec<(LinkSpec, Carried)>)> {
    let rounds = (0..args.rounds).flat_map(|_| links.iter().copied());
    let waiting = Mutex::new(rounds.collect::<VecDeque<_>>());
    let done = Mutex::new((Found::new(), Vec::new()));
    let work = |number: u32| -> Result<()> {
        loop {
            let next = waiting.lock().expect("no thread panics").pop_front();
            let Some(link) = next else { return Ok(()) };
            let mut lab = Lab::new(number, &link, &programs.link)?;
            let mut found = Found::new();
            for congestion in algorithms {
                let run = |run: &_| programs.measure(&lab, *congestion, run);
                found.push((link, *congestion, values::all(&link, run)?));
            }
            let carried = lab.end()?;
            eprintln!("{link:?}: {carried:?}");
            let mut done = done.lock().expect("no thread panics");
            done.0.extend(found);
            done.1.push((link, carried));
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..args.parallel).map(|number| scope.spawn(move || work(number))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no thread panics"))
    })?;
    Ok(done.into_inner().expect("no thread panics"))
}

impl Row {
    /// Collects the values over rounds.
    fn measured(&self, found: &Found) -> Option<Summary> {
        let same = found
            .iter()
            .filter(|(link, congestion, _)| *link == self.link && *congestion == self.congestion);
        let values = same.flat_map(|(_, _, measurements)| {
            measurements.iter().filter(|one| one.what == self.what).map(|one| one.value)
        });
        Summary::of(&values.collect::<Vec<_>>())
    }

    fn compare(&mut self, real: Option<Summary>) {
        self.real = real;
        let median = self.real.as_ref().map(|real| real.median).filter(|median| *median != 0.0);
        self.error_percent = median.map(|median| (self.simulated / median - 1.0) * 100.0);
    }
}
