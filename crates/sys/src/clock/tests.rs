use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::Clock;

#[test]
fn monotonic_time_runs_as_fast_as_the_library_says() {
    let (start, reference) = (Clock::Monotonic.now(), Instant::now());
    while reference.elapsed() < Duration::from_millis(2) {}
    let (inner, outer) = (reference.elapsed(), Clock::Monotonic.now() - start);
    assert!(inner <= Duration::from_nanos(outer), "{inner:?} passed inside {outer} ns");
}

#[test]
fn wall_time_is_today() {
    let before = SystemTime::now();
    let now = UNIX_EPOCH + Duration::from_nanos(Clock::Wall.now());
    // Generous: the date may be adjusted between the two readings.
    assert!(now + Duration::from_secs(60) > before);
    assert!(now < before + Duration::from_secs(3600));
}

#[test]
fn processor_time_grows_with_work() {
    let start = Clock::ProcessCpu.now();
    let mut sum = 0u64;
    while Clock::ProcessCpu.now() - start < 1_000_000 {
        sum = std::hint::black_box(sum.wrapping_add(1));
    }
    assert!(sum > 0);
}
