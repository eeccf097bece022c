//! Scheduling of threads.

use std::io;
use std::num::NonZeroU64;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};

/// The CPUs that the calling thread may run on, ascending; never empty.
///
/// # Errors
/// If the kernel has more than 1024 CPUs.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect())
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// `InvalidInput` if this process may use none of them, or one is 1024 or above.
pub fn pin(cpus: &[u32]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        let cpu = cpu as usize;
        if cpu >= CpuSet::MAX_CPU {
            let message = format!("CPU {cpu}: only CPUs below {} can be named", CpuSet::MAX_CPU);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Makes the calling thread's time-outs exact. Otherwise the kernel delays each by up to 50
/// microseconds in order to serve several at once.
///
/// # Errors
/// None that Linux gives.
pub fn minimize_timer_slack() -> io::Result<()> {
    Ok(set_current_timer_slack(NonZeroU64::new(1))?)
}

#[cfg(test)]
mod tests;
