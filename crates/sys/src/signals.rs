//! Signals as readiness of a descriptor.

use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

/// Turns SIGTERM, SIGINT and SIGHUP into values until it is dropped.
///
/// Put it into a poller ([`Interest::Readable`](crate::Interest::Readable)) and
/// [`take`](Self::take) what is there when it is reported.
#[derive(Debug)]
pub struct Signals {
    terminate: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    bell: UnixStream,
    handlers: Vec<SigId>,
}

/// Signals that came since they were taken last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// SIGTERM or SIGINT: come to an end.
    pub terminate: bool,
    /// SIGHUP: read the configuration again.
    pub reload: bool,
}

impl Signals {
    /// Begins to catch the signals, and ignores SIGPIPE for good.
    ///
    /// # Errors
    /// When descriptors or memory are used up.
    pub fn install() -> io::Result<Signals> {
        // SAFETY: ignoring a signal installs no code of ours, and nothing here relies on SIGPIPE.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let (bell, rope) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let mut signals = Signals {
            terminate: Arc::default(),
            reload: Arc::default(),
            bell,
            handlers: Vec::new(),
        };
        for (signal, flag) in
            [(SIGTERM, &signals.terminate), (SIGINT, &signals.terminate), (SIGHUP, &signals.reload)]
        {
            // Handlers run in this order: a thread woken by the bell finds the flag set.
            signals.handlers.push(flag::register(signal, Arc::clone(flag))?);
            signals.handlers.push(low_level::pipe::register(signal, rope.try_clone()?)?);
        }
        Ok(signals)
    }

    /// The signals since the last call; several of one kind count once.
    pub fn take(&self) -> Pending {
        // Silence the bell before looking at the flags: a signal in between rings again.
        let mut bytes = [0; 64];
        loop {
            match (&self.bell).read(&mut bytes) {
                Ok(n) if n == bytes.len() => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        Pending {
            terminate: self.terminate.swap(false, Ordering::SeqCst),
            reload: self.reload.swap(false, Ordering::SeqCst),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            low_level::unregister(handler);
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

#[cfg(test)]
mod tests;
