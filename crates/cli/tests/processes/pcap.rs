//! `lustrine pcap` of a capture that another program still writes.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

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
