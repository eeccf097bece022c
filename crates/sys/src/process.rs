//! Information about this process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, ChildStdin};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Leaves the session of the terminal that this process was started from, so that neither the end
/// of the terminal nor signals typed there reach the process. No effect on the leader of a process
/// group.
pub fn detach_from_terminal() {
    let _ = rustix::process::setsid();
}

/// Programs that this one starts from now on get none of its files but the standard ones: neither
/// what this program was started with, such as a lock of flock(1), nor what it has opened.
pub fn pass_no_files_on() {
    const FIRST: i32 = 3;
    for file in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let number = file.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(number) = number.filter(|number| *number >= FIRST) {
            // SAFETY: no memory is involved, and no descriptor is closed. A number that is not in
            // use is an error, which has no effect.
            unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Lets go of the standard output and the standard error that this process was started with: what
/// it writes there from now on goes to `log`, or nowhere.
///
/// # Errors
/// When `/dev/null` cannot be opened.
pub fn leave_output(log: Option<&File>) -> io::Result<()> {
    let nowhere = OpenOptions::new().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(log.unwrap_or(&nowhere))?;
    Ok(())
}

/// Whether nothing will read what is written to a pipe any more. A file or a terminal has no such
/// end.
pub fn reader_has_left(pipe: &impl AsFd) -> bool {
    let mut pipe = [PollFd::new(pipe, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut pipe, Some(&now)), Ok(1)) && pipe[0].revents().contains(PollFlags::ERR)
}

/// Waits until there is something to read from a file or a pipe, or its writers have left; `false`
/// if neither is so within `limit`, or a signal came.
pub fn wait_readable(file: &impl AsFd, limit: Duration) -> bool {
    let mut files = [PollFd::new(file, PollFlags::IN)];
    let limit = Timespec::try_from(limit).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match poll(&mut files, Some(&limit)) {
        Ok(count) => count > 0,
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

/// Asks all processes of the group of a child to end, or kills them. The group must be the child's
/// own, and the child must not have been waited for: otherwise the number may be another group's.
pub fn end_group(child: &Child, how: EndSignal) {
    let signal = match how {
        EndSignal::Terminate => Signal::TERM,
        EndSignal::Kill => Signal::KILL,
    };
    // It fails if the group has ended.
    let _ = rustix::process::kill_process_group(Pid::from_child(child), signal);
}

/// From now on a write to this input never waits: if the pipe has no room, it fails with
/// [`io::ErrorKind::WouldBlock`].
///
/// # Errors
/// Those of ioctl(2).
pub fn never_wait(input: &ChildStdin) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(input, true)?)
}

/// The signal that ends processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndSignal {
    /// With SIGTERM, which they may handle.
    Terminate,
    /// With SIGKILL.
    Kill,
}

/// The number of the effective user of this process.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The numbers of the effective user and group of this process.
pub fn user_and_group() -> (u32, u32) {
    (user_id(), rustix::process::getegid().as_raw())
}

/// The network namespace of this process: device and inode of `/proc/self/ns/net`. `None` where the
/// system does not show it.
pub fn network_namespace() -> Option<(u64, u64)> {
    let about = std::fs::metadata("/proc/self/ns/net").ok()?;
    Some((about.dev(), about.ino()))
}

/// The mount namespace of this process: the inode of `/proc/self/ns/mnt`. `None` where the system
/// does not show it.
pub fn mount_namespace() -> Option<u64> {
    Some(std::fs::metadata("/proc/self/ns/mnt").ok()?.ino())
}

/// The host name of this machine.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The resident memory of this process in bytes; `None` where the system does not show it.
pub fn resident_memory() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn some_memory_is_in_ram() {
        assert!(super::resident_memory().expect("Linux reports it") > 4096);
    }
}
