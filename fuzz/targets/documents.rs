//! Plans and scenarios.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| lustrine_fuzz::documents::check(text));
