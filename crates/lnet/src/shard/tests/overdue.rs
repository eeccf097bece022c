//! No operation that waits in the core exceeds its deadline.

use super::*;

fn ended(net: &mut Net) -> Vec<(u64, Status)> {
    let events = net.events(0);
    events.iter().filter(|event| event.unlinked).map(|event| (event.user, event.status)).collect()
}

#[test]
fn a_wait_for_a_credit_ends_at_the_deadline() {
    // First the peer's credits are exhausted, then the interface's.
    for (credits, peer_credits) in [(256, 1), (1, 8)] {
        let tunables = Tunables { credits, peer_credits, discovery: 0, ..Tunables::default() };
        let timeout = Nanos::from_secs(tunables.message_timeout() as u64);
        let mut net = Net::new(2, &tunables);
        net.nodes[0].shard.discover(NOW, &test_nid(1)).unwrap();
        net.run(NOW);
        for user in 0..3 {
            let span = net.span(0, 8, 0);
            let md = net.bind(0, span, 1, user);
            net.put(0, put_args(md, process(1), 30, 1));
        }
        net.settle(NOW);
        assert_eq!((net.packets.len(), net.nodes[0].shard.in_driver()), (1, 1));
        let end = NOW + timeout;
        assert!(net.nodes[0].shard.next_deadline() <= end);
        net.settle(Time(end.0 - 1));
        assert_eq!(ended(&mut net), []);
        net.settle(end);
        assert_eq!(ended(&mut net), [(1, Status::TimedOut), (2, Status::TimedOut)]);
        // Messages that the driver has are ended by the driver.
        net.run(end);
        assert_eq!(ended(&mut net), [(0, Status::Ok)]);
        net.assert_quiet();
    }
}

#[test]
fn a_wait_for_repeated_discovery_ends_at_the_deadline() {
    // Ping and push may each take the driver's whole share of the time.
    let tunables = Tunables { retry_count: 0, transaction_timeout: 100, ..Tunables::default() };
    let mut net = Net::new(2, &tunables);
    let span = net.span(0, 8, 0);
    let md = net.bind(0, span, 1, 7);
    net.put(0, put_args(md, process(1), 30, 1));
    net.settle(NOW);
    let pinged = NOW + Nanos::from_secs(90);
    while net.nodes[0].shard.peer(&test_nid(1)).unwrap().features.is_none() {
        net.deliver(pinged, 0, Delivery::Deliver);
        net.settle(pinged);
    }
    assert_eq!(ended(&mut net), []);
    let end = NOW + Nanos::from_secs(tunables.message_timeout() as u64);
    net.settle(end);
    assert_eq!(ended(&mut net), [(7, Status::TimedOut)]);
    net.run(end);
    net.assert_quiet();
}

#[test]
fn a_core_that_is_not_polled_has_overdue_operations() {
    let mut net = Net::new(2, &Tunables::default());
    let span = net.span(0, 8, 0);
    let md = net.bind(0, span, 1, 7);
    net.put(0, put_args(md, process(1), 30, 1));
    net.settle(NOW);
    let shard = &net.nodes[0].shard;
    let share = Nanos::from_secs(Tunables::default().lnd_timeout() as u64);
    let timeout = Nanos::from_secs(Tunables::default().message_timeout() as u64);
    assert_eq!(shard.overdue(NOW + share + SCAN_INTERVAL), Vec::<String>::new());
    let wrong = shard.overdue(NOW + share + SCAN_INTERVAL + Nanos(1));
    assert!(wrong.len() == 1 && wrong[0].starts_with("an answer of 10.0.0.2@tcp"), "{wrong:?}");
    let wrong = shard.overdue(NOW + timeout + SCAN_INTERVAL + Nanos(1));
    assert!(wrong.len() == 2 && wrong[0].contains("is in Discovery"), "{wrong:?}");
}
