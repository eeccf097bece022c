use super::*;
use report::Compared;

const GBPS: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// A peer over 10 Gb/s and 50 ms, of which the new values carried so much.
fn measured(read: u64, write: u64) -> Report {
    let purpose = Purpose { rpc_bytes: 1 << 20, ..Purpose::default() };
    let mut peer = PeerReport::at_50_ms(crate::host_limits::HostLimits::default());
    let path = peer.new_path(10 * GBPS, Streams::OneIsEnough);
    let (settings, advice) = advise(&path, &host(&peer), &purpose);
    (peer.path, peer.settings, peer.advice) = (Some(path), Some(settings), advice);
    peer.ramp = vec![
        StepRow::whole(Direction::Read, 128, 10 * GBPS, 105 * MS),
        StepRow::whole(Direction::Write, 128, 9 * GBPS, 110 * MS),
    ];
    peer.after = Some(Compared {
        in_flight: 120,
        read: Some(StepRow::whole(Direction::Read, 120, read, 90 * MS)),
        write: Some(StepRow::whole(Direction::Write, 120, write, 125 * MS)),
    });
    let mut report = Report::new(purpose, true);
    report.peers.push(peer);
    report.combine();
    report
}

#[test]
fn a_comparison_that_was_not_made_is_named() {
    let mut peer = measured(10 * GBPS, 9 * GBPS).peers.remove(0);
    assert_eq!(not_compared(&peer), None);
    let whole = peer.after.clone().expect("a run").write.expect("a row");
    let why = |peer: &mut PeerReport, row: Option<StepRow>| {
        peer.after.as_mut().expect("a run").write = row;
        not_compared(peer).expect("a reason")
    };
    let cut = StepRow { cut: true, ..whole.clone() };
    for row in [None, Some(cut)] {
        assert!(why(&mut peer, row).starts_with("the budget ended"));
    }
    let short = StepRow { time_ns: 0, ..whole };
    assert!(why(&mut peer, Some(short)).starts_with("RPCs took longer"));
}

/// Data that waited before a step that was cut short came in it.
#[test]
fn a_step_that_was_cut_short_is_no_rate() {
    let mut peer = measured(0, 0).peers.remove(0);
    let cut = StepRow { cut: true, ..StepRow::whole(Direction::Read, 256, 13 * GBPS, MS) };
    let short = StepRow { cut: false, time_ns: 0, ..cut.clone() };
    let ramp = peer.ramp.clone();
    for step in [cut, short] {
        peer.ramp = [&ramp[..], std::slice::from_ref(&step)].concat();
        assert_eq!(peer.ramp_rate(), Some(10 * GBPS));
        peer.ramp = vec![step];
        assert_eq!(peer.ramp_rate(), Some(13 * GBPS), "it is better than nothing");
    }
}

/// A node that failed in the run with the new values sets none, and stops no better ones.
#[test]
fn a_node_that_failed_late_is_left_out() {
    let mut report = measured(9_600_000_000, 8_600_000_000);
    let mut other = measured(9_600_000_000, 8_600_000_000).peers.remove(0);
    other.nid = "10.0.0.3@tcp".parse().expect("a NID");
    other.after = None;
    let mut larger = other.settings.expect("settings");
    larger.credits *= 2;
    other.settings = Some(larger);
    report.peers.push(other);
    report.leave_out("10.0.0.3@tcp".parse().expect("a NID"), "10.0.0.3@tcp: it is away");
    report.combine();
    assert_eq!(report.settings, report.peers[0].settings);
    assert_eq!(report.not_measured[0].why, "it is away");
    assert_eq!(report.measured().count(), 1);
}

#[test]
fn a_direction_that_is_slower_than_before_is_named() {
    let mut peer = measured(10 * GBPS, 5 * GBPS).peers.remove(0);
    assert_eq!(slower_notes(&peer), Vec::<String>::new(), "not measured before");
    let (read, write) = (11 * GBPS, 6 * GBPS);
    peer.before = Some(Compared {
        in_flight: 8,
        read: Some(StepRow::whole(Direction::Read, 8, read, MS)),
        write: Some(StepRow::whole(Direction::Write, 8, write, MS)),
    });
    let notes = slower_notes(&peer);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("writes were slower with the new values"), "{notes:?}");
}

#[test]
fn a_long_path_has_more_time_unless_the_user_has_set_it() {
    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        tune: TuneArgs,
    }
    let budget = |options: &[&str], rtt| {
        let all = [&["tune", "--to", "10.0.0.2@tcp,10.0.0.3@tcp"], options].concat();
        let program: Program = clap::Parser::parse_from(all);
        program.tune.budget(rtt)
    };
    let seconds = |options: &[&str], rtt| budget(options, rtt).time_ns / GBPS;
    assert_eq!(budget(&[], MS).bytes, 2 << 30, "of each of the two");
    assert_eq!((seconds(&[], MS), seconds(&[], 50 * MS)), (60, 60));
    assert_eq!((seconds(&[], 100 * MS), seconds(&[], 10_000 * MS)), (120, 600));
    assert_eq!(seconds(&["--budget-time", "40"], 100 * MS), 20);
}

#[test]
fn a_run_before_that_carried_more_counts() {
    let mut peer = measured(0, 0).peers.remove(0);
    let path = Path { rate: 10 * GBPS, ..peer.path.expect("a path") };
    let found = |peer: &PeerReport, carried| {
        let path = peer.with_run_before(path, 9 * GBPS, carried);
        (path.rate, path.streams)
    };
    peer.values.conns_per_peer = 2;
    assert_eq!(found(&peer, 11 * GBPS), (10 * GBPS, Streams::OneIsEnough), "chance");
    assert_eq!(found(&peer, 12 * GBPS), (12 * GBPS, Streams::One(9 * GBPS)));
    peer.values.identity = "userland".to_owned();
    assert_eq!(found(&peer, 12 * GBPS), (12 * GBPS, Streams::OneIsEnough), "it has one");
    peer.values.identity = "node".to_owned();
    peer.values.conns_per_peer = 1;
    assert_eq!(found(&peer, 12 * GBPS), (12 * GBPS, Streams::OneIsEnough));
    peer.incomplete = Some("the budget ended".to_owned());
    assert_eq!(found(&peer, 10 * GBPS), (10 * GBPS, Streams::OneIsEnough));
    assert_eq!(found(&peer, 10 * GBPS + 1), (10 * GBPS + 1, Streams::Unknown));
}

/// Buffers that stay as they are were not too small.
#[test]
fn only_buffers_that_are_to_grow_may_have_limited_the_rate() {
    let peer = measured(0, 0).peers.remove(0);
    let (path, settings) = (peer.path.expect("a path"), peer.settings.expect("settings"));
    let note = |buffer| {
        let host = Host { tcp_buffers: Some([buffer; 2]), ..Host::default() };
        buffers_note(&path, &host, &settings)
    };
    assert_eq!(note(settings.tcp_buffer), None);
    assert!(note(settings.tcp_buffer - 1).is_some());
    assert_eq!(note(settings.tcp_buffer / 2), None, "twice as much was carried");
}

#[test]
fn a_given_rate_is_not_limited_by_the_speed_of_the_interface() {
    let mut peer = measured(0, 0).peers.remove(0);
    peer.host.speed_mbps = Some(10_000);
    assert_eq!(host(&peer).interface_rate, Some(10 * GBPS));
    peer.rate_is_given = true;
    assert_eq!(host(&peer).interface_rate, None);
}

#[test]
fn what_reached_the_rate_of_the_ramp_stays() {
    let mut report = measured(9_600_000_000, 8_600_000_000);
    let before = report.settings;
    assert_eq!(correct(&mut report), None);
    assert_eq!(report.settings, before);
    assert!(report.peers[0].after.is_some() && report.peers[0].by_round_trips.is_none());
}

/// 10 Gb/s x 125 ms are 149.01 MiB.
#[test]
fn what_did_not_is_computed_again_with_the_latency() {
    let mut report = measured(9_600_000_000, 8_000_000_000);
    assert_eq!(report.settings.expect("settings").max_rpcs_in_flight, 120);
    let corrected = correct(&mut report).expect("other settings");
    assert_eq!(corrected.max_rpcs_in_flight, 150);
    assert_eq!(report.settings, Some(corrected));
    let peer = &report.peers[0];
    assert!(peer.after.is_none() && peer.by_round_trips.is_some());
    assert_eq!(peer.path.expect("a path").rpc_latency_ns, Some(125 * MS));
}

/// The second run, of what the first one lacked.
fn again(mut report: Report, write: u64, failed: u64) -> Report {
    let first = report.peers.clone();
    let more = correct(&mut report).expect("other settings").max_rpcs_in_flight as u32;
    report.peers[0].after = Some(Compared {
        in_flight: more,
        read: Some(StepRow::whole(Direction::Read, more, 9_600_000_000, 110 * MS)),
        write: Some(StepRow { failed, ..StepRow::whole(Direction::Write, more, write, 130 * MS) }),
    });
    keep_better(&mut report, first);
    report
}

#[test]
fn more_are_advised_only_if_they_carry_more() {
    let measured = || measured(9_600_000_000, 8_000_000_000);
    let better = again(measured(), 8_800_000_000, 0);
    assert_eq!(better.settings.expect("settings").max_rpcs_in_flight, 150);
    assert!(better.peers[0].more_tried.is_none());
    for report in [again(measured(), 7_900_000_000, 0), again(measured(), 8_800_000_000, 1)] {
        assert_eq!(report.settings.expect("settings").max_rpcs_in_flight, 120);
        let peer = &report.peers[0];
        assert_eq!(peer.path.expect("a path").rpc_latency_ns, None);
        assert_eq!(peer.after.as_ref().expect("the first run").in_flight, 120);
        assert!(peer.by_round_trips.is_none() && peer.more_tried.is_some());
        assert!(peer.notes[0].starts_with("150 x 1 MiB in flight carried no more"));
    }
}

/// The second of two nodes lacked nothing, and lacks nothing with more RPCs.
#[test]
fn a_node_that_lacks_nothing_is_no_reason_against_more() {
    let mut report = measured(9_600_000_000, 8_000_000_000);
    report.peers.extend(measured(9_900_000_000, 9_000_000_000).peers);
    report.combine();
    let first = report.peers.clone();
    let more = correct(&mut report).expect("other settings").max_rpcs_in_flight as u32;
    for (peer, write) in report.peers.iter_mut().zip([8_800_000_000, 8_900_000_000]) {
        let row = |test, rate| Some(StepRow::whole(test, more, rate, 130 * MS));
        let (read, write) = (row(Direction::Read, 9_800_000_000), row(Direction::Write, write));
        peer.after = Some(Compared { in_flight: more, read, write });
    }
    keep_better(&mut report, first);
    assert_eq!(report.settings.expect("settings").max_rpcs_in_flight, 150);
}

/// 2 x 12 Gb/s x 50 ms are 143.05 MiB.
#[test]
fn a_run_that_carried_more_than_the_ramp_counts() {
    let mut report = measured(12 * GBPS, 9 * GBPS);
    let first = report.peers.clone();
    assert_eq!(correct(&mut report).expect("other settings").max_rpcs_in_flight, 144);
    report.peers[0].after = Some(Compared {
        in_flight: 144,
        read: Some(StepRow::whole(Direction::Read, 144, 12 * GBPS, 95 * MS)),
        write: Some(StepRow::whole(Direction::Write, 144, 12 * GBPS, 95 * MS)),
    });
    keep_better(&mut report, first);
    assert_eq!(report.settings.expect("settings").max_rpcs_in_flight, 144);
    let notes = more_carried_notes(&report.peers[0]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("12.00 Gb/s, more than the 10.00 Gb/s of the ramp"));
    // A run that carries still more.
    let after = report.peers[0].after.as_mut().expect("a run");
    after.write.as_mut().expect("a row").rate = 14 * GBPS;
    let notes = more_carried_notes(&report.peers[0]);
    assert!(notes[1].contains("14.00 Gb/s, more than the 12.00 Gb/s"), "{notes:?}");
    // A little more is chance, and RPCs that fail count for nothing.
    for (rate, failed) in [(10_900_000_000, 0), (12 * GBPS, 1)] {
        let mut report = measured(rate, 9 * GBPS);
        let after = report.peers[0].after.as_mut().expect("a run");
        after.read.as_mut().expect("a row").failed = failed;
        assert_eq!(correct(&mut report), None);
        assert_eq!(more_carried_notes(&report.peers[0]), Vec::<String>::new());
    }
    // More than the interface has is never advised.
    let mut report = measured(12 * GBPS, 9 * GBPS);
    report.peers[0].host.speed_mbps = Some(10_000);
    assert_eq!(correct(&mut report), None);
}

/// RPCs that failed say nothing about how many are needed.
#[test]
fn failures_are_no_reason_for_more() {
    let mut report = measured(9_600_000_000, 8_000_000_000);
    let after = report.peers[0].after.as_mut().expect("a run");
    after.write.as_mut().expect("a row").failed = 1;
    assert_eq!(correct(&mut report), None);
}

/// 8 RPCs are the least, and more than this path holds.
#[test]
fn what_is_in_flight_anyway_is_no_reason_for_more() {
    let mut report = measured(8 * GBPS, 5 * GBPS);
    report.peers[0].path.as_mut().expect("a path").rtt_idle_ns = MS;
    assert_eq!(report.peers[0].longer_latency(), None);
}

/// Reads took less than two round trips: more of them would not help.
#[test]
fn rpcs_that_were_quick_need_no_more() {
    let mut report = measured(5 * GBPS, 9 * GBPS);
    assert_eq!(correct(&mut report), None);
}
