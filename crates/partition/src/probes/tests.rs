use lustrine_lnet::shard::{PeerInfo, PeerState};
use lustrine_lnet::status::Status;
use lustrine_lnet::time::Time;
use lustrine_wire::nid::Nid;

use super::{Discovery, ProbeId};

const GIVE_UP: Time = Time(1000);

fn discovery() -> Discovery {
    Discovery { id: ProbeId(1), nid: nid(), before: 3, give_up: GIVE_UP }
}

fn nid() -> Nid {
    "10.0.0.1@tcp".parse().unwrap()
}

fn peer(rounds: u64, state: PeerState, outcome: Status) -> Option<PeerInfo> {
    Some(PeerInfo {
        nid: nid(),
        primary: nid(),
        nids: Vec::new(),
        features: None,
        state,
        rounds,
        outcome,
        configured: None,
        linked: true,
        credits: 8,
        credits_available: 8,
        credits_low: 8,
        counters: Default::default(),
        total: Default::default(),
        latency: Default::default(),
    })
}

#[test]
fn a_round_that_ended_well_counts_whatever_the_state_is_now() {
    for state in [PeerState::Unknown, PeerState::Discovering, PeerState::Ready] {
        for now in [Time(0), GIVE_UP] {
            let answer = discovery().answer(now, peer(4, state, Status::Ok));
            assert!(matches!(answer, Some(Ok(_))), "{state:?} at {now:?}: {answer:?}");
        }
    }
}

#[test]
fn an_earlier_round_does_not_count() {
    let known = || peer(3, PeerState::Ready, Status::Ok);
    assert_eq!(discovery().answer(Time(0), known()), None);
    assert_eq!(discovery().answer(GIVE_UP, known()), Some(Err(Status::TimedOut)));
    assert_eq!(discovery().answer(GIVE_UP, None), Some(Err(Status::TimedOut)));
}

#[test]
fn a_failure_is_the_result_unless_another_round_runs_until_time_is_up() {
    let failed = |state| peer(4, state, Status::Refused);
    let answer = |now, state| discovery().answer(now, failed(state));
    assert_eq!(answer(Time(0), PeerState::Unknown), Some(Err(Status::Refused)));
    assert_eq!(answer(Time(0), PeerState::Discovering), None);
    assert_eq!(answer(GIVE_UP, PeerState::Discovering), Some(Err(Status::TimedOut)));
}
