//! `cargo xtask bench files`: the library, `lustrine fs`, `lustrine mount` and the kernel's client
//! in one machine of a laboratory.
//!
//! The machine is emulated: times mean nothing, only the ratio of two clients in one round does.
//! Each command is measured from its start to its end; those of `lustrine fs` start a node, mount
//! and unmount. The library (`crates/fs/examples/tasks`) is measured once it has mounted, as the
//! kernel's client and `lustrine mount` are. All clients begin with empty caches, and leave what
//! they wrote at the servers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use tempfile::TempDir;

use super::ours::{BUILD_MAX, Programs};
use super::results::{self, Conditions};
use super::statistics::Summary;
use crate::kernel_lab::{Lab, Modules};
use crate::process;
use crate::repository::{cargo, target_dir};

/// The library, `lustrine fs` and `lustrine mount` beside the kernel's client.
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
    /// `$T` is the program of the library, which prints microseconds; none where it has no such
    /// task.
    library: Option<&'static str>,
}

/// In this order: each finds what the one before left.
const TASKS: [Task; 9] = [
    Task {
        name: "write a large file",
        mounted: "dd if=/tmp/large of=$D/large bs=1M conv=fsync",
        fs: Some("$F put -q -f /tmp/large $U/large"),
        library: Some("$T write /tmp/large $R/library/large"),
    },
    Task {
        name: "read it",
        mounted: "cat $D/large >/dev/null",
        fs: Some("$F cat $U/large >/dev/null"),
        library: Some("$T read $R/library/large"),
    },
    Task {
        name: "create empty files",
        mounted: "cd $D && touch $NAMES && cd / && $S",
        fs: None,
        library: Some("$T create /tmp/names $R/library"),
    },
    Task {
        name: "stat them",
        mounted: "cd $D && stat $NAMES >/dev/null",
        fs: None,
        library: Some("$T stat /tmp/names $R/library"),
    },
    Task {
        name: "unlink them",
        mounted: "cd $D && rm $NAMES && cd / && $S",
        fs: None,
        library: Some("$T unlink /tmp/names $R/library"),
    },
    Task {
        name: "ls -l of many files",
        mounted: "ls -l $M/many >/dev/null",
        fs: Some("$F ls -l $R/many >/dev/null"),
        library: Some("$T list $R/many"),
    },
    Task {
        name: "copy small files there",
        mounted: "cp -r /tmp/small $D/small && $S",
        fs: Some("$F put -q -r /tmp/small $U/small"),
        library: None,
    },
    Task {
        name: "copy them here",
        mounted: "cp -r $D/small /tmp/copy",
        fs: Some("$F get -q -r $U/small /tmp/copy"),
        library: None,
    },
    Task {
        name: "remove them",
        mounted: "rm -r $D/small && $S",
        fs: Some("$F rm -r $U/small"),
        library: None,
    },
];

/// Who does it.
#[derive(Clone, Copy)]
enum Side {
    Kernel,
    Fs,
    Mount,
    Library,
}

const SIDES: [Side; 4] = [Side::Kernel, Side::Fs, Side::Mount, Side::Library];

impl Side {
    /// What it does for a task, in a shell of the machine.
    fn command(self, task: &Task) -> Option<&'static str> {
        match self {
            Side::Kernel | Side::Mount => Some(task.mounted),
            Side::Fs => task.fs,
            Side::Library => task.library,
        }
    }

    /// Variables of its commands, and what gives it empty caches.
    fn prepare(self) -> &'static str {
        match self {
            Side::Kernel => "M=/mnt/lustre; D=$M/kernel; S=sync",
            Side::Fs | Side::Library => ":",
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
                        F=\"$L fs\"; T=\"/tmp/tasks 10.77.0.11\"; NAMES=$(cat /tmp/names)";
/// Empties the caches of the kernel's client.
const COLD: &str = "sync; lctl set_param -n ldlm.namespaces.*.lru_size=clear >/dev/null; \
                    echo 3 >/proc/sys/vm/drop_caches";
/// The machine of the clients.
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
    /// Seconds.
    library: Option<Summary>,
    /// Times as fast as the kernel's client.
    fs_ratio: Option<Summary>,
    mount_ratio: Summary,
    library_ratio: Option<Summary>,
}

/// How fast the library and `lustrine mount` are to be, compared with the kernel's client.
const LIBRARY_GOAL: f64 = 1.0;
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
    prepare(&lab, &[&programs.lustrine, &tasks()?], args)?;
    let mut times: Vec<[Vec<f64>; 4]> = TASKS.iter().map(|_| Default::default()).collect();
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

/// Builds the program of the library.
fn tasks() -> Result<PathBuf> {
    let mut command = cargo();
    command.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "lustrine-fs",
        "--example",
        "tasks",
    ]);
    let status = process::shown(&mut command, BUILD_MAX, |_| {})?;
    ensure!(status.success(), "the build of the library's program failed");
    Ok(target_dir().join("release/examples/tasks"))
}

/// Brings programs and the files into the machine.
fn prepare(lab: &Lab, programs: &[&Path], args: &FilesArgs) -> Result<()> {
    let dir = TempDir::new()?;
    for program in programs {
        let name = program.file_name().context("a program has a name")?;
        let stripped = dir.path().join(name);
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&stripped).arg(program);
        let done = strip.status().context("strip (Debian: binutils)")?;
        ensure!(done.success(), "strip failed");
        lab.put(CLIENT, &stripped, &format!("/tmp/{}", name.display()))?;
    }
    let FilesArgs { mib, files, many, .. } = args;
    let make = format!(
        "set -e; modprobe fuse; chmod +x /tmp/lustrine /tmp/tasks; \
         mkdir -p /tmp/small /tmp/mount; cd /mnt/lustre; mkdir kernel fs mount library many; \
         (cd many; touch $(seq {many})); \
         dd if=/dev/urandom of=/tmp/large bs=1M count={mib} 2>/dev/null; \
         for i in $(seq {files}); do head -c 4096 /tmp/large >/tmp/small/$i; \
         echo file$i >>/tmp/names; done"
    );
    lab.sh(CLIENT, &make)?.output("files to copy").map(drop)
}

/// How long a task takes in the machine, in seconds.
fn timed(lab: &Lab, side: Side, command: &str) -> Result<f64> {
    let prepare = side.prepare();
    // The program of the library has measured itself.
    let shown = match side {
        Side::Library => "cat /tmp/out",
        Side::Kernel | Side::Fs | Side::Mount => "echo $(((e-s)/1000))",
    };
    let script = format!(
        "{SETTINGS}; {COLD}; rm -rf /tmp/copy; {{ {prepare}; }} >/tmp/out 2>&1; \
         s=$(date +%s%N); {{ {command}; }} >/tmp/out 2>/tmp/err || \
         {{ cat /tmp/out /tmp/err | tail -n 3; exit 1; }}; \
         e=$(date +%s%N); {shown}"
    );
    let text = lab.sh(CLIENT, &script)?.output(command)?;
    let micros: u64 = text.trim().parse().with_context(|| format!("`{command}` shows {text:?}"))?;
    Ok(micros as f64 / 1e6)
}

fn row(task: &Task, [kernel, fs, mount, library]: &[Vec<f64>; 4]) -> Option<Row> {
    let (kernel, fs, mount) = (Summary::of(kernel)?, Summary::of(fs), Summary::of(mount)?);
    let library = Summary::of(library);
    // The rate is the inverse of the time.
    let ratio = |of: &Option<Summary>| of.as_ref().and_then(|of| Summary::ratio(&kernel, of));
    let (fs_ratio, library_ratio) = (ratio(&fs), ratio(&library));
    let mount_ratio = Summary::ratio(&kernel, &mount)?;
    Some(Row { name: task.name, kernel, fs, mount, library, fs_ratio, mount_ratio, library_ratio })
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
         {:24} {:>19} {:>19} {:>19} {:>19} {:>18} {:>26} {:>26}",
        "task",
        "kernel",
        "fs",
        "mount",
        "library",
        "fs",
        "mount, goal >= 0.5",
        "library, goal >= 1"
    );
    for row in &files.rows {
        let Row { name, kernel, fs, mount, library, fs_ratio, mount_ratio, library_ratio } = row;
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
            "{name:24} {:>19} {:>19} {:>19} {:>19} {:>18} {:>26} {:>26}",
            spread(kernel),
            or_dash(fs.as_ref().map(spread)),
            spread(mount),
            or_dash(library.as_ref().map(spread)),
            or_dash(fs_ratio.as_ref().map(spread)),
            verdict(mount_ratio, MOUNT_GOAL),
            or_dash(library_ratio.as_ref().map(|ratio| verdict(ratio, LIBRARY_GOAL))),
        );
    }
    out
}

#[test]
fn the_ratio_is_that_of_the_rates() {
    let times =
        [vec![3.0, 4.0, 5.0], vec![2.0, 4.0, 2.0], vec![12.0, 8.0, 12.5], vec![6.0, 2.0, 10.0]];
    let row = row(&TASKS[0], &times).expect("values");
    assert_eq!(row.fs_ratio.as_ref().expect("it has a verb").rounds, [1.5, 1.0, 2.5]);
    assert_eq!(row.mount_ratio.rounds, [0.25, 0.5, 0.4]);
    assert_eq!(row.library_ratio.as_ref().expect("it has a task").rounds, [0.5, 2.0, 0.5]);
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
    assert_eq!(fields[12..14], ["1.50", "(1.00..2.50)"], "{table}");
    assert_eq!(fields[14..17], ["0.40", "(0.25..0.50)", "MISSED"], "{table}");
    assert_eq!(fields[17..], ["0.50", "(0.50..2.00)", "MISSED"], "{table}");
}
