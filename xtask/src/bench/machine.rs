//! The machine of a measurement.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process;
use crate::repository::root;

/// Results that are part of the repository.
pub(crate) const RESULTS: &str = "bench/results";

/// The conditions that numbers depend on besides the program.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_mib: u64,
    pub(crate) kernel: String,
    /// Load average of the last minute when the run began: above about 0.5, other programs were
    /// running.
    pub(crate) load: f64,
}

impl Machine {
    pub(crate) fn here() -> Machine {
        let field = |file: &str, key: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map_or("", |(_, value)| value.trim()).to_owned()
        };
        let memory = field("/proc/meminfo", "MemTotal");
        let kib: u64 = memory.trim_end_matches("kB").trim().parse().unwrap_or(0);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Machine {
            cpu: field("/proc/cpuinfo", "model name"),
            cores: thread::available_parallelism().map_or(0, usize::from),
            memory_mib: kib / 1024,
            kernel: first_line(Command::new("uname").arg("-sr")),
            load: load.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0),
        }
    }

    /// The first lines of a table of results: the day, this machine, what a run is, and the
    /// versions of the programs.
    pub(crate) fn heading(
        &self,
        date: &str,
        run: &str,
        versions: &BTreeMap<String, String>,
    ) -> String {
        let Machine { cpu, cores, kernel, load, .. } = self;
        let mut heading =
            format!("{date}: {cpu}, {cores} cores, {kernel}; {run}, load before {load}\n");
        for (program, version) in versions {
            let _ = writeln!(heading, "  {program}: {version}");
        }
        heading
    }

    /// A short name for files.
    pub(crate) fn short_name(&self) -> String {
        short_name(&self.cpu)
    }
}

/// The last word of a processor's name that has letters only, in lower case: `AMD EPYC` is `epyc`.
fn short_name(cpu: &str) -> String {
    let mut words = cpu.split_whitespace().filter(|word| word.chars().all(char::is_alphabetic));
    words.next_back().unwrap_or("machine").to_lowercase()
}

/// Versions of the programs involved.
pub(crate) fn versions(programs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::new();
    for (program, option) in programs {
        if process::installed(program) {
            let version = first_line(Command::new(program).arg(option));
            versions.insert((*program).to_owned(), version);
        }
    }
    versions.insert("lustrine".to_owned(), commit());
    versions.insert("rustc".to_owned(), first_line(Command::new("rustc").arg("-V")));
    versions
}

/// What the name of a commit ends with if files of it were changed.
pub(crate) const DIRTY: &str = "-dirty";

/// The commit of the working tree. Other results, which benchmarks write there, do not count as
/// changes.
fn commit() -> String {
    let git = |args: &[&str]| first_line(Command::new("git").current_dir(root()).args(args));
    let mut commit = git(&["describe", "--always"]);
    let others = format!(":!{RESULTS}");
    if !git(&["status", "--porcelain", "--untracked-files=no", "--", ".", &others]).is_empty() {
        commit.push_str(DIRTY);
    }
    commit
}

/// Today, as 2026-01-31, in UTC.
pub(crate) fn today() -> String {
    first_line(Command::new("date").args(["-u", "+%F"]))
}

/// The first line a program prints; empty when it cannot be run.
fn first_line(command: &mut Command) -> String {
    let finished = process::capture(command, Duration::from_secs(10));
    let text = finished.map(|finished| finished.stdout + &finished.stderr).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim_start_matches('#').trim().to_owned()
}

#[test]
fn this_machine_has_a_description() {
    let machine = Machine::here();
    assert!(machine.cores > 0 && machine.kernel.starts_with("Linux"), "{machine:?}");
    assert_eq!(today().len(), 10);
}

/// The CPUs that this process may use; empty if the system does not list them.
pub(crate) fn allowed_cpus() -> Vec<u32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(|list| cpu_list(list.trim())).unwrap_or_default()
}

/// A list as the kernel writes it, such as `0-2,5`.
fn cpu_list(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[test]
fn lists_of_cpus_are_parsed() {
    assert_eq!(cpu_list("0-2,5"), [0, 1, 2, 5]);
    assert_eq!(cpu_list("7"), [7]);
    assert!(!allowed_cpus().is_empty());
}

#[test]
fn machines_have_short_names() {
    assert_eq!(short_name("AMD EPYC"), "epyc");
    assert_eq!(short_name("Intel(R) Xeon(R) Processor @ 2.80GHz"), "processor");
    assert_eq!(short_name(""), "machine");
}

/// Whether this process has root's rights.
pub(crate) fn is_root() -> io::Result<bool> {
    Ok(has_root(&fs::read_to_string("/proc/self/status")?))
}

/// Whether a process with this `/proc/PID/status` has them: its effective user is 0.
fn has_root(status: &str) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

#[test]
fn root_is_the_effective_user() {
    assert!(has_root("Name:\txtask\nUid:\t1000\t0\t0\t0\nGid:\t1000\n"));
    assert!(!has_root("Name:\txtask\nUid:\t0\t1000\t0\t0\nGid:\t1000\n"));
    assert!(!has_root(""));
}
