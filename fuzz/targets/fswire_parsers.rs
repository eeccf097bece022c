//! Every parser of `lustrine-fswire` on arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lustrine_fuzz::fswire::check(data));
