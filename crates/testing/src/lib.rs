//! Tests that cannot run on this machine.
//!
//! `cargo test` has tests that pass and tests that fail, and decides at compile time which are
//! ignored. Whether a test has root, network namespaces or some program is known only when it runs.
//! Such a test calls [`not_run`] and returns, and so passes; what it needed is written to a file
//! that belongs to this run of `cargo test`. The last test program of the workspace
//! (`xtask/tests/not_run.rs`) reads the file with [`collect`] and prints what did not run and why,
//! and `cargo xtask ci` fails if more did not run than it expects.
#![forbid(unsafe_code)]

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::thread;

/// What a machine lacks when a test does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The rights of root, or a user other than the present one.
    Root,
    /// TCP source ports below 1024.
    PrivilegedPorts,
    /// A user who may not use TCP source ports below 1024, and the means to become that user.
    OrdinaryUser,
    /// Network namespaces.
    Namespaces,
    /// File systems of programs: `/dev/fuse`, and the right to mount.
    Fuse,
    /// Links that are slow or far away: `netem` and `tbf` of the kernel's traffic control.
    Netem,
    /// IPv6.
    Ipv6,
    /// Sends without a copy (`MSG_ZEROCOPY`).
    ZeroCopy,
    /// At least two CPUs.
    TwoCpus,
    /// File descriptors or memory that this machine does not provide.
    Resources,
    /// A program that is not installed.
    Program,
    /// Time: tests that run only with `LUSTRINE_LONG=1`.
    Long,
}

impl Need {
    /// Every kind, in the order in which they are reported.
    pub const ALL: [Need; 12] = [
        Need::Root,
        Need::PrivilegedPorts,
        Need::OrdinaryUser,
        Need::Namespaces,
        Need::Fuse,
        Need::Netem,
        Need::Ipv6,
        Need::ZeroCopy,
        Need::TwoCpus,
        Need::Resources,
        Need::Program,
        Need::Long,
    ];

    /// One word for reports and for programs that read them.
    pub fn name(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::PrivilegedPorts => "privileged-ports",
            Need::OrdinaryUser => "ordinary-user",
            Need::Namespaces => "namespaces",
            Need::Fuse => "fuse",
            Need::Netem => "netem",
            Need::Ipv6 => "ipv6",
            Need::ZeroCopy => "zero-copy",
            Need::TwoCpus => "two-cpus",
            Need::Resources => "resources",
            Need::Program => "program",
            Need::Long => "long",
        }
    }

    /// How to make such tests run.
    pub fn remedy(self) -> &'static str {
        match self {
            Need::Root => "run the tests as root",
            Need::PrivilegedPorts => "run the tests as root, or give the user such ports",
            Need::OrdinaryUser => "run the tests as root, with setpriv installed",
            Need::Namespaces => "run the tests as root on a kernel with network namespaces",
            Need::Fuse => "run the tests as root on a machine with /dev/fuse",
            Need::Netem => "load the kernel modules sch_netem and sch_tbf",
            Need::Ipv6 => "enable IPv6",
            Need::ZeroCopy => "use a kernel with MSG_ZEROCOPY for TCP",
            Need::TwoCpus => "use a machine with two CPUs",
            Need::Resources => "raise the limits of the user",
            Need::Program => "install the program",
            Need::Long => "set LUSTRINE_LONG=1",
        }
    }

    fn by_name(name: &str) -> Option<Need> {
        Need::ALL.into_iter().find(|need| need.name() == name)
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A test that did not run, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotRun {
    /// What it needed.
    pub need: Need,
    /// Its test program and its name there.
    pub test: String,
    /// The place in the source where this was decided.
    pub place: String,
    /// What was found, as text.
    pub why: String,
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Records that the calling test, or a part of it, does not run on this machine. The test may
/// continue or return.
#[track_caller]
pub fn not_run(need: Need, why: &str) {
    let program = std::env::current_exe().unwrap_or_default();
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Cargo adds a hash to the name of the program.
    let program = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name);
    let thread = thread::current();
    let caller = Location::caller();
    let entry = NotRun {
        need,
        test: format!("{program} {}", thread.name().unwrap_or("?")),
        place: format!("{}:{}", caller.file(), caller.line()),
        why: why.to_owned(),
    };
    eprintln!("not run: {}: {} ({})", entry.test, entry.why, entry.need);
    // A record that cannot be written must not fail a test that cannot run.
    if let Ok(path) = record() {
        let _ = append(&path, &entry);
    }
}

/// All that this run of `cargo test` has recorded so far, sorted and without repetitions. The
/// record is removed.
///
/// # Errors
/// When the record exists and cannot be read.
pub fn collect() -> io::Result<Vec<NotRun>> {
    let path = record()?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let _ = fs::remove_file(&path);
    let mut entries: Vec<NotRun> = text.lines().filter_map(read_line).collect();
    entries.sort();
    entries.dedup();
    Ok(entries)
}

/// The file of this run: it is named after the process that started this test program, with its
/// start time, since process ids are reused.
fn record() -> io::Result<PathBuf> {
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let stat = fs::read_to_string(format!("/proc/{parent}/stat"))?;
    let began = start_time(&stat).ok_or(io::ErrorKind::InvalidData)?;
    let program = std::env::current_exe()?;
    // Test programs are in target/PROFILE/deps.
    let profile = program.parent().and_then(Path::parent).ok_or(io::ErrorKind::NotFound)?;
    let directory = profile.join("not-run");
    fs::create_dir_all(&directory)?;
    Ok(directory.join(format!("{parent}-{began}")))
}

/// The 22nd field of `/proc/PID/stat`; the second is a name in parentheses that may hold anything.
fn start_time(stat: &str) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)
}

fn append(path: &Path, entry: &NotRun) -> io::Result<()> {
    // One write of one line: several test threads and programs may do this at once.
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(line(entry).as_bytes())
}

fn line(entry: &NotRun) -> String {
    let plain = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let NotRun { need, test, place, why } = entry;
    format!("{need}\t{}\t{}\t{}\n", plain(test), plain(place), plain(why))
}

fn read_line(line: &str) -> Option<NotRun> {
    let mut fields = line.split('\t').map(str::to_owned);
    let need = Need::by_name(&fields.next()?)?;
    Some(NotRun { need, test: fields.next()?, place: fields.next()?, why: fields.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let entry = NotRun {
            need: Need::Netem,
            test: "processes links::far".to_owned(),
            place: "links.rs:7".to_owned(),
            why: "two\nlines\tand a tab".to_owned(),
        };
        let read = read_line(line(&entry).trim_end_matches('\n'));
        assert_eq!(read, Some(NotRun { why: "two lines and a tab".to_owned(), ..entry }));
        assert_eq!(read_line("other\ta\tb\tc"), None);
        assert_eq!(read_line("root\ta"), None);
    }

    #[test]
    fn every_kind_has_a_unique_name() {
        for need in Need::ALL {
            assert_eq!(Need::by_name(need.name()), Some(need));
        }
    }

    #[test]
    fn the_start_of_a_process_is_found_after_any_name() {
        let fields: Vec<String> = (3..30).map(|field| field.to_string()).collect();
        let stat = format!("77 (a) (b c) {}", fields.join(" "));
        assert_eq!(start_time(&stat), Some("22"));
        assert_eq!(start_time("77 (short) S 1"), None);
    }
}
