//! Nodes that a plan starts in other namespaces.

use std::fs;
use std::process::Command;

use lustrine_testing::{Need, not_run};

use super::netns::NetNs;
use crate::common::{Scratch, finish};

/// The command of the plan enters a namespace, whose name is the number of its process, and becomes
/// an ordinary user.
#[test]
fn a_plan_starts_nodes_of_an_ordinary_user_in_namespaces() {
    let Some([here, there]) = NetNs::several() else { return };
    if Command::new("setpriv").arg("--version").output().is_err() {
        return not_run(Need::Program, "setpriv is not installed");
    }
    here.connect(&there, "eth0", 1500, ["10.213.0.1/24", "10.213.0.2/24"]);
    // The console needs a NID of its own.
    here.run("ip address add 10.213.0.77/24 dev eth0");
    let scratch = Scratch::new();
    let plan = format!(
        "name: spaces\nstart:\n  command: nsenter --target {{host}} --net --mount setpriv --reuid \
         65534 --regid 65534 --clear-groups sh -s\n  directory: {}\n  net: tcp=eth0\ngroups:\n  \
         clients:\n    hosts: {}\n  servers:\n    hosts: {}\nsteps:\n- time: 300 ms\n  warm_up: 50 \
         ms\n  tests: [{{do: write, from: clients, to: servers, size: 64 KiB, check: full}}]\n",
        scratch.path().display(),
        here.pid(),
        there.pid()
    );
    let file = scratch.write("plan.yaml", &plan);
    let file = file.to_str().expect("UTF-8");
    let args = ["selftest", "--plan", file, "--net", "tcp=10.213.0.77", "--json", "-"];
    let results = finish(&mut here.lustrine(&args)).ok().json();
    for (index, ip) in ["10.213.0.1", "10.213.0.2"].into_iter().enumerate() {
        let host = &results["start"]["hosts"][index];
        assert_eq!(host["nid"], format!("{ip}@tcp"), "{host}");
        assert_eq!(host["identity"], "userland", "{host}");
    }
    assert!(results["points"][0]["rows"][0]["ops"].as_u64() > Some(0), "{results:#}");
    assert_eq!(fs::read_dir(scratch.path()).expect("a directory").count(), 1, "only the plan");
}
