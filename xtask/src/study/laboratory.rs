//! The study's pair of hosts with real sockets: `lustrine selftest` over a link of a laboratory. It
//! needs root.

use std::path::Path;

use anyhow::{Result, ensure};

use super::list::Pair;
use super::results::{Kept, Run, digest};
use crate::bench::machine::{self, Machine};
use crate::laboratory::{Laboratory, Link, Measured};
use crate::process;

/// The name of the laboratory.
const NAME: &str = "study";
/// What a load of this kind is called among the peer credits.
const AUTO: &str = "auto";
/// Bytes of an RPC.
const MIB: f64 = 1_048_576.0;
/// Seconds of iperf3, and those before them: TCP has found the rate then.
const IPERF3: (u32, u32) = (8, 10);

impl Pair {
    /// What stands for the command in the results: this measurement is more than one.
    pub(super) fn command(&self) -> Vec<String> {
        ["study", "--only", &self.name].map(str::to_owned).to_vec()
    }

    /// Identifies what was measured.
    pub(super) fn digest(&self) -> String {
        digest(&format!("{self:?}"))
    }

    fn link(&self) -> Link {
        Link {
            round_trip_ms: self.round_trip_ms,
            gigabits: self.gigabits,
            mtu: self.mtu,
            queue: Some(self.queue_mib << 20),
            buffer: self.buffer_mib << 20,
            congestion: Some(self.congestion.clone()),
        }
    }

    /// Measures all of it.
    pub(super) fn run(&self, program: &Path) -> Result<Kept> {
        ensure!(process::installed("iperf3"), "iperf3 is not installed");
        let (date, machine) = (machine::today(), Machine::here());
        let versions = machine::versions(&[("iperf3", "--version")]);
        let lab = Laboratory::up(program, NAME, &self.link())?;
        let mut runs = Vec::new();
        let before = iperf3(&lab)?;
        for (peer_credits, credits) in &self.settings {
            let (peer_credits, credits) = (peer_credits.to_string(), credits.to_string());
            let options = [format!("peer_credits={peer_credits}"), format!("credits={credits}")];
            let options: Vec<&str> =
                options.iter().flat_map(|setting| ["--set", setting]).collect();
            runs.extend(self.rows(&lab, &options, &peer_credits, &credits)?);
        }
        runs.extend(self.rows(&lab, &["--tuning", "auto"], AUTO, AUTO)?);
        let after = iperf3(&lab)?;
        let about = format!(
            "iperf3 carried {before:.0} MB/s before and {after:.0} MB/s after the loads, with the \
             better of 1 and 4 streams"
        );
        Ok(Kept {
            sweep: self.name.clone(),
            command: self.command(),
            scenario: self.digest(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            names: ["peer_credits", "credits", "concurrency"].map(str::to_owned).to_vec(),
            about: Some(format!("{}  {about}\n", machine.heading(&date, "writes", &versions))),
            runs,
        })
    }

    /// The writes of one setting. The nodes are started for it, and TCP keeps its windows from one
    /// load to the next.
    fn rows(
        &self,
        lab: &Laboratory<'_>,
        options: &[&str],
        peer_credits: &str,
        credits: &str,
    ) -> Result<Vec<Run>> {
        eprintln!("{}: peer_credits {peer_credits}, credits {credits}", self.name);
        let set = self.set.iter().flat_map(|setting| ["--set", setting.as_str()]);
        let options: Vec<&str> = options.iter().copied().chain(set).collect();
        let _node = lab.node(&options)?;
        let concurrency: Vec<String> = self.concurrency.iter().map(u32::to_string).collect();
        let (time, warm_up) = (self.time.to_string(), self.warm_up.to_string());
        let load = [
            "--test",
            "write",
            "--size",
            "1M",
            "--concurrency",
            &concurrency.join(","),
            "--time",
            &time,
            "--warm-up",
            &warm_up,
        ];
        let seconds = (self.time + self.warm_up) * self.concurrency.len() as u32;
        let rows = lab.selftest(&[&load[..], &options].concat(), seconds)?;
        Ok(rows.iter().map(|row| self.run_of(row, peer_credits, credits)).collect())
    }

    fn run_of(&self, row: &Measured, peer_credits: &str, credits: &str) -> Run {
        let latency = &row.latency_us;
        let mb_per_s = row.mib_per_s * MIB / 1e6;
        Run {
            values: [peer_credits, credits, &row.concurrency.to_string()]
                .map(str::to_owned)
                .to_vec(),
            mb_per_s: rounded(mb_per_s),
            formula_mb_per_s: rounded(self.formula(row.concurrency)),
            p50_ms: rounded(latency.p50 / 1e3),
            p99_ms: rounded(latency.p99 / 1e3),
            max_ms: rounded(latency.max / 1e3),
            errors: row.errors,
            simulated: None,
        }
    }

    /// Equation 1 of the study, up to what TCP can carry over the link, in MB/s.
    fn formula(&self, rpcs: u32) -> f64 {
        let equation = f64::from(rpcs) * MIB / (2.0 * self.round_trip_ms / 1e3) / 1e6;
        equation.min(self.link().limit() * 1e3 / 8.0)
    }
}

/// What iperf3 carries, in MB/s.
fn iperf3(lab: &Laboratory<'_>) -> Result<f64> {
    Ok(lab.iperf3_best(IPERF3.0, IPERF3.1)? * 1e3 / 8.0)
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_that_of_the_study_up_to_the_link() {
        let pair = Pair {
            name: "pair".to_owned(),
            round_trip_ms: 50.5,
            gigabits: 10.0,
            mtu: 9000,
            queue_mib: 64,
            buffer_mib: 160,
            congestion: "cubic".to_owned(),
            settings: vec![(8, 64)],
            set: Vec::new(),
            concurrency: vec![1],
            warm_up: 1,
            time: 1,
        };
        // 10.38 MB/s for each RPC of 1 MiB; 1250 MB/s less headers.
        assert_eq!(pair.formula(8).round(), 83.0);
        assert_eq!(pair.formula(256).round(), 1238.0);
    }
}
