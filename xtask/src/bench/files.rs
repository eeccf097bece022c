//! `cargo xtask bench files`: `lustrine fs` and the kernel's client in one machine of a laboratory.
//!
//! The machine is emulated: times mean nothing, only the ratio of two programs in one round does.
//! Each command is measured from its start to its end, ours with starting a node, mounting and
//! unmounting. Both leave what they wrote on stable storage, and nothing in the kernel client's
//! caches when it reads.

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

/// `lustrine fs` beside the kernel's client.
#[derive(Args)]
pub(crate) struct FilesArgs {
    /// The folder of the laboratory: a program `lab` with Lustre nodes
    #[arg(long, value_name = "DIR")]
    lab: PathBuf,

    /// Rounds; each measures every row once
    #[arg(long, default_value_t = 3)]
    rounds: u32,

    /// Bytes of the large file, in MiB
    #[arg(long, default_value_t = 128)]
    mib: u32,

    /// Number of the small files, of 4 KiB each
    #[arg(long, default_value_t = 1000)]
    files: u32,

    /// Write the results here [default: bench/results/files-DATE.json]
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is compared.
#[derive(Clone, Copy)]
struct Pair {
    name: &'static str,
    /// Of the kernel's client, in a shell of the machine.
    kernel: &'static str,
    /// Ours.
    ours: &'static str,
}

/// In this order: each finds what the one before left. `$F` is `lustrine fs`, `$U` the URL.
const PAIRS: [Pair; 6] = [
    Pair {
        name: "write a large file",
        kernel: "dd if=/tmp/large of=$M/kernel bs=1M conv=fsync",
        ours: "$F put -q -f /tmp/large $U/ours",
    },
    Pair {
        name: "read a large file",
        kernel: "cat $M/kernel >/dev/null",
        ours: "$F cat $U/ours >/dev/null",
    },
    Pair {
        name: "copy small files there",
        kernel: "cp -r /tmp/small $M/kernel.d && sync",
        ours: "$F put -q -r /tmp/small $U/ours.d",
    },
    Pair {
        name: "list them with attributes",
        kernel: "ls -l $M/kernel.d",
        ours: "$F ls -l $U/ours.d",
    },
    Pair {
        name: "copy them here",
        kernel: "cp -r $M/kernel.d /tmp/kernel.d",
        ours: "$F get -q -r $U/ours.d /tmp/ours.d",
    },
    Pair { name: "remove them", kernel: "rm -r $M/kernel.d && sync", ours: "$F rm -r $U/ours.d" },
];

/// Variables of the commands.
const SETTINGS: &str =
    "M=/mnt/lustre; U=lustre://10.77.0.9@tcp/lustre; F='/tmp/lustrine fs --identity userland'";
/// Empties the kernel client's caches.
const COLD: &str = "sync; lctl set_param -n ldlm.namespaces.*.lru_size=clear >/dev/null; \
                    echo 3 >/proc/sys/vm/drop_caches";
/// The machine of both clients.
const CLIENT: &str = "client1";

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// Seconds.
    ours: Summary,
    /// Seconds.
    kernel: Summary,
    /// Times as fast as the kernel's client.
    ratio: Summary,
}

#[derive(Debug, Serialize)]
struct Files {
    #[serde(flatten)]
    conditions: Conditions,
    rounds: u32,
    mib: u32,
    files: u32,
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
    let mut times: Vec<(Vec<f64>, Vec<f64>)> = PAIRS.iter().map(|_| Default::default()).collect();
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for (pair, (ours, kernel)) in PAIRS.iter().zip(&mut times) {
            // In turn, which one is first.
            let mut sides = [(pair.ours, ours), (pair.kernel, kernel)];
            if round % 2 == 1 {
                sides.reverse();
            }
            for (command, seconds) in sides {
                seconds.push(timed(&lab, command)?);
            }
        }
        lab.sh(CLIENT, "rm -rf /tmp/kernel.d /tmp/ours.d")?.output("rm")?;
    }
    let rows = PAIRS.iter().zip(&times).map(|(pair, (ours, kernel))| row(pair, ours, kernel));
    let rows: Vec<Row> = rows.collect::<Option<_>>().context("no rounds")?;
    let (rounds, mib, files) = (args.rounds, args.mib, args.files);
    let found = Files { conditions, rounds, mib, files, rows };
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
    let FilesArgs { mib, files, .. } = args;
    let make = format!(
        "set -e; chmod +x /tmp/lustrine; mkdir -p /tmp/small; \
         dd if=/dev/urandom of=/tmp/large bs=1M count={mib} 2>/dev/null; \
         i=0; while [ $i -lt {files} ]; do head -c 4096 /tmp/large >/tmp/small/$i; i=$((i+1)); done"
    );
    lab.sh(CLIENT, &make)?.output("files to copy").map(drop)
}

/// How long a command takes in the machine, in seconds.
fn timed(lab: &Lab, command: &str) -> Result<f64> {
    let script = format!(
        "{SETTINGS}; {COLD}; s=$(date +%s%N); {{ {command}; }} >/tmp/out 2>/tmp/err || \
         {{ tail -3 /tmp/err; exit 1; }}; e=$(date +%s%N); echo $(((e-s)/1000))"
    );
    let text = lab.sh(CLIENT, &script)?.output(command)?;
    let micros: u64 = text.trim().parse().with_context(|| format!("`{command}` shows {text:?}"))?;
    Ok(micros as f64 / 1e6)
}

fn row(pair: &Pair, ours: &[f64], kernel: &[f64]) -> Option<Row> {
    let (ours, kernel) = (Summary::of(ours)?, Summary::of(kernel)?);
    // The rate is the inverse of the time.
    let ratio = Summary::ratio(&kernel, &ours)?;
    Some(Row { name: pair.name, ours, kernel, ratio })
}

fn render(files: &Files) -> String {
    let Files { rounds, mib, files: count, .. } = files;
    let run = format!("{rounds} rounds; {mib} MiB, {count} files of 4 KiB; an emulated machine");
    let mut out = files.conditions.heading(&run);
    let _ = writeln!(
        out,
        "\n{:28} {:>24} {:>24} {:>26}",
        "command", "ours, s (min..max)", "kernel, s (min..max)", "times as fast (min..max)"
    );
    for Row { name, ours, kernel, ratio } in &files.rows {
        let spread = |Summary { median, min, max, .. }: &Summary, digits: usize| {
            format!("{median:.digits$} ({min:.digits$}..{max:.digits$})")
        };
        let (ours, kernel, ratio) = (spread(ours, 2), spread(kernel, 2), spread(ratio, 2));
        let _ = writeln!(out, "{name:28} {ours:>24} {kernel:>24} {ratio:>26}");
    }
    out
}

#[test]
fn the_ratio_is_that_of_the_rates() {
    let row = row(&PAIRS[0], &[2.0, 4.0, 2.0], &[3.0, 4.0, 5.0]).expect("values");
    assert_eq!(row.ratio.rounds, [1.5, 1.0, 2.5]);
    let files =
        Files { conditions: Conditions::here(&[]), rounds: 3, mib: 1, files: 1, rows: vec![row] };
    let table = render(&files);
    let last = table.lines().last().expect("a row");
    let fields: Vec<&str> = last.split_whitespace().collect();
    let expected =
        ["write", "a", "large", "file", "2.00", "(2.00..4.00)", "4.00", "(3.00..5.00)", "1.50"];
    assert_eq!(fields[..9], expected, "{table}");
}
