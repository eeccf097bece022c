//! `cargo xtask bench files`: `lustrine fs`, `lustrine mount` and the kernel's client in one
//! machine of a laboratory.
//!
//! The machine is emulated: times mean nothing, only the ratio of two clients in one round does.
//! Each command is measured from its start to its end; those of `lustrine fs` start a node, mount
//! and unmount. All clients begin with empty caches, and leave what they wrote at the servers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use tempfile::TempDir;

use super::ours::Programs;
use super::results::{self, Conditions};
use super::statistics::Summary;
use crate::kernel_lab::{Lab, Modules};

/// `lustrine fs` and `lustrine mount` beside the kernel's client.
#[derive(Args)]
pub(crate) struct FilesArgs {
    /// The folder of the laboratory: a program `lab` with Lustre nodes
    #[arg(long, value_name = "DIR")]
    lab: PathBuf,

    /// Rounds; each measures every row once
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Bytes of the large file, in MiB
    #[arg(long, default_value_t = 64)]
    mib: u32,

    /// Number of the small files: empty ones, and those of 4 KiB
    #[arg(long, default_value_t = 1000)]
    files: u32,

    /// Number of files in the directory that is listed
    #[arg(long, default_value_t = 5000)]
    many: u32,

    /// Write the results here [default: bench/results/files-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is compared.
#[derive(Clone, Copy)]
struct Task {
    name: &'static str,
    /// In a directory of a mount, `$D`. `$S` waits until the servers have what was written.
    mounted: &'static str,
    /// `$F` is `lustrine fs`, `$U` the URL of its directory; none where no verb does the same.
    fs: Option<&'static str>,
}

/// In this order: each finds what the one before left.
const TASKS: [Task; 9] = [
    Task {
        name: "write a large file",
        mounted: "dd if=/tmp/large of=$D/large bs=1M conv=fsync",
        fs: Some("$F put -q -f /tmp/large $U/large"),
    },
    Task {
        name: "read it",
        mounted: "cat $D/large >/dev/null",
        fs: Some("$F cat $U/large >/dev/null"),
    },
    Task { name: "create empty files", mounted: "cd $D && touch $NAMES && cd / && $S", fs: None },
    Task { name: "stat them", mounted: "cd $D && stat $NAMES >/dev/null", fs: None },
    Task { name: "unlink them", mounted: "cd $D && rm $NAMES && cd / && $S", fs: None },
    Task {
        name: "ls -l of many files",
        mounted: "ls -l $M/many >/dev/null",
        fs: Some("$F ls -l $R/many >/dev/null"),
    },
    Task {
        name: "copy small files there",
        mounted: "cp -r /tmp/small $D/small && $S",
        fs: Some("$F put -q -r /tmp/small $U/small"),
    },
    Task {
        name: "copy them here",
        mounted: "cp -r $D/small /tmp/copy",
        fs: Some("$F get -q -r $U/small /tmp/copy"),
    },
    Task { name: "remove them", mounted: "rm -r $D/small && $S", fs: Some("$F rm -r $U/small") },
];

/// Who does it.
#[derive(Clone, Copy)]
enum Side {
    Kernel,
    Fs,
    Mount,
}

const SIDES: [Side; 3] = [Side::Kernel, Side::Fs, Side::Mount];

impl Side {
    /// What it does for a task, in a shell of the machine.
    fn command(self, task: &Task) -> Option<&'static str> {
        match self {
            Side::Kernel | Side::Mount => Some(task.mounted),
            Side::Fs => task.fs,
        }
    }

    /// Variables of its commands, and what gives it empty caches.
    fn prepare(self) -> &'static str {
        match self {
            Side::Kernel => "M=/mnt/lustre; D=$M/kernel; S=sync",
            Side::Fs => ":",
            // The kernel does not pass sync(2) on to a mount; umount waits until all is written.
            Side::Mount => {
                "$L umount /tmp/mount 2>/dev/null; M=/tmp/mount; D=$M/mount; \
                 S=\"$L umount /tmp/mount\"; \
                 $L mount --identity userland 10.77.0.9@tcp:/lustre /tmp/mount"
            }
        }
    }
}

/// Variables of the commands.
const SETTINGS: &str = "R=lustre://10.77.0.9@tcp/lustre; U=$R/fs; L=/tmp/lustrine; \
                        F=\"$L fs\"; NAMES=$(cat /tmp/names)";
/// Empties the caches of the kernel's client.
const COLD: &str = "sync; lctl set_param -n ldlm.namespaces.*.lru_size=clear >/dev/null; \
                    echo 3 >/proc/sys/vm/drop_caches";
/// The machine of both clients.
const CLIENT: &str = "client1";

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// Seconds.
    kernel: Summary,
    /// Seconds.
    fs: Option<Summary>,
    /// Seconds.
    mount: Summary,
    /// Times as fast as the kernel's client.
    fs_ratio: Option<Summary>,
    mount_ratio: Summary,
}

/// How fast `lustrine fs` and `lustrine mount` are to be, compared with the kernel's client.
const FS_GOAL: f64 = 1.0;
const MOUNT_GOAL: f64 = 0.5;

#[derive(Debug, Serialize)]
struct Files {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    mib: u32,
    files: u32,
    many: u32,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &FilesArgs) -> Result<()> {
    let conditions = Conditions::here(&[]);
    let programs = Programs::build()?;
    let lab = Lab::new(&args.lab)?;
    for machine in ["server", CLIENT] {
        lab.up(machine, Modules::USUAL)?;
    }
    prepare(&lab, &programs.lustrine, args)?;
    let mut times: Vec<[Vec<f64>; 3]> = TASKS.iter().map(|_| Default::default()).collect();
    for round in 0..args.rounds as usize {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for (task, times) in TASKS.iter().zip(&mut times) {
            // In turn, which one is first.
            for turn in 0..SIDES.len() {
                let which = (turn + round) % SIDES.len();
                if let Some(command) = SIDES[which].command(task) {
                    times[which].push(timed(&lab, SIDES[which], command)?);
                }
            }
        }
    }
    let rows = TASKS.iter().zip(&times).map(|(task, times)| row(task, times));
    let rows: Vec<Row> = rows.collect::<Option<_>>().context("no rounds")?;
    let &FilesArgs { rounds, mib, files, many, .. } = args;
    let found = Files { conditions, rounds, mib, files, many, rows };
    let named = found.conditions.kept(&format!("files-{}.json", found.conditions.date));
    let file = args.json.clone().unwrap_or(named);
    results::write(Some(&file), &render(&found), &found)
}

/// Brings the program and the files into the machine.
fn prepare(lab: &Lab, lustrine: &Path, args: &FilesArgs) -> Result<()> {
    let dir = TempDir::new()?;
    let stripped = dir.path().join("lustrine");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(lustrine);
    let done = strip.status().context("strip (Debian: binutils)")?;
    anyhow::ensure!(done.success(), "strip failed");
    lab.put(CLIENT, &stripped, "/tmp/lustrine")?;
    let FilesArgs { mib, files, many, .. } = args;
    let make = format!(
        "set -e; modprobe fuse; chmod +x /tmp/lustrine; mkdir -p /tmp/small /tmp/mount; \
         cd /mnt/lustre; mkdir kernel fs mount many; (cd many; touch $(seq {many})); \
         dd if=/dev/urandom of=/tmp/large bs=1M count={mib} 2>/dev/null; \
         for i in $(seq {files}); do head -c 4096 /tmp/large >/tmp/small/$i; \
         echo file$i >>/tmp/names; done"
    );
    lab.sh(CLIENT, &make)?.output("files to copy").map(drop)
}

/// How long a task takes in the machine, in seconds.
fn timed(lab: &Lab, side: Side, command: &str) -> Result<f64> {
    let prepare = side.prepare();
    let script = format!(
        "{SETTINGS}; {COLD}; rm -rf /tmp/copy; {{ {prepare}; }} >/tmp/out 2>&1; \
         s=$(date +%s%N); {{ {command}; }} >/tmp/out 2>/tmp/err || \
         {{ cat /tmp/out /tmp/err | tail -n 3; exit 1; }}; \
         e=$(date +%s%N); echo $(((e-s)/1000))"
    );
    let text = lab.sh(CLIENT, &script)?.output(command)?;
    let micros: u64 = text.trim().parse().with_context(|| format!("`{command}` shows {text:?}"))?;
    Ok(micros as f64 / 1e6)
}

fn row(task: &Task, [kernel, fs, mount]: &[Vec<f64>; 3]) -> Option<Row> {
    let (kernel, fs, mount) = (Summary::of(kernel)?, Summary::of(fs), Summary::of(mount)?);
    // The rate is the inverse of the time.
    let fs_ratio = fs.as_ref().and_then(|fs| Summary::ratio(&kernel, fs));
    let mount_ratio = Summary::ratio(&kernel, &mount)?;
    Some(Row { name: task.name, kernel, fs, mount, fs_ratio, mount_ratio })
}

fn render(files: &Files) -> String {
    let Files { rounds, mib, files: count, many, .. } = files;
    let run = format!(
        "{rounds} rounds; a file of {mib} MiB, {count} small ones, {many} in a listing; an \
         emulated machine"
    );
    let mut out = files.conditions.heading(&run);
    let _ = writeln!(
        out,
        "\nseconds, and times as fast as the kernel's client: median (min..max)\n\
         {:24} {:>19} {:>19} {:>19} {:>26} {:>26}",
        "task", "kernel", "fs", "mount", "fs, goal >= 1", "mount, goal >= 0.5"
    );
    for Row { name, kernel, fs, mount, fs_ratio, mount_ratio } in &files.rows {
        let spread = |Summary { median, min, max, .. }: &Summary| {
            format!("{median:.2} ({min:.2}..{max:.2})")
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let verdict = |ratio: &Summary, goal: f64| {
            let verdict = if ratio.median >= goal { "reached" } else { "MISSED" };
            format!("{} {verdict}", spread(ratio))
        };
        let _ = writeln!(
            out,
            "{name:24} {:>19} {:>19} {:>19} {:>26} {:>26}",
            spread(kernel),
            or_dash(fs.as_ref().map(spread)),
            spread(mount),
            or_dash(fs_ratio.as_ref().map(|ratio| verdict(ratio, FS_GOAL))),
            verdict(mount_ratio, MOUNT_GOAL),
        );
    }
    out
}

#[test]
fn the_ratio_is_that_of_the_rates() {
    let times = [vec![3.0, 4.0, 5.0], vec![2.0, 4.0, 2.0], vec![12.0, 8.0, 12.5]];
    let row = row(&TASKS[0], &times).expect("values");
    assert_eq!(row.fs_ratio.as_ref().expect("it has a verb").rounds, [1.5, 1.0, 2.5]);
    assert_eq!(row.mount_ratio.rounds, [0.25, 0.5, 0.4]);
    let files = Files {
        conditions: Conditions::without_versions(),
        rounds: 3,
        mib: 1,
        files: 1,
        many: 1,
        rows: vec![row],
    };
    let table = render(&files);
    let last = table.lines().last().expect("a row");
    let fields: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(fields[4..7], ["4.00", "(3.00..5.00)", "2.00"], "{table}");
    assert_eq!(fields[10..], ["1.50", "(1.00..2.50)", "reached", "0.40", "(0.25..0.50)", "MISSED"]);
}
