//! Facts about this process.

/// Whether it runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Leaves the session of the terminal that this process was started from: its end, and signals
/// typed there, are no concern any more. No effect on a process that leads a group.
pub fn detach_from_terminal() {
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

/// Its memory that is in RAM, in bytes; `None` where the system does not tell.
pub fn resident_memory() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = told.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn some_memory_is_in_ram() {
        assert!(super::resident_memory().expect("Linux tells") > 4096);
    }
}
