//! Reports about runs and sweeps: one HTML file each, with plots as SVG in it.
//!
//! The pages have no scripts and load nothing, follow the reader's light or dark colour scheme, and
//! can be printed. All text of a scenario file is escaped.

mod single;
mod sweep;

pub use single::{RunReport, run_page};
pub use sweep::{Row, SweepReport, sweep_page};

/// The last line of every page.
fn footer(source_name: &str, version: &str) -> String {
    format!(
        "Computed by lustrine {version} from {source_name}. Virtual time: the same file, seed and \
         release give the same results on every machine. docs/simulator.md says what the model \
         leaves out."
    )
}
