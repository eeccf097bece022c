use proptest::prelude::*;

use super::*;
use crate::machine::NumaNode;

/// Nodes with the given CPUs, numbered from 0.
fn machine(nodes: &[&[u32]], threads_per_core: u32) -> Machine {
    let nodes = nodes.iter().zip(0..).map(|(cpus, id)| NumaNode { id, cpus: cpus.to_vec() });
    Machine { nodes: nodes.collect(), threads_per_core }
}

/// One node with this number of CPUs.
fn flat(cpus: u32, threads_per_core: u32) -> Machine {
    machine(&[&(0..cpus).collect::<Vec<_>>()], threads_per_core)
}

fn two_nodes() -> Machine {
    machine(&[&[0, 1, 2, 3], &[4, 5, 6, 7]], 1)
}

fn cpus(npartitions: u32, pattern: &str, machine: &Machine) -> Result<Vec<Vec<u32>>, CptError> {
    Ok(partitions(npartitions, pattern, machine)?.into_iter().map(|p| p.cpus).collect())
}

#[test]
fn n_makes_one_partition_per_node() {
    let expected = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
    assert_eq!(cpus(0, "N", &two_nodes()), Ok(expected.clone()));
    assert_eq!(cpus(0, " N ", &two_nodes()), Ok(expected));
    assert_eq!(cpus(0, PATTERN_DEFAULT, &flat(3, 1)), Ok(vec![vec![0, 1, 2]]));
}

#[test]
fn a_set_number_replaces_the_nodes() {
    let expected = vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]];
    assert_eq!(cpus(4, "N", &two_nodes()), Ok(expected.clone()));
    assert_eq!(cpus(4, "", &two_nodes()), Ok(expected));
    assert_eq!(cpus(3, "", &two_nodes()), Ok(vec![vec![0, 1], vec![2, 3, 4], vec![5, 6, 7]]));
    assert_eq!(cpus(9, "", &two_nodes()), Err(CptError::Empty(0)));
    assert_eq!(cpus(257, "N", &two_nodes()), Err(CptError::TooMany(257)));
}

#[test]
fn an_empty_pattern_estimates() {
    let estimated = |cpus, threads| partitions(0, "", &flat(cpus, threads)).unwrap().len();
    for (cpus, threads, expected) in [
        (1, 1, 1),
        (4, 1, 1),
        (5, 1, 1), // 3 lowered to 1
        (6, 1, 3),
        (8, 2, 2),
        (10, 2, 2), // 3 lowered to 2
        (16, 1, 8),
        (64, 2, 16),
        (96, 4, 12),
        (6, 64, 2), // 2 at least
        (7, 64, 1),
    ] {
        assert_eq!(estimated(cpus, threads), expected, "{cpus} CPUs, {threads} threads per core");
    }
    assert_eq!(partitions(0, "", &flat(2048, 1)).unwrap().len(), 256);
}

#[test]
fn cpus_are_distributed_node_by_node() {
    let interleaved = machine(&[&[0, 2, 4, 6], &[1, 3, 5, 7]], 1);
    let expected = vec![vec![0, 2], vec![4, 6], vec![1, 3], vec![5, 7]];
    assert_eq!(cpus(0, "", &interleaved), Ok(expected));
}

#[test]
fn partitions_are_listed_by_cpu() {
    assert_eq!(cpus(0, "0[0-3] 1[4,5]", &two_nodes()), Ok(vec![vec![0, 1, 2, 3], vec![4, 5]]));
    assert_eq!(cpus(7, "1 [0-6/2]0[7]", &two_nodes()), Ok(vec![vec![7], vec![0, 2, 4, 6]]));
}

#[test]
fn partitions_are_listed_by_node() {
    let three = machine(&[&[0, 1], &[2, 3], &[4]], 1);
    assert_eq!(cpus(0, "N 0[0,1] 1[2]", &three), Ok(vec![vec![0, 1, 2, 3], vec![4]]));
    assert_eq!(cpus(0, "N 0[2]", &three), Ok(vec![vec![4]]));
    assert_eq!(cpus(0, "N 0[3]", &three), Err(CptError::NoSuchNode(3)));
    assert_eq!(cpus(0, "N 0[0] 1[0]", &three), Err(CptError::CpuTwice(0)));
}

#[test]
fn cpus_are_removed_by_position_in_their_partition() {
    let expected = vec![vec![1, 2, 3], vec![5, 6, 7]];
    assert_eq!(cpus(0, "N C[0]", &two_nodes()), Ok(expected.clone()));
    assert_eq!(cpus(2, "C[0]", &two_nodes()), Ok(expected));
    assert_eq!(cpus(1, "C[0-1]", &two_nodes()), Ok(vec![(2..8).collect()]));
    let uneven = machine(&[&[0, 1], &[2, 3, 4]], 1);
    assert_eq!(cpus(0, "N C[2]", &uneven), Ok(vec![vec![0, 1], vec![2, 3]]));
    assert_eq!(cpus(0, "N C[0,1]", &uneven), Err(CptError::Empty(0)));
    assert_eq!(cpus(0, "N C[3]", &uneven), Err(CptError::NoSuchPosition(3)));
}

#[test]
fn cpus_are_removed_by_number() {
    assert_eq!(cpus(0, "N X[0,5-7]", &two_nodes()), Ok(vec![vec![1, 2, 3], vec![4]]));
    assert_eq!(cpus(1, "X[0]", &two_nodes()), Ok(vec![(1..8).collect()]));
    assert_eq!(cpus(0, "N X[4-7]", &two_nodes()), Err(CptError::Empty(1)));
    assert_eq!(cpus(0, "N X[8]", &two_nodes()), Err(CptError::NoSuchCpu(8)));
}

#[test]
fn mistakes_have_lnets_numbers() {
    let many: String = (0..257).map(|i| format!("{i}[0]")).collect();
    for (pattern, errno) in [
        ("0[0] 2[1]", libc::EINVAL),           // no such partition
        ("0[0] 99999999999[1]", libc::EINVAL), // no such number
        ("0[8]", libc::EINVAL),                // no such CPU
        ("0[0] 0[1]", libc::EPERM),
        ("0[0,1] 1[1]", libc::EPERM),
        ("0[a]", libc::ERANGE),
        ("0[]", libc::ERANGE),
        ("0[3-1]", libc::ERANGE),
        ("X[-1]", libc::ERANGE),
        ("N X[0-3]", libc::ENODEV),
        ("hello", libc::EINVAL),
        ("0", libc::EINVAL),
        ("0[1", libc::EINVAL),
        ("[1]", libc::EINVAL),
        ("C", libc::EINVAL),
        ("C[0] X[1]", libc::EINVAL),
        ("N N", libc::EINVAL),
        (&many, libc::EINVAL),
    ] {
        let error = cpus(0, pattern, &two_nodes()).unwrap_err();
        assert_eq!(error.errno(), -errno, "{pattern}: {error}");
    }
}

#[test]
fn an_error_shows_where_it_is() {
    let error = cpus(0, "0[1] 1{2}", &two_nodes()).unwrap_err();
    assert_eq!(error, CptError::Syntax { rest: "{2}".to_owned() });
}

fn any_machine() -> impl Strategy<Value = Machine> {
    (prop::collection::vec(1..9usize, 1..5), 1..5u32).prop_map(|(sizes, threads_per_core)| {
        let mut next = 0..;
        let nodes = sizes.iter().zip(0..).map(|(&size, id)| {
            // Gaps between the numbers, as on a machine with CPUs that are offline.
            NumaNode { id, cpus: next.by_ref().step_by(2).take(size).collect() }
        });
        Machine { nodes: nodes.collect(), threads_per_core }
    })
}

/// Texts that are often patterns.
fn any_pattern() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just(String::new()),
        1 => Just("N".to_owned()),
        4 => "(N )?[CX]\\[[0-9]{1,2}(-[0-9]{1,2})?(,[0-9])?\\]",
        4 => "(N )?0\\[[0-9](-[0-9]{1,2})?\\]( 1\\[[0-9](,[0-9])?\\])?",
        1 => "[NCX0-9\\[\\], -]{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any settings: no panic, no empty partition, no CPU twice, no CPU that does not exist.
    #[test]
    fn partitions_are_disjoint_parts_of_the_machine(
        machine in any_machine(),
        pattern in any_pattern(),
        npartitions in 0..12u32,
    ) {
        if let Ok(partitions) = partitions(npartitions, &pattern, &machine) {
            prop_assert!(!partitions.is_empty());
            prop_assert!(partitions.iter().all(|p| !p.cpus.is_empty()));
            let mut rest: Vec<u32> = machine.cpus().collect();
            for cpu in partitions.iter().flat_map(|p| &p.cpus) {
                let at = rest.iter().position(|c| c == cpu);
                prop_assert!(at.is_some(), "CPU {} twice, or not there", cpu);
                rest.remove(at.unwrap());
            }
        }
    }

    /// Without exclusions and lists, all CPUs are used and distributed evenly.
    #[test]
    fn layouts_use_every_cpu(machine in any_machine(), npartitions in 0..12u32) {
        let all = machine.cpus().count();
        for pattern in ["", "N"] {
            let Ok(partitions) = partitions(npartitions, pattern, &machine) else {
                prop_assert!(npartitions as usize > all);
                continue;
            };
            let sizes: Vec<usize> = partitions.iter().map(|p| p.cpus.len()).collect();
            prop_assert_eq!(sizes.iter().sum::<usize>(), all);
            if npartitions > 0 || pattern.is_empty() {
                let (least, most) = (sizes.iter().min(), sizes.iter().max());
                prop_assert!(most.unwrap() - least.unwrap() <= 1);
            }
            if npartitions == 0 && pattern.is_empty() {
                prop_assert_eq!(all % sizes.len(), 0);
            }
        }
    }
}
