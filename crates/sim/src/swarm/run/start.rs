//! Builds the simulation of a case.

use std::collections::BTreeSet;

use lustrine_lnet::time::Nanos;
use lustrine_lnet::topology::Identity;
use lustrine_socklnd::Accept;
use lustrine_wire::nid::Nid;

use super::Swarm;
use crate::costs::CpuCost;
use crate::fabric::{LinkSpec, SiteId, TrunkId};
use crate::network::HostId;
use crate::node::NodeSpec;
use crate::simulation::{Placement, Simulation};
use crate::stream::StreamSim;
use crate::swarm::case::{Node, Role, SwarmCase, Transport};
use crate::tcp::{Algorithm, TcpSpec};

/// Largest number of sites; without sites each node has its own.
const SITES_MAX: usize = 1000;

impl Swarm {
    pub(super) fn new(mut world: StreamSim, case: &SwarmCase) -> Result<Swarm, String> {
        let first = case.links.first().ok_or("a case without links")?;
        if case.nodes.is_empty() {
            return Err("a case without nodes".to_owned());
        }
        let tcp = TcpSpec {
            algorithm: if case.transport == Transport::Bbr {
                Algorithm::Bbr
            } else {
                Algorithm::Cubic
            },
            send_buffer: first.window.max(16_384),
            receive_buffer: first.window.max(16_384),
            ..TcpSpec::default()
        };
        let places = places(case)?;
        let mut sites = Vec::new();
        if case.transport != Transport::Plain {
            let links = case.links.iter().map(|link| link.between.0.max(link.between.1));
            let last = places.iter().copied().chain(links).max().unwrap_or(0);
            if last >= SITES_MAX {
                return Err(format!("a site or node {last}; allowed: 0 to {}", SITES_MAX - 1));
            }
            sites = (0..=last).map(|_| Simulation::fabric(&mut world).add_site()).collect();
        }
        let mut nodes: Vec<(HostId, Nid)> = Vec::new();
        let mut addresses = BTreeSet::new();
        for (index, node) in case.nodes.iter().enumerate() {
            let spec = spec(case, index, node)?;
            let nid = spec.nids[0];
            if !spec.addresses().into_iter().all(|address| addresses.insert(address)) {
                return Err(format!("{nid}: two nodes have this address"));
            }
            let host = match case.transport {
                Transport::Plain => world.add_node(spec),
                Transport::Cubic | Transport::Bbr => {
                    let site = sites[places[index]];
                    let interface = LinkSpec { delay: Nanos(1000), ..LinkSpec::default() };
                    world.add_node_at(
                        spec,
                        Placement { site, interface, cost: CpuCost::default(), tcp },
                    )
                }
            };
            nodes.push((host, nid));
        }
        let ways = connect(case, &mut world, &nodes, &sites)?;
        Ok(Swarm { world, nodes, ways, runs: 1, sessions: 0, operations: (0, 0) })
    }
}

/// The site of each node.
fn places(case: &SwarmCase) -> Result<Vec<usize>, String> {
    if case.sites.is_empty() {
        return Ok((0..case.nodes.len()).collect());
    }
    if case.sites.len() != case.nodes.len() || case.transport == Transport::Plain {
        return Err(format!("sites of {} nodes, of {}", case.sites.len(), case.nodes.len()));
    }
    Ok(case.sites.clone())
}

fn spec(case: &SwarmCase, index: usize, node: &Node) -> Result<NodeSpec, String> {
    let nid: Nid = node.nid.parse().map_err(|error| format!("{}: {error}", node.nid))?;
    let (identity, accept) = match node.role {
        Role::Node => (Identity::Node, Some(Accept::Secure)),
        Role::Host => (Identity::Node, Some(Accept::All)),
        Role::Userland => (Identity::Userland, None),
    };
    let mut spec = NodeSpec {
        incarnation: 0x1000_0000 + ((index as u64) << 16),
        wall_seconds: 0x6000_0000 + index as u64 * 100,
        seed: case.seed ^ (index as u64 + 1),
        cpts: node.cpts,
        skew: Nanos::from_micros(node.skew_us),
        identity,
        accept,
        ..NodeSpec::new(nid)
    };
    if node.memory_mib != 0 {
        spec.memory = node.memory_mib << 20;
    }
    for (name, value) in &node.tunables {
        spec.tunables.set(name, *value).map_err(|error| error.to_string())?;
    }
    Ok(spec)
}

/// Links between nodes or, if a case has sites, between sites; and the paths over them.
fn connect(
    case: &SwarmCase,
    world: &mut StreamSim,
    nodes: &[(HostId, Nid)],
    sites: &[SiteId],
) -> Result<Vec<TrunkId>, String> {
    let mut ways = Vec::new();
    let between_sites = !case.sites.is_empty();
    let ends = if between_sites { sites.len() } else { nodes.len() };
    for wire in &case.links {
        let (one, two) = wire.between;
        if one.max(two) >= ends {
            return Err(format!("a link of {}, of {ends}", one.max(two)));
        }
        if !between_sites {
            world.network().set_link(nodes[one].0, nodes[two].0, wire.link());
        }
        if case.transport != Transport::Plain && one != two {
            let links = vec![wire.spec(); 1 + usize::from(wire.extra_links)];
            let fabric = Simulation::fabric(world);
            let way = fabric.add_trunk((sites[one], sites[two]), &links, wire.hash_by.into());
            if between_sites {
                ways.push(way);
            }
        }
    }
    if between_sites {
        let transport = case.links.iter().cycle();
        let pairs =
            (0..nodes.len()).flat_map(|one| (one + 1..nodes.len()).map(move |two| (one, two)));
        for ((one, two), wire) in pairs.zip(transport) {
            world.network().set_link(nodes[one].0, nodes[two].0, wire.link());
        }
    }
    Ok(ways)
}
