//! Nodes that a plan starts with the real ssh, through a server for this test alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lustrine_testing::{Need, not_run};
use rustix::process::{Signal, kill_process};

use super::{Hosts, processes, started};
use crate::common::{Running, eventually, finish};

/// Where servers are installed, which is not in the path of ordinary users.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// An SSH server on the loopback that accepts this user with a key of the test, and its options for
/// ssh; `None`, with the reason recorded, if there is none.
#[track_caller]
fn server(hosts: &Hosts) -> Option<(Running, String)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(PLACES.map(PathBuf::from));
    let Some(sshd) = places.map(|place| place.join("sshd")).find(|path| path.is_file()) else {
        not_run(Need::Program, "sshd is not installed");
        return None;
    };
    let file = |name: &str| hosts.scratch.file(name).display().to_string();
    for key in ["host", "user"] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &file(key)]);
        if keygen.output().map_or(true, |done| !done.status.success()) {
            not_run(Need::Program, "ssh-keygen does not make keys");
            return None;
        }
    }
    let (ip, port) = (hosts.console, crate::common::free_port(hosts.console));
    // Root may log in there: nothing but the loopback can reach it.
    let listen: String = hosts.ips.iter().map(|ip| format!("ListenAddress {ip}\n")).collect();
    let config = format!(
        "Port {port}\n{listen}HostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
         SetEnv TMPDIR={}\n",
        file("host"),
        file("user.pub"),
        file("tmp")
    );
    hosts.scratch.write("sshd_config", &config);
    let mut command = Command::new(sshd);
    command.args(["-D", "-e", "-f", &file("sshd_config")]);
    let mut server = Running::start(&mut command);
    eventually("a server that listens, or its end", || {
        let listens = server.stderr().matches("Server listening").count() == hosts.ips.len();
        (listens || !server.is_running()).then_some(())
    });
    if !server.is_running() {
        not_run(Need::Program, &format!("sshd does not run here: {}", server.stderr()));
        return None;
    }
    let options = format!(
        "-F none -p {port} -i {} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o \
         BindAddress={ip} -o IdentitiesOnly=yes -o LogLevel=ERROR",
        file("user")
    );
    Some((server, options))
}

/// Whether a process in /proc is ssh, and this one's child.
fn is_ssh_of(place: &Path, parent: u32) -> bool {
    let stat = fs::read_to_string(place.join("stat")).unwrap_or_default();
    let Some((_, rest)) = stat.split_once(" (ssh) ") else { return false };
    rest.split(' ').nth(1) == Some(&parent.to_string())
}

#[test]
fn the_real_ssh_starts_nodes_that_end_with_it() {
    let hosts = Hosts::new(3);
    let Some((_server, options)) = server(&hosts) else { return };
    fs::remove_file(hosts.scratch.file("bin/ssh")).expect("it was there");
    let list = hosts.list();
    let start = format!("  method: ssh\n  options: {options}\n");
    let args = ["--hosts", &list, "--json", "-"];
    let results = finish(&mut hosts.command(&start, &args)).ok().json();
    assert_eq!(results["start"]["hosts"].as_array().map(Vec::len), Some(3), "{results:#}");
    hosts.expect_nothing();
    // Each way to end that leaves no time for cleaning: of this program, and of ssh.
    let places: Vec<String> = hosts.ips.iter().map(|ip| format!("tcp={ip}:")).collect();
    for kill_ssh in [false, true] {
        let args = ["--hosts", &list, "--time", "600", "--set", "cpu_npartitions=1"];
        let mut run = Running::start(&mut hosts.command(&start, &args));
        run.wait_for("  1 s  ping");
        assert_eq!(started(&places).len(), 3);
        if kill_ssh {
            let ssh = eventually("three ssh", || {
                let found = processes(|place| is_ssh_of(place, run.pid()));
                (found.len() == 3).then_some(found)
            });
            ssh.into_iter().for_each(|pid| kill_process(pid, Signal::KILL).expect("it is ours"));
            hosts.expect_nothing();
            run.signal(Signal::INT);
            run.end().expect_stderr(&["nodes ended before the plan did"]);
        } else {
            run.signal(Signal::KILL);
            run.end();
            hosts.expect_nothing();
        }
    }
}
