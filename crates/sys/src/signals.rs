//! Signals as readiness of a descriptor.

use std::io::{self, ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, flag, low_level};

/// Turns SIGTERM, SIGINT and SIGHUP into values until it is dropped.
///
/// Register it with a poller ([`Interest::Readable`](crate::Interest::Readable)), and call
/// [`take`](Self::take) when it is reported.
#[derive(Debug)]
pub struct Signals {
    terminate: Arc<AtomicBool>,
    interrupt: Arc<AtomicBool>,
    hangup: Arc<AtomicBool>,
    pipe: UnixStream,
    handlers: Vec<SigId>,
}

/// Signals since the last call of [`take`](Signals::take).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// SIGTERM or SIGINT: terminate.
    pub terminate: bool,
    /// SIGINT is one of them: the user is at the terminal.
    pub interrupt: bool,
    /// SIGHUP: the terminal is gone, or the sender wants the configuration read again.
    pub hangup: bool,
}

impl Signals {
    /// Starts catching the signals, and ignores SIGPIPE permanently. SIGHUP stays ignored if it
    /// is, as under `nohup`.
    ///
    /// # Errors
    /// When descriptors or memory are used up.
    pub fn install() -> io::Result<Signals> {
        // SAFETY: ignoring a signal installs no code of ours, and nothing here relies on SIGPIPE.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let (pipe, writer) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        let mut signals = Signals {
            terminate: Arc::default(),
            interrupt: Arc::default(),
            hangup: Arc::default(),
            pipe,
            handlers: Vec::new(),
        };
        for (signal, flags) in [
            (SIGTERM, &[&signals.terminate][..]),
            (SIGINT, &[&signals.interrupt, &signals.terminate]),
            (SIGHUP, &[&signals.hangup]),
        ] {
            if signal == SIGHUP && is_ignored(SIGHUP) {
                continue;
            }
            // Handlers run in this order: a thread that the pipe wakes finds the flag set.
            for flag in flags {
                signals.handlers.push(flag::register(signal, Arc::clone(flag))?);
            }
            signals.handlers.push(low_level::pipe::register(signal, writer.try_clone()?)?);
        }
        Ok(signals)
    }

    /// Whether SIGTERM or SIGINT has come that [`take`](Signals::take) has not returned yet, for
    /// waits that are to end early then.
    pub fn terminate_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.terminate)
    }

    /// Waits until a signal has arrived, for at most this time.
    pub fn wait(&self, most: Duration) {
        let most = Timespec::try_from(most).ok();
        // Interrupted by the signal that it waits for.
        let _ = poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], most.as_ref());
    }

    /// The signals since the last call; several of one kind count once.
    pub fn take(&self) -> Pending {
        // Empty the pipe before reading the flags: a signal in between writes to it again.
        let mut bytes = [0; 64];
        loop {
            match (&self.pipe).read(&mut bytes) {
                Ok(n) if n == bytes.len() => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        Pending {
            terminate: self.terminate.swap(false, Ordering::SeqCst),
            interrupt: self.interrupt.swap(false, Ordering::SeqCst),
            hangup: self.hangup.swap(false, Ordering::SeqCst),
        }
    }
}

/// Blocks SIGWINCH, which says that the terminal has a new size, in this thread and in those that
/// it starts from now on.
///
/// # Errors
/// When the system refuses it.
pub fn block_window_changes() -> io::Result<()> {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the calls write a set of signals to memory of that size.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGWINCH);
    }
    // SAFETY: the set was written above, and the previous one is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Whether the process ignores a signal.
fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the present one, to memory of that size.
    let known = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: all bits 0 are a valid value, and the call has written one if it succeeded.
    known && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
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
        self.pipe.as_fd()
    }
}

#[cfg(test)]
mod tests;
