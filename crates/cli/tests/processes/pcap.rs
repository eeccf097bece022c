//! `lustrine pcap` of a capture that another program still writes.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;

use crate::common::{Running, Scratch, eventually, lustrine};

/// What is decoded is there at once, and a signal loses nothing of it.
#[test]
fn a_capture_that_goes_on_is_shown_and_ends_with_a_signal() {
    let capture = "../../testdata/captures/lnet/f1_csum_ping.pcap";
    let capture = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(capture)).unwrap();
    let scratch = Scratch::new();
    let pipe = scratch.file("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let shown = Running::start(lustrine().arg("pcap").arg(&pipe));
    let mut writer: File = OpenOptions::new().write(true).open(&pipe).unwrap();
    let (half, rest) = capture.split_at(capture.len() / 2);
    writer.write_all(half).unwrap();
    eventually("lines of the first half", || shown.stdout().contains(" HELLO ").then_some(()));
    let before = shown.stdout().lines().count();
    writer.write_all(rest).unwrap();
    eventually("lines of the rest", || (shown.stdout().lines().count() > before).then_some(()));
    shown.signal(Signal::INT);
    let ended = shown.end();
    ended.expect_code(130).expect_stderr(&["lustrine: interrupted"]);
    drop(writer);
}

/// A writer that has not got the signal, and goes on, does not keep the program.
#[test]
fn a_signal_ends_a_capture_that_does_not_end() {
    let capture = "../../testdata/captures/lnet/f1_csum_ping.pcap";
    let capture = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(capture)).unwrap();
    let scratch = Scratch::new();
    let pipe = scratch.file("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let shown = Running::start(lustrine().arg("pcap").arg(&pipe));
    let mut writer: File = OpenOptions::new().write(true).open(&pipe).unwrap();
    let (header, frames) = capture.split_at(24);
    writer.write_all(header).unwrap();
    let frames = frames.to_vec();
    // Until the reader has left.
    let busy = thread::spawn(move || {
        while writer.write_all(&frames).is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
    });
    eventually("lines", || shown.stdout().contains(" HELLO ").then_some(()));
    shown.signal(Signal::TERM);
    shown.end().expect_code(143).expect_stderr(&["lustrine: interrupted"]);
    busy.join().unwrap();
}
