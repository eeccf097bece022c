use super::*;
use crate::latency::{Operation, Sample};
use crate::time::Nanos;

fn took(latencies: &mut Latencies, micros: u64) {
    latencies.record(Operation::GetRtt, Sample::new(Nanos::from_micros(micros)));
}

#[test]
fn the_total_is_what_was_never_reset() {
    let (mut before, mut since) = (CounterBaseline::default(), MessageCounters::default());
    let (mut latencies, mut all) = (Latencies::default(), Latencies::default());
    for round in 1..5u64 {
        since.sent += round;
        since.dropped += 1;
        for micros in [round * 10, 1000 - round] {
            took(&mut latencies, micros);
            took(&mut all, micros);
        }
        assert_eq!(before.latencies(Some(&latencies)), all);
        before.take_over(&mut since, Some(&mut latencies));
        assert_eq!((since, &latencies), (MessageCounters::default(), &Latencies::default()));
        assert_eq!(before.latencies(Some(&latencies)), all);
        let sent = (1..=round).sum();
        let counted = MessageCounters { sent, received: 0, dropped: round };
        assert_eq!(before.counters(&since), counted);
    }
}

#[test]
fn who_counted_nothing_costs_nothing() {
    let mut before = CounterBaseline::default();
    before.take_over(&mut MessageCounters::default(), None);
    before.take_over(&mut MessageCounters::default(), Some(&mut Latencies::default()));
    assert!(before.0.is_none());
    assert_eq!(size_of::<CounterBaseline>(), size_of::<usize>());
    assert_eq!(size_of::<Part>(), 48);
    assert_eq!(before.latencies(None), Latencies::default());
}
