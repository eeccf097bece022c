//! Nodes that a plan starts on other hosts. Programs in the place of ssh and srun run the shell on
//! this machine, where each host is an address of the loopback.

mod sshd;

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{
    Finished, Running, Scratch, eventually, finish, free_port, loopback, lustrine,
};

/// In the place of ssh: the host is the third argument from the end. Some hosts are odd.
const SSH: &str = r#"#!/bin/sh
echo "$@" >>"$FAKES/calls"
while [ $# -gt 3 ]; do shift; done
host=$1
shift
export TMPDIR="$FAKES/tmp"
echo "Welcome to $host"
case " $ODD " in
*" $host:refused "*)
    echo "ssh: connect to host $host port 22: Connection refused" >&2
    exit 255 ;;
*" $host:full "*) ulimit -f 1 ;;
*" $host:other "*) export PATH="$FAKES/other:$PATH" ;;
*" $host:nowhere "*) TMPDIR=/no/such/directory ;;
*" $host:forbids "*) export PATH="$FAKES/forbids:$PATH" ;;
*" $host:slow "*) export PATH="$FAKES/slow:$PATH" ;;
*" $host:cut "*) export PATH="$FAKES/cut:$PATH" TMPDIR="$FAKES/cut" ;;
*" $host:keeps "*) export PATH="$FAKES/keeps:$PATH" ;;
*" $host:makes "*) export PATH="$FAKES/makes:$PATH" ;;
*" $host:silent "*) exec sleep 1000 ;;
*" $host:small "*)
    for tool in sh mktemp head wc chmod rm uname; do
        ln -s "$(command -v $tool)" "$FAKES/small/$tool"
    done
    export PATH="$FAKES/small" ;;
esac
exec "$@"
"#;

/// In the place of srun: the host is in an option.
const SRUN: &str = r#"#!/bin/sh
echo "$@" >>"$FAKES/calls"
export TMPDIR="$FAKES/tmp"
while [ "$1" != sh ]; do shift; done
exec "$@"
"#;

/// Programs in the place of others, the directory that hosts use, and addresses for hosts.
struct Hosts {
    scratch: Scratch,
    ips: Vec<Ipv4Addr>,
    console: Ipv4Addr,
    port: u16,
}

impl Hosts {
    fn new(count: usize) -> Hosts {
        let scratch = Scratch::new();
        for dir in ["bin", "tmp", "other", "forbids", "small", "slow", "cut", "keeps", "makes"] {
            fs::create_dir(scratch.file(dir)).expect("the test's directory can be written to");
        }
        for (name, text) in [
            ("bin/ssh", SSH),
            ("bin/srun", SRUN),
            // What hosts say must not reach the terminal as it is.
            (
                "other/uname",
                "#!/bin/sh\ntest \"$1\" = -s && echo Linux || \
                 printf 'sparc64\\033[2J%060d\\n' 0\n",
            ),
            // A network that takes minutes for the program.
            (
                "slow/head",
                "#!/bin/sh\npart=\"$FAKES/slow/$$\"\n\
                 while dd bs=4096 count=1 2>/dev/null >\"$part\"\n\
                 test -s \"$part\"; do cat \"$part\"; sleep 0.05; done\n",
            ),
            // A connection that is lost.
            ("cut/head", "#!/bin/sh\nkill -9 $PPID\n"),
            ("keeps/rm", "#!/bin/sh\nexit 1\n"),
            // The directory is there for a while before the shell learns its name.
            ("makes/mktemp", "#!/bin/sh\nmkdir \"$2.$$\" && sleep 0.5 && echo \"$2.$$\"\n"),
            // A file that may not be executed, as on a file system that is mounted with noexec.
            ("forbids/chmod", "#!/bin/sh\nexec /bin/chmod 600 \"$2\"\n"),
        ] {
            let path = scratch.write(name, text);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
        }
        let ips: Vec<Ipv4Addr> = (0..count).map(|_| loopback()).collect();
        let console = loopback();
        Hosts { port: free_port(console), scratch, ips, console }
    }

    /// All hosts as a list.
    fn list(&self) -> String {
        self.ips.iter().map(Ipv4Addr::to_string).collect::<Vec<_>>().join(",")
    }

    /// A plan with this section `start`.
    fn command(&self, start: &str, args: &[&str]) -> Command {
        let port = self.port;
        let plan = format!(
            "name: started\nstart:\n  net: tcp={{host}}\n  port: {port}\n{start}\
             groups: {{clients: 2, servers: 1}}\nsteps:\n- time: 300 ms\n  warm_up: 50 ms\n  \
             tests:\n  - {{do: ping, from: clients, to: servers, spread: all}}\n  - {{do: read, \
             from: clients, to: servers, spread: all, size: 4 KiB, check: full}}\n"
        );
        let file = self.scratch.write("plan.yaml", &plan);
        let mut command = lustrine();
        let path = std::env::var("PATH").unwrap_or_default();
        let bin = self.scratch.file("bin");
        command.arg("selftest").arg("--plan").arg(file).args(args);
        command.args(["--net", &format!("tcp={}", self.console)]);
        command.env("PATH", format!("{}:{path}", bin.display()));
        command.env("FAKES", self.scratch.path()).env("ODD", "").env_remove("SLURM_JOB_ID");
        command
    }

    /// What was run in the place of ssh and srun.
    fn calls(&self) -> String {
        fs::read_to_string(self.scratch.file("calls")).unwrap_or_default()
    }

    /// Waits until no process and no file of the hosts is left.
    #[track_caller]
    fn expect_nothing(&self) {
        let places: Vec<String> = self.ips.iter().map(|ip| format!("tcp={ip}:")).collect();
        eventually("the end of all nodes", || started(&places).is_empty().then_some(()));
        eventually("the end of their files", || self.files().is_empty().then_some(()));
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.scratch.file("tmp")).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }
}

/// The processes that a plan has started and whose arguments contain one of these words.
fn started(words: &[String]) -> Vec<Pid> {
    processes(|place| {
        let line = fs::read(place.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        line.contains("plan-node") && words.iter().any(|word| line.contains(word))
    })
}

/// The processes whose directory in /proc has a property.
fn processes(wanted: impl Fn(&Path) -> bool) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let wanted = entries.filter(|entry| wanted(&entry.path()));
    let pids = wanted.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw).collect()
}

#[track_caller]
fn hosts_of(results: &Value, key: &str) -> Vec<String> {
    let hosts = results["start"][key].as_array().unwrap_or_else(|| panic!("{results:#}"));
    hosts.iter().map(|host| host["host"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_plan_starts_its_nodes_with_ssh_and_leaves_nothing() {
    let hosts = Hosts::new(4);
    let list = hosts.list();
    let start = "  method: ssh\n  user: alice\n  options: -p 2222\n";
    let args = ["--hosts", &list, "--set", "cpu_npartitions=1", "--json", "-"];
    let done = finish(&mut hosts.command(start, &args)).ok();
    done.expect_stderr(&["3 hosts started", &format!("need no more: {}", hosts.ips[3])]);
    hosts.expect_nothing();
    let done = finish(&mut hosts.command(start, &args)).ok();
    let results = done.json();
    let wanted: Vec<String> = hosts.ips[..3].iter().map(Ipv4Addr::to_string).collect();
    assert_eq!(hosts_of(&results, "hosts"), wanted);
    assert_eq!(hosts_of(&results, "missing"), [""; 0]);
    assert_eq!(results["groups"]["servers"][0], format!("{}@tcp", hosts.ips[2]));
    let nodes = results["provenance"]["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 4, "the console and three nodes: {nodes:?}");
    for node in nodes {
        assert_eq!(node["changed_tunables"]["cpu_npartitions"]["value"], 1, "{node}");
    }
    assert!(results["points"][0]["rows"][0]["ops"].as_u64() > Some(0), "{results:#}");
    let calls = hosts.calls();
    assert_eq!(calls.lines().count(), 6, "{calls}");
    for call in calls.lines() {
        assert!(call.starts_with("-p 2222 -T "), "the user's options come first: {call}");
        assert!(call.contains(" BatchMode=yes ") && call.contains(" -l alice "), "{call}");
        assert!(call.ends_with(" sh -s"), "{call}");
    }
}

#[test]
fn hosts_that_cannot_be_started_are_named_with_the_reason() {
    let hosts = Hosts::new(10);
    let odd = ["", "", "", "refused", "full", "other", "nowhere", "forbids", "busy", "cut"];
    let _busy = TcpListener::bind((hosts.ips[8], hosts.port)).expect("the port is free there");
    let odd: Vec<String> =
        hosts.ips.iter().zip(odd).map(|(ip, odd)| format!("{ip}:{odd}")).collect();
    let clients: Vec<String> = hosts.ips[1..].iter().map(Ipv4Addr::to_string).collect();
    let (servers, clients) =
        (format!("servers={}", hosts.ips[0]), format!("clients={}", clients.join(" ")));
    let run = |more: &[&str]| -> Finished {
        let args = [&["--hosts", &servers, "--hosts", &clients, "--json", "-"], more].concat();
        let mut command = hosts.command("  method: ssh\n", &args);
        finish(command.env("ODD", odd.join(" ")))
    };
    let reasons = [
        ("connect", "ssh ended (exit status: 255): ssh: connect to host"),
        ("copy", ""),
        ("copy", "the machine is sparc64 [2J000000000000000000000..., and the program is for "),
        ("directory", "\"directory: PATH\" in the plan names another place"),
        ("run", "the file system may forbid programs (noexec)"),
        ("node", "in use"),
        ("copy", "ssh ended (signal: 9 (SIGKILL)); it is not certain that its files are removed"),
    ];
    let said = ["7 of 10 hosts could not be started", "nothing was measured"];
    let stopped = run(&[]).expect_code(1).expect_stderr(&said);
    assert!(!stopped.stderr.contains('\u{1b}'), "{}", stopped.stderr);
    assert_eq!(stopped.stderr.matches("not certain").count(), 1, "{}", stopped.stderr);
    hosts.expect_nothing();
    let went_on = run(&["--missing", "continue"]).ok();
    hosts.expect_nothing();
    let results = went_on.json();
    let missing = results["start"]["missing"].as_array().expect("a list");
    assert_eq!(missing.len(), reasons.len(), "{missing:#?}");
    for (index, (step, why)) in reasons.into_iter().enumerate() {
        let one = &missing[index];
        assert_eq!(one["host"], hosts.ips[3 + index].to_string(), "{one}");
        assert_eq!(one["step"], step, "{one}");
        assert!(one["why"].as_str().is_some_and(|said| said.contains(why)), "{one}");
    }
    assert_eq!(results["groups"]["clients"].as_array().map(Vec::len), Some(2));
}

#[test]
fn nothing_is_left_whatever_ends_the_run() {
    let hosts = Hosts::new(3);
    let list = hosts.list();
    let args = ["--hosts", &list, "--time", "600", "--set", "cpu_npartitions=1"];
    let places: Vec<String> = hosts.ips.iter().map(|ip| format!("tcp={ip}:")).collect();
    for (signal, status) in
        [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)]
    {
        let mut run = Running::start(&mut hosts.command("  method: ssh\n", &args));
        run.wait_for("  1 s  ping");
        assert_eq!(started(&places).len(), 3, "{signal:?}");
        assert!(hosts.files().is_empty(), "the files are removed once the nodes run");
        run.signal(signal);
        let ended = run.end();
        assert_eq!(ended.code, status, "{ended:#?}");
        assert!(!ended.stderr.contains("not certain"), "{ended:#?}");
        hosts.expect_nothing();
    }
}

/// The program is still on its way when the run is killed.
#[test]
fn nothing_is_left_of_a_copy_that_is_cut() {
    let hosts = Hosts::new(3);
    let list = hosts.list();
    let odd = hosts.ips.iter().map(|ip| format!("{ip}:slow")).collect::<Vec<_>>().join(" ");
    for (signal, status) in [(Signal::KILL, None), (Signal::TERM, Some(130))] {
        let mut command = hosts.command("  method: ssh\n", &["--hosts", &list]);
        let run = Running::start(command.env("ODD", &odd));
        eventually("three programs that are copied", || {
            let files = hosts.files();
            let size = |dir: &PathBuf| fs::metadata(dir.join("lustrine")).map_or(0, |it| it.len());
            (files.len() == 3 && files.iter().all(|dir| size(dir) > 0)).then_some(())
        });
        run.signal(signal);
        let ended = run.end();
        assert_eq!(ended.code, status, "{ended:#?}");
        assert!(!ended.stderr.contains("3 hosts started"), "{ended:#?}");
        assert!(!ended.stderr.contains("not certain"), "{ended:#?}");
        hosts.expect_nothing();
    }
}

#[test]
fn nothing_is_left_of_a_directory_that_is_being_made() {
    let hosts = Hosts::new(3);
    let list = hosts.list();
    let odd = hosts.ips.iter().map(|ip| format!("{ip}:makes")).collect::<Vec<_>>().join(" ");
    let mut command = hosts.command("  method: ssh\n", &["--hosts", &list]);
    let run = Running::start(command.env("ODD", &odd));
    eventually("three directories", || (hosts.files().len() == 3).then_some(()));
    run.signal(Signal::TERM);
    run.end().expect_code(130);
    hosts.expect_nothing();
}

/// As if the network to the other side were cut: its input stays open, and nothing comes.
#[test]
fn a_node_that_hears_nothing_ends() {
    let net = format!("tcp={}:{}", loopback(), free_port(loopback()));
    let mut node = lustrine();
    node.args(["plan-node", "--accept", "all", "--silence", "1", "--net", &net]);
    let done = finish(&mut node).expect_error(&["nothing was heard for 1 s"]);
    assert!(done.stdout.starts_with("lustrine-start: node {\"nids\":"), "{}", done.stdout);
}

/// A node that is killed is missed at the end, and the others end as usual; so is the confirmation
/// of a host that does not give it.
#[test]
fn a_node_that_ends_early_is_named() {
    let hosts = Hosts::new(3);
    let list = hosts.list();
    let args = ["--hosts", &list, "--time", "600", "--set", "cpu_npartitions=1"];
    let mut command = hosts.command("  method: ssh\n", &args);
    let mut run = Running::start(command.env("ODD", format!("{}:keeps", hosts.ips[2])));
    run.wait_for("  1 s  ping");
    let place = format!("tcp={}:", hosts.ips[1]);
    let [node] = started(&[place])[..] else { panic!("not one node") };
    kill_process(node, Signal::KILL).expect("it is ours");
    run.wait_for("  2 s  ping");
    run.signal(Signal::INT);
    let said = format!("nodes ended before the plan did: {}: ssh ended", hosts.ips[1]);
    let unclear = format!("ended and removed their files: {};", hosts.ips[2]);
    run.end().expect_code(130).expect_stderr(&[&said, &unclear]);
    hosts.expect_nothing();
}

/// As with some builds of busybox.
#[test]
fn a_host_with_few_programs_is_enough() {
    let hosts = Hosts::new(3);
    let odd = format!("{}:small", hosts.ips[1]);
    let mut command = hosts.command("  method: ssh\n", &["--hosts", &hosts.list()]);
    finish(command.env("ODD", odd)).ok().expect_stderr(&["3 hosts started"]);
    hosts.expect_nothing();
    let small = fs::read_dir(hosts.scratch.file("small")).expect("a directory").count();
    assert_eq!(small, 7, "its programs were used");
}

#[test]
fn hosts_that_do_not_answer_are_given_up_or_interrupted() {
    let hosts = Hosts::new(3);
    let (list, silent) = (hosts.list(), format!("{}:silent", hosts.ips[1]));
    let mut command = hosts.command("  method: ssh\n  timeout: 600 s\n", &["--hosts", &list]);
    let mut run = Running::start(command.env("ODD", &silent));
    run.wait_for("starting nodes on 3 hosts with ssh, 3 at a time");
    eventually("all three calls", || (hosts.calls().lines().count() == 3).then_some(()));
    run.signal(Signal::INT);
    run.end().expect_code(130);
    hosts.expect_nothing();
    let mut command = hosts.command("  method: ssh\n  timeout: 1 s\n", &["--hosts", &list]);
    let done = finish(command.env("ODD", &silent)).expect_code(1);
    done.expect_stderr(&[&format!("{}  connect  no answer within 1 s", hosts.ips[1])]);
    hosts.expect_nothing();
}

#[test]
fn srun_starts_nodes_on_the_hosts_of_the_job() {
    let hosts = Hosts::new(3);
    let args = ["--start", "srun", "--json", "-"];
    let refused = finish(hosts.command("", &args).env("SLURM_JOB_NODELIST", hosts.list()));
    refused.expect_code(2).expect_stderr(&["inside a job of Slurm", "salloc -N 4 lustrine"]);
    let mut command = hosts.command("  options: --cpus-per-task=2\n", &args);
    command.env("SLURM_JOB_ID", "7").env("SLURM_JOB_NODELIST", hosts.list());
    let results = finish(&mut command).ok().json();
    hosts.expect_nothing();
    assert_eq!(results["start"]["method"], "srun");
    let calls = hosts.calls();
    for ip in &hosts.ips {
        let call =
            format!("--overlap --nodes=1 --ntasks=1 --cpus-per-task=2 --nodelist={ip} sh -s");
        assert_eq!(calls.lines().filter(|line| *line == call).count(), 1, "{calls}");
    }
}

#[test]
fn a_command_gets_the_host_as_an_argument_and_no_shell_reads_it() {
    let hosts = Hosts::new(3);
    let list = hosts.list();
    let directory = hosts.scratch.file("it's $HOME");
    fs::create_dir(&directory).expect("a directory");
    let start =
        format!("  command: env HOST={{host}} sh -s\n  directory: \"{}\"\n", directory.display());
    let args = ["--hosts", &list, "--json", "-"];
    let results = finish(&mut hosts.command(&start, &args)).ok().json();
    hosts.expect_nothing();
    assert_eq!(results["start"]["method"], "command");
    assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 0);
    for odd in ["c1;reboot", "$(reboot)", "-oProxyCommand=reboot", "c[1-999999999]"] {
        let args = ["--hosts", odd, "--dry-run"];
        finish(&mut hosts.command("  method: ssh\n", &args)).expect_code(2);
    }
}

#[test]
fn a_dry_run_shows_the_hosts_and_contacts_none() {
    let hosts = Hosts::new(1);
    let args = ["--hosts", "c[01-04]", "--exclude", "c02", "--dry-run"];
    let done = finish(&mut hosts.command("  method: ssh\n", &args)).ok();
    for there in ["clients: c01 c03\n", "servers: c04\n", "1 point, at least"] {
        assert!(done.stdout.contains(there), "{there}: {}", done.stdout);
    }
    assert_eq!(hosts.calls(), "");
    for (args, said) in [
        (&["--hosts", "c[01-04]", "--local"][..], "cannot be used with"),
        (&["--hosts", "c1"], "group clients needs 2 hosts, and only 1 host remains in the list"),
        (&["--exclude", "c1", "--local"], "cannot be used with"),
        (&["--start", "shh"], "allowed: ssh, srun, or a command with {host}"),
        (&["--hosts", "c[1-3]", "--control", "/x"], "has a console of its own"),
    ] {
        finish(&mut hosts.command("  method: ssh\n", args)).expect_code(2).expect_stderr(&[said]);
    }
    for (from, to, said) in [
        ("net: tcp={host}", "net: tcp=eth0:988", "the port is a key of its own"),
        ("net: tcp={host}", "net: tpc", "start: 127."),
        ("- time: 300 ms", "- sweep: {clients: 3}", "3 nodes of group clients are required"),
    ] {
        let mut command = hosts.command("  method: ssh\n", &["--hosts", "127.0.0.[1-3]"]);
        let file = hosts.scratch.file("plan.yaml");
        let plan = fs::read_to_string(&file).expect("a plan").replace(from, to);
        fs::write(&file, plan).expect("a plan");
        finish(&mut command).expect_code(2).expect_stderr(&[said]);
    }
    assert_eq!(hosts.calls(), "");
}
