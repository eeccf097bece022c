//! Operations on a network of shards.
#![no_main]

use lustrine_fuzz::shard::{Scenario, check};

libfuzzer_sys::fuzz_target!(|scenario: Scenario| check(&scenario));
