//! Counters of the kernel: CPU time of processes and of the machine, and bytes of an interface.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

/// What the kernel shows of CPU time counts hundredths of a second (USER_HZ of proc(5)) on all
/// processors that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time that a process has used, with its threads, in seconds.
pub(super) fn process_cpu(pid: u32) -> Result<f64> {
    let file = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&file).context(file.clone())?;
    process_ticks(&text).map(|ticks| ticks as f64 / TICKS_PER_SECOND).context(file)
}

/// CPU time that all processes and the kernel have used, in seconds.
pub(super) fn machine_cpu() -> Result<f64> {
    const FILE: &str = "/proc/stat";
    let text = fs::read_to_string(FILE).context(FILE)?;
    machine_ticks(&text).map(|ticks| ticks as f64 / TICKS_PER_SECOND).context(FILE)
}

/// Bytes that an interface of a process's network namespace has received.
pub(super) fn received(pid: u32, interface: &str) -> Result<u64> {
    let file = format!("/proc/{pid}/net/dev");
    let text = fs::read_to_string(&file).context(file.clone())?;
    received_in(&text, interface).context(file)
}

/// The youngest descendant of a process, or itself. `lustrine lab exec` waits for its program, and
/// ends it when it is ended itself.
pub(super) fn descendant(pid: u32) -> u32 {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let Some(id) = id else { continue };
        // A process may have ended meanwhile.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if let Some(parent) = fields(&stat).nth(PARENT).and_then(|word| word.parse::<u32>().ok()) {
            parents.insert(parent, id);
        }
    }
    let mut last = pid;
    // A process is never its own ancestor, so this ends; the limit is for a table that changed
    // while it was read.
    for _ in 0..parents.len() {
        match parents.get(&last) {
            Some(child) => last = *child,
            None => break,
        }
    }
    last
}

/// Whether a process has another network namespace than this one. What starts a program on a host
/// is there after some time.
pub(super) fn is_on_a_host(pid: u32) -> bool {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    namespace(&pid.to_string()).is_some_and(|its| Some(its) != namespace("self"))
}

/// Positions of proc(5)'s fields behind the name of the program: parent, user and system time.
const PARENT: usize = 1;
const USER: usize = 11;
const SYSTEM: usize = 12;

/// The fields of `/proc/PID/stat` behind the program's name, which may contain spaces and brackets.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

fn process_ticks(stat: &str) -> Option<u64> {
    let number = |position| fields(stat).nth(position)?.parse::<u64>().ok();
    Some(number(USER)? + number(SYSTEM)?)
}

/// `user nice system idle iowait irq softirq steal`; time of guests is part of user time, and
/// stolen time was not used by this machine.
fn machine_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Option<Vec<u64>> =
        line.split_whitespace().take(7).map(|word| word.parse().ok()).collect();
    let [user, nice, system, _idle, _wait, hard, soft] = numbers?[..] else { return None };
    Some(user + nice + system + hard + soft)
}

fn received_in(dev: &str, interface: &str) -> Option<u64> {
    let of = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        (name.trim() == interface).then(|| numbers.split_whitespace().next()?.parse().ok())?
    };
    dev.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn cpu_time_of_a_process_is_read_behind_its_name() {
        let stat = "42 (a) b (c)) S 41 42 42 0 -1 4194304 1 2 3 4 150 50 7 8 20 0 3 0 100 1 2";
        assert_eq!(process_ticks(stat), Some(200));
        assert_eq!(fields(stat).nth(PARENT), Some("41"));
        assert_eq!(process_ticks(""), None);
        assert!(process_cpu(std::process::id()).is_ok());
    }

    #[test]
    fn the_machine_was_busy_when_it_neither_idled_nor_was_held_up() {
        let stat =
            "cpu  1 20 300 4000 50000 600000 7000000 80000000 1 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(machine_ticks(stat), Some(7_600_321));
        assert_eq!(machine_ticks("cpu0 1 1 1 1 1 1 1 1 0 0\n"), None);
        assert!(machine_cpu().is_ok_and(|seconds| seconds > 0.0));
    }

    #[test]
    fn bytes_of_one_interface_are_found() {
        let dev = "Inter-|   Receive                |  Transmit\n \
            face |bytes    packets errs drop|bytes    packets\n    \
            lo:       5       0    0    0      6       0\n  eth0: 563237114    9801    0    0  1\n";
        assert_eq!(received_in(dev, "eth0"), Some(563_237_114));
        assert_eq!(received_in(dev, "lo"), Some(5));
        assert_eq!(received_in(dev, "eth1"), None);
    }

    #[test]
    fn descendants_are_found() {
        let mut shell = Command::new("sh");
        let mut shell = shell.args(["-c", "cat; true"]).stdin(Stdio::piped()).spawn();
        let shell = shell.as_mut().expect("a shell");
        let begun = || Some(descendant(shell.id())).filter(|pid| *pid != shell.id());
        let wait = || thread::sleep(Duration::from_millis(10));
        let child = (0..3000).find_map(|_| {
            let child = begun();
            if child.is_none() {
                wait();
            }
            child
        });
        let stat = child.and_then(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok());
        let parent = stat.as_deref().and_then(|stat| fields(stat).nth(PARENT)?.parse().ok());
        assert_eq!(parent, Some(shell.id()));
        // It ends with its standard input.
        drop(shell.stdin.take());
        assert!(shell.wait().is_ok_and(|status| status.success()));
    }
}
