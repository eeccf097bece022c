//! Captured frames.
#![no_main]

use lustrine_fuzz::capture::{Capture, check};

libfuzzer_sys::fuzz_target!(|capture: Capture| check(&capture));
