//! `cargo xtask bench histograms`: the cost of latency histograms and of reading the metrics.
//!
//! A node and its client, each on a separate CPU, in three ways: without latencies
//! (`latency_peers=0`), with latencies, and with latencies while the node's metrics are read every
//! second. Each round measures all three in turn; the result is the ratio round by round. CPU time
//! per operation is shown beside the rate, because other programs on the machine disturb it less;
//! for this purpose the nodes sleep when they are idle (`spin_us=0`). The instructions of the logic
//! alone, which are exact, are shown as well.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::console::{TICKS, ticks_of};
use super::ours::Programs;
use super::results::{self, Conditions};
use super::statistics::Summary;
use super::{icount, ports};
use crate::process::{ChildGuard, capture, installed};
use crate::repository::target_dir;

/// The addresses of the node and its client.
const NODE: Ipv4Addr = Ipv4Addr::new(127, 65, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 65, 0, 2);

/// The interval of the scraper.
const SCRAPE: Duration = Duration::from_secs(1);

/// Additional time of a measurement for start and end.
const GRACE: Duration = Duration::from_secs(30);

/// A node that polls uses CPU time without work.
const ALWAYS: &str = "spin_us=0";

/// The tunable that disables latencies.
const OFF: &str = "latency_peers=0";

/// The tunable that makes clients of tests keep no statistics for their console.
const BLIND: &str = "selftest_client_stats=0";

/// Workloads whose instructions are counted, and the tunables without any histograms.
const COUNTED: [(&str, &[&str]); 8] = [
    ("core_put", &[OFF]),
    ("core_put_ack", &[OFF]),
    ("core_get", &[OFF]),
    ("node_ping_c64", &[OFF]),
    ("node_read_4k", &[OFF]),
    ("node_write_4k", &[OFF]),
    ("units_ping", &[OFF, BLIND]),
    ("units_read_4k", &[OFF, BLIND]),
];

/// Histograms on, off, and scraped.
#[derive(Args)]
pub(crate) struct HistogramsArgs {
    /// Rounds; each measures every way once
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,

    /// Write the results here [default: bench/results/histograms-DATE-MACHINE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A way to run a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Off,
    On,
    Scraped,
}

const WAYS: [Way; 3] = [Way::Off, Way::On, Way::Scraped];

/// A load: the arguments of `lustrine selftest`, and the field of its result.
struct Load {
    name: &'static str,
    unit: &'static str,
    words: &'static [&'static str],
    field: &'static str,
}

const LOADS: [Load; 2] = [
    Load {
        name: "ping rate, 64 in flight",
        unit: "RPC/s",
        words: &["--test", "ping", "--concurrency", "64"],
        field: "/ops_per_s",
    },
    Load {
        name: "read 1 MiB, 8 in flight",
        unit: "MiB/s",
        words: &["--test", "read", "--size", "1M", "--concurrency", "8", "--check", "none"],
        field: "/mib_per_s",
    },
];

#[derive(Debug, Serialize)]
struct Row {
    load: &'static str,
    unit: &'static str,
    off: Summary,
    on: Summary,
    scraped: Summary,
    /// Round by round: with histograms by without.
    on_by_off: Summary,
    /// With histograms that are scraped by without.
    scraped_by_off: Summary,
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug)]
struct Measured {
    /// The load's value.
    value: f64,
    /// CPU time of both ends per operation, in microseconds.
    cpu_us: f64,
    /// Pages read in the meantime, and the length of the last one.
    pages: (u64, usize),
}

#[derive(Debug, Serialize)]
struct Counted {
    workload: String,
    off: u64,
    on: u64,
}

#[derive(Debug, Serialize)]
struct Histograms {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    seconds: u32,
    goal: &'static str,
    rows: Vec<Row>,
    /// Pages that were read, and the length of the last one in bytes.
    pages: (u64, usize),
    instructions: Vec<Counted>,
}

const GOAL: &str = "goal: less than 2 %";

pub(crate) fn run(args: &HistogramsArgs) -> Result<()> {
    ensure!(installed("taskset"), "taskset is absent: install util-linux");
    let programs = Programs::build()?;
    let conditions = Conditions::here(&[("valgrind", "--version")]);
    let directory = target_dir().join("bench-histograms");
    fs::create_dir_all(&directory)?;
    let bench = Bench { lustrine: programs.lustrine, directory, seconds: args.seconds };
    let (mut rows, mut pages) = (Vec::new(), (0, 0));
    for load in &LOADS {
        eprintln!("{}", load.name);
        let mut values: [Vec<f64>; 3] = Default::default();
        let mut cpu: [Vec<f64>; 3] = Default::default();
        for round in 0..args.rounds as usize {
            // Each round begins with another way, because the first measurement after a pause
            // differs.
            for turn in 0..WAYS.len() {
                let which = (turn + round) % WAYS.len();
                let one = bench.measure(load, WAYS[which])?;
                values[which].push(one.value);
                cpu[which].push(one.cpu_us);
                pages = (pages.0 + one.pages.0, pages.1.max(one.pages.1));
            }
        }
        rows.push(row(load.name, load.unit, &values)?);
        rows.push(row(load.name, "us CPU", &cpu)?);
    }
    let result = Histograms {
        conditions,
        rounds: args.rounds,
        seconds: args.seconds,
        goal: GOAL,
        rows,
        pages,
        instructions: counted()?,
    };
    let table = render(&result);
    let Conditions { date, machine, .. } = &result.conditions;
    let name = format!("histograms-{date}-{}.json", machine.short_name());
    let file = args.json.clone().unwrap_or_else(|| result.conditions.kept(&name));
    results::write(Some(&file), &table, &result)
}

fn row(load: &'static str, unit: &'static str, values: &[Vec<f64>; 3]) -> Result<Row> {
    let summary = |values: &[f64]| Summary::of(values).context("no rounds");
    let [off, on, scraped] = [&values[0], &values[1], &values[2]].map(|values| summary(values));
    let (off, on, scraped) = (off?, on?, scraped?);
    let (on_by_off, scraped_by_off) = (Summary::ratio(&on, &off), Summary::ratio(&scraped, &off));
    Ok(Row {
        load,
        unit,
        on_by_off: on_by_off.context("no rounds")?,
        scraped_by_off: scraped_by_off.context("no rounds")?,
        off,
        on,
        scraped,
    })
}

struct Bench {
    lustrine: PathBuf,
    directory: PathBuf,
    seconds: u32,
}

impl Bench {
    fn measure(&self, load: &Load, way: Way) -> Result<Measured> {
        let (port, page) =
            (ports::free()?, SocketAddr::from((Ipv4Addr::LOCALHOST, ports::free()?)));
        let mut node = self.lustrine_on("0");
        node.args(["node", "--accept", "all", "--net", &format!("tcp={NODE}:{port}")]);
        node.arg("--control").arg(self.directory.join("node.sock"));
        if way == Way::Scraped {
            node.args(["--metrics", &page.to_string()]);
        }
        let mut client = self.lustrine_on("1");
        client.args(["selftest", "--to", &format!("{NODE}@tcp"), "--json", "-"]);
        client.args(["--net", &format!("tcp={CLIENT}:{port}")]).args(load.words);
        client.args(["--time", &self.seconds.to_string()]);
        [&mut node, &mut client].into_iter().for_each(|command| {
            command.args(["--set", ALWAYS]);
        });
        if way == Way::Off {
            [&mut node, &mut client].into_iter().for_each(|command| {
                command.args(["--set", OFF]);
            });
        }
        let node = ChildGuard::silent(&mut node)?;
        ports::wait_for_listener(port)?;
        let before = ticks_of(node.id())?;
        let done = AtomicBool::new(way != Way::Scraped);
        let (report, pages) = thread::scope(|scope| {
            let scraper = scope.spawn(|| scrape(page, &done));
            let limit = Duration::from_secs(u64::from(self.seconds)) + GRACE;
            let report = capture(&mut client, limit).and_then(|run| run.output("selftest"));
            done.store(true, Ordering::Relaxed);
            (report, scraper.join())
        });
        let pages = pages.ok().context("the scraper failed")??;
        ensure!(way != Way::Scraped || pages.0 > 0, "no page was read");
        let of_node = (ticks_of(node.id())? - before) / TICKS;
        let report = report?;
        let number = |field: &str| value(&report, field);
        let cpu_us = (number("/cpu_s/client")? + of_node) * 1e6 / number("/ops")?;
        Ok(Measured { value: number(load.field)?, cpu_us, pages })
    }

    /// The program on a CPU of its own.
    fn lustrine_on(&self, cpu: &str) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", cpu]).arg(&self.lustrine);
        command
    }
}

/// Reads the page every second until it is stopped. Returns the number of pages and the length of
/// the last one.
fn scrape(page: SocketAddr, done: &AtomicBool) -> Result<(u64, usize)> {
    let (mut pages, mut length) = (0, 0);
    while !done.load(Ordering::Relaxed) {
        let mut stream = TcpStream::connect(page)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: bench\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("# EOF\n"), "no page: {text}");
        (pages, length) = (pages + 1, text.len());
        // A scraper that is not needed any more ends within a second.
        for _ in 0..20 {
            thread::sleep(SCRAPE / 20);
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    Ok((pages, length))
}

/// The value of the one measurement in a report of `lustrine selftest`.
fn value(report: &str, field: &str) -> Result<f64> {
    let report: serde_json::Value = serde_json::from_str(report).context("no result")?;
    let result = &report["results"][0];
    ensure!(result["errors"].as_u64() == Some(0), "operations failed: {result}");
    let value = result.pointer(field).and_then(serde_json::Value::as_f64);
    value.filter(|value| *value > 0.0).with_context(|| format!("no {field} in {result}"))
}

/// Instructions with and without, if valgrind is there.
fn counted() -> Result<Vec<Counted>> {
    if !installed("valgrind") {
        eprintln!("valgrind is absent: instructions are not counted");
        return Ok(Vec::new());
    }
    let program = icount::build()?;
    let count =
        |name: &str, settings: &[&str]| icount::instructions(Path::new(&program), name, settings);
    let both = |(name, without): &(&str, &[&str])| {
        let (off, on) = (count(name, without)?, count(name, &[])?);
        Ok(Counted { workload: (*name).to_owned(), off, on })
    };
    COUNTED.iter().map(both).collect()
}

fn render(result: &Histograms) -> String {
    let run = format!("{} rounds of {} s", result.rounds, result.seconds);
    let mut out = result.conditions.heading(&run);
    let _ = writeln!(out, "  {GOAL}; in brackets least and greatest of the rounds\n");
    let (head, plain) = (["load", "unit", "off", "on", "scraped"], result.rows.iter());
    let _ = writeln!(
        out,
        "{:24} {:>6} {:>9} {:>9} {:>9}  {:28} scraped by off",
        head[0], head[1], head[2], head[3], head[4], "on by off"
    );
    for Row { load, unit, off, on, scraped, on_by_off, scraped_by_off } in plain {
        let _ = writeln!(
            out,
            "{load:24} {unit:>6} {:>9} {:>9} {:>9}  {:28} {}",
            short(off.median),
            short(on.median),
            short(scraped.median),
            change(on_by_off),
            change(scraped_by_off)
        );
    }
    let (pages, length) = result.pages;
    let _ = writeln!(out, "pages read: {pages}, the last of {length} bytes");
    if !result.instructions.is_empty() {
        let _ = writeln!(out, "\n{:24} {:>12} {:>12}", "instructions", "off", "on");
    }
    for Counted { workload, off, on } in &result.instructions {
        let percent = percent(*on as f64 / *off as f64);
        let _ = writeln!(out, "{workload:24} {off:>12} {on:>12}  {percent}");
    }
    out
}

fn short(value: f64) -> String {
    let digits = if value < 100.0 { 2 } else { 0 };
    format!("{value:.digits$}")
}

/// A ratio as a change in percent.
fn change(ratio: &Summary) -> String {
    let Summary { median, min, max, .. } = ratio;
    format!("{} ({} to {})", percent(*median), percent(*min), percent(*max))
}

fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

#[test]
fn reports_are_parsed() {
    let report = r#"{"results": [{"ops_per_s": 12.5, "errors": 0}]}"#;
    assert_eq!(value(report, "/ops_per_s").ok(), Some(12.5));
    assert!(value(report, "/mib_per_s").is_err());
    assert!(value(&report.replace(": 0", ": 1"), "/ops_per_s").is_err());
}

#[test]
fn ratios_are_shown_as_changes() {
    let ratio = Summary::of(&[0.99, 1.0, 1.021]).expect("values");
    assert_eq!(change(&ratio), "+0.0 % (-1.0 % to +2.1 %)");
}
