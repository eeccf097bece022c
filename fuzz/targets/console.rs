//! Commands to a console, and the results of its RPCs.
#![no_main]

use lustrine_fuzz::console::{Scenario, check};

libfuzzer_sys::fuzz_target!(|scenario: Scenario| check(&scenario));
