//! Requests to the selftest service.
#![no_main]

use lustrine_fuzz::service::{Scenario, check};

libfuzzer_sys::fuzz_target!(|scenario: Scenario| check(&scenario));
