//! Scheduling of threads.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

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

/// How long a thread with short slices runs at a time when others are waiting.
const SHORT_SLICE: Duration = Duration::from_micros(100);

/// Requests short time slices for the calling thread, so that it runs soon after it wakes: the
/// scheduler gives no larger share for that, only an earlier one.
///
/// # Errors
/// When the kernel does not know the call or the sandbox forbids it.
pub fn ask_for_short_slices() -> io::Result<()> {
    // SAFETY: all fields of this C structure are integers.
    let mut wanted: libc::sched_attr = unsafe { std::mem::zeroed() };
    wanted.size = size_of::<libc::sched_attr>() as u32;
    wanted.sched_nice = rustix::process::getpriority_process(None)?;
    wanted.sched_runtime = SHORT_SLICE.as_nanos() as u64;
    // SAFETY: the pointer leads to a whole `sched_attr` that holds its size and outlives the call;
    // 0 is this thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
