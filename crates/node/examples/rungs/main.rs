//! The lower rows of the speed ladder (`cargo xtask bench ladder`): the performance of the driver
//! alone, and of the core on it, with real sockets between two processes on the loopback; and plain
//! TCP, for `cargo xtask bench buffers`.
//!
//! ```text
//! rungs tcp|socklnd|lnet --send BYTES --recv BYTES --slots N --seconds S
//!       [--waiting polling|sleeping] [--placement apart|free]
//! ```
//!
//! An operation is one message of `--send` bytes to the other process and one of `--recv` bytes
//! back; with `tcp`, only the larger of the two. The result is one line of JSON with the same names
//! as `lustrine selftest --json` uses.
//!
//! With `tcp` each end can also sleep in its calls (`--waiting sleeping`) instead of polling.

mod bounce;
mod layer;
mod lnet;
mod plain;
mod rig;

use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use hdrhistogram::Histogram;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_sys::thread::{allowed_cpus, pin};
use lustrine_wire::nid::ProcessId;
use serde_json::{Value, json};

use bounce::Bounce;
use layer::Layer;
use lnet::Lnet;
use plain::Waiting;
use rig::{Rig, Shape, nid, now};

const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Seconds before the measurement.
const WARM_UP: Nanos = Nanos::from_millis(300);
/// Longest latency that is distinguished, in nanoseconds, and its significant decimal digits.
const LATENCY_MAX: u64 = 60_000_000_000;
const DIGITS: u8 = 3;
/// The time without any answer after which the run fails.
const STUCK: Nanos = Nanos::from_secs(10);

/// The arguments of the command line.
struct RungArgs {
    layer: String,
    shape: Shape,
    seconds: u64,
    /// How the ends of plain TCP wait.
    waiting: Waiting,
    /// Whether each end has a CPU of its own; otherwise the system places them.
    apart: bool,
    /// Arguments of the serving side, from the measuring one.
    port: Option<u16>,
    cpu: Option<u32>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(args) = read(&words) else {
        eprintln!(
            "usage: rungs tcp|socklnd|lnet --send BYTES --recv BYTES --slots N --seconds S \
             [--waiting polling|sleeping] [--placement apart|free]"
        );
        return ExitCode::FAILURE;
    };
    let outcome = match (&*args.layer, args.port) {
        ("socklnd", None) => measure::<Bounce>(&args),
        ("socklnd", Some(port)) => serve::<Bounce>(&args, port),
        ("lnet", None) => measure::<Lnet>(&args),
        ("lnet", Some(port)) => serve::<Lnet>(&args, port),
        ("tcp", None) => measure_plain(&args),
        ("tcp", Some(port)) => {
            settle(&args).and_then(|()| plain::serve(args.shape, args.waiting, port))
        }
        _ => Err(io::Error::other("there are tcp, socklnd and lnet")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rungs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn read(words: &[String]) -> Option<RungArgs> {
    let (layer, options) = words.split_first()?;
    let (mut send, mut recv, mut slots, mut seconds) = (160, 160, 1, 1);
    let (mut port, mut cpu) = (None, None);
    let (mut waiting, mut apart) = (Waiting::Polling, true);
    for pair in options.chunks(2) {
        let [name, value] = pair else { return None };
        match &**name {
            "--send" => send = value.parse().ok()?,
            "--recv" => recv = value.parse().ok()?,
            "--slots" => slots = value.parse().ok()?,
            "--seconds" => seconds = value.parse().ok()?,
            "--port" => port = Some(value.parse().ok()?),
            "--cpu" => cpu = Some(value.parse().ok()?),
            "--waiting" => waiting = Waiting::named(value)?,
            "--placement" => apart = ["free", "apart"].iter().position(|name| name == value)? == 1,
            _ => return None,
        }
    }
    let fits = |len: u32| (1..=1 << 20).contains(&len);
    let sound = fits(send) && fits(recv) && (1..=64).contains(&slots) && seconds > 0;
    // The driver waits as its tunables say.
    let sound = sound && (waiting == Waiting::Polling || layer == "tcp");
    let shape = Shape { slots, send, recv };
    sound.then_some(RungArgs { layer: layer.clone(), shape, seconds, waiting, apart, port, cpu })
}

/// Prepares the serving process: it takes its CPU, and ends when standard input is closed.
fn settle(args: &RungArgs) -> io::Result<()> {
    if let Some(cpu) = args.cpu {
        pin(&[cpu])?;
    }
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    Ok(())
}

/// Answers every message until standard input is closed.
fn serve<L: Layer>(args: &RungArgs, port: u16) -> io::Result<()> {
    settle(args)?;
    let mut rig = Rig::<L>::new(SERVER, port, args.shape)?;
    println!("ready");
    loop {
        rig.turn()?;
        let now = now();
        while let Some(arrived) = rig.layer.next_arrived() {
            rig.layer.send(now, arrived.from, arrived.slot);
        }
        rig.push_out(now);
    }
}

/// The serving process; ends with this.
struct Server(Child);

impl Server {
    fn start(args: &RungArgs, port: u16, cpu: Option<u32>) -> io::Result<Server> {
        let Shape { slots, send, recv } = args.shape;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(&args.layer)
            // The bytes sent here are received there.
            .args(["--send", &recv.to_string(), "--recv", &send.to_string()])
            .args(["--slots", &slots.to_string(), "--port", &port.to_string()])
            .args(["--waiting", args.waiting.name()])
            .args(cpu.iter().flat_map(|cpu| ["--cpu".to_owned(), cpu.to_string()]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut word = [0; 6];
        let read = child.stdout.as_mut().expect("a pipe").read_exact(&mut word);
        let server = Server(child);
        read.map_err(|_| io::Error::other("the serving process did not start"))?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU seconds of a process's first thread, which does all the work.
fn cpu_seconds(process: &str) -> io::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/schedstat"))?;
    let nanos = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    nanos.map(|nanos| nanos as f64 / 1e9).ok_or_else(|| io::Error::other("no schedstat"))
}

/// Starts the serving process at a free port. As in `lustrine selftest`, two nodes stand for two
/// machines, each with a CPU unless the system is to place them; on one CPU they share it.
fn start_server(args: &RungArgs) -> io::Result<(Server, u16)> {
    let port = TcpListener::bind((SERVER, 0))?.local_addr()?.port();
    let cpus = allowed_cpus()?;
    let theirs = cpus.get(1).copied().filter(|_| args.apart);
    if theirs.is_some() {
        pin(&cpus[..1])?;
    }
    Ok((Server::start(args, port, theirs)?, port))
}

fn measure_plain(args: &RungArgs) -> io::Result<()> {
    let (server, port) = start_server(args)?;
    println!("{}", plain::measure(args, port, &server)?);
    Ok(())
}

fn measure<L: Layer>(args: &RungArgs) -> io::Result<()> {
    let (server, port) = start_server(args)?;
    let mut rig = Rig::<L>::new(CLIENT, port, args.shape)?;
    let result = run(&mut rig, args, &server.0.id().to_string())?;
    println!("{result}");
    Ok(())
}

fn run<L: Layer>(rig: &mut Rig<L>, args: &RungArgs, server: &str) -> io::Result<Value> {
    let to = ProcessId::lustre(nid(SERVER));
    let mut sent = vec![now(); args.shape.slots as usize];
    let mut latencies = Histogram::new_with_bounds(1, LATENCY_MAX, DIGITS).expect("legal bounds");
    (0..args.shape.slots).for_each(|slot| rig.layer.send(now(), to, slot.into()));
    rig.push_out(now());
    let (mut heard, mut begin, mut before) = (now(), None, (0.0, 0.0));
    let warm = now() + WARM_UP;
    loop {
        rig.turn()?;
        let at = now();
        while let Some(arrived) = rig.layer.next_arrived() {
            let start = &mut sent[arrived.slot as usize];
            if begin.is_some() {
                latencies.saturating_record(at.since(*start).0);
            }
            (*start, heard) = (at, at);
            rig.layer.send(at, to, arrived.slot);
        }
        rig.push_out(at);
        if rig.layer.errors() > 0 {
            return Err(io::Error::other("messages failed"));
        }
        if at.since(heard) > STUCK {
            return Err(io::Error::other("no more answers"));
        }
        match begin {
            None if at >= warm => {
                before = (cpu_seconds("self")?, cpu_seconds(server)?);
                begin = Some(at);
            }
            Some(begin) if at.since(begin) >= Nanos::from_secs(args.seconds) => {
                let used = (cpu_seconds("self")? - before.0, cpu_seconds(server)? - before.1);
                return Ok(result(args.shape, at, begin, &latencies, used));
            }
            _ => {}
        }
    }
}

fn result(
    shape: Shape,
    end: Time,
    begin: Time,
    latencies: &Histogram<u64>,
    (client, server): (f64, f64),
) -> Value {
    let seconds = Duration::from_nanos(end.since(begin).0).as_secs_f64();
    let ops = latencies.len();
    let bytes = f64::from(shape.send.max(shape.recv)) * ops as f64;
    json!({"results": [{
        "seconds": seconds,
        "ops": ops,
        "ops_per_s": ops as f64 / seconds,
        "mib_per_s": bytes / seconds / f64::from(1 << 20),
        "latency_us": {"p50": latencies.value_at_quantile(0.5) as f64 / 1e3},
        "errors": 0,
        "cpu_s": {"client": client, "server": server},
        "raw_tcp_mib_per_s": null,
    }]})
}
