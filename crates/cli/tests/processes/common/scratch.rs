//! Addresses, ports and a directory that only one test uses.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// Counts something.
fn next(counter: &AtomicU32) -> u32 {
    counter.fetch_add(1, Ordering::Relaxed)
}

/// An address of 127.0.0.0/8 that no other test uses, neither in this process nor in another one
/// that runs at the same time, because its process id differs.
pub(crate) fn loopback() -> Ipv4Addr {
    const PER_PROCESS: u32 = 2000;
    static USED: AtomicU32 = AtomicU32::new(0);
    let used = next(&USED);
    assert!(used < PER_PROCESS, "the tests use more addresses than there are");
    let index = (process::id() % 4096) * PER_PROCESS + used;
    // 127.0.x.y is left to people and programs, the ends of the last octet to broadcasts.
    let (second, third, last) = (1 + index / (254 * 256), index / 254 % 256, 1 + index % 254);
    Ipv4Addr::new(127, second as u8, third as u8, last as u8)
}

/// A TCP port that is free there at this moment.
pub(crate) fn free_port(ip: Ipv4Addr) -> u16 {
    let listener = TcpListener::bind((ip, 0)).expect("an address of the loopback has free ports");
    listener.local_addr().expect("a listener has an address").port()
}

/// A directory of one test, in which any user may create files; it is removed with this value. Its
/// path is short, because the length of Unix socket paths is limited.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("lustrine-test-{}-{}", process::id(), next(&MADE));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).expect("a directory for temporary files can be used");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("it is ours");
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file in it.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        fs::write(&path, text).expect("the test's directory can be written to");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that cannot be removed stays; this does not fail the test.
        let _ = fs::remove_dir_all(&self.0);
    }
}
