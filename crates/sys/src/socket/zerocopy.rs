//! Sends without a copy: the kernel refers to the sender's pages until it reports completion.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::SendFlags;

use super::error_queue::{CONTROL_LEN, int, receive, reports};
use super::{IoOutcome, Socket};
use crate::sockopt::{SO_ZEROCOPY, set};

const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);

/// The result of a zero-copy write.
#[derive(Debug)]
pub enum ZeroCopyOutcome {
    /// This many bytes are queued, and the kernel refers to their memory until a completion covers
    /// `id`.
    Pinned {
        /// Bytes taken, from the front of the slices.
        bytes: usize,
        /// Number of this send: 0 for the first on a stream, then ascending (wrapping around).
        id: u32,
    },
    /// As for an ordinary [`writev`](Socket::writev): the memory is free again. This also happens
    /// when the kernel had no room to account for one more zero-copy send, and copied instead.
    Copied(IoOutcome),
}

impl Socket {
    /// Sends `slices` without copying; the first call enables the feature in the kernel.
    ///
    /// The memory must keep its contents until the completion: bytes that are overwritten in the
    /// meantime may be sent with either value. Faster than a copy from about 10 KiB upwards, and
    /// only on real network devices: the loopback device copies.
    pub fn writev_zerocopy(&self, slices: &[IoSlice<'_>]) -> ZeroCopyOutcome {
        let id = match self.zerocopy_id.get() {
            Some(id) => id,
            None => match set(self, SO_ZEROCOPY, 1) {
                Ok(()) => 0,
                // A kernel without the feature.
                Err(_) => return ZeroCopyOutcome::Copied(self.writev(slices)),
            },
        };
        self.zerocopy_id.set(Some(id));
        match self.send(slices, MSG_ZEROCOPY) {
            // The kernel, too, numbers the calls that sent something.
            Ok(bytes) if bytes > 0 => {
                self.zerocopy_id.set(Some(id.wrapping_add(1)));
                ZeroCopyOutcome::Pinned { bytes, id }
            }
            Err(Errno::NOBUFS) => ZeroCopyOutcome::Copied(self.writev(slices)),
            result => ZeroCopyOutcome::Copied(result.into()),
        }
    }

    /// Reads the available completions and returns the sends that they cover: `lo` to `hi`
    /// inclusive, in the kernel's modulo-2^32 order, and whether the bytes were `copied` after all
    /// (then zero-copy gains nothing on this stream).
    ///
    /// While completions wait, a poller reports [`error`](crate::Ready::error).
    ///
    /// # Errors
    /// If the error queue cannot be read.
    pub fn zerocopy_completions(&self, done: &mut impl FnMut(u32, u32, bool)) -> io::Result<()> {
        let mut control = [0; CONTROL_LEN];
        // The loop ends: every turn takes a report out of the queue, which holds at most one per
        // send.
        loop {
            match retry_on_intr(|| receive(self.as_fd(), &mut control)) {
                Ok(len) => {
                    for Completion { lo, hi, copied } in completions(&control[..len]) {
                        done(lo, hi, copied);
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Completion {
    lo: u32,
    hi: u32,
    copied: bool,
}

/// The zero-copy reports in control data.
fn completions(control: &[u8]) -> impl Iterator<Item = Completion> + '_ {
    reports(control).filter_map(completion)
}

/// A `sock_extended_err`: errno (4 bytes), origin, type, code, padding, info, data (4 bytes each).
fn completion(error: &[u8]) -> Option<Completion> {
    let errno = int(error, 0)?;
    let [origin, _, code, _] = *error.get(4..)?.first_chunk()?;
    if errno != 0 || origin != SO_EE_ORIGIN_ZEROCOPY {
        return None;
    }
    let lo = int(error, 8)?.cast_unsigned();
    let hi = int(error, 12)?.cast_unsigned();
    Some(Completion { lo, hi, copied: code & SO_EE_CODE_ZEROCOPY_COPIED != 0 })
}

// linux/errqueue.h
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

#[cfg(test)]
mod tests;
