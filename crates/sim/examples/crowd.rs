//! How fast the message level is, and what it takes.
//!
//! `cargo run --release -p lustrine-sim --example crowd [CLIENTS SERVERS ping|read CONCURRENCY]`:
//! every client loads one server; without arguments the table of several sizes.

use std::process::{Command, ExitCode};
use std::time::Instant;

use lustrine_lnet::time::Nanos;
use lustrine_selftest::{ClientArgs, Lane, Limit, Rung, Takeover, Test};
use lustrine_sim::fabric::{LinkSpec, Rate};
use lustrine_sim::tcp::TcpSpec;
use lustrine_sim::{Cost, Crowd, NodeSpec, Place, Simulation};
use lustrine_wire::nid::{Net, Nid, ProcessId};
use lustrine_wire::srpc::{BrwCheck, Name};

const LANE: Lane = Lane(1);
const READ: Test = Test::Read { len: 1 << 20, check: BrwCheck::Simple };

/// Messages after which a run is over, beside those of its beginning.
const MESSAGES: u64 = 3_000_000;

/// Nodes of the table: clients and servers.
const SIZES: [(u32, u32); 6] =
    [(90, 10), (900, 100), (4900, 100), (9800, 200), (10_000, 200), (19_800, 200)];

struct Run {
    clients: u32,
    servers: u32,
    test: Test,
    concurrency: u32,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => table(),
        [clients, servers, test @ ("ping" | "read"), concurrency] => {
            let test = if test == "ping" { Test::Ping } else { READ };
            let number = |word: &str| word.parse().expect("a number");
            let (clients, servers) = (number(clients), number(servers));
            run(&Run { clients, servers, test, concurrency: number(concurrency) });
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: crowd [CLIENTS SERVERS ping|read CONCURRENCY]");
            ExitCode::FAILURE
        }
    }
}

/// A process for each line, so that each begins without memory.
fn table() -> ExitCode {
    let me = std::env::current_exe().expect("this program has a path");
    for test in ["ping", "read"] {
        for (clients, servers) in SIZES {
            let words = [clients.to_string(), servers.to_string(), test.into(), "8".into()];
            let status = Command::new(&me).args(words).status();
            if !status.is_ok_and(|status| status.success()) {
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn nid(number: u32) -> Nid {
    Nid::new4(Net::TCP, 0x0a00_0001 + number)
}

fn run(run: &Run) {
    let begin = Instant::now();
    let mut crowd = Crowd::new(1);
    let site = crowd.fabric().add_site();
    for number in 0..run.clients + run.servers {
        let gigabits = if number < run.servers { 100 } else { 10 };
        let interface = LinkSpec {
            rate: Rate::from_bits(gigabits * 1_000_000_000),
            delay: Nanos::from_micros(10),
            ..LinkSpec::default()
        };
        let cost = Cost { per_message: Nanos(500), per_mib: Nanos::from_micros(50) };
        let spec = NodeSpec { seed: u64::from(number), ..NodeSpec::new(nid(number)) };
        crowd.add_placed(spec, Place { site, interface, cost, tcp: TcpSpec::default() });
    }
    let hosts: Vec<_> = (0..run.clients).map(|index| run.servers + index).collect();
    for number in &hosts {
        let target = nid(number % run.servers);
        let args = ClientArgs {
            target: ProcessId::lustre(target),
            local: None,
            console: nid(*number),
            lane: LANE,
            name: Name::EMPTY,
            takeover: Takeover::NoSession,
            patience: Nanos::from_secs(1000),
            wall_seconds: 1,
        };
        let host = lustrine_sim::HostId(*number);
        crowd.start_client(host, args);
        let limit = Limit::Time(Nanos::from_secs(1_000_000));
        let (test, concurrency) = (run.test, run.concurrency);
        let rung = Rung { test, concurrency, limit, warm_up: Nanos(0) };
        let client = crowd.client(host, LANE).expect("it was just made");
        client.start_rung(rung).expect("a harmless rung");
    }
    let built = (begin.elapsed(), resident());
    // Connections and discovery first.
    let step = Nanos::from_millis(1);
    let mut advance = |messages: u64| {
        let (first, started) = (crowd.messages(), crowd.now());
        let (begin, cpu) = (Instant::now(), processor());
        while crowd.messages() < first + messages {
            let end = crowd.now() + step;
            crowd.run_to(end);
        }
        let spent = processor() - cpu;
        (crowd.messages() - first, begin.elapsed(), spent, crowd.now().since(started))
    };
    advance(u64::from(run.clients) * 20);
    let (messages, took, spent, virtually) = advance(MESSAGES);
    let test = if run.test == Test::Ping { "ping" } else { "read 1 MiB" };
    println!(
        "{:6} clients x {:3} servers, {test:10}: {:9.0} messages/s ({:4.0} ns each, \
         {:4.0} of CPU), {:5} MB, built in {:.2} s ({} MB), {:.3} s of virtual time, trace {:016x}",
        run.clients,
        run.servers,
        messages as f64 / took.as_secs_f64(),
        took.as_nanos() as f64 / messages as f64,
        spent * 1e9 / messages as f64,
        resident() >> 20,
        built.0.as_secs_f64(),
        built.1 >> 20,
        virtually.as_secs_f64(),
        crowd.trace().hash(),
    );
}

/// CPU time this process has spent as a user, in seconds, to a hundredth.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(11).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
}

/// Most resident memory of this process so far, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}
