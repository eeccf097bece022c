//! Pages about runs and sweeps: one file of HTML each, with plots as SVG in it.
//!
//! They have no scripts and load nothing, follow the reader's light or dark, and can be printed.
//! Whatever stands in a scenario file is text in them.

mod single;
mod sweep;

pub use single::{RunReport, run_page};
pub use sweep::{Row, SweepReport, sweep_page};

/// The last line of every page.
fn footer(source_name: &str, version: &str) -> String {
    format!(
        "Computed by lustrine {version} from {source_name}. Virtual time: the same file, seed and \
         release give the same figures on every machine. docs/simulator.md says what the model \
         leaves out."
    )
}
