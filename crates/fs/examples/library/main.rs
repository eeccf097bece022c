//! The library over the loopback, against the model servers in another process
//! (`cargo xtask bench library`).
//!
//! ```text
//! library read|random-read|write [--size BYTES] [--mib N] [--slots N] [--seconds S] [--set A=N]
//!         [--checksums 0|1]
//! library names [--files N] [--slots N] [--set NAME=VALUE]
//! library kept [--files N] [--batch N]
//! library memory|open [--files N]
//! ```
//!
//! The result is one line of JSON, with the names that `lustrine selftest --json` uses where it
//! measures the same. Two more commands are the processes that it starts: `serve` runs the servers,
//! `make` makes files.

mod data;
mod kept;
mod load;
mod memory;
mod names;
mod servers;

use std::error::Error;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use lustrine_client::{CacheTunables, Caller, Client, Done};
use lustrine_fs::{FileSystem, FsUrl, MountOptions};
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Nanos;
use lustrine_node::Node;
use lustrine_ptlrpc::ImportTunables;
use lustrine_sys::thread::{allowed_cpus, pin};
use serde_json::{Value, json};

use data::{Access, DataArgs};
use kept::KeptArgs;
use load::{Bound, LoadArgs};
use servers::{FSNAME, Servers, Setting, nid, node_config};

/// Who asks.
pub(crate) const CALLER: Caller = Caller::ROOT;
/// An answer of an event loop takes no longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The addresses of the clients and of the servers. Two nodes cannot share an address.
const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 1);
const MAKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
const SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The part of the time that is measured which passes before it.
const WARM_UP_PART: f64 = 0.125;
/// Bytes of data that a client keeps, if it keeps any.
const CACHED: u64 = 256 << 20;
/// Files for which a client has room beside those of a measurement.
const SPARE: u64 = 1000;

/// The arguments of the command line.
struct Args {
    command: String,
    size: u32,
    mib: u64,
    slots: u32,
    seconds: f64,
    files: u64,
    batch: u64,
    checksums: bool,
    settings: Vec<Setting>,
    /// Of the processes that are started.
    port: Option<u16>,
    cpu: Option<u32>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(Some(result)) => println!("{result}"),
        Ok(None) => {}
        Err(error) => {
            eprintln!("library: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Does what a command line says; the result is what was measured.
pub(crate) fn run(words: &[String]) -> Result<Option<Value>, Box<dyn Error>> {
    let usage = "usage: library read|random-read|write|names|kept|memory|open [--OPTION VALUE ..]";
    let args = read(words).ok_or(usage)?;
    match &*args.command {
        "serve" => serve(&args).map(|()| None),
        "make" => make(&args).map(|()| None),
        _ => measure(&args).map(|results| Some(json!({"results": results}))),
    }
}

fn read(words: &[String]) -> Option<Args> {
    let (command, options) = words.split_first()?;
    let mut args = Args {
        command: command.clone(),
        size: 1 << 20,
        mib: 64,
        slots: 8,
        seconds: 1.0,
        files: 10_000,
        batch: 10_000,
        checksums: true,
        settings: Vec::new(),
        port: None,
        cpu: None,
    };
    for pair in options.chunks(2) {
        let [name, value] = pair else { return None };
        match &**name {
            "--size" => args.size = value.parse().ok()?,
            "--mib" => args.mib = value.parse().ok()?,
            "--slots" => args.slots = value.parse().ok()?,
            "--seconds" => args.seconds = value.parse().ok()?,
            "--files" => args.files = value.parse().ok()?,
            "--batch" => args.batch = value.parse().ok()?,
            "--checksums" => args.checksums = value.parse::<u8>().ok()? != 0,
            "--port" => args.port = Some(value.parse().ok()?),
            "--cpu" => args.cpu = Some(value.parse().ok()?),
            "--set" => {
                let (name, value) = value.split_once('=')?;
                args.settings.push((name.to_owned(), value.parse().ok()?));
            }
            _ => return None,
        }
    }
    let fits = (4096..=4 << 20).contains(&args.size) && args.size.is_power_of_two();
    let sound = fits && args.mib > 0 && args.slots > 0 && args.files > 0 && args.batch > 0;
    (sound && args.seconds > 0.0).then_some(args)
}

/// Runs the servers until standard input is closed.
fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    if let Some(cpu) = args.cpu {
        pin(&[cpu])?;
    }
    let port = args.port.ok_or("a port is missing")?;
    let _servers = Servers::start(SERVER, port, &args.settings, rpcs_at_once(args)?)?;
    println!("ready");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The process of the servers, which ends with this.
struct ServerProcess {
    child: Child,
    port: u16,
}

impl ServerProcess {
    /// Starts it at a free port. As in `lustrine selftest`, the two nodes stand for two machines,
    /// each with a CPU of its own; on one CPU they share it.
    fn start(args: &Args) -> Result<ServerProcess, Box<dyn Error>> {
        let port = TcpListener::bind((SERVER, 0))?.local_addr()?.port();
        let cpus = allowed_cpus()?;
        let theirs = cpus.get(1).copied();
        if theirs.is_some() {
            pin(&cpus[..1])?;
        }
        let settings = args.settings.iter().map(|(name, value)| format!("{name}={value}"));
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--port", &port.to_string(), "--slots", &args.slots.to_string()])
            .args(theirs.iter().flat_map(|cpu| ["--cpu".to_owned(), cpu.to_string()]))
            .args(settings.flat_map(|setting| ["--set".to_owned(), setting]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut word = [0; 6];
        let ready = child.stdout.as_mut().expect("a pipe").read_exact(&mut word);
        let server = ServerProcess { child, port };
        ready.map_err(|_| "the process of the servers did not start")?;
        Ok(server)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is the aim.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests of each kind in flight at once at a target: all that there are, and Lustre's default at
/// least. The metadata server grants as many changes.
fn rpcs_at_once(args: &Args) -> Result<u16, Box<dyn Error>> {
    Ok(u16::try_from(args.slots)?.clamp(8, 512))
}

/// A node at an address, with the file system of the servers.
fn mount(
    (ip, port): (Ipv4Addr, u16),
    args: &Args,
    cache: CacheTunables,
) -> Result<(FileSystem, Node), Box<dyn Error>> {
    let mut config = node_config(ip, port, &args.settings)?;
    config.keep_received(cache.max_cached);
    let node = Node::start_for_command(&config)?;
    let url = FsUrl { mgs: vec![nid(SERVER)], fsname: FSNAME.to_owned(), path: Vec::new() };
    let slots = rpcs_at_once(args)?;
    let imports = ImportTunables {
        max_rpcs_in_flight: slots,
        max_mod_rpcs_in_flight: slots,
        checksums: args.checksums,
        ..ImportTunables::default()
    };
    let options = MountOptions { imports, cache, ..MountOptions::default() };
    Ok((FileSystem::mount(&node, &url, &options)?, node))
}

/// Makes files at servers that run, and leaves them.
fn make(args: &Args) -> Result<(), Box<dyn Error>> {
    let port = args.port.ok_or("a port is missing")?;
    let (files, node) = mount((MAKER, port), args, CacheTunables::NONE)?;
    names::make(&files, args.files, &load_args(args, std::process::id()))?;
    files.unmount()?;
    node.stop();
    Ok(())
}

fn load_args(args: &Args, servers: u32) -> LoadArgs<'_> {
    let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
    let bound =
        Bound::Time { warm_up: nanos(args.seconds * WARM_UP_PART), length: nanos(args.seconds) };
    LoadArgs { name: &args.command, size: 0, slots: args.slots, bound, servers }
}

fn measure(args: &Args) -> Result<Vec<Value>, Box<dyn Error>> {
    let server = ServerProcess::start(args)?;
    let place = (CLIENT, server.port);
    let load = load_args(args, server.child.id());
    if matches!(&*args.command, "memory" | "open") {
        // Memory that this process has given back would be used again.
        let status = Command::new(std::env::current_exe()?)
            .args(["make", "--port", &server.port.to_string()])
            .args(["--files", &args.files.to_string(), "--slots", &args.slots.to_string()])
            .status()?;
        if !status.success() {
            return Err("the files were not made".into());
        }
    }
    let cache = match &*args.command {
        "kept" | "memory" => {
            let room = (args.files + SPARE) as usize;
            CacheTunables { attrs: room, lru_size: room, ..CacheTunables::of(CACHED) }
        }
        _ => CacheTunables::NONE,
    };
    let (files, node) = mount(place, args, cache)?;
    let data = |access| {
        let args = DataArgs { access, size: args.size, mib: args.mib, load: &load };
        Ok(vec![data::run(&files, &args)?])
    };
    let results = match &*args.command {
        "read" => data(Access::Read),
        "random-read" => data(Access::RandomRead),
        "write" => data(Access::Write),
        "names" => names::run(&files, args.files, &load),
        "kept" => {
            let kept = KeptArgs { files: args.files, batch: args.batch, batches: 21 };
            kept::run(&files, kept, &load)
        }
        "memory" => memory::kept(&files, args.files, &load),
        "open" => memory::open(&files, args.files, &load),
        other => Err(format!("there is no command {other}").into()),
    }?;
    files.unmount()?;
    node.stop();
    Ok(results)
}

/// Has the event loop of the client do something, and waits for the outcome.
pub(crate) fn ask<T: Send + 'static>(
    files: &FileSystem,
    operation: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
) -> Result<T, Box<dyn Error>> {
    let (sender, receiver) = mpsc::channel();
    files.post(move |client, turn| {
        let done: Done<T> = Box::new(move |_, _, outcome| {
            // The caller may have given up.
            let _ = sender.send(outcome);
        });
        operation(client, turn, done);
    })?;
    Ok(receiver.recv_timeout(PATIENCE)??)
}

/// A number that looks random; splitmix64.
pub(crate) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
