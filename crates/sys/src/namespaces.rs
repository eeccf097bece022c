//! Namespaces: networks, mounts, processes and users of their own for a part of the programs of a
//! machine (namespaces(7)).

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change};
use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// A kind of namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// Interfaces, addresses, routes, ports.
    Network,
    /// What is mounted where.
    Mounts,
    /// The numbers of processes. It holds for the children of a thread, not for itself.
    Processes,
    /// The numbers of users, and what root may do.
    Users,
}

impl Namespace {
    /// Its name in `/proc/PID/ns`.
    pub fn file_name(self) -> &'static str {
        match self {
            Namespace::Network => "net",
            Namespace::Mounts => "mnt",
            Namespace::Processes => "pid",
            Namespace::Users => "user",
        }
    }
}

/// Puts this thread into new namespaces of these kinds.
///
/// # Errors
/// Those of unshare(2): most kinds need root, a namespace of users needs a process with a single
/// thread.
pub fn leave(kinds: &[Namespace]) -> io::Result<()> {
    let mut flags = UnshareFlags::empty();
    for kind in kinds {
        flags |= match kind {
            Namespace::Network => UnshareFlags::NEWNET,
            // A thread that shares its working directory with others cannot have own mounts.
            Namespace::Mounts => UnshareFlags::NEWNS | UnshareFlags::FS,
            Namespace::Processes => UnshareFlags::NEWPID,
            Namespace::Users => UnshareFlags::NEWUSER,
        };
    }
    // SAFETY: descriptors remain shared with the other threads: `FILES` is not among the flags.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Gives this thread a working directory of its own, which entering mounts needs.
///
/// # Errors
/// When memory is used up.
pub fn own_directory() -> io::Result<()> {
    // SAFETY: descriptors remain shared with the other threads: `FILES` is not among the flags.
    Ok(unsafe { unshare_unsafe(UnshareFlags::FS) }?)
}

/// Makes this process, which was alone in its new namespace of users, root in it: it keeps its
/// identity outside.
///
/// # Errors
/// When the files in `/proc/self` cannot be written.
pub fn become_root_inside(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1\n"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1\n"))
}

/// Puts this thread into the namespace of a file such as `/proc/PID/ns/net`.
///
/// # Errors
/// Those of setns(2).
pub fn enter(namespace: &File, kind: Namespace) -> io::Result<()> {
    let kind = match kind {
        Namespace::Network => LinkNameSpaceType::Network,
        Namespace::Mounts => LinkNameSpaceType::Mount,
        Namespace::Processes => LinkNameSpaceType::ProcessID,
        Namespace::Users => LinkNameSpaceType::User,
    };
    Ok(move_into_link_name_space(namespace.as_fd(), Some(kind))?)
}

/// From now on mounts of this thread's namespace are not seen outside of it. What is unmounted
/// outside is unmounted here too, where the mounts outside are shared (mount_namespaces(7)):
/// otherwise this namespace would keep every file system that was mounted when it was made.
///
/// # Errors
/// Those of mount(2).
pub fn keep_mounts_inside() -> io::Result<()> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(mount_change("/", flags)?)
}

/// A file system that shows namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// `/proc`: processes.
    Processes,
    /// `/sys`: network interfaces.
    Devices,
}

/// Mounts a new view of this thread's namespaces at its usual place.
///
/// # Errors
/// Those of mount(2).
pub fn mount_view(view: View) -> io::Result<()> {
    let (kind, place) = match view {
        View::Processes => ("proc", "/proc"),
        View::Devices => ("sysfs", "/sys"),
    };
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(kind, place, kind, flags, None)?)
}

/// Shows a file in the place of another one, in this thread's mounts.
///
/// # Errors
/// Those of mount(2).
pub fn show_instead(file: &Path, of: &Path) -> io::Result<()> {
    Ok(mount_bind(file, of)?)
}

/// This process is killed when the thread that started it ends.
///
/// # Errors
/// None on Linux.
pub fn die_with_parent() -> io::Result<()> {
    Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
}

/// The command is killed when the thread that starts it ends, and is not started if that was the
/// case already.
pub fn kill_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: the closure makes one system call; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(die_with_parent) }
}

/// From now on children of this process that end are forgotten by the kernel.
pub fn forget_children() {
    // SAFETY: ignoring a signal installs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
}

/// The number of this thread, as `/proc/PID/task` has it.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}
