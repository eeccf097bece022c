//! Every parser of `lustrine-wire` on arbitrary bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lustrine_fuzz::wire::check(data));
