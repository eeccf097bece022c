//! Standard input, as the original of a copy.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::pieces::PIECE;
use crate::commands::fs::sha256::Sha256Sum;
use crate::interrupt;
use crate::output::Failure;

/// What is said of it in errors.
pub(super) const NAME: &str = "standard input";

/// How often it is seen that a signal asks for the end while nothing comes.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Standard input. It can be read once.
pub(super) struct Input {
    /// The checksum of what was read, if it is wanted.
    sum: Option<Mutex<Sha256Sum>>,
    /// Whether the writer of the copy has ended.
    left: AtomicBool,
}

impl Input {
    pub(super) fn new(sums: bool) -> Input {
        Input { sum: sums.then(Mutex::default), left: AtomicBool::new(false) }
    }

    /// Ends its reading, which may wait for more.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
    }

    /// Reads it to its end.
    pub(super) fn read(
        &self,
        mut take: impl FnMut(Bytes) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        loop {
            let mut data = Vec::new();
            let more = fill(&mut data, &self.left)?;
            if let Some(sum) = &self.sum {
                sum.lock().unwrap_or_else(PoisonError::into_inner).add(&data);
            }
            if !data.is_empty() {
                take(data.into())?;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// The checksum of what was read, if it was wanted.
    pub(super) fn sum(&self) -> Option<String> {
        let sum = self.sum.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(sum.clone().text())
    }
}

/// Reads a piece; whether there may be more.
fn fill(data: &mut Vec<u8>, left: &AtomicBool) -> Result<bool, Failure> {
    let failed = |error: Errno| Failure::Failed(io::Error::from(error).to_string());
    let input = io::stdin();
    let mut buffer = vec![0; BUFFER];
    while data.len() + BUFFER <= PIECE as usize {
        // What writes to a pipe ends at the same signal: that is not the end of the data.
        interrupt::asked()?;
        if left.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        let mut polled = [PollFd::new(&input, PollFlags::IN)];
        match poll(&mut polled, Some(&PAUSE)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        match read(input.as_fd(), &mut buffer) {
            Ok(0) => return interrupt::asked().map(|()| false),
            Ok(len) => data.extend_from_slice(&buffer[..len]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(true)
}

/// Bytes that are read at once; a pipe has no more by default.
const BUFFER: usize = 64 << 10;
