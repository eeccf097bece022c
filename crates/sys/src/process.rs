//! Facts about this process.

/// Whether it runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Leaves the session of the terminal that this process was started from: its end, and signals
/// typed there, are no concern any more. No effect on a process that leads a group.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// The number of the user it runs as.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// What this machine calls itself.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
