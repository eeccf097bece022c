//! Waits for many descriptors at once (epoll).

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until one descriptor may be read from (or written to, if `write`), has an error, or the
/// time is over. A signal ends the wait early.
///
/// # Errors
/// When the kernel has no memory for it.
pub fn wait_for_one(fd: impl AsFd, write: bool, most: Duration) -> io::Result<()> {
    let flags = if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let most = Timespec {
        tv_sec: most.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    };
    match poll(&mut [PollFd::new(&fd, flags)], Some(&most)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What to report about a descriptor, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Every change of a stream, once (edge triggered): use the stream until it would block.
    Stream,
    /// Readability, as long as it lasts (level triggered): listeners.
    Readable,
    /// Each new wake-up, once, without reading it: a [`Sleeper`](crate::Sleeper).
    WakeUp,
}

/// A report about one descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The token of its registration.
    pub token: u64,
    /// Bytes, or the end of the stream, can be read; a connection can be accepted.
    pub readable: bool,
    /// There is room to write, or the connection attempt has ended.
    pub writable: bool,
    /// The other side has closed its half of the stream, or both halves are closed. No other report
    /// of it will follow: read until the end.
    pub hangup: bool,
    /// An error is pending ([`take_error`](crate::Socket::take_error)), or completions of
    /// zero-copy sends are
    /// ([`zerocopy_completions`](crate::Socket::zerocopy_completions)).
    pub error: bool,
}

/// A set of descriptors and the reports about them.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
    /// Whether this kernel supports time-outs in nanoseconds, as far as is known.
    precise: bool,
}

// SAFETY: the type is not `Sync` only because an epoll event may carry a pointer in place of a
// number; these events carry numbers only. The descriptor may be used from any thread.
unsafe impl Send for Poller {}

impl Poller {
    /// An empty set that reports at most `batch` descriptors (at least one) per wait; the next wait
    /// reports the rest.
    ///
    /// # Errors
    /// When descriptors or memory are used up.
    pub fn new(batch: usize) -> io::Result<Poller> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, events: Vec::with_capacity(batch.max(1)), precise: true })
    }

    /// Starts reporting `source` as `token`. A descriptor that is ready already is reported, too.
    /// Closing the descriptor removes it from the set.
    ///
    /// # Errors
    /// When it is in the set already, or memory or the system's limit of watches is used up.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let flags = match interest {
            Interest::Stream => {
                EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET
            }
            Interest::Readable => EventFlags::IN,
            Interest::WakeUp => EventFlags::IN | EventFlags::ET,
        };
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags)?)
    }

    /// Stops reporting `source`. The caller may still hold an earlier report of it.
    ///
    /// # Errors
    /// When it is not in the set.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until a descriptor is ready, but not longer than `timeout` (`None`: without limit;
    /// zero: not at all), and replaces the contents of `ready`. A signal also ends the wait, with
    /// nothing ready, and so do 20 days.
    ///
    /// The timeout is exact to the nanosecond on Linux 5.11 and later, apart from the thread's
    /// timer slack; on earlier kernels it is rounded up to milliseconds.
    ///
    /// # Errors
    /// None that a sound set can give.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        self.events.clear();
        match self.fetch(timeout) {
            Ok(()) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        ready.extend(self.events.iter().map(report));
        Ok(())
    }

    /// Fills `events`, which is empty.
    fn fetch(&mut self, timeout: Option<Duration>) -> Result<(), Errno> {
        if let Some(timeout) = timeout
            && !timeout.subsec_nanos().is_multiple_of(1_000_000)
            && self.precise
        {
            match wait_precisely(self.epoll.as_fd(), &mut self.events, timeout) {
                // Missing before Linux 5.11, and some sandboxes forbid system calls that they do
                // not know.
                Err(Errno::NOSYS | Errno::PERM) => self.precise = false,
                result => return result,
            }
        }
        let timeout = timeout.map(|t| Timespec {
            tv_sec: t.as_secs().min(WAIT_SECS_MAX).cast_signed(),
            tv_nsec: t.subsec_nanos().into(),
        });
        epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref())?;
        Ok(())
    }
}

/// Longest wait in seconds: 20 days, which every kernel interface can express in milliseconds.
const WAIT_SECS_MAX: u64 = 20 * 86_400;

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

fn report(event: &Event) -> Ready {
    let flags = event.flags;
    let any = |wanted| flags.intersects(wanted);
    Ready {
        token: event.data.u64(),
        readable: any(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP),
        writable: any(EventFlags::OUT | EventFlags::HUP),
        hangup: any(EventFlags::RDHUP | EventFlags::HUP),
        error: any(EventFlags::ERR),
    }
}

/// `epoll_pwait2`, which `rustix` uses only where it is sure to exist.
fn wait_precisely(
    epoll: BorrowedFd<'_>,
    events: &mut Vec<Event>,
    timeout: Duration,
) -> Result<(), Errno> {
    /// `struct __kernel_timespec`, 64 bits wide on every machine.
    #[repr(C)]
    struct KernelTimespec {
        sec: i64,
        nsec: i64,
    }
    let time = KernelTimespec {
        sec: timeout.as_secs().min(WAIT_SECS_MAX).cast_signed(),
        nsec: timeout.subsec_nanos().into(),
    };
    let room = events.spare_capacity_mut();
    let space: *mut Event = room.as_mut_ptr().cast();
    let batch = room.len().min(i32::MAX as usize);
    // SAFETY: the kernel writes at most `batch` events to `space`, which has room for them
    // (`Event` has the layout of its `epoll_event`), reads `time`, and no signal mask.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            space,
            batch as libc::c_int,
            &raw const time,
            std::ptr::null::<libc::sigset_t>(),
            0usize,
        )
    };
    match usize::try_from(count) {
        Ok(count) => {
            // SAFETY: the vector is empty, and the kernel has filled the first `count` places.
            unsafe { events.set_len(count.min(batch)) };
            Ok(())
        }
        Err(_) => {
            let error = io::Error::last_os_error();
            Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
        }
    }
}

#[cfg(test)]
mod tests;
