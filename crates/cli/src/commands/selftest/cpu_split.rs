//! Two nodes on one machine stand for two machines: each gets separate CPUs.
//!
//! Otherwise a scheduler that packs processes together may run both nodes on one CPU for any length
//! of time, and reads of 1 MiB vary between 2000 and 3400 MiB/s.

use std::io;

use lustrine_sys::thread::{allowed_cpus, pin};

/// The CPUs this process may use, in two parts of which neither is empty.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CpuSplit {
    ours: Vec<u32>,
    theirs: Vec<u32>,
}

impl CpuSplit {
    /// `None` when there is one CPU only.
    ///
    /// # Errors
    /// When the system does not provide the CPUs.
    pub(super) fn of_this_process() -> io::Result<Option<CpuSplit>> {
        Ok(CpuSplit::of(allowed_cpus()?))
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_is_in_one_half() {
        assert_eq!(CpuSplit::of(vec![3]), None);
        let halves = |ours: &[u32], theirs: &[u32]| {
            Some(CpuSplit { ours: ours.to_vec(), theirs: theirs.to_vec() })
        };
        assert_eq!(CpuSplit::of(vec![0, 1]), halves(&[0], &[1]));
        assert_eq!(CpuSplit::of(vec![0, 2, 4, 5, 7]), halves(&[0, 2, 4], &[5, 7]));
    }
}
