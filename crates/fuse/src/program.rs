//! The program that serves a mount, as seen from outside.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::status::status;

/// How long the program may take to answer; it may be stopped.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The process of a mount. It goes on after the file system is unmounted, until the servers have
/// what was written.
#[derive(Debug)]
pub struct MountProgram {
    pid: Pid,
    process: OwnedFd,
}

impl MountProgram {
    /// The program of the mount at a directory. `None` if no mount of this program is there, if the
    /// program has ended, does not answer, or is out of sight: in another namespace of processes,
    /// or another user's.
    pub fn of(dir: &Path) -> Option<MountProgram> {
        let (answer, answers) = mpsc::channel();
        let dir = dir.to_owned();
        // A stopped program does not answer; the thread ends with this process then.
        thread::spawn(move || {
            // Nothing receives it after the time.
            let _ = answer.send(status(&dir, None).ok());
        });
        let status = answers.recv_timeout(ANSWER_MAX).ok()??;
        let pid = Pid::from_raw(i32::try_from(status.pid).ok()?)?;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // The number may belong to another process here.
        serves_mounts(pid).then_some(MountProgram { pid, process })
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
fn serves_mounts(pid: Pid) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())) else {
        return false;
    };
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    targets.into_iter().any(|target| target == Path::new("/dev/fuse"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn where_nothing_is_mounted_is_no_program() {
        assert!(MountProgram::of(Path::new("/proc")).is_none());
        assert!(MountProgram::of(Path::new("/no/such/place")).is_none());
    }

    #[test]
    fn the_end_of_a_process_is_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a program");
        let pid = Pid::from_child(&child);
        let process = pidfd_open(pid, PidfdFlags::empty()).expect("its parent sees it");
        let program = MountProgram { pid, process };
        assert!(!serves_mounts(pid));
        assert_eq!(program.pid(), child.id());
        assert!(!program.wait(Duration::from_millis(1)));
        child.kill().expect("it runs");
        assert!(program.wait(Duration::from_secs(60)));
        child.wait().expect("it has ended");
    }
}
