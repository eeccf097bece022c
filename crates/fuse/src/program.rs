//! The program that serves a mount, as seen from outside.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The process of a mount. It goes on after the file system is unmounted, until the servers have
/// what was written.
#[derive(Debug)]
pub struct MountProgram {
    pid: Pid,
    process: OwnedFd,
}

impl MountProgram {
    /// The process with an ID that a mount's [`status`](crate::status) has.
    ///
    /// # Errors
    /// When it cannot be waited for, as it is in another PID namespace or another user's,
    /// or the kernel is older than Linux 5.3. The text says which.
    pub fn of(pid: u32) -> Result<MountProgram, String> {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let raw = raw.ok_or_else(|| format!("{pid} is not a process ID"))?;
        let unseen = |error| format!("process {pid}: {error}");
        let process = pidfd_open(raw, PidfdFlags::empty()).map_err(unseen)?;
        // The number may belong to another process here.
        match serves_mounts(raw) {
            Ok(true) => Ok(MountProgram { pid: raw, process }),
            Ok(false) => Err(format!("process {pid} is another one here")),
            Err(error) => Err(format!("process {pid}: {error}")),
        }
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until it has ended, for at most this time. Whether it has.
    pub fn wait(&self, most: Duration) -> bool {
        let end = Instant::now() + most;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.process, PollFlags::IN)], left.as_ref()) {
                Ok(count) => return count > 0,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Whether a process has the device of FUSE open.
fn serves_mounts(pid: Pid) -> std::io::Result<bool> {
    let files = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()))?;
    let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    Ok(targets.any(|target| target == Path::new("/dev/fuse")))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn another_process_is_no_program_of_a_mount() {
        assert!(MountProgram::of(0).is_err_and(|why| why.contains("0 is not a process ID")));
        assert!(MountProgram::of(std::process::id()).is_err());
    }

    #[test]
    fn the_end_of_a_process_is_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a program");
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty());
        let serves = serves_mounts(pid);
        let program = process.map(|process| MountProgram { pid, process });
        let waits = program.as_ref().map(|program| program.wait(Duration::from_millis(1)));
        child.kill().expect("it runs");
        let ends = program.as_ref().map(|program| program.wait(Duration::from_secs(60)));
        child.wait().expect("it has ended");
        if let Ok(program) = &program {
            assert_eq!(serves.ok(), Some(false));
            let outcome = (program.pid(), waits.ok(), ends.ok());
            assert_eq!(outcome, (child.id(), Some(false), Some(true)));
        }
    }
}
