//! Where two nodes on one machine run.
//!
//! They stand for two machines, so on an idle machine each gets separate CPUs: otherwise a
//! scheduler that packs processes together may run both on one CPU for any length of time, and
//! reads of 1 MiB vary between 2000 and 3400 MiB/s. Beside programs that compute it is the other
//! way round: a loop that may not leave its CPU waits for the program there while another CPU is
//! idle.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use clap::ValueEnum;
use lustrine_sys::CpuTimes;
use lustrine_sys::thread::{allowed_cpus, pin};

/// How long the machine is watched before the nodes start.
const WATCHED: Duration = Duration::from_millis(100);

/// A machine is busy if other programs use more than this share of its CPUs: half a CPU of two.
const BUSY_SHARE: f64 = 0.25;

/// What the user asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PlacementWord {
    /// Apart if the CPUs are idle before the run, otherwise shared
    Auto,
    /// Each node on one half of the CPUs
    Apart,
    /// Both nodes on all CPUs
    Shared,
}

/// Where the nodes run.
#[derive(Debug, PartialEq)]
pub(super) struct Placement {
    /// The CPUs of each node; `None` if both use all of them.
    pub(super) split: Option<CpuSplit>,
    /// How many CPUs were busy before the run, if that was measured.
    pub(super) busy_cpus: Option<f64>,
}

impl Placement {
    /// Both nodes wherever the scheduler puts them.
    pub(super) const SHARED: Placement = Placement { split: None, busy_cpus: None };

    /// The placement that the user asks for, on the CPUs that this process may use. With
    /// [`PlacementWord::Auto`] this takes a tenth of a second.
    ///
    /// A machine that does not say how busy it is (some containers hide `/proc/stat`) counts as
    /// idle.
    ///
    /// # Errors
    /// When the system does not say which CPUs these are.
    pub(super) fn choose(word: PlacementWord) -> io::Result<Placement> {
        let cpus = allowed_cpus()?;
        let busy_cpus = match word {
            PlacementWord::Auto if cpus.len() > 1 => watch(&cpus).ok(),
            _ => None,
        };
        let apart = match word {
            PlacementWord::Auto => !busy_cpus.is_some_and(|busy| is_busy(busy, cpus.len())),
            PlacementWord::Apart => true,
            PlacementWord::Shared => false,
        };
        Ok(Placement { split: if apart { CpuSplit::of(cpus) } else { None }, busy_cpus })
    }

    /// Its name in JSON: `apart` or `shared`.
    pub(super) fn name(&self) -> &'static str {
        if self.split.is_some() { "apart" } else { "shared" }
    }

    /// A line for the user if the machine is too busy for separate CPUs.
    pub(super) fn remark(&self) -> Option<String> {
        let busy = self.busy_cpus.filter(|_| self.split.is_none())?;
        Some(format!(
            "Other programs used {busy:.1} CPUs before the run, so both nodes share all CPUs; \
             --placement apart gives each node one half."
        ))
    }
}

/// The CPUs this process may use, in two parts of which neither is empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CpuSplit {
    ours: Vec<u32>,
    theirs: Vec<u32>,
}

impl CpuSplit {
    /// `None` when there is one CPU only.
    fn of(mut ours: Vec<u32>) -> Option<CpuSplit> {
        let theirs = ours.split_off(ours.len().div_ceil(2));
        (!theirs.is_empty()).then_some(CpuSplit { ours, theirs })
    }

    /// Calls `f` on the other half, for example to start processes, which then stay there.
    /// Afterwards this thread, and the threads that it starts, use this half.
    ///
    /// # Errors
    /// When the system does not permit to choose CPUs. The value of `f` is dropped then.
    pub(super) fn apart<T>(&self, theirs: impl FnOnce() -> T) -> io::Result<T> {
        pin(&self.theirs)?;
        let done = theirs();
        pin(&self.ours)?;
        Ok(done)
    }
}

/// How many of these CPUs are busy.
fn watch(cpus: &[u32]) -> io::Result<f64> {
    let before = CpuTimes::now()?;
    sleep(WATCHED);
    Ok(CpuTimes::now()?.busy_since(&before, cpus))
}

fn is_busy(busy_cpus: f64, cpus: usize) -> bool {
    busy_cpus > BUSY_SHARE * cpus as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_cpus_makes_a_machine_busy() {
        assert!(is_busy(0.51, 2) && !is_busy(0.5, 2));
        assert!(is_busy(33.0, 128) && !is_busy(1.0, 128));
    }

    #[test]
    fn every_cpu_is_in_one_half() {
        assert_eq!(CpuSplit::of(vec![3]), None);
        let halves = |ours: &[u32], theirs: &[u32]| {
            Some(CpuSplit { ours: ours.to_vec(), theirs: theirs.to_vec() })
        };
        assert_eq!(CpuSplit::of(vec![0, 1]), halves(&[0], &[1]));
        assert_eq!(CpuSplit::of(vec![0, 2, 4, 5, 7]), halves(&[0, 2, 4], &[5, 7]));
    }

    #[test]
    fn only_a_busy_machine_is_remarked_upon() {
        let split = || CpuSplit::of(vec![0, 1]);
        let placement = |split, busy_cpus| Placement { split, busy_cpus };
        assert_eq!(placement(split(), Some(0.1)).remark(), None);
        assert_eq!(Placement::SHARED.remark(), None);
        let remark = placement(None, Some(1.02)).remark().expect("a line");
        assert!(remark.starts_with("Other programs used 1.0 CPUs before the run"), "{remark}");
    }

    #[test]
    fn the_user_decides() {
        let chosen = |word| Placement::choose(word).expect("Linux says");
        assert_eq!(chosen(PlacementWord::Shared), Placement::SHARED);
        let several = allowed_cpus().expect("Linux says").len() > 1;
        assert_eq!(chosen(PlacementWord::Apart).split.is_some(), several);
        assert_eq!(chosen(PlacementWord::Auto).busy_cpus.is_some(), several);
    }
}
