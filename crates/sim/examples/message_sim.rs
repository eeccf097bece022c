//! Measures the speed and the memory of the message fidelity.
//!
//! `cargo run --release -p lustrine-sim --example message_sim [--json] CLIENTS SERVERS ping|read
//! CONCURRENCY [MESSAGES]`: every client loads one server. `cargo xtask bench message-sim` makes a
//! table of many runs.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use lustrine_lnet::time::{Nanos, WallClock};
use lustrine_selftest::{ClientArgs, ClientSlot, LoadStep, SessionMode, StepLimit, Test};
use lustrine_sim::fabric::{LinkSpec, Rate};
use lustrine_sim::tcp::TcpSpec;
use lustrine_sim::{CpuCost, MessageSim, NodeSpec, Placement, Simulation};
use lustrine_wire::nid::{Net, Nid, ProcessId};
use lustrine_wire::srpc::{BrwCheck, Name};

const SLOT: ClientSlot = ClientSlot(1);
const READ: Test = Test::Read { len: 1 << 20, check: BrwCheck::Simple };

/// Messages after which a run is over by default, not counting those of the start.
const MESSAGES: u64 = 3_000_000;

struct Run {
    clients: u32,
    servers: u32,
    test: Test,
    concurrency: u32,
    messages: u64,
}

fn main() -> ExitCode {
    take_huge_pages();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (json, words) = match words[..] {
        ["--json", ref rest @ ..] => (true, rest),
        ref all => (false, all),
    };
    let Some(run) = understand(words) else {
        eprintln!("usage: message_sim [--json] CLIENTS SERVERS ping|read CONCURRENCY [MESSAGES]");
        return ExitCode::FAILURE;
    };
    let found = measure(&run);
    if json {
        found.print_json()
    } else {
        found.print(&run)
    }
    ExitCode::SUCCESS
}

fn understand(words: &[&str]) -> Option<Run> {
    let (words, messages) = match words {
        [words @ .., last] if words.len() == 4 => (words, last.parse().ok()?),
        words => (words, MESSAGES),
    };
    let [clients, servers, test @ ("ping" | "read"), concurrency] = words else { return None };
    let test = if *test == "ping" { Test::Ping } else { READ };
    let (clients, servers) = (clients.parse().ok()?, servers.parse().ok()?);
    (servers != 0).then_some(())?;
    Some(Run { clients, servers, test, concurrency: concurrency.parse().ok()?, messages })
}

/// Starts the program again with memory in huge pages, if the C library and the kernel support
/// them. A thousand nodes are spread over more small pages than the processor's TLB holds.
fn take_huge_pages() {
    const VARIABLE: &str = "GLIBC_TUNABLES";
    if std::env::var_os(VARIABLE).is_none()
        && let Ok(me) = std::env::current_exe()
    {
        // It returns only if it fails, and then nothing has changed.
        let mut again = Command::new(me);
        again.args(std::env::args_os().skip(1)).env(VARIABLE, "glibc.malloc.hugetlb=1");
        let error = again.exec();
        eprintln!("no huge pages: {error}");
    }
}

fn nid(number: u32) -> Nid {
    Nid::new4(Net::TCP, 0x0a00_0001 + number)
}

fn measure(run: &Run) -> Found {
    let begin = Instant::now();
    let mut crowd = MessageSim::new(1);
    let site = crowd.fabric().add_site();
    for number in 0..run.clients + run.servers {
        let gigabits = if number < run.servers { 100 } else { 10 };
        let interface = LinkSpec {
            rate: Rate::from_bits(gigabits * 1_000_000_000),
            delay: Nanos::from_micros(10),
            ..LinkSpec::default()
        };
        let cost = CpuCost { per_message: Nanos(500), per_mib: Nanos::from_micros(50) };
        let spec = NodeSpec { seed: u64::from(number), ..NodeSpec::new(nid(number)) };
        crowd.add_node_at(spec, Placement { site, interface, cost, tcp: TcpSpec::default() });
    }
    let hosts: Vec<_> = (0..run.clients).map(|index| run.servers + index).collect();
    for number in &hosts {
        let target = nid(number % run.servers);
        let args = ClientArgs {
            target: ProcessId::lustre(target),
            local: None,
            console: nid(*number),
            slot: SLOT,
            name: Name::EMPTY,
            session: SessionMode::NoSession,
            patience: Nanos::from_secs(1000),
            wall: WallClock::from_secs(1),
        };
        let host = lustrine_sim::HostId(*number);
        crowd.start_client(host, args);
        let limit = StepLimit::Time(Nanos::from_secs(1_000_000));
        let (test, concurrency) = (run.test, run.concurrency);
        let step = LoadStep { test, concurrency, limit, warm_up: Nanos(0) };
        let client = crowd.client(host, SLOT).expect("it was just started");
        client.start_step(step).expect("a harmless step");
    }
    let (built, built_bytes) = (begin.elapsed(), resident());
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
    let (messages, took, cpu, virtually) = advance(run.messages);
    let (memory, trace) = (resident(), crowd.event_log().hash());
    Found { messages, took, cpu, virtually, memory, built, built_bytes, trace }
}

/// The results of a run.
struct Found {
    messages: u64,
    took: Duration,
    /// In seconds.
    cpu: f64,
    virtually: Nanos,
    /// Bytes, at the end and when all nodes had started.
    memory: u64,
    built_bytes: u64,
    built: Duration,
    trace: u64,
}

impl Found {
    fn print(&self, run: &Run) {
        let test = if run.test == Test::Ping { "ping" } else { "read 1 MiB" };
        println!(
            "{:6} clients x {:3} servers, {test:10}: {:9.0} messages/s ({:4.0} ns each, \
             {:4.0} of CPU), {:5} MB, built in {:.2} s ({} MB), {:.3} s of virtual time, trace \
             {:016x}",
            run.clients,
            run.servers,
            self.messages as f64 / self.took.as_secs_f64(),
            self.took.as_nanos() as f64 / self.messages as f64,
            self.cpu * 1e9 / self.messages as f64,
            self.memory >> 20,
            self.built.as_secs_f64(),
            self.built_bytes >> 20,
            self.virtually.as_secs_f64(),
            self.trace,
        );
    }

    fn print_json(&self) {
        let found = serde_json::json!({
            "messages": self.messages,
            "took_ns": self.took.as_nanos() as u64,
            "cpu_ns": (self.cpu * 1e9) as u64,
            "memory_bytes": self.memory,
            "virtual_ns": self.virtually.0,
            "trace": format!("{:016x}", self.trace),
        });
        println!("{found}");
    }
}

/// CPU time that this process has spent in user mode, in seconds, to a hundredth.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(11).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0) / 100.0
}

/// The largest resident memory of this process so far, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}
