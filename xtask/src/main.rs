//! Developer commands: `cargo xtask ci`, `cargo xtask fuzz`, `cargo xtask bench`, `cargo xtask
//! interop`, `cargo xtask package`, `cargo xtask study`.

mod bench;
mod ci;
mod fuzz;
mod interop;
mod kernel_lab;
mod laboratory;
mod package;
mod process;
mod repository;
mod study;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Developer commands of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything a change must pass
    Ci(ci::CiArgs),
    /// Coverage-guided fuzzing, on the stable toolchain
    Fuzz(fuzz::FuzzArgs),
    /// Measurements: no gates, but numbers to compare
    Bench {
        #[command(subcommand)]
        which: bench::Bench,
    },
    /// Lustrine against running kernel nodes
    Interop(interop::InteropArgs),
    /// The study of SC11: docs/sc11
    Study(study::StudyArgs),
    /// A static program, a Debian package, and what an RPM and an image are made of
    Package(package::PackageArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Ci(args) => ci::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Bench { which } => bench::run(&which),
        Command::Interop(args) => interop::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Package(args) => package::run(&args).map(|about| println!("package: {about}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
