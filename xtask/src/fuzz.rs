//! `cargo xtask fuzz`: libFuzzer on the stable toolchain.
//!
//! The sanitizer coverage pass of LLVM is an ordinary pass that stable rustc can run, so neither
//! cargo-fuzz nor a nightly toolchain is needed. The reports of libFuzzer show whether a run is
//! guided by coverage.

mod log;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::process::{self, ChildGuard};
use crate::repository::{cargo, host_triple, root, target_dir};
use log::Report;

/// A fuzz target: a file of `fuzz/targets`.
struct Target {
    name: String,
    /// Longest input in bytes: somewhat more than the longest one with additional meaning.
    len_max: u32,
    /// Inputs of a repeatable run: 7 to 15 s on one core of a small machine.
    inputs: u64,
}

/// Fewer counters than this mean that the crates were not instrumented.
const COUNTERS_MIN: u64 = 1000;
/// One input may take this long, in seconds.
const INPUT_SECONDS_MAX: u64 = 10;
/// A target may use this much memory, in MiB.
const MEMORY_MAX: u64 = 2048;
/// The time limit of a build from nothing, with C++ in it, on a small machine.
pub(crate) const BUILD_MAX: Duration = Duration::from_secs(15 * 60);
/// Additional time of a target for its last input and its report.
const GRACE: Duration = Duration::from_secs(60);
/// The time limit of a repeatable run on any machine.
const REPEATABLE_MAX: Duration = Duration::from_secs(10 * 60);

/// Coverage-guided fuzzing.
#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// Repeatable: a fixed number of inputs made from this seed and the committed ones, so that a
    /// failure is caused by a change and not by chance
    #[arg(long, value_name = "N", conflicts_with = "seconds",
          value_parser = clap::value_parser!(u32).range(1..))]
    seed: Option<u32>,

    /// Only these targets [default: all]
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,

    /// Targets that run at the same time [default: one per CPU]
    #[arg(long)]
    jobs: Option<usize>,

    /// Run one input instead, such as a crash that was kept, and print its backtrace
    #[arg(long, value_name = "FILE", requires = "target")]
    replay: Option<PathBuf>,

    /// Do not touch fuzz/Cargo.lock
    #[arg(long)]
    locked: bool,
}

impl FuzzArgs {
    /// All targets, one per CPU at a time, with the lock file as it is.
    pub(crate) fn for_ci(seed: u32) -> FuzzArgs {
        let seed = Some(seed);
        FuzzArgs { seconds: 0, seed, target: Vec::new(), jobs: None, replay: None, locked: true }
    }
}

pub(crate) fn run(args: &FuzzArgs) -> Result<()> {
    let chosen = choose(&args.target)?;
    let programs = build(args)?;
    if let Some(input) = &args.replay {
        return replay(&programs, &chosen, input);
    }
    let jobs = match args.jobs {
        Some(jobs) => jobs.max(1),
        None => thread::available_parallelism().map_or(1, usize::from),
    };
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.min(chosen.len()) {
            scope.spawn(|| {
                while let Some(target) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = fuzz_one(&programs, target, args) {
                        println!("fuzz: FAILED {:15} {error:#}", target.name);
                        failures.lock().expect("no thread panics").push(target.name.clone());
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panics");
    ensure!(failures.is_empty(), "fuzzing failed: {}", failures.join(", "));
    Ok(())
}

/// The targets with these names; all if there are none.
fn choose(names: &[String]) -> Result<Vec<Target>> {
    let dir = root().join("fuzz/targets");
    let mut known = Vec::new();
    for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        known.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    known.sort();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
        bail!("no fuzz target is called {unknown}; there are {}", known.join(", "));
    }
    known.retain(|name| names.is_empty() || names.contains(name));
    let target = |name: String| {
        let (len_max, inputs) = match &*name {
            "wire_parsers" => (1024, 600_000),
            "fswire_parsers" => (4096, 90_000),
            "capture" => (4096, 45_000),
            "shard_ops" => (2048, 12_000),
            "console" => (2048, 1_300),
            "documents" => (4096, 12_000),
            "tools" => (2048, 8_000),
            _ => (2048, 2_500),
        };
        Target { name, len_max, inputs }
    };
    Ok(known.into_iter().map(target).collect())
}

/// Begins to build the targets of [`FuzzArgs::for_ci`], with the CPU time that other programs
/// leave. None where that cannot be said to the system.
pub(crate) fn begin_build() -> Result<Option<ChildGuard>> {
    if !process::installed("chrt") {
        return Ok(None);
    }
    let mut command = build_command(&FuzzArgs::for_ci(1), &["chrt", "--idle", "0"])?;
    // If it fails, the build of the step itself shows why.
    Ok(Some(ChildGuard::silent(&mut command)?))
}

/// Builds all targets. Returns the directory with the programs.
fn build(args: &FuzzArgs) -> Result<PathBuf> {
    let status = process::shown(&mut build_command(args, &[])?, BUILD_MAX, |_| {})?;
    ensure!(status.success(), "the fuzz targets do not build");
    Ok(out().join(host_triple()?).join(profile(args)))
}

fn out() -> PathBuf {
    target_dir().join("fuzz")
}

/// A repeatable run is short: optimising for it takes longer than it saves.
fn profile(args: &FuzzArgs) -> &'static str {
    if args.seed.is_some() { "quick" } else { "release" }
}

/// The command that builds all targets, run by another one if that is not empty.
fn build_command(args: &FuzzArgs, by: &[&str]) -> Result<Command> {
    let passes = [
        "-Cpasses=sancov-module",
        "-Cllvm-args=-sanitizer-coverage-level=4",
        "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
        "-Cllvm-args=-sanitizer-coverage-pc-table",
        "-Cllvm-args=-sanitizer-coverage-trace-compares",
        "--cfg",
        "fuzzing",
    ];
    let cargo = cargo();
    let mut command = match by {
        [] => cargo,
        [name, options @ ..] => {
            let mut command = Command::new(name);
            command.args(options).arg(cargo.get_program()).current_dir(root());
            command
        }
    };
    // If the target triple is named, the flags do not apply to build scripts and procedural macros,
    // which would not link with coverage.
    command
        .args(["build", "--manifest-path", "fuzz/Cargo.toml"])
        .args(["--profile", profile(args), "--target", &host_triple()?])
        .args(args.locked.then_some("--locked"))
        .env("CARGO_TARGET_DIR", out())
        .env("RUSTFLAGS", passes.join(" "))
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(command)
}

fn fuzz_one(programs: &Path, target: &Target, args: &FuzzArgs) -> Result<()> {
    let fuzz = root().join("fuzz");
    // Inputs that an earlier run found would change a repeatable run.
    let empty = args.seed.map(|_| tempfile::tempdir()).transpose()?;
    let corpus = match &empty {
        Some(dir) => dir.path().to_owned(),
        None => fuzz.join("corpus").join(&target.name),
    };
    let artifacts = fuzz.join("artifacts").join(&target.name);
    for dir in [&corpus, &artifacts] {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let mut command = Command::new(programs.join(&target.name));
    command
        .current_dir(&fuzz)
        .arg(format!("-max_len={}", target.len_max))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-rss_limit_mb={MEMORY_MAX}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1");
    let time = match args.seed {
        Some(seed) => {
            command.arg(format!("-seed={seed}")).arg(format!("-runs={}", target.inputs));
            REPEATABLE_MAX
        }
        None => {
            command.arg(format!("-max_total_time={}", args.seconds));
            Duration::from_secs(args.seconds)
        }
    };
    let dictionary = fuzz.join("dictionaries").join(format!("{}.dict", target.name));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    // New inputs go to the first directory; the seeds are only read.
    command.arg(&corpus);
    let seeds = fuzz.join("seeds").join(&target.name);
    if seeds.is_dir() {
        command.arg(&seeds);
    }
    let begin = Instant::now();
    let finished = process::capture(&mut command, time + GRACE)?;
    let report = Report::read(&finished.stderr);
    if let Some(artifact) = &report.artifact {
        let kept = Path::new(artifact);
        let shown = kept.strip_prefix(root()).unwrap_or(kept).display();
        println!("{}", report.story);
        println!("fuzz: repeat with  cargo xtask fuzz --target {} --replay {shown}", target.name);
        bail!("crash kept in {shown}");
    }
    ensure!(finished.status.success(), "{}: {}", finished.status, report.story);
    ensure!(
        report.counters >= COUNTERS_MIN,
        "not guided by coverage: libFuzzer sees {} counters",
        report.counters
    );
    ensure!(report.execs > 0, "nothing was run");
    println!(
        "fuzz: ok     {:15} {:>11} execs in {:4.0} s  coverage {:>5} of {:>5}  corpus {:>5}  \
         {} MiB  0 crashes",
        target.name,
        report.execs,
        begin.elapsed().as_secs_f64(),
        report.coverage,
        report.counters,
        report.corpus,
        report.memory_peak,
    );
    Ok(())
}

fn replay(programs: &Path, chosen: &[Target], input: &Path) -> Result<()> {
    let [target] = chosen else { bail!("--replay takes one --target") };
    let input = input.canonicalize().with_context(|| input.display().to_string())?;
    let mut command = Command::new(programs.join(&target.name));
    command.arg(input).env("RUST_BACKTRACE", "1");
    let limit = Duration::from_secs(INPUT_SECONDS_MAX) + GRACE;
    let status = process::shown(&mut command, limit, |_| {})?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[test]
fn targets_are_found_and_chosen() {
    let all = choose(&[]).expect("targets");
    assert!(all.len() >= 5 && all.iter().any(|target| target.name == "wire_parsers"));
    let one = choose(&["capture".to_owned()]).expect("a target");
    assert_eq!((one.len(), one[0].len_max), (1, 4096));
    assert!(choose(&["no_such_target".to_owned()]).is_err());
}
