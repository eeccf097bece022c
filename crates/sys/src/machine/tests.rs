use std::fs;
use std::path::PathBuf;

use super::*;

/// A directory for one test, removed at its end.
struct System(PathBuf);

impl System {
    fn new(name: &str, files: &[(&str, &str)]) -> System {
        let directory = format!("lustrine-sys-machine-{}-{name}", std::process::id());
        let system = System(std::env::temp_dir().join(directory));
        for (path, contents) in files {
            let path = system.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        system
    }
}

impl Drop for System {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn node(id: u32, cpus: &[u32]) -> NumaNode {
    NumaNode { id, cpus: cpus.to_vec() }
}

#[test]
fn nodes_are_reduced_to_the_usable_cpus() {
    let system = System::new(
        "nodes",
        &[
            ("node/node0/cpulist", "0-3,8-11\n"),
            ("node/node1/cpulist", "4-7,12-15\n"),
            ("node/node10/cpulist", "\n"), // memory only
            ("node/possible", "0-1,10\n"),
            ("cpu/cpu2/topology/thread_siblings_list", "2,10\n"),
        ],
    );
    let all: Vec<u32> = (0..16).collect();
    let machine = Machine::read(&system.0, &all[2..]);
    assert_eq!(
        machine.nodes,
        [node(0, &[2, 3, 8, 9, 10, 11]), node(1, &[4, 5, 6, 7, 12, 13, 14, 15])]
    );
    assert_eq!(machine.threads_per_core, 2);
    assert_eq!(machine.cpus().count(), 14);
    let machine = Machine::read(&system.0, &[13, 4]);
    assert_eq!(machine.nodes, [node(1, &[4, 13])], "a node without usable CPUs is left out");
}

#[test]
fn without_a_description_there_is_one_node() {
    let nothing = System::new("nothing", &[]);
    let machine = Machine::read(&nothing.0, &[5, 1]);
    assert_eq!(machine, Machine { nodes: vec![node(0, &[1, 5])], threads_per_core: 1 });
}

#[test]
fn an_incomplete_description_leaves_out_no_usable_cpu() {
    let half = System::new("half", &[("node/node1/cpulist", "4-5"), ("node/node2/cpulist", "x")]);
    let machine = Machine::read(&half.0, &[3, 4, 5, 6]);
    assert_eq!(machine.nodes, [node(1, &[3, 4, 5, 6])]);
}

#[test]
fn this_machine_has_every_cpu_once() {
    let machine = Machine::detect();
    let mut cpus: Vec<u32> = machine.cpus().collect();
    cpus.sort_unstable();
    assert_eq!(cpus, allowed_cpus().unwrap());
    assert!(machine.threads_per_core >= 1);
}
