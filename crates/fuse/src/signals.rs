//! Signals for processes that wait for the file system. fuser 0.18 answers the kernel that it
//! cannot interrupt requests, so signals have to be looked for.

use std::fs;

/// SIGKILL, which is also what each thread of a process gets that another signal ends.
const KILL: u64 = bit(9);
/// Signals that do not end a process that has not asked for them: SIGCHLD, SIGCONT, SIGSTOP,
/// SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH, by their numbers on all machines that this program
/// runs on.
const HARMLESS: u64 = bit(17) | bit(18) | bit(19) | bit(20) | bit(21) | bit(22) | bit(23) | bit(28);

/// The set of one signal.
const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Whether a signal waits for a thread to return from the kernel.
pub(crate) fn has_signal(thread: u32) -> bool {
    status(thread).is_some_and(|status| Signals::of(&status).interrupt())
}

/// Whether a thread ends, or a signal that ends its process waits for it to return from the kernel.
pub(crate) fn is_killed(thread: u32) -> bool {
    status(thread).is_some_and(|status| Signals::of(&status).kill()) || is_ending(thread)
}

/// Whether a thread ends, and waits for what it closes. No signal reaches it any more.
fn is_ending(thread: u32) -> bool {
    fs::read(format!("/proc/{thread}/stat")).is_ok_and(|stat| ends(&String::from_utf8_lossy(&stat)))
}

/// The same, by what `/proc/PID/stat` says. The flags are the seventh field behind the name, which
/// can have parentheses.
fn ends(stat: &str) -> bool {
    const PF_EXITING: u64 = 4;
    let flags = stat.rsplit(')').next().and_then(|fields| fields.split_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & PF_EXITING != 0)
}

fn status(thread: u32) -> Option<String> {
    let status = fs::read(format!("/proc/{thread}/status")).ok()?;
    Some(String::from_utf8_lossy(&status).into_owned())
}

/// The sets of signals of a thread.
#[derive(Debug, Default)]
struct Signals {
    /// Whether its process has no other thread.
    alone: bool,
    /// Whether a debugger has it, which may take a signal away.
    traced: bool,
    /// Those that wait for the thread.
    own: u64,
    /// Those that wait for a thread of the process.
    shared: u64,
    blocked: u64,
    ignored: u64,
    caught: u64,
}

impl Signals {
    /// Those of a `/proc/PID/status`. What cannot be read is empty.
    fn of(status: &str) -> Signals {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let set = |name: &str| {
            field(name).and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
        };
        Signals {
            alone: field("Threads:").is_some_and(|threads| threads.trim() == "1"),
            traced: field("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"),
            own: set("SigPnd:"),
            shared: set("ShdPnd:"),
            blocked: set("SigBlk:"),
            ignored: set("SigIgn:"),
            caught: set("SigCgt:"),
        }
    }

    /// Whether one interrupts what the thread waits for. A signal for a whole process counts only
    /// if it has one thread: with several, another one may be the one that gets it. What ends a
    /// process is a signal for each of its threads.
    fn interrupt(&self) -> bool {
        let shared = if self.alone { self.shared } else { 0 };
        (self.own | shared) & !self.blocked != 0
    }

    /// Whether one ends the process. The kernel turns most of them into SIGKILL for each thread,
    /// but not those that dump the memory first.
    fn kill(&self) -> bool {
        let waiting = self.own | self.shared;
        let ends = waiting & !(self.blocked | self.ignored | self.caught | HARMLESS) != 0;
        ends && !self.traced || waiting & KILL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signals(fields: &str) -> Signals {
        let lines = fields.split(' ').map(|field| field.replace('=', ":\t"));
        Signals::of(&lines.collect::<Vec<String>>().join("\n"))
    }

    #[test]
    fn a_signal_that_is_not_blocked_interrupts() {
        let status = |threads: u32, own: u64, shared: u64, blocked: u64| {
            let sets = format!("SigPnd={own:016x} ShdPnd={shared:016x} SigBlk={blocked:016x}");
            signals(&format!("Name=x Threads={threads} {sets}")).interrupt()
        };
        assert!(!status(1, 0, 0, 0));
        assert!(status(1, 2, 0, 0) && status(1, 0, 2, 0) && status(8, 0x100, 0, 0));
        assert!(!status(1, 2, 2, 2) && status(1, 2, 4, 2));
        // It may be for another thread.
        assert!(!status(2, 0, 2, 0));
        assert!(!Signals::of("").interrupt());
    }

    #[test]
    fn a_signal_that_is_neither_caught_nor_ignored_kills() {
        let kills = |fields: &str| signals(fields).kill();
        assert!(!kills("Threads=1") && kills("Threads=3 SigPnd=100"));
        // SIGQUIT waits for the process as a whole.
        assert!(kills("Threads=3 ShdPnd=4") && !kills("Threads=3 ShdPnd=4 SigBlk=4"));
        assert!(!kills("ShdPnd=4 SigIgn=4") && !kills("SigPnd=4 SigCgt=4"));
        assert!(kills("SigPnd=104 SigCgt=4"), "SIGKILL as well");
        // SIGWINCH, SIGCHLD, SIGSTOP; and a real-time signal.
        assert!(!kills("SigPnd=8000000") && !kills("SigPnd=10000") && !kills("SigPnd=40000"));
        assert!(kills("SigPnd=200000000") && kills("TracerPid=0 SigPnd=4"));
        assert!(!kills("TracerPid=7 SigPnd=4") && kills("TracerPid=7 SigPnd=100"));
        assert!(!is_killed(std::process::id()));
    }

    #[test]
    fn a_thread_that_ends_is_known_by_its_flags() {
        let stat = |flags: u32| ends(&format!("17 (a ) 4 b) S 1 17 17 0 -1 {flags} 4 0 0"));
        assert!(stat(0x0040_0004) && !stat(0x0040_0000));
        assert!(!ends("") && !ends("17 (cat) S"));
    }
}
