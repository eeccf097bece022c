//! A capture that another program still writes: what is decoded is shown before more is waited for,
//! and a signal ends the wait.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lustrine_sys::process::wait_readable;

use crate::interrupt;

/// How often it is looked for a signal.
const LOOK: Duration = Duration::from_millis(100);
/// How long is read after a signal, at most: the writer may not have got it.
const GRACE: Duration = Duration::from_secs(1);

/// An output that the input can flush.
#[derive(Debug)]
pub(super) struct SharedOut<W>(Arc<Mutex<W>>);

impl<W: Write> SharedOut<W> {
    pub(super) fn new(out: W) -> SharedOut<W> {
        SharedOut(Arc::new(Mutex::new(out)))
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut W) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<W> Clone for SharedOut<W> {
    fn clone(&self) -> SharedOut<W> {
        SharedOut(Arc::clone(&self.0))
    }
}

impl<W: Write> Write for SharedOut<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.with(|out| out.write(bytes))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.with(|out| out.write_all(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.with(W::flush)
    }
}

/// The bytes of a capture.
pub(super) struct Input<W> {
    file: File,
    out: SharedOut<W>,
    /// After a signal: when nothing more is read.
    end: Option<Instant>,
}

impl<W: Write> Input<W> {
    pub(super) fn new(file: File, out: SharedOut<W>) -> Input<W> {
        Input { file, out, end: None }
    }
}

impl<W: Write> Read for Input<W> {
    /// After a signal, the capture ends where there is nothing to read for a while: the program
    /// that writes it has most often got the signal as well, and writes what it still has.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if interrupt::asked().is_err() {
            let now = Instant::now();
            if now >= *self.end.get_or_insert(now + GRACE) {
                return Ok(0);
            }
        }
        if !wait_readable(&self.file, Duration::ZERO) {
            // What could not be written is tried again with the next line, which reports it.
            let _ = self.out.flush();
            let mut is_last = false;
            while !wait_readable(&self.file, LOOK) {
                if is_last {
                    return Ok(0);
                }
                is_last = interrupt::asked().is_err();
            }
        }
        self.file.read(bytes)
    }
}
