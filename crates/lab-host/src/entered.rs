//! Programs inside a laboratory.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lustrine_sys::namespaces::{self, Namespace};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};

use crate::LabError;
use crate::control::Status;

/// This process, inside a host of a laboratory: what it starts runs there.
#[derive(Debug)]
pub struct EnteredHost {
    host: String,
}

impl EnteredHost {
    /// Enters a host. The process must have a single thread.
    ///
    /// # Errors
    /// When there is no such host, or this user may not enter it.
    pub fn enter(status: &Status, host: &str) -> Result<EnteredHost, LabError> {
        let found = status.hosts.iter().find(|known| known.name == host);
        let Some(found) = found else {
            let names: Vec<&str> = status.hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(LabError::NoSuchHost(host.to_owned(), names.join(", ")));
        };
        let of_daemon = format!("/proc/{}/task/{}", status.pid, found.thread);
        let of_init = format!("/proc/{}", status.init_pid);
        let mut wanted = vec![
            (Namespace::Processes, &of_init),
            (Namespace::Network, &of_daemon),
            (Namespace::Mounts, &of_daemon),
        ];
        if status.user_namespace {
            wanted.insert(0, (Namespace::Users, &of_init));
        }
        // All are opened before the first is entered: in there, /proc is another one.
        let mut files = Vec::new();
        for (kind, of) in wanted {
            let path = format!("{of}/ns/{}", kind.file_name());
            files.push((kind, File::open(&path).map_err(LabError::file(path))?));
        }
        for (kind, file) in files {
            let step = format!("enter the namespace {:?} of {host}", kind.file_name());
            namespaces::enter(&file, kind).map_err(LabError::step(step))?;
        }
        Ok(EnteredHost { host: host.to_owned() })
    }

    /// Runs a program to its end, and returns its exit status; that of a program that a signal
    /// ended is 128 and the number of the signal, as in a shell. Ctrl-C and Ctrl-\ go to the
    /// program, and so does SIGTERM. If this process ends before, the program is killed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, command: &mut Command) -> Result<u8, LabError> {
        let name = command.get_program().to_string_lossy().into_owned();
        for signal in [SIGINT, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
                .map_err(LabError::step("catch signals"))?;
        }
        let started = namespaces::kill_with_parent(command).spawn();
        let mut child =
            started.map_err(|error| LabError::program(&self.host, name.clone(), error))?;
        // Linux before 5.3 has none: then SIGTERM ends this process, and so the program.
        if let Ok(program) = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            pass_sigterm_on(&program).map_err(LabError::step(format!("wait for {name}")))?;
        }
        let status = child.wait().map_err(LabError::step(format!("wait for {name}")))?;
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
    }
}

/// The longest wait until SIGTERM is passed on.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Passes SIGTERM on to a program until it ends.
fn pass_sigterm_on(program: &OwnedFd) -> io::Result<()> {
    let terminate = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTERM, Arc::clone(&terminate))?;
    loop {
        match poll(&mut [PollFd::new(program, PollFlags::IN)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        if terminate.swap(false, Ordering::Relaxed) {
            // It may have ended since.
            let _ = pidfd_send_signal(program, Signal::TERM);
        }
    }
}
