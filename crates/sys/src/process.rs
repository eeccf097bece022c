//! Facts about this process.

/// Whether it runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
