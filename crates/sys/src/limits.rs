//! Limits the system sets for this process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of descriptors that this process may open as far as possible without
/// privilege, and returns that number.
///
/// # Errors
/// When the kernel refuses, which it does not do for a soft limit up to the hard one.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(maximum.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
