use super::*;
use crate::commands::tune::step::WARM_UP;

#[test]
fn a_step_that_does_not_fit_is_not_begun() {
    let step = Step { direction: Direction::Read, count: 8, rtt: 1, latency: 1, least: STEP };
    let all = Budget { bytes: 16 << 20, time_ns: WARM_UP + STEP };
    assert_eq!(step.times(all), Some((WARM_UP, STEP)));
    assert_eq!(step.times(Budget { bytes: all.bytes - 1, ..all }), None);
    assert_eq!(step.times(Budget { time_ns: all.time_ns - 1, ..all }), None);
    let long = Step { rtt: u64::MAX, ..step };
    assert_eq!(long.times(all), None);
}

#[test]
fn a_ramp_leaves_enough_for_what_follows() {
    let step = Step { direction: Direction::Read, count: 8, rtt: 1, latency: 1, least: STEP };
    let used = Budget { bytes: 1 << 20, time_ns: 7 };
    let time_ns = WARM_UP + STEP;
    assert_eq!(step.need(), Budget { bytes: 16 << 20, time_ns });
    // As many writes as reads until now, and reads and writes with the values before and after.
    let reserve = Budget { bytes: (5 * 80 + 1) << 20, time_ns: 5 * time_ns + 7 };
    assert_eq!(step.reserve(used), reserve);
    let writes = Step { direction: Direction::Write, ..step };
    assert_eq!(writes.reserve(used), Budget { bytes: (4 * 80) << 20, time_ns: 4 * time_ns });
}

/// 1 MiB takes 0.42 s at 20 Mb/s; a long path is not a slow one.
#[test]
fn what_a_message_takes_is_beside_its_round_trips() {
    let ms = 1_000_000;
    let alone = |p50_ns| StepRow::whole(Direction::Read, 1, 20_000_000, p50_ns);
    assert_eq!(message_ns(&alone(460 * ms), 20 * ms), 420 * ms);
    assert_eq!(message_ns(&alone(401 * ms), 200 * ms), ms);
    assert_eq!(message_ns(&alone(201 * ms), 200 * ms), 0);
}

#[test]
fn a_node_has_memory_for_the_largest_load() {
    let memory = |config| with_memory(config).unwrap().tunables.value(MEMORY).unwrap();
    assert!(memory(NodeConfig::default()) as u64 * (1 << 20) > LOAD_MAX * MESSAGE);
    let mut large = NodeConfig::default();
    large.tunables.set(MEMORY, 4096).unwrap();
    assert_eq!(memory(large), 4096);
}

#[test]
fn rpcs_of_the_file_system_are_messages_of_the_load() {
    let purpose = Purpose { targets: 2, ..Purpose::default() };
    assert_eq!(in_flight(8, &purpose), 64);
    assert_eq!(in_flight(u64::MAX, &purpose), 1024);
    assert_eq!(in_flight(8, &Purpose { rpc_bytes: 4096, ..Purpose::default() }), 8);
}

/// Two seconds if the budget has that, beside the warm-up.
#[test]
fn runs_that_are_compared_are_longer() {
    let path = Known { rtt: 1, rate: 8_000_000_000 };
    let least = |bytes, time_ns| path.least_time(Budget { bytes, time_ns });
    let second = 1_000_000_000;
    assert_eq!(least(100 << 30, 100 * second), 2 * second);
    assert_eq!(least(2_000_000_000, 100 * second), second);
    assert_eq!(least(100 << 30, second), second / 2);
    assert_eq!(least(0, 0), STEP);
}

#[test]
fn what_a_budget_lacks_is_named() {
    let step = Step { direction: Direction::Read, count: 8, rtt: 1, latency: 1, least: STEP };
    let all = Budget { bytes: 16 << 20, time_ns: WARM_UP + STEP };
    assert_eq!(step.lacks(Budget { bytes: all.bytes - 1, ..all }), "--budget-bytes");
    assert_eq!(step.lacks(Budget { time_ns: all.time_ns - 1, ..all }), "--budget-time");
    let note = RampEnd::Budget("--budget-bytes").note(Direction::Write).expect("a note");
    assert!(note.ends_with("it is a lower bound; --budget-bytes gives more"), "{note}");
    assert_eq!(RampEnd::Flat.note(Direction::Read), None);
}

/// Of a ramp that the budget ended it is not concluded that one stream is enough.
#[test]
fn one_stream_is_enough_only_of_a_path_that_was_filled() {
    let found = |end, several| streams_of(100, end, several);
    assert_eq!(found(RampEnd::Flat, Some(105)), (100, Streams::OneIsEnough));
    assert_eq!(found(RampEnd::Most, Some(105)), (100, Streams::Unknown));
    for end in [RampEnd::Flat, RampEnd::Most] {
        assert_eq!(found(end, Some(120)), (120, Streams::One(100)));
    }
    assert_eq!(found(RampEnd::Budget("--budget-bytes"), None), (100, Streams::Unknown));
}
