//! Scripts for `lst`, `lnetctl` and `lctl`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lustrine_fuzz::tools::check(data));
