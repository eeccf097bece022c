//! `cargo xtask ci`: the checks that a change must pass, step by step, with time and result of
//! each.

mod tally;

use std::env;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};

use crate::fuzz::{self, FuzzArgs};
use crate::package::{self, PackageArgs};
use crate::process::{self, ChildGuard};
use crate::repository::cargo;
use tally::Tally;

/// The time limit of one program that a step runs.
const STEP_MAX: Duration = Duration::from_secs(20 * 60);

/// The time limit of the whole in minutes, from nothing on 2 cores.
const WHOLE_MAX: u64 = 30;

/// Tests at the same time for each CPU: those of processes wait for most of their time.
const TESTS_PER_CPU: usize = 3;

/// The ordinary tests run the seeds below this one.
const SEEDS_BEGIN: u64 = 40;

/// The same of the swarm of clients and servers, of which a case takes longer.
const SERVER_SEEDS_BEGIN: u64 = 24;
const CASES_PER_SERVER_CASE: u64 = 5;

/// Everything a change must pass.
#[derive(Args)]
pub(crate) struct CiArgs {
    /// Only these steps [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Step>,

    /// Fuzz a fixed number of inputs per target, made from this seed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    fuzz_seed: u32,

    /// Random cases of the swarm to simulate beyond those of the ordinary tests
    #[arg(long, default_value_t = 200)]
    cases: u64,

    /// Time limit of the whole in minutes: what runs then is ended, and the checks have failed
    #[arg(long, default_value_t = WHOLE_MAX, value_name = "MINUTES")]
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Formatting
    Fmt,
    /// The rules of the house, before the long steps
    House,
    /// Lints, warnings are errors
    Clippy,
    /// All tests, those of the house rules among them
    Test,
    /// More random cases of the swarm than the ordinary tests simulate
    Swarm,
    /// Each fuzz target for a fixed number of inputs
    Fuzz,
    /// The packages, installed in a clean root
    Package,
}

impl CiArgs {
    /// Whether a step is to be taken.
    fn has(&self, step: Step) -> bool {
        self.only.is_empty() || self.only.contains(&step)
    }
}

/// A step that was run.
struct Verdict {
    step: Step,
    time: Duration,
    /// A remark, or the reason of the failure.
    outcome: Result<String>,
}

pub(crate) fn run(args: &CiArgs) -> Result<()> {
    let begin = Instant::now();
    let end = begin + Duration::from_secs(args.limit * 60);
    process::end_by(end);
    let all = Step::value_variants().iter().copied();
    let chosen = all.filter(|step| args.has(*step));
    let mut verdicts = Vec::new();
    let mut fuzz_build = None;
    for step in chosen {
        println!("ci: {} ...", name(step));
        let begin = Instant::now();
        let outcome = match begin < end {
            true => take(step, args, &mut fuzz_build),
            false => Err(anyhow!("not begun: the limit of {} min is over", args.limit)),
        };
        verdicts.push(Verdict { step, time: begin.elapsed(), outcome });
        println!("{}\n", line(&verdicts[verdicts.len() - 1]));
    }
    println!("ci: {:.0} s in total", begin.elapsed().as_secs_f64());
    verdicts.iter().for_each(|verdict| println!("{}", line(verdict)));
    let failed = verdicts.iter().filter(|verdict| verdict.outcome.is_err()).count();
    ensure!(failed == 0, "{failed} of {} steps failed", verdicts.len());
    ensure!(
        Instant::now() < end,
        "all steps passed, but only after the limit of {} min",
        args.limit
    );
    Ok(())
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Fmt => "fmt",
        Step::House => "house",
        Step::Clippy => "clippy",
        Step::Test => "test",
        Step::Swarm => "swarm",
        Step::Fuzz => "fuzz",
        Step::Package => "package",
    }
}

fn line(verdict: &Verdict) -> String {
    let (word, remark) = match &verdict.outcome {
        Ok(remark) => ("ok    ", remark.clone()),
        Err(error) => ("FAILED", format!("{error:#}")),
    };
    let seconds = verdict.time.as_secs_f64();
    format!("ci: {word} {:7} {seconds:7.1} s  {remark}", name(verdict.step))
}

/// Takes a step. `fuzz_build` is the build of the fuzz targets, if it has begun before its step.
fn take(step: Step, args: &CiArgs, fuzz_build: &mut Option<ChildGuard>) -> Result<String> {
    match step {
        Step::Fmt => {
            run_cargo(&["fmt", "--all", "--check"])?;
            run_cargo(&["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"])?;
            Ok(String::new())
        }
        Step::House => {
            // All packages: with a part of them, crates have fewer features and are built twice.
            run_cargo(&["test", "--workspace", "--test", "house", "--locked", "--quiet"])?;
            Ok(String::new())
        }
        Step::Clippy => {
            if builds_lint() {
                run_cargo(&["test", "--workspace", "--locked", "--no-run"])?;
                run_cargo(&["build", "--workspace", "--benches", "--locked"])?;
                return Ok("built the tests and linted; fuzz targets: in their step".to_owned());
            }
            let lints = ["--", "-D", "warnings"];
            let workspace = ["clippy", "--workspace", "--all-targets", "--locked"];
            run_cargo(&[&workspace[..], &lints].concat())?;
            let mut fuzz = cargo();
            fuzz.args(["clippy", "--manifest-path", "fuzz/Cargo.toml", "--locked"]).args(lints);
            // libFuzzer is C++, and nothing is linked here: it need not be compiled.
            fuzz.env("CUSTOM_LIBFUZZER_PATH", "/nonexistent/libfuzzer.a");
            run_shown(fuzz)?;
            Ok(String::new())
        }
        Step::Test => {
            // Tests wait for much, so there is time for it beside them.
            if args.has(Step::Fuzz) {
                *fuzz_build = fuzz::begin_build()?;
            }
            let tally = Arc::new(Mutex::new(Tally::default()));
            let counting = Arc::clone(&tally);
            // The README's own command, except that it continues after a failure.
            let mut command = cargo();
            command.args(["test", "--workspace", "--locked", "--no-fail-fast"]);
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            command.env("RUST_TEST_THREADS", (cpus * TESTS_PER_CPU).to_string());
            let status = process::shown(&mut command, STEP_MAX, move |line| {
                counting.lock().expect("no reader panics").read(line);
            })?;
            let tally = tally.lock().expect("no reader panics");
            ensure!(status.success(), "{tally}");
            ensure!(tally.passed > 0, "no test was run");
            let unexpected = tally.unexpected(lustrine_testing::is_root());
            ensure!(unexpected.is_empty(), "{tally}: {}", unexpected.join("; "));
            Ok(tally.to_string())
        }
        Step::Swarm => {
            let seeds = format!("{SEEDS_BEGIN}..{}", SEEDS_BEGIN + args.cases);
            let mut command = cargo();
            command.args(["test", "--workspace", "--test", "swarm", "--locked"]);
            let of_servers = SERVER_SEEDS_BEGIN + args.cases / CASES_PER_SERVER_CASE;
            let server_seeds = format!("{SERVER_SEEDS_BEGIN}..{of_servers}");
            command.env("LUSTRINE_SEEDS", &seeds).env("LUSTRINE_SERVER_SEEDS", &server_seeds);
            let status = process::shown(&mut command, STEP_MAX, |_| {})?;
            ensure!(status.success(), "seeds {seeds}, of servers {server_seeds}: {status}");
            let server_cases = of_servers - SERVER_SEEDS_BEGIN;
            Ok(format!("{} cases, {server_cases} of clients and servers", args.cases))
        }
        Step::Fuzz => {
            if let Some(mut build) = fuzz_build.take() {
                // If it does not succeed, the build of this step shows why.
                let _ = build.wait(fuzz::BUILD_MAX);
            }
            fuzz::run(&FuzzArgs::for_ci(args.fuzz_seed))?;
            Ok(format!("seed {}", args.fuzz_seed))
        }
        Step::Package => {
            let said = package::run(&PackageArgs { check: true, quick: true })?;
            let done = said.split("not checked").next().unwrap_or_default();
            let is_installed = done.contains("Debian package");
            ensure!(is_installed || !lustrine_testing::is_root(), "not installed: {said}");
            Ok(said)
        }
    }
}

/// Whether each build of this run lints, and fails on warnings, as `.ci/run` has it: then clippy
/// needs no build of its own, with all dependencies once more.
fn builds_lint() -> bool {
    let is = |name, value| env::var_os(name).is_some_and(|found| found == value);
    is("RUSTC_WORKSPACE_WRAPPER", "clippy-driver") && is("CLIPPY_ARGS", "-Dwarnings")
}

fn run_cargo(args: &[&str]) -> Result<()> {
    let mut command = cargo();
    command.args(args);
    run_shown(command)
}

fn run_shown(mut command: Command) -> Result<()> {
    let status = process::shown(&mut command, STEP_MAX, |_| {})?;
    if !status.success() {
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        bail!("cargo {}: {status}", args.join(" "));
    }
    Ok(())
}
