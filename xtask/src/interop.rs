//! `cargo xtask interop --lab DIR`: Lustrine against running kernel nodes.
//!
//! The laboratory is a directory with a program `lab` that starts machines with Lustre in a network
//! namespace of this host. It is no part of the repository; nothing else needs it. The checks start
//! Lustrine in the same namespace, and compare what both sides do with what is expected of them.

mod checks;
mod node;
mod table;
mod testbed;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::bench::machine;
use crate::kernel_lab::Lab;
use crate::repository::{cargo, target_dir};
use checks::{Check, MissingProgram, checks};
use table::{Outcome, Row, Table};
use testbed::Testbed;

/// Holds Lustrine against running kernel nodes (needs root and a laboratory).
#[derive(Args)]
pub(crate) struct InteropArgs {
    /// The directory of the laboratory; its program is DIR/lab
    #[arg(long, value_name = "DIR")]
    lab: PathBuf,

    /// Only checks whose area or name contains this; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,

    /// List the checks and what each expects, and run nothing
    #[arg(long)]
    list: bool,

    /// Seconds of the long checked run
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    long: u64,

    /// Write the table here, as Markdown
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "lustrine"])]
    write: Option<PathBuf>,

    /// The program to test [default: built from this tree]
    #[arg(long, value_name = "FILE")]
    lustrine: Option<PathBuf>,
}

pub(crate) fn run(args: &InteropArgs) -> Result<()> {
    let chosen: Vec<Check> = checks().into_iter().filter(|check| is_chosen(args, check)).collect();
    ensure!(!chosen.is_empty(), "no check has {:?} in its area or name; see --list", args.only);
    if args.list {
        for Check { area, name, expected, .. } in &chosen {
            println!("{area}: {name}\n    {expected}");
        }
        return Ok(());
    }
    let lustrine = match &args.lustrine {
        Some(file) => fs::canonicalize(file).with_context(|| file.display().to_string())?,
        None => build()?,
    };
    let lab = Lab::new(&args.lab)?;
    let mut testbed = Testbed::new(lab, lustrine, Duration::from_secs(args.long));
    let mut table = Table::new(machine::today(), commit());
    for (index, check) in chosen.iter().enumerate() {
        eprint!("[{}/{}] {}: {} ... ", index + 1, chosen.len(), check.area, check.name);
        let begun = Instant::now();
        let outcome = match (check.run)(&mut testbed) {
            Ok(seen) => Outcome::AsExpected(seen),
            Err(error) if error.is::<MissingProgram>() => Outcome::NotRun(error.to_string()),
            Err(error) => Outcome::Different(format!("{error:#}")),
        };
        eprintln!("{outcome} ({:.0} s)", begun.elapsed().as_secs_f64());
        if let Outcome::Different(_) = outcome {
            // What a failed check leaves behind must not fail the next one.
            testbed.forget_machines();
        }
        let Check { area, name, expected, .. } = *check;
        table.rows.push(Row { area, name, expected, outcome });
    }
    table.kernel = testbed.kernel_version();
    let text = table.markdown();
    println!("{text}");
    if let Some(file) = &args.write {
        fs::write(file, &text).with_context(|| file.display().to_string())?;
        eprintln!("written: {}", file.display());
    }
    if table.not_run() > 0 {
        eprintln!("{} of {} checks were not run", table.not_run(), table.rows.len());
    }
    let different = table.different();
    if different > 0 {
        bail!("{different} of {} checks went differently than expected", table.rows.len());
    }
    Ok(())
}

fn is_chosen(args: &InteropArgs, check: &Check) -> bool {
    let has = |text: &String| check.area.contains(text) || check.name.contains(text);
    args.only.is_empty() || args.only.iter().any(has)
}

fn build() -> Result<PathBuf> {
    let status = cargo().args(["build", "--release", "--locked", "-p", "lustrine-cli"]).status()?;
    ensure!(status.success(), "the build failed");
    Ok(target_dir().join("release/lustrine"))
}

fn commit() -> String {
    let versions = machine::versions(&[]);
    versions.get("lustrine").cloned().unwrap_or_default()
}

/// `ip netns exec NAME`: it becomes the program, so that killing it kills the program.
fn in_namespace(namespace: &str, program: &std::path::Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}
