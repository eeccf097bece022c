//! The first process of a laboratory's PID namespace. When it ends the kernel kills all
//! others, so nothing that was started in the laboratory outlives it.

use std::io::{self, Read, Write};
use std::path::Path;

use lustrine_sys::namespaces::{self, Namespace, View};

/// Runs the first process, until its standard input ends. It makes the mounts of the laboratory,
/// and prints one line: `ready`, and what does not work as it should.
///
/// # Errors
/// When there is no namespace of mounts.
pub fn init(hosts_file: &Path) -> io::Result<()> {
    namespaces::die_with_parent()?;
    lustrine_sys::process::detach_from_terminal();
    namespaces::leave(&[Namespace::Mounts])?;
    namespaces::keep_mounts_inside()?;
    // What was orphaned in the laboratory becomes a child of this process.
    namespaces::forget_children();
    let mut notes = String::new();
    if let Err(error) = namespaces::mount_view(View::Processes) {
        notes += &format!("; /proc shows the processes of this machine: {error}");
    }
    if let Err(error) = namespaces::show_instead(hosts_file, Path::new("/etc/hosts")) {
        notes += &format!("; names of hosts are not in /etc/hosts: {error}");
    }
    let mut out = io::stdout();
    writeln!(out, "ready{notes}").and_then(|()| out.flush())?;
    let mut nothing = [0];
    while io::stdin().read(&mut nothing)? > 0 {}
    Ok(())
}
