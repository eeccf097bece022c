//! Sends without a copy: the kernel refers to the sender's pages until it reports completion.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::SendFlags;

use super::{IoOutcome, Socket};
use crate::sockopt::{SO_ZEROCOPY, set};

const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(libc::MSG_ZEROCOPY as u32);

/// Room for control data of one report: the message itself is 48 bytes at most.
const CONTROL_LEN: usize = 128;

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
            match retry_on_intr(|| receive_error(self.as_fd(), &mut control)) {
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

/// Fetches the control data of the next message in the error queue, and returns its length.
fn receive_error(socket: BorrowedFd<'_>, control: &mut [u8; CONTROL_LEN]) -> Result<usize, Errno> {
    // SAFETY: all zeroes is a valid `msghdr`: no address, no data, no control buffer.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = CONTROL_LEN as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points at nothing but `control`, with its true length.
    let result = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok((header.msg_controllen as usize).min(CONTROL_LEN))
}

#[derive(Debug, PartialEq, Eq)]
struct Completion {
    lo: u32,
    hi: u32,
    copied: bool,
}

/// The zero-copy reports in control data: messages of a `cmsghdr` (length, level, type) and, here,
/// a `sock_extended_err`. Other messages are skipped.
fn completions(control: &[u8]) -> impl Iterator<Item = Completion> + '_ {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const WORD: usize = size_of::<usize>();
    let mut rest = control;
    std::iter::from_fn(move || {
        loop {
            let (header, _) = rest.split_at_checked(HEADER)?;
            let len = usize::from_ne_bytes(*header.first_chunk()?);
            let level = int(header, WORD)?;
            let kind = int(header, WORD + 4)?;
            let data = rest.get(HEADER..len)?;
            rest = rest.get(len.next_multiple_of(WORD)..).unwrap_or_default();
            let is_report = matches!(
                (level, kind),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            );
            if is_report && let Some(completion) = completion(data) {
                return Some(completion);
            }
        }
    })
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

fn int(bytes: &[u8], offset: usize) -> Option<i32> {
    Some(i32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
