//! The resources that a process uses, from the kernel.

use std::fs;

/// Memory and descriptors of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Resident memory, in bytes.
    pub(crate) resident: u64,
    /// Number of open descriptors.
    pub(crate) descriptors: usize,
}

impl Usage {
    /// The usage of a running process.
    #[track_caller]
    pub(crate) fn of(pid: u32) -> Usage {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
        let resident = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())
            .unwrap_or_else(|| panic!("no VmRSS in\n{status}"));
        let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is ours");
        let resident: u64 = resident;
        Usage { resident: resident << 10, descriptors: open.count() }
    }
}
