//! `cargo xtask study`: computes the study of SC11 in `docs/sc11`.
//!
//! `scenarios/sc11/study.json` lists sweeps, tables and plots. Each sweep is one `lustrine sim
//! sweep`; the relevant part of its result is stored in `docs/sc11/results`, and the tables of the
//! page and the plots are made from there without another run. Pairs of hosts are measured with
//! real sockets, in a laboratory.

mod drawing;
mod laboratory;
mod list;
mod page;
mod plot;
mod results;
mod runner;
mod settings;
mod settings_table;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::repository::root;
use list::List;
use results::Results;
use runner::Runner;

/// Runs the sweeps of the study, then makes its tables and plots.
#[derive(Args)]
pub(crate) struct StudyArgs {
    /// Only these sweeps; may be given several times. Those with real sockets run only if they are
    /// named here: they need root, and an idle machine
    #[arg(long, value_name = "SWEEP")]
    only: Vec<String>,

    /// No runs: make tables and plots of the stored results
    #[arg(long, conflicts_with = "only")]
    draw: bool,

    /// Runs at once [default: as many as there are CPUs]; results do not depend on it
    #[arg(long, value_name = "N")]
    threads: Option<u32>,

    /// The program to run [default: built from this tree]
    #[arg(long, value_name = "FILE")]
    lustrine: Option<PathBuf>,
}

/// The paths of the study.
struct Places {
    scenarios: PathBuf,
    page: PathBuf,
    results: PathBuf,
}

impl Places {
    fn of(root: &Path) -> Places {
        let docs = root.join("docs/sc11");
        Places {
            scenarios: root.join("scenarios/sc11"),
            page: docs.join("README.md"),
            results: docs.join("results"),
        }
    }

    fn list(&self) -> Result<List> {
        List::read(&self.scenarios.join("study.json"))
    }

    fn plot(&self, name: &str) -> PathBuf {
        self.page.with_file_name(format!("{name}.svg"))
    }
}

pub(crate) fn run(args: &StudyArgs) -> Result<()> {
    let places = Places::of(&root());
    let list = places.list()?;
    for name in &args.only {
        ensure!(
            list.names().any(|known| known == name),
            "there is no sweep {name:?}; there are: {}",
            list.names().collect::<Vec<_>>().join(", ")
        );
    }
    if !args.draw {
        let runner = Runner::new(args.lustrine.clone(), args.threads)?;
        for sweep in &list.sweeps {
            if args.only.is_empty() || args.only.contains(&sweep.name) {
                runner.run(sweep, &places.scenarios)?.write(&places.results)?;
            }
        }
        for pair in list.pairs.iter().filter(|pair| args.only.contains(&pair.name)) {
            pair.run(runner.program())?.write(&places.results)?;
        }
    }
    let results = Results::read_all(&list, &places.results)?;
    for plot in &list.plots {
        let path = places.plot(&plot.name);
        let svg = plot::svg(plot, &results)?;
        fs::write(&path, svg).with_context(|| path.display().to_string())?;
    }
    let old = fs::read_to_string(&places.page).context("cannot read the page of the study")?;
    let new = page::renewed(&old, |name| table::of(&list, &results, name))?;
    if new != old {
        fs::write(&places.page, new)?;
    }
    println!("{} tables and {} plots in docs/sc11", list.tables.len(), list.plots.len());
    Ok(())
}

#[cfg(test)]
mod tests;
