//! The processors of this machine that this process may use, and their topology.

use std::fs;
use std::path::Path;

use crate::number_list;
use crate::thread::allowed_cpus;

/// The processors that this process may run on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// NUMA nodes with at least one usable CPU, ascending.
    pub nodes: Vec<NumaNode>,
    /// Hardware threads that share one core; 1 without SMT.
    pub threads_per_core: u32,
}

/// CPUs with the same distance to memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    /// The kernel's number for the node.
    pub id: u32,
    /// The kernel's numbers for its CPUs, ascending; not empty.
    pub cpus: Vec<u32>,
}

impl Machine {
    /// This machine, as far as the calling thread may use it: call this before pinning threads. If
    /// `/sys` does not show the topology (some containers hide it), the result is one NUMA node
    /// without SMT.
    pub fn detect() -> Machine {
        let system = Path::new("/sys/devices/system");
        let allowed = allowed_cpus()
            .or_else(|_| read_list(&system.join("cpu/online")).ok_or(()))
            .unwrap_or_else(|()| vec![0]);
        Machine::read(system, &allowed)
    }

    /// The machine that the directory `system` (`/sys/devices/system`) describes, reduced to the
    /// CPUs in `allowed`, which is not empty.
    fn read(system: &Path, allowed: &[u32]) -> Machine {
        let mut homeless: Vec<u32> = allowed.to_vec();
        homeless.sort_unstable();
        homeless.dedup();
        let first = homeless[0];
        let mut nodes = Vec::new();
        for id in node_ids(&system.join("node")) {
            let listed = read_list(&system.join(format!("node/node{id}/cpulist")));
            let listed = listed.unwrap_or_default();
            let cpus: Vec<u32> =
                homeless.extract_if(.., |cpu| listed.binary_search(cpu).is_ok()).collect();
            if !cpus.is_empty() {
                nodes.push(NumaNode { id, cpus });
            }
        }
        match nodes.first_mut() {
            _ if homeless.is_empty() => {}
            // An incomplete description is ignored: every CPU needs a node.
            Some(node) => {
                node.cpus.append(&mut homeless);
                node.cpus.sort_unstable();
            }
            None => nodes.push(NumaNode { id: 0, cpus: homeless }),
        }
        let siblings = system.join(format!("cpu/cpu{first}/topology/thread_siblings_list"));
        let threads_per_core = read_list(&siblings).map_or(1, |list| list.len() as u32);
        Machine { nodes, threads_per_core }
    }

    /// All usable CPUs, node by node.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().flat_map(|node| node.cpus.iter().copied())
    }
}

/// Numbers of the directories `node<n>`, ascending.
fn node_ids(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut ids: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("node")?.parse().ok())
        .collect();
    ids.sort_unstable();
    ids
}

/// The list in a file; `None` if there is no such file, or it does not hold a list.
fn read_list(path: &Path) -> Option<Vec<u32>> {
    number_list::parse(&fs::read_to_string(path).ok()?).ok()
}

#[cfg(test)]
mod tests;
