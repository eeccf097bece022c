//! CPU partitions: LNet's `cpu_npartitions` and `cpu_pattern` [CPT-1].
//!
//! A pure function from two settings and a [`Machine`] to lists of CPUs.

use thiserror::Error;

use crate::machine::Machine;

mod pattern;

use pattern::{Base, Exclude, Pattern, Unit};

/// Largest number of partitions.
pub const PARTITIONS_MAX: u32 = 256;

/// The default of `cpu_pattern`.
pub const PATTERN_DEFAULT: &str = "N";

/// The CPUs that one event loop may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuSet {
    /// The kernel's numbers, ascending within a NUMA node; not empty.
    pub cpus: Vec<u32>,
}

/// Why the settings do not describe partitions.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CptError {
    /// More partitions than [`PARTITIONS_MAX`].
    #[error("{0} CPU partitions are more than {PARTITIONS_MAX}")]
    TooMany(usize),
    /// The pattern has none of the known forms.
    #[error(
        "cpu_pattern makes no sense from {rest:?} on; known forms: N, 0[0-3] 1[4,5], \
         N 0[0,1] 1[2], C[list], N C[list], X[list], N X[list]"
    )]
    Syntax {
        /// The text that was not recognised.
        rest: String,
    },
    /// The text in brackets is not a list.
    #[error("cpu_pattern: [{0}] is not a list of numbers such as 0,2-5,8-14/2")]
    BadList(String),
    /// Partition numbers must be 0 to one less than there are partitions.
    #[error("cpu_pattern: there is no partition {index} among {partitions}")]
    IndexOutOfRange {
        /// The number given.
        index: u32,
        /// How many partitions the pattern describes.
        partitions: u32,
    },
    /// A CPU that this machine does not have, or this process may not use.
    #[error("cpu_pattern: CPU {0} is not there, or this process may not use it")]
    NoSuchCpu(u32),
    /// A NUMA node that this machine does not have, or of which this process may use no CPU.
    #[error("cpu_pattern: NUMA node {0} is not there, or this process may not use its CPUs")]
    NoSuchNode(u32),
    /// No partition has a CPU at this position.
    #[error("cpu_pattern: no partition has a CPU at position {0}")]
    NoSuchPosition(u32),
    /// A partition is described twice.
    #[error("cpu_pattern: partition {0} is set twice")]
    PartitionTwice(u32),
    /// A CPU is given to two partitions.
    #[error("cpu_pattern: CPU {0} is given to two partitions")]
    CpuTwice(u32),
    /// A partition has no CPU (left).
    #[error("no CPU is left for partition {0}")]
    Empty(u32),
}

impl CptError {
    /// The negative errno that LNet returns for it [CPT-2].
    pub fn errno(&self) -> i32 {
        match self {
            CptError::TooMany(_)
            | CptError::Syntax { .. }
            | CptError::IndexOutOfRange { .. }
            | CptError::NoSuchCpu(_)
            | CptError::NoSuchNode(_)
            | CptError::NoSuchPosition(_) => -libc::EINVAL,
            CptError::BadList(_) => -libc::ERANGE,
            CptError::PartitionTwice(_) | CptError::CpuTwice(_) => -libc::EPERM,
            CptError::Empty(_) => -libc::ENODEV,
        }
    }
}

/// The partitions that `cpu_npartitions` (0: not set) and `cpu_pattern` describe, by number.
///
/// A number that is set replaces the estimate and the one-per-node layout of `N`; a pattern that
/// lists its partitions does not need it.
///
/// # Errors
/// See [`CptError`].
pub fn partitions(
    npartitions: u32,
    pattern: &str,
    machine: &Machine,
) -> Result<Vec<CpuSet>, CptError> {
    if npartitions > PARTITIONS_MAX {
        return Err(CptError::TooMany(npartitions as usize));
    }
    match pattern::parse(pattern)? {
        Pattern::Layout(base) => layout(base, npartitions, machine),
        Pattern::Without { base, exclude, list } => {
            let whole = layout(base, npartitions, machine)?;
            match exclude {
                Exclude::Position => without_positions(whole, &list),
                Exclude::Cpu => without_cpus(whole, &list),
            }
        }
        Pattern::Listed { unit, entries } => listed(unit, &entries, machine),
    }
}

fn layout(base: Base, npartitions: u32, machine: &Machine) -> Result<Vec<CpuSet>, CptError> {
    let partitions = match (base, npartitions) {
        (Base::Nodes, 0) => {
            machine.nodes.iter().map(|node| CpuSet { cpus: node.cpus.clone() }).collect()
        }
        (Base::Default, 0) => deal(estimate(machine), machine),
        (_, n) => deal(n, machine),
    };
    refuse_empty(partitions)
}

/// The default number of partitions of a machine: one up to 4 CPUs; otherwise the smallest number
/// from 2 with at most two cores' threads per partition, lowered until it divides the number of
/// CPUs.
fn estimate(machine: &Machine) -> u32 {
    let cpus = machine.cpus().count() as u32;
    if cpus <= 4 {
        return 1;
    }
    let wanted = cpus.div_ceil(2 * machine.threads_per_core.max(1)).clamp(2, PARTITIONS_MAX);
    (1..=wanted).rev().find(|&n| cpus.is_multiple_of(n)).unwrap_or(1)
}

/// Distributes the CPUs node by node; the sizes of the partitions differ by one at most.
fn deal(partitions: u32, machine: &Machine) -> Vec<CpuSet> {
    let cpus: Vec<u32> = machine.cpus().collect();
    let bound = |i: u32| i as usize * cpus.len() / partitions as usize;
    (0..partitions).map(|i| CpuSet { cpus: cpus[bound(i)..bound(i + 1)].to_vec() }).collect()
}

fn listed(
    unit: Unit,
    entries: &[(u32, Vec<u32>)],
    machine: &Machine,
) -> Result<Vec<CpuSet>, CptError> {
    if entries.len() > PARTITIONS_MAX as usize {
        return Err(CptError::TooMany(entries.len()));
    }
    let mut partitions = vec![None; entries.len()];
    let mut taken = Vec::new();
    for (index, list) in entries {
        let slot = partitions
            .get_mut(*index as usize)
            .ok_or(CptError::IndexOutOfRange { index: *index, partitions: entries.len() as u32 })?;
        if slot.is_some() {
            return Err(CptError::PartitionTwice(*index));
        }
        let cpus = match unit {
            Unit::Cpu => cpus_of_list(list, machine)?,
            Unit::Node => cpus_of_nodes(list, machine)?,
        };
        if let Some(&twice) = cpus.iter().find(|cpu| taken.contains(*cpu)) {
            return Err(CptError::CpuTwice(twice));
        }
        taken.extend(&cpus);
        *slot = Some(CpuSet { cpus });
    }
    // There are as many entries as places, and none twice, so all places are filled.
    refuse_empty(partitions.into_iter().flatten().collect())
}

fn cpus_of_list(list: &[u32], machine: &Machine) -> Result<Vec<u32>, CptError> {
    match list.iter().find(|&&wanted| machine.cpus().all(|cpu| cpu != wanted)) {
        Some(&missing) => Err(CptError::NoSuchCpu(missing)),
        None => Ok(list.to_vec()),
    }
}

fn cpus_of_nodes(list: &[u32], machine: &Machine) -> Result<Vec<u32>, CptError> {
    let mut cpus = Vec::new();
    for &id in list {
        let node = machine.nodes.iter().find(|node| node.id == id);
        cpus.extend(&node.ok_or(CptError::NoSuchNode(id))?.cpus);
    }
    Ok(cpus)
}

/// Removes the CPUs at the given positions of every partition. One that is too short for a
/// position is left as it is.
fn without_positions(mut partitions: Vec<CpuSet>, list: &[u32]) -> Result<Vec<CpuSet>, CptError> {
    let longest = partitions.iter().map(|p| p.cpus.len()).max().unwrap_or(0);
    if let Some(&beyond) = list.iter().find(|&&position| position as usize >= longest) {
        return Err(CptError::NoSuchPosition(beyond));
    }
    for partition in &mut partitions {
        let mut position = 0..;
        partition.cpus.retain(|_| position.next().is_none_or(|p| !list.contains(&p)));
    }
    refuse_empty(partitions)
}

fn without_cpus(mut partitions: Vec<CpuSet>, list: &[u32]) -> Result<Vec<CpuSet>, CptError> {
    let is_there = |cpu: &u32| partitions.iter().any(|p| p.cpus.contains(cpu));
    if let Some(&missing) = list.iter().find(|cpu| !is_there(cpu)) {
        return Err(CptError::NoSuchCpu(missing));
    }
    for partition in &mut partitions {
        partition.cpus.retain(|cpu| !list.contains(cpu));
    }
    refuse_empty(partitions)
}

fn refuse_empty(partitions: Vec<CpuSet>) -> Result<Vec<CpuSet>, CptError> {
    match partitions.iter().position(|partition| partition.cpus.is_empty()) {
        Some(index) => Err(CptError::Empty(index as u32)),
        None => Ok(partitions),
    }
}

#[cfg(test)]
mod tests;
