//! `lustrine fs serve`: a file system in memory, to try things out.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use lustrine_config::{AcceptPolicy, InterfaceChoice, NetConfig};
use lustrine_fs::FsUrl;
use lustrine_node::Node;
use lustrine_server::{Disk, FilesystemArgs, Server, ServerArgs, TargetTunables};
use lustrine_sys::Signals;
use lustrine_wire::nid::{Net, Nid};

use crate::commands::node::watch_stdin;
use crate::common::{NodeOptions, TemporaryNodeOptions};
use crate::output::{Failure, print, print_error};
use crate::values::bytes;

/// How often the command looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of the smallest target.
const SIZE_MIN: u64 = 1 << 20;
/// Bytes of a stripe, as Lustre has it by default.
const STRIPE_SIZE: u32 = 4 << 20;

/// Serve a file system that is in memory, to try things out or to test programs.
///
/// One node has the management server, a metadata target and the object targets. What is stored
/// takes memory of this process, and is lost when it ends, with SIGTERM or SIGINT. Everyone who
/// reaches the address can use it, as any user: by default only programs of this machine can.
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// Name of the file system, 1 to 8 letters, digits, `-` or `_`
    #[arg(long, default_value = "lustre", value_parser = name)]
    name: String,

    /// Number of object targets
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    osts: u32,

    /// Size of each object target
    #[arg(long, default_value = "1G", value_parser = size)]
    size: u64,

    #[command(flatten)]
    node: TemporaryNodeOptions,

    /// End when standard input is closed (for programs that start it)
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// Runs the command.
pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let signals = Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
    let node = start_node(&args.node)?;
    let nid = node.info().nids[0];
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let disks = Disk::format_filesystem(FilesystemArgs {
        name: args.name.clone(),
        nid,
        osts: args.osts,
        capacity: args.size,
        // As Lustre has it by default.
        stripe_count: 1,
        stripe_size: STRIPE_SIZE,
        created: wall.try_into().unwrap_or(i64::MAX),
    });
    let server = ServerArgs {
        wall_seconds: wall,
        // The standard library seeds the hashers of its maps at random.
        seed: RandomState::new().hash_one(()),
        tunables: TargetTunables::default(),
    };
    let server = node
        .register(&nid, move |owner| Server::new(owner, server, disks))
        .map_err(|error| format!("cannot start the servers: {error}"))?;
    announce(args, nid)?;
    let eof = args.until_eof.then(watch_stdin);
    loop {
        if signals.take().terminate || eof.as_ref().is_some_and(JoinHandle::is_finished) {
            break;
        }
        if !node.is_sound() {
            return Err("an event loop has failed; its message is above".to_owned().into());
        }
        thread::sleep(LOOK);
    }
    drop(server);
    node.stop();
    Ok(())
}

/// A node that everyone who reaches it can use. All targets belong to one event loop.
fn start_node(options: &TemporaryNodeOptions) -> Result<Node, Failure> {
    let mut config = NodeOptions::from(options).node_config(print_error)?;
    if config.nets.is_empty() {
        let loopback = InterfaceChoice::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));
        config.nets.push(NetConfig::new(Net::TCP, loopback));
    }
    config.accept = AcceptPolicy::All;
    config.tunables.loops.cpu_npartitions = 1;
    config.cpu_pattern = String::new();
    Ok(Node::start(&config).map_err(|error| error.to_string())?)
}

/// Says what is served, and how it is used.
fn announce(args: &ServeArgs, nid: Nid) -> Result<(), Failure> {
    let ServeArgs { name, osts, size, .. } = args;
    let url = FsUrl { mgs: vec![nid], fsname: name.clone(), path: String::new() };
    let port = args.node.net.first().and_then(|net| net.port);
    let with = port.map(|port| format!(" --net {}=ADDRESS:{port}", nid.net())).unwrap_or_default();
    let mib = size >> 20;
    print(&format!(
        "{name}: {osts} object targets of {mib} MiB, in memory until this ends\n\
         try: lustrine fs df {url}{with}\n"
    ))
}

/// Parses the size of a target.
fn size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        bytes @ SIZE_MIN.. => Ok(bytes),
        _ => Err("an object target has at least 1M".to_owned()),
    }
}

/// Parses the name of a file system.
fn name(text: &str) -> Result<String, String> {
    match format!("0@lo:/{text}").parse::<FsUrl>() {
        Ok(FsUrl { fsname, path, .. }) if fsname == text && path.is_empty() => Ok(fsname),
        Ok(_) => Err("a name has no `/`".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
