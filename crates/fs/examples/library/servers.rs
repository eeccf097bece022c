//! The model servers on a node of their own: one MGS, one MDT and two OSTs, over real sockets.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::BuildHasher;
use std::net::{IpAddr, Ipv4Addr};
use std::time::SystemTime;

use lustrine_config::{AcceptPolicy, InterfaceChoice, NetConfig, NodeConfig};
use lustrine_node::{Node, RegisteredService};
use lustrine_server::{Disk, FilesystemArgs, Server, ServerArgs, TargetTunables};
use lustrine_wire::nid::{Net, Nid};

/// The name of the file system.
pub(crate) const FSNAME: &str = "lustre";
/// Object targets.
const OSTS: u32 = 2;
/// Bytes of each object target.
const CAPACITY: u64 = 8 << 30;
/// Bytes of a stripe.
const STRIPE_SIZE: u32 = 4 << 20;

/// A tunable and its value.
pub(crate) type Setting = (String, i64);

/// A node with the servers. They end when this is dropped.
pub(crate) struct Servers {
    server: RegisteredService<Server>,
    _node: Node,
}

/// The configuration of a node at an address of the loopback. All that a client or a server speaks
/// to belongs to one event loop.
pub(crate) fn node_config(
    ip: Ipv4Addr,
    port: u16,
    settings: &[Setting],
) -> Result<NodeConfig, Box<dyn Error>> {
    let mut net = NetConfig::new(Net::TCP, InterfaceChoice::Address(IpAddr::V4(ip)));
    net.port = Some(port);
    let mut config = NodeConfig { nets: vec![net], ..NodeConfig::default() };
    for (name, value) in settings {
        config.tunables.set(name, *value)?;
    }
    config.tunables.loops.cpu_npartitions = 1;
    config.cpu_pattern = String::new();
    Ok(config)
}

/// The NID of a node at an address.
pub(crate) fn nid(ip: Ipv4Addr) -> Nid {
    Nid::from_ip(Net::TCP, IpAddr::V4(ip))
}

impl Servers {
    /// Starts them at an address.
    pub(crate) fn start(
        ip: Ipv4Addr,
        port: u16,
        settings: &[Setting],
        max_mod_rpcs: u16,
    ) -> Result<Servers, Box<dyn Error>> {
        let mut config =
            NodeConfig { accept: AcceptPolicy::All, ..node_config(ip, port, settings)? };
        config.keep_received(CAPACITY * u64::from(OSTS));
        let node = Node::start(&config)?;
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let disks = Disk::format_filesystem(FilesystemArgs {
            name: FSNAME.to_owned(),
            nid: nid(ip),
            osts: OSTS,
            capacity: CAPACITY,
            // One stripe is the default of Lustre, as is the size.
            stripe_count: 1,
            stripe_size: STRIPE_SIZE,
            created: wall.as_secs() as i64,
        });
        let args = ServerArgs {
            wall_seconds: wall.as_secs(),
            // The standard library seeds the hashers of its maps at random.
            seed: RandomState::new().hash_one(()),
            tunables: TargetTunables { max_mod_rpcs, ..TargetTunables::default() },
        };
        let server = node.register(&nid(ip), move |owner| Server::new(owner, args, disks))?;
        Ok(Servers { server, _node: node })
    }

    /// What runs in the event loop of the node.
    #[allow(dead_code, reason = "tests that include this file use it")]
    pub(crate) fn server(&self) -> &RegisteredService<Server> {
        &self.server
    }
}
