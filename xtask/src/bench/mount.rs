//! `cargo xtask bench mount`: a mount, and file systems that only pass everything on to a tmpfs.
//!
//! The difference is what the client costs: its caches, its locks, and for what is not kept the
//! servers, which are in memory in another process. The file systems that pass on are an example of
//! ours with the same library (`crates/fuse/examples/pass_through.rs`), and libfuse's if it is
//! given. The kernel keeps no data of any of them. It keeps names and attributes of the first one
//! for as long as those of a mount, and of libfuse's for a second, which is its default.
//!
//! A first round does not count. In it, programs get memory that no program of the machine has
//! used: on a virtual machine a page of that can cost more than what is written to it.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use tempfile::TempDir;

use super::ladder::{Goal, reached};
use super::machine;
use super::ports;
use super::results::{self, Conditions};
use super::statistics::Summary;
use crate::process::{self, ChildGuard};
use crate::repository::{cargo, target_dir};

/// A mount beside file systems that pass everything on.
#[derive(Args)]
pub(crate) struct MountArgs {
    /// Rounds, after one that does not count; each measures every row once
    #[arg(long, default_value_t = 5)]
    rounds: u32,

    /// Bytes of the large file, in MiB
    #[arg(long, default_value_t = 256)]
    mib: u32,

    /// Number of the small files, of 4 KiB each
    #[arg(long, default_value_t = 2000)]
    files: u32,

    /// libfuse's `passthrough_ll`, as built from its examples; measured too
    #[arg(long, value_name = "PROGRAM")]
    libfuse: Option<PathBuf>,

    /// Write the results here [default: bench/results/mount-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A release build from nothing on a small machine.
const BUILD_MAX: Duration = Duration::from_secs(20 * 60);
/// How long a file system may take to be mounted.
const MOUNT_MAX: Duration = Duration::from_secs(60);
/// Bytes of a block of the large file, and of a small read.
const BLOCK: usize = 1 << 20;
const SMALL: usize = 4096;

/// What is done in the directory of a file system.
struct Task {
    name: &'static str,
    unit: &'static str,
    /// The part of the rate of the example that passes on.
    goal: Goal,
    run: fn(&Path, &MountArgs) -> Result<f64>,
}

const KEPT: Goal = Goal::AtLeast(0.9);

/// In this order: each finds what the one before left.
const TASKS: [Task; 8] = [
    Task { name: "write 1 MiB blocks, close", unit: "MiB/s", goal: KEPT, run: write },
    Task { name: "the same with fsync", unit: "MiB/s", goal: Goal::None, run: write_synced },
    Task { name: "read 1 MiB blocks again", unit: "MiB/s", goal: KEPT, run: read },
    Task { name: "read 4 KiB at random", unit: "op/s", goal: Goal::None, run: random_read },
    Task { name: "stat", unit: "op/s", goal: KEPT, run: stat },
    Task { name: "open and close", unit: "op/s", goal: Goal::None, run: open },
    Task { name: "list with attributes", unit: "files/s", goal: Goal::None, run: list },
    Task { name: "create and unlink", unit: "files/s", goal: Goal::None, run: create },
];

fn per_second(count: u32, begin: Instant) -> f64 {
    f64::from(count) / begin.elapsed().as_secs_f64()
}

fn write_blocks(dir: &Path, mib: u32, sync: bool) -> Result<f64> {
    let path = dir.join("large");
    if path.exists() {
        fs::remove_file(&path)?;
    }
    let block: Vec<u8> = (0..BLOCK).map(|at| (at % 251) as u8).collect();
    let begin = Instant::now();
    let mut file = File::create(path)?;
    for _ in 0..mib {
        file.write_all(&block)?;
    }
    if sync {
        file.sync_all()?;
    }
    drop(file);
    Ok(per_second(mib, begin))
}

fn write(dir: &Path, args: &MountArgs) -> Result<f64> {
    write_blocks(dir, args.mib, false)
}

fn write_synced(dir: &Path, args: &MountArgs) -> Result<f64> {
    write_blocks(dir, args.mib, true)
}

/// The second time.
fn read(dir: &Path, args: &MountArgs) -> Result<f64> {
    let file = File::open(dir.join("large"))?;
    let mut block = vec![0; BLOCK];
    let mut pass = || -> Result<()> {
        for at in 0..args.mib {
            file.read_exact_at(&mut block, u64::from(at) * BLOCK as u64)?;
        }
        Ok(())
    };
    pass()?;
    let begin = Instant::now();
    pass()?;
    Ok(per_second(args.mib, begin))
}

/// A number that looks random, for each number.
fn mixed(number: u32) -> u32 {
    let mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 33) as u32
}

fn random_read(dir: &Path, args: &MountArgs) -> Result<f64> {
    const READS: u32 = 20_000;
    let file = File::open(dir.join("large"))?;
    let pages = args.mib * (BLOCK / SMALL) as u32;
    let mut page = vec![0; SMALL];
    let begin = Instant::now();
    for number in 0..READS {
        file.read_exact_at(&mut page, u64::from(mixed(number) % pages) * SMALL as u64)?;
    }
    Ok(per_second(READS, begin))
}

fn small(dir: &Path, number: u32) -> PathBuf {
    dir.join("small").join(format!("file{number}"))
}

fn stat(dir: &Path, args: &MountArgs) -> Result<f64> {
    const STATS: u32 = 20_000;
    let begin = Instant::now();
    for number in 0..STATS {
        let found = fs::symlink_metadata(small(dir, mixed(number) % args.files))?;
        ensure!(found.len() == SMALL as u64, "a size of {}", found.len());
    }
    Ok(per_second(STATS, begin))
}

fn open(dir: &Path, args: &MountArgs) -> Result<f64> {
    const OPENS: u32 = 5_000;
    let begin = Instant::now();
    for number in 0..OPENS {
        drop(File::open(small(dir, mixed(number) % args.files))?);
    }
    Ok(per_second(OPENS, begin))
}

fn list(dir: &Path, args: &MountArgs) -> Result<f64> {
    let begin = Instant::now();
    let mut count = 0;
    for entry in fs::read_dir(dir.join("small"))? {
        entry?.metadata()?;
        count += 1;
    }
    ensure!(count == args.files, "{count} files in a directory of {}", args.files);
    Ok(per_second(count, begin))
}

fn create(dir: &Path, _: &MountArgs) -> Result<f64> {
    const FILES: u32 = 500;
    let name = |number| dir.join(format!("new{number}"));
    let begin = Instant::now();
    for number in 0..FILES {
        drop(OpenOptions::new().write(true).create_new(true).open(name(number))?);
    }
    for number in 0..FILES {
        fs::remove_file(name(number))?;
    }
    Ok(per_second(FILES, begin))
}

/// A mounted file system, and the program that serves it if there is one.
struct Mounted {
    dir: PathBuf,
    _program: Option<ChildGuard>,
}

impl Mounted {
    /// Waits until a program has mounted a file system at a directory.
    fn by(program: &mut Command, dir: PathBuf) -> Result<Mounted> {
        fs::create_dir(&dir)?;
        let child = ChildGuard::silent(program)?;
        let begin = Instant::now();
        while !is_mounted(&dir)? {
            ensure!(begin.elapsed() < MOUNT_MAX, "{program:?} does not mount");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(Mounted { dir, _program: Some(child) })
    }

    fn tmpfs(dir: PathBuf) -> Result<Mounted> {
        fs::create_dir(&dir)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "tmpfs"]).arg(&dir);
        process::capture(&mut mount, MOUNT_MAX)?.output("mount")?;
        Ok(Mounted { dir, _program: None })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The program goes with its mount, or is killed.
        let mut umount = Command::new("umount");
        let _ = process::capture(umount.arg("-l").arg(&self.dir), MOUNT_MAX);
    }
}

fn is_mounted(dir: &Path) -> Result<bool> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let dir = dir.to_str().context("a directory that is no text")?;
    Ok(mounts.lines().any(|line| line.split(' ').nth(1) == Some(dir)))
}

/// A file system that is measured.
struct Side {
    name: &'static str,
    mounted: Mounted,
}

#[derive(Debug, Serialize)]
struct Row {
    task: &'static str,
    unit: &'static str,
    rates: Vec<(&'static str, Summary)>,
    /// That of the mount by that of the example that passes on, round by round.
    ratio: Summary,
    goal: Goal,
    reached: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Found {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    mib: u32,
    files: u32,
    rows: Vec<Row>,
}

/// Builds the program and the example.
fn build() -> Result<(PathBuf, PathBuf)> {
    for what in [["lustrine-cli", "--bins"], ["lustrine-fuse", "--examples"]] {
        let mut command = cargo();
        command.args(["build", "--release", "--locked", "--package"]).args(what);
        let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
        ensure!(status.success(), "lustrine does not build");
    }
    let release = target_dir().join("release");
    Ok((release.join("lustrine"), release.join("examples").join("pass_through")))
}

pub(crate) fn run(args: &MountArgs) -> Result<()> {
    ensure!(machine::is_root()?, "bench mount mounts file systems, and needs root");
    let (lustrine, pass_through) = build()?;
    let conditions = Conditions::here(&[]);
    // In the order of what stands on what: mounts end before what they lead to.
    let dir = TempDir::new()?;
    let port = ports::free()?;
    let net = |host: u8| format!("tcp=127.0.0.{host}:{port}");
    let mut serve = Command::new(&lustrine);
    serve.args(["fs", "serve", "--size", "4G", "--net", &net(2)]);
    let _servers = ChildGuard::silent(&mut serve)?;
    ports::wait_for_listener(port)?;
    let tmpfs = Mounted::tmpfs(dir.path().join("tmpfs"))?;
    let mount = |host: u8, name: &str, options: &str| {
        let mut mount = Command::new(&lustrine);
        mount.args(["mount", "-f", "--net", &net(host), "-o", options]);
        let dir = dir.path().join(name);
        Mounted::by(mount.arg("127.0.0.2@tcp:/lustre").arg(&dir), dir)
    };
    let pass = || {
        let dir = dir.path().join("pass_through");
        Mounted::by(Command::new(&pass_through).arg(&tmpfs.dir).arg(&dir), dir)
    };
    let mut sides = vec![
        Side { name: "mount", mounted: mount(3, "mount", "cache=1G")? },
        Side { name: "pass_through", mounted: pass()? },
        Side { name: "mount, cache=none", mounted: mount(4, "none", "cache=none,names=none")? },
    ];
    if let Some(program) = &args.libfuse {
        let mut command = Command::new(program);
        let source = format!("source={},cache=never,timeout=1", tmpfs.dir.display());
        let at = dir.path().join("libfuse");
        command.args(["-f", "-o", &source]).arg(&at);
        sides.push(Side { name: "libfuse", mounted: Mounted::by(&mut command, at)? });
    }
    let rates = measure(&sides, args)?;
    let rows = rows(&sides, &rates)?;
    let &MountArgs { rounds, mib, files, .. } = args;
    let found = Found { conditions, rounds, mib, files, rows };
    let named = found.conditions.kept(&format!("mount-{}.json", found.conditions.date));
    let file = args.json.clone().unwrap_or(named);
    results::write(Some(&file), &render(&found), &found)
}

/// The rates of each task, by task, side and round.
fn measure(sides: &[Side], args: &MountArgs) -> Result<Vec<Vec<Vec<f64>>>> {
    let dirs: Vec<PathBuf> =
        sides.iter().map(|side| side.mounted.dir.join(format!("of {}", side.name))).collect();
    for dir in &dirs {
        fs::create_dir(dir)?;
        fs::create_dir(dir.join("small"))?;
        for number in 0..args.files {
            fs::write(small(dir, number), [7; SMALL])?;
        }
    }
    let mut rates = vec![vec![Vec::new(); sides.len()]; TASKS.len()];
    for round in 0..=args.rounds as usize {
        match round {
            0 => eprintln!("a round that does not count"),
            round => eprintln!("round {round} of {}", args.rounds),
        }
        for (task, rates) in TASKS.iter().zip(&mut rates) {
            // In turn, which one is first.
            for turn in 0..sides.len() {
                let which = (turn + round) % sides.len();
                let context = || format!("{}: {}", sides[which].name, task.name);
                let rate = (task.run)(&dirs[which], args).with_context(context)?;
                if round > 0 {
                    rates[which].push(rate);
                }
            }
        }
    }
    Ok(rates)
}

fn rows(sides: &[Side], rates: &[Vec<Vec<f64>>]) -> Result<Vec<Row>> {
    let row = |(task, rates): (&Task, &Vec<Vec<f64>>)| {
        let summary = |values: &Vec<f64>| Summary::of(values).context("no rounds");
        let all: Vec<Summary> = rates.iter().map(summary).collect::<Result<_>>()?;
        let ratio = Summary::ratio(&all[0], &all[1]).context("no rounds")?;
        let reached = reached(task.goal, ratio.median);
        let rates = sides.iter().map(|side| side.name).zip(all).collect();
        Ok(Row { task: task.name, unit: task.unit, rates, ratio, goal: task.goal, reached })
    };
    TASKS.iter().zip(rates).map(row).collect()
}

fn render(found: &Found) -> String {
    let Found { rounds, mib, files, .. } = found;
    let run = format!("{rounds} rounds after one; a file of {mib} MiB, {files} of 4 KiB");
    let mut out = found.conditions.heading(&run);
    let names = found.rows.first().map(|row| row.rates.as_slice()).unwrap_or_default();
    let _ = write!(out, "\n{:28} {:8}", "task", "unit");
    for (name, _) in names {
        let _ = write!(out, " {name:>24}");
    }
    let _ = writeln!(out, " {:>34}", "mount by pass_through");
    for Row { task, unit, rates, ratio, goal, reached } in &found.rows {
        let _ = write!(out, "{task:28} {unit:8}");
        for (_, Summary { median, min, max, .. }) in rates {
            let _ = write!(out, " {:>24}", format!("{median:.0} ({min:.0}..{max:.0})"));
        }
        let Summary { median, min, max, .. } = ratio;
        let verdict = match (goal, reached) {
            (Goal::AtLeast(least), Some(true)) => format!(">= {least} reached"),
            (Goal::AtLeast(least), Some(false)) => format!(">= {least} MISSED"),
            _ => String::new(),
        };
        let ratio = format!("{median:.2} ({min:.2}..{max:.2}) {verdict}");
        let _ = writeln!(out, " {:>34}", ratio.trim_end());
    }
    out
}

#[test]
fn the_table_has_the_rates_and_the_ratio_of_the_first_two() {
    let one = |value: f64| Summary::of(&[value]).expect("a value");
    let row = |goal| Row {
        task: "stat",
        unit: "op/s",
        rates: vec![("mount", one(850.0)), ("pass_through", one(1000.0))],
        ratio: one(0.85),
        goal,
        reached: reached(goal, 0.85),
    };
    let found = Found {
        conditions: Conditions::without_versions(),
        rounds: 1,
        mib: 1,
        files: 1,
        rows: vec![row(KEPT), row(Goal::None)],
    };
    let table = render(&found);
    let lines: Vec<&str> = table.lines().rev().take(2).collect();
    let words: Vec<&str> = lines[1].split_whitespace().collect();
    let expected = ["stat", "op/s", "850", "(850..850)", "1000", "(1000..1000)", "0.85"];
    assert_eq!(words[..7], expected, "{table}");
    assert!(lines[1].ends_with(">= 0.9 MISSED") && lines[0].ends_with("(0.85..0.85)"), "{table}");
}

/// The tasks themselves, in a directory of this machine.
#[test]
fn every_task_can_be_done_in_a_directory() {
    let dir = TempDir::new().expect("a directory");
    let args = MountArgs { rounds: 1, mib: 2, files: 3, libfuse: None, json: None };
    fs::create_dir(dir.path().join("small")).expect("a directory");
    for number in 0..args.files {
        fs::write(small(dir.path(), number), [7; SMALL]).expect("a file");
    }
    for task in &TASKS {
        let rate = (task.run)(dir.path(), &args).expect("it works");
        assert!(rate > 0.0, "{}", task.name);
    }
    assert_eq!(fs::metadata(dir.path().join("large")).expect("a file").len(), 2 << 20);
    assert!(!dir.path().join("new0").exists());
}
