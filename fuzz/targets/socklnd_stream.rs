//! A rogue peer's streams.
#![no_main]

use lustrine_fuzz::stream::{Scenario, check};

libfuzzer_sys::fuzz_target!(|scenario: Scenario| check(&scenario));
