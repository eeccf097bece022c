//! `lustrine fs serve`: a file system in memory, to try things out.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::ErrorKind;
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use lustrine_config::{AcceptPolicy, NetConfig};
use lustrine_fs::FsUrl;
use lustrine_node::{Node, StartError};
use lustrine_server::{Disk, FilesystemArgs, Server, ServerArgs, TargetTunables};
use lustrine_sys::{Pending, Signals};
use lustrine_wire::nid::Nid;

use crate::commands::node::watch_stdin;
use crate::common::{NodeOptions, TemporaryNodeOptions, net};
use crate::output::{Failure, print, print_error};
use crate::values::{self, Setting, bytes};

/// How often the command looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of the smallest target.
const SIZE_MIN: u64 = 1 << 20;
/// Bytes of a stripe, as Lustre has it by default.
const STRIPE_SIZE: u32 = 4 << 20;

/// Serve a file system that is in memory, to try things out or to test programs.
///
/// One node has the management server, a metadata target and the object targets. All contents are
/// kept in the memory of this process (names and attributes in addition to --size), and are lost
/// when it ends, on SIGTERM or SIGINT. Everyone who can reach the address can use the file system,
/// as any user: by default only programs of this machine can.
#[derive(Args, Debug)]
pub(super) struct ServeArgs {
    /// Name of the file system, 1 to 8 letters, digits, `-` or `_`
    #[arg(long, default_value = "lustre", value_parser = name)]
    name: String,

    /// Number of object targets
    #[arg(long, default_value_t = 2, value_parser = values::whole::<u32>(1..=64))]
    osts: u32,

    /// Size of each object target
    #[arg(long, default_value = "1G", value_parser = size)]
    size: u64,

    /// Network and address of the servers, tcp[N]=ADDRESS|INTERFACE[:PORT]; port 988, the default,
    /// needs root or CAP_NET_BIND_SERVICE
    #[arg(long, value_name = "NET", default_value = "tcp=127.0.0.1", value_parser = net)]
    net: NetConfig,

    /// Set a tunable (docs/tunables.md); may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<Setting>,

    /// End when standard input is closed (for programs that start it)
    #[arg(long, hide = true)]
    until_eof: bool,
}

/// Runs the command.
pub(super) fn run(args: &ServeArgs) -> Result<(), Failure> {
    let signals = Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
    let node = start_node(args)?;
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
        let Pending { terminate, hangup, .. } = signals.take();
        // A hangup is the end of its terminal.
        if terminate || hangup || eof.as_ref().is_some_and(JoinHandle::is_finished) {
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
fn start_node(args: &ServeArgs) -> Result<Node, Failure> {
    let (net, set) = (vec![args.net.clone()], args.set.clone());
    let options = TemporaryNodeOptions { net, set, ..TemporaryNodeOptions::default() };
    let mut config = NodeOptions::from(&options).node_config(print_error)?;
    config.accept = AcceptPolicy::All;
    config.tunables.loops.cpu_npartitions = 1;
    config.cpu_pattern = String::new();
    config.keep_received(args.size.saturating_mul(args.osts.into()));
    Node::start(&config).map_err(|error| match error {
        StartError::Listen { addr, error, .. } if error.kind() == ErrorKind::PermissionDenied => {
            let net = &args.net.net;
            Failure::Failed(format!(
                "cannot listen on {addr}: {error}; without root, choose a port above 1023, for \
                 example --net {net}={}:9880",
                addr.ip()
            ))
        }
        error => Failure::Failed(error.to_string()),
    })
}

/// Says what is served, and how it is used.
fn announce(args: &ServeArgs, nid: Nid) -> Result<(), Failure> {
    let ServeArgs { name, osts, size, .. } = args;
    let url = FsUrl { mgs: vec![nid], fsname: name.clone(), path: Vec::new() };
    let with = args.net.port.map(|port| {
        format!(" --net {}=ADDRESS:{port}, with an address of the client's machine", nid.net())
    });
    let (with, mib) = (with.unwrap_or_default(), size >> 20);
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
