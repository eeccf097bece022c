//! Simulated paths: what is quiet raises no alarm, what changes does, soon and once.

mod noise;

use proptest::prelude::*;

use super::*;
use crate::alarm::AlarmEnd;
use crate::sample::{Bandwidth, PINGS_MIN, PathSample, Route};
use noise::{MODELS, Model, Path, Random};

/// Milliseconds between two samples.
const EVERY: u64 = 10_000;

fn detector() -> Detector {
    Detector::new(EVERY, 30 * EVERY, 360 * EVERY)
}

/// Feeds a detector with so many samples of a path.
fn feed(detector: &mut Detector, path: &mut Path, samples: u64) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    for _ in 0..samples {
        let sample = path.sample(EVERY);
        events.extend(detector.observe(&sample).into_iter().map(|event| (path.taken(), event)));
    }
    events
}

/// 10,000 samples of each model, with three seeds: more than three days.
#[test]
fn quiet_paths_raise_no_alarm() {
    for model in MODELS {
        for seed in 1..=3 {
            let (mut detector, mut path) = (detector(), Path::new(*model, seed));
            let events = feed(&mut detector, &mut path, 10_000);
            let about = format!("{} with seed {seed}: {} events", model.name, events.len());
            assert_eq!(events.first(), None, "{about}");
        }
    }
}

/// The fewest pings that the program takes show each change; one fewer shows no queue.
#[test]
fn few_pings_show_a_queue_and_losses() {
    let raised = |pings, apply: fn(&mut Path)| {
        let (mut detector, mut path) = (detector(), Path::new(Model::STILL, 1));
        path.pings = pings;
        assert_eq!(feed(&mut detector, &mut path, 300), Vec::new());
        apply(&mut path);
        let events = feed(&mut detector, &mut path, 200);
        events.first().map(|(_, event)| event.alarm().kind.clone())
    };
    let queue: fn(&mut Path) = |path| path.queue = 50e6;
    assert_eq!(raised(PINGS_MIN, queue), Some(AlarmKind::Queue));
    assert_eq!(raised(PINGS_MIN, |path| path.loss = 0.3), Some(AlarmKind::Loss));
    assert_eq!(raised(PINGS_MIN - 1, queue), None);
}

/// What happens to a path.
struct Change {
    name: &'static str,
    kind: AlarmKind,
    apply: fn(&mut Path),
    /// Most samples until the alarm, and until it is over.
    most: (u64, u64),
}

const CHANGES: &[Change] = &[
    Change {
        name: "a path that is longer by half",
        kind: AlarmKind::Rtt,
        apply: |path| path.base += (path.base / 2.0).max(200e3),
        most: (20, 40),
    },
    Change {
        name: "a path that is shorter by a third",
        kind: AlarmKind::Rtt,
        // On the LAN that is less than the margin.
        apply: |path| path.base = if path.base < 1e6 { 3.0 * path.base } else { path.base / 1.5 },
        most: (20, 40),
    },
    Change {
        name: "a queue of five round trips",
        kind: AlarmKind::Queue,
        apply: |path| path.queue = (5.0 * path.base).max(5e6),
        most: (20, 40),
    },
    Change {
        name: "40 % of the pings lost",
        kind: AlarmKind::Loss,
        apply: |path| path.loss = 0.4,
        most: (10, 14),
    },
    Change {
        name: "no answer",
        kind: AlarmKind::Unreachable,
        apply: |path| path.loss = 1.0,
        most: (3, 2),
    },
];

/// For each model and change: the alarm comes in time and once, nothing else is said, and it is
/// over in time once the path is back.
#[test]
fn changes_are_found_soon_and_once() {
    for change in CHANGES {
        let (mut delays, mut backs) = (Vec::new(), Vec::new());
        for model in MODELS {
            for seed in 1..=5 {
                let about = format!("{} on {} with seed {seed}", change.name, model.name);
                let (mut detector, mut path) = (detector(), Path::new(*model, seed));
                assert_eq!(feed(&mut detector, &mut path, 300), Vec::new(), "{about}");
                let before = path.clone();
                (change.apply)(&mut path);
                let raised = feed(&mut detector, &mut path, 200);
                let [(at, Event::Raised(alarm))] = &raised[..] else {
                    panic!("{about}: {} events, {:#?}", raised.len(), raised.first())
                };
                assert_eq!(alarm.kind, change.kind, "{about}");
                let delay = at - 300;
                assert!(delay <= change.most.0, "{about}: {delay} samples");
                // A value that was outside by chance just before counts as well.
                assert!(alarm.since_ms >= 288 * EVERY && alarm.since_ms <= alarm.raised_ms);
                assert_eq!(detector.active(), std::slice::from_ref(alarm));
                path.back(&before);
                let over = feed(&mut detector, &mut path, 300);
                let [(at, Event::Over(ended))] = &over[..] else {
                    panic!("{about}: {} events, {:#?}", over.len(), over.first())
                };
                assert_eq!(ended.over.map(|(_, end)| end), Some(AlarmEnd::Back), "{about}");
                assert!(at - 500 <= change.most.1, "{about}: over after {}", at - 500);
                assert_eq!(detector.active(), []);
                delays.push(delay);
                backs.push(at - 500);
            }
        }
        let range = |list: &[u64]| (list.iter().min().copied(), list.iter().max().copied());
        println!("{}: {:?}, back {:?}", change.name, range(&delays), range(&backs));
    }
}

/// A small change does not hide a larger one that follows, whichever its direction is and whether
/// the small one has lasted or has just begun; the way back ends the latest alarm.
#[test]
fn a_small_change_hides_no_large_one() {
    for model in MODELS {
        for (pause, factor) in [(12, 4.0), (200, 4.0), (12, 0.4), (200, 0.4)] {
            let about = format!("{} after {pause}, times {factor}", model.name);
            let (mut detector, mut path) = (detector(), Path::new(*model, 3));
            feed(&mut detector, &mut path, 300);
            let before = path.clone();
            path.base += (path.base / 2.0).max(200e3);
            let small = feed(&mut detector, &mut path, pause);
            assert!(matches!(&small[..], [(_, Event::Raised(_))]), "{about}: {small:#?}");
            path.base = match factor > 1.0 {
                true => (before.base * factor).max(before.base + 900e3),
                // On the LAN that is less than the margin.
                false if before.base < 1e6 => break,
                false => before.base * factor,
            };
            let large = feed(&mut detector, &mut path, 200);
            let [(_, Event::Over(first)), (at, Event::Raised(second))] = &large[..] else {
                panic!("{about}: {large:#?}")
            };
            assert!(at - 300 - pause <= 20, "{about}: {}", at - 300 - pause);
            assert_eq!(first.over.map(|(_, end)| end), Some(AlarmEnd::Changed), "{about}");
            assert_eq!((&first.kind, &second.kind), (&AlarmKind::Rtt, &AlarmKind::Rtt));
            // Both say what it was before all of this.
            assert_eq!(first.before, second.before, "{about}");
            assert_eq!(detector.active(), std::slice::from_ref(second));
            path.back(&before);
            let over = feed(&mut detector, &mut path, 300);
            let [(_, Event::Over(ended))] = &over[..] else { panic!("{about}: {over:#?}") };
            assert_eq!(ended.over.map(|(_, end)| end), Some(AlarmEnd::Back), "{about}");
        }
    }
}

/// The smallest change that is always found, on a path without noise: a hair above the margin, and
/// nothing below it.
#[test]
fn the_margin_is_what_the_law_says() {
    for (factor, found) in [(1.019, 0), (1.021, 1), (0.981, 0), (0.979, 1)] {
        let (mut detector, mut path) = (detector(), Path::new(Model::STILL, 1));
        feed(&mut detector, &mut path, 200);
        path.base *= factor;
        assert_eq!(feed(&mut detector, &mut path, 100).len(), found, "{factor}");
    }
}

/// A path that goes to and fro changes as often as it does, and no more.
#[test]
fn an_alarm_does_not_flap() {
    for model in MODELS {
        let (mut detector, mut path) = (detector(), Path::new(*model, 9));
        feed(&mut detector, &mut path, 300);
        let before = path.clone();
        let mut events = Vec::new();
        for _ in 0..10 {
            path.base += (path.base / 2.0).max(200e3);
            events.extend(feed(&mut detector, &mut path, 60));
            path.back(&before);
            events.extend(feed(&mut detector, &mut path, 60));
        }
        assert_eq!(events.len(), 20, "{}: {:#?}", model.name, events.first());
        // Faster than the law distinguishes them: one alarm at most.
        let mut events = Vec::new();
        for _ in 0..100 {
            path.base += (path.base / 2.0).max(200e3);
            events.extend(feed(&mut detector, &mut path, 3));
            path.back(&before);
            events.extend(feed(&mut detector, &mut path, 3));
        }
        assert!(events.len() <= 1, "{}: {:#?}", model.name, events.first());
    }
}

/// What has been different for a day is what later samples are compared with.
#[test]
fn a_lasting_change_is_accepted_after_a_day() {
    let (mut detector, mut path) = (detector(), Path::new(MODELS[1], 4));
    feed(&mut detector, &mut path, 300);
    path.base *= 1.5;
    let events = feed(&mut detector, &mut path, 9000);
    let [(_, Event::Raised(_)), (at, Event::Over(alarm))] = &events[..] else {
        panic!("{events:#?}")
    };
    assert_eq!(alarm.over.map(|(_, end)| end), Some(AlarmEnd::Accepted));
    assert!((8640..8660).contains(&(at - 300)), "{at}");
    // The way back is a change then.
    path.base /= 1.5;
    let events = feed(&mut detector, &mut path, 100);
    assert!(matches!(&events[..], [(_, Event::Raised(one))] if one.kind == AlarmKind::Rtt));
}

fn looked(at: u64, mtu: u32, hops: u8) -> Sample {
    Sample {
        at_ms: at * EVERY,
        sent: 10,
        path: Some(PathSample {
            mtu_out: Some(mtu),
            mtu_back: None,
            route: Route {
                local: Some("10.0.0.1".to_owned()),
                interface: Some("eth0".to_owned()),
                gateway: None,
                hops_out: Some(hops),
                hops_back: None,
            },
        }),
        rtt: crate::sample::Rtt::of(vec![1_000_000]),
        ..Sample::default()
    }
}

#[test]
fn sizes_and_hops_are_compared() {
    let mut detector = detector();
    let mut events = Vec::new();
    let mut look = |at, mtu, hops, detector: &mut Detector| {
        events.extend(detector.observe(&looked(at, mtu, hops)));
    };
    look(0, 9000, 1, &mut detector);
    assert!(detector.wants_look(), "one look is no baseline");
    for at in 1..20 {
        look(at, 9000, 1, &mut detector);
    }
    assert!(!detector.wants_look());
    look(20, 1500, 3, &mut detector);
    assert!(detector.wants_look(), "the next one decides");
    for (at, mtu) in (21..).zip([1500, 1500, 1500, 9000, 9000, 9000]) {
        look(at, mtu, 3, &mut detector);
    }
    let said: Vec<(&str, &str, bool)> = events
        .iter()
        .map(|event| event.alarm())
        .map(|alarm| (alarm.kind.name(), alarm.part.as_str(), alarm.over.is_some()))
        .collect();
    assert_eq!(said, [("mtu", "out", false), ("route", "hops_out", false), ("mtu", "out", true)]);
    let Event::Raised(mtu) = &events[0] else { panic!("{events:?}") };
    assert_eq!((mtu.since_ms, mtu.raised_ms), (20 * EVERY, 22 * EVERY));
    assert_eq!((mtu.before.as_str(), mtu.after.as_str()), ("9000 bytes", "1500 bytes"));
    let Event::Raised(route) = &events[1] else { panic!("{events:?}") };
    assert_eq!(route.what, "the peer was 1 hop away, and is 3 hops");
}

/// Packets that alternate between two paths are not a change; that one of the two is gone for good
/// is none either, and a third one is.
#[test]
fn two_paths_in_turn_are_no_change() {
    let mut found = 0;
    for seed in 1..=20 {
        let (mut detector, mut random) = (detector(), Random::new(seed));
        for at in 0..5 {
            detector.observe(&looked(at, 1500, 2));
        }
        let mut events = Vec::new();
        for at in 5..1000 {
            let hops = 2 + u8::from(random.part() < 0.5);
            events.extend(detector.observe(&looked(at, 1500, hops)));
        }
        assert!(events.len() <= 2, "only while it is learnt: {seed}: {events:#?}");
        let (before, lasts) = (events.len(), !detector.active().is_empty());
        for at in 1000..1014 {
            events.extend(detector.observe(&looked(at, 1500, 5)));
        }
        assert_eq!(events.len() > before, !lasts, "a lasting change is found: {seed}");
        assert_eq!(detector.active().len(), 1, "{seed}: {events:#?}");
        found += usize::from(!lasts);
    }
    assert!(found >= 15, "{found} of 20");
}

#[test]
fn bandwidth_that_falls_is_an_alarm_and_that_rises_is_none() {
    let mut detector = detector();
    let mut random = Random::new(3);
    let mut measured = |at: u64, gigabits: f64, detector: &mut Detector| {
        let rate = gigabits * (1.0 + 0.1 * (random.part() - 0.5)) * 1e9;
        let bandwidth = Some(Bandwidth { read: Some(rate as u64), write: None });
        detector.observe(&Sample { at_ms: at * EVERY, sent: 10, bandwidth, ..Sample::default() })
    };
    let of_bandwidth = |events: Vec<Event>| {
        events.into_iter().filter(|one| one.alarm().kind == AlarmKind::Bandwidth).count()
    };
    for at in 0..200 {
        assert_eq!(of_bandwidth(measured(at, 9.0, &mut detector)), 0);
    }
    assert_eq!(of_bandwidth(measured(200, 5.0, &mut detector)), 0, "one may be chance");
    assert_eq!(of_bandwidth(measured(201, 5.0, &mut detector)), 1);
    assert_eq!(of_bandwidth(measured(202, 9.0, &mut detector)), 0);
    assert_eq!(of_bandwidth(measured(203, 9.0, &mut detector)), 1);
    for at in 204..300 {
        assert_eq!(of_bandwidth(measured(at, 20.0, &mut detector)), 0, "{at}");
    }
}

/// One measurement on a busy host must not make each later one look normal.
#[test]
fn one_bad_measurement_does_not_hide_that_bandwidth_falls() {
    for bad in 0..10 {
        let mut detector = detector();
        let mut measured = |at: u64, megabits: u64| {
            let bandwidth = Some(Bandwidth { read: Some(megabits * 1_000_000), write: None });
            let sample = Sample { at_ms: at * EVERY, sent: 10, bandwidth, ..Sample::default() };
            let events = detector.observe(&sample).into_iter();
            events.filter(|one| one.alarm().kind == AlarmKind::Bandwidth).count()
        };
        for at in 0..12 {
            assert_eq!(measured(at, if at == bad { 46 } else { 340 }), 0, "{bad} {at}");
        }
        assert_eq!((measured(12, 34), measured(13, 34)), (0, 1), "{bad}");
    }
}

/// An alarm that lasts is stored with the detector, and goes on after a restart.
#[test]
fn a_stored_detector_goes_on() {
    let (mut first, mut path) = (detector(), Path::new(MODELS[2], 7));
    feed(&mut first, &mut path, 200);
    path.base *= 2.0;
    feed(&mut first, &mut path, 10);
    assert_eq!(first.active().len(), 1);
    let text = serde_json::to_string(&first).expect("JSON");
    assert!(text.len() < 16 << 10, "{} bytes", text.len());
    let mut second: Detector = serde_json::from_str(&text).expect("a detector");
    assert_eq!(first, second);
    let mut other = path.clone();
    assert_eq!(feed(&mut first, &mut path, 100), feed(&mut second, &mut other, 100));
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let path = (any::<Option<u32>>(), any::<Option<u32>>(), any::<Option<u8>>());
    let rates = (any::<Option<u64>>(), any::<Option<u64>>());
    (
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
        proptest::option::of(any::<[u64; 4]>()),
        proptest::option::of(path),
        proptest::option::of(rates),
    )
        .prop_map(|(at_ms, sent, lost, rtt, path, rates)| Sample {
            at_ms,
            sent,
            lost,
            rtt: rtt.map(Into::into),
            path: path.map(|(mtu_out, mtu_back, hops_out)| PathSample {
                mtu_out,
                mtu_back,
                route: Route { hops_out, ..Route::default() },
            }),
            bandwidth: rates.map(|(read, write)| Bandwidth { read, write }),
        })
}

proptest! {
    /// Whatever the samples are, and whatever their clock says: no panic, bounded state, each alarm
    /// begins once and ends once, and the same samples lead to the same events.
    #[test]
    fn any_samples_are_survived(samples in proptest::collection::vec(any_sample(), 0..400)) {
        let (mut one, mut two) = (detector(), detector());
        let mut open: Vec<(AlarmKind, String)> = Vec::new();
        for sample in &samples {
            let events = one.observe(sample);
            prop_assert_eq!(&events, &two.observe(sample));
            for event in events {
                let alarm = event.alarm();
                let key = (alarm.kind.clone(), alarm.part.clone());
                match &event {
                    Event::Raised(_) => {
                        prop_assert!(!open.contains(&key) && alarm.over.is_none());
                        open.push(key);
                    }
                    Event::Over(_) => {
                        prop_assert!(alarm.over.is_some());
                        let at = open.iter().position(|one| *one == key);
                        open.remove(at.expect("it was raised"));
                    }
                }
            }
            let active = one.active().iter().map(|alarm| (alarm.kind.clone(), alarm.part.clone()));
            prop_assert_eq!(&open, &active.collect::<Vec<_>>());
        }
        let stored = serde_json::to_string(&one).expect("JSON");
        prop_assert!(stored.len() < 64 << 10, "{} bytes", stored.len());
        prop_assert_eq!(serde_json::from_str::<Detector>(&stored).expect("a detector"), one);
    }
}

/// The law in the documentation is the one above.
#[test]
fn the_law_is_documented() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/watch.md");
    let page = std::fs::read_to_string(path).expect("the page");
    for (kind, law) in LAW_OF_CHANGES {
        let line = format!("| `{}` | {law} |", kind.name());
        assert!(page.contains(&line), "docs/watch.md lacks this line: {line}");
    }
    for model in MODELS {
        assert!(page.contains(model.name), "docs/watch.md does not name {:?}", model.name);
    }
}
