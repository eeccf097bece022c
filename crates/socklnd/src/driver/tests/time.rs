//! Time-outs of connections and messages.

use core::net::SocketAddr;

use lustrine_lnet::lnd::LinkEvent;
use lustrine_lnet::status::Status;
use lustrine_lnet::time::{Nanos, Time};
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::hello::{ConnType, Version};

use crate::testing::{Chaos, NODE, Plan, Rogue, World, config, ip4, process, put_header};

fn world() -> World {
    let mut world = World::new(1, Chaos::None);
    world.add(config(NODE));
    world
}

const DOWN: LinkEvent = LinkEvent::Down { status: Status::TimedOut };

/// [SOCK-11]
#[test]
fn an_idle_connection_stays_open() {
    let mut world = World::new(1, Chaos::None);
    let mut quiet = config(NODE);
    quiet.tunables.keepalive = 0;
    world.add(quiet);
    let mut rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.pass(Nanos::from_secs(100_000));
    assert!(!rogue.closed(&mut world));
    assert_eq!(rogue.messages(&mut world), []);
    let staged = world.driver(0).conns.values().map(|conn| conn.tx.waiting()).sum::<u64>();
    assert_eq!(staged, 0);
}

/// [SOCK-11]
#[test]
fn a_message_that_stops_arriving_closes_the_connection() {
    for bytes in [&[0xc1u8, 0, 0, 0, 0][..], &[0xc1; 0]] {
        let mut world = world();
        let mut rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
        if bytes.is_empty() {
            let header = put_header(process(1), process(NODE), 1, 1000);
            rogue.message(&mut world, FrameHeader::LNET, &header, &[1; 10]);
        } else {
            rogue.say(&mut world, bytes);
        }
        world.pass(Nanos::from_secs(49));
        assert!(!rogue.closed(&mut world));
        world.pass(Nanos::from_secs(15));
        assert!(rogue.closed(&mut world));
        assert_eq!(world.events(0)[1], DOWN);
        assert_eq!(world.driver(0).counters().timeouts_receive, 1);
        assert_eq!(world.core(0).open_ops(), 0);
        assert_eq!(world.driver(0).next_deadline(), Time::NEVER);
    }
}

/// For a kernel any byte is progress. A peer that sends one every 49 seconds would hold a buffer
/// that others wait for, so here a message has to arrive within a time that depends on its length.
/// [SOCK-16]
#[test]
fn a_message_that_arrives_too_slowly_closes_the_connection() {
    for (step, lives) in [(104_857, true), (1, false), (5000, false)] {
        let mut world = world();
        let mut rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
        let header = put_header(process(1), process(NODE), 1, 10 * step);
        rogue.message(&mut world, FrameHeader::LNET, &header, b"");
        for _ in 0..10 {
            world.pass(Nanos::from_secs(15));
            if !rogue.closed(&mut world) {
                rogue.say(&mut world, &vec![b'x'; step as usize]);
            }
        }
        assert_eq!(rogue.closed(&mut world), !lives);
        if lives {
            assert_eq!(world.core(0).payload(0).len() as u32, 10 * step);
        } else {
            assert_eq!(world.driver(0).counters().timeouts_receive, 1);
            assert_eq!(world.core(0).open_ops(), 0);
        }
    }
}

#[test]
fn a_parked_message_may_wait() {
    let mut world = world();
    let mut rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.core(0).plans = [Plan::Park].into();
    let header = put_header(process(1), process(NODE), 1, 10);
    rogue.message(&mut world, FrameHeader::LNET, &header, b"0123");
    world.pass(Nanos::from_secs(500));
    assert!(!rogue.closed(&mut world));
    world.core(0).resume(Plan::Store { piece: 100 });
    world.run();
    world.pass(Nanos::from_secs(40));
    rogue.say(&mut world, b"456789");
    assert_eq!(world.core(0).payload(0), b"0123456789");
}

/// [SOCK-11]
#[test]
fn bytes_that_are_not_sent_close_the_connection() {
    let mut world = world();
    let mut rogue = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    world.pass(Nanos::from_secs(200));
    rogue.messages(&mut world);
    world.net.set_window(0);
    let op = world.put(0, process(1), 1, &[1; 10_000]);
    world.pass(Nanos::from_secs(49));
    assert_eq!(world.status(0, op), None);
    world.pass(Nanos::from_secs(15));
    assert_eq!(world.status(0, op), Some(Status::TimedOut));
    assert_eq!(world.driver(0).counters().timeouts_send, 1);
    assert!(rogue.closed(&mut world));
}

/// [FRM-13]
#[test]
fn f10_keepalives_after_silence_and_no_more_than_one_in_ten_seconds() {
    let mut world = world();
    let mut control = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let mut bulk_out = Rogue::open(&mut world, 1, Version::V3, ConnType::BulkOut);
    world.pass(Nanos::from_secs(29));
    assert_eq!(bulk_out.messages(&mut world), []);
    world.pass(Nanos::from_secs(60));
    let heard = bulk_out.messages(&mut world);
    assert!((4..=7).contains(&heard.len()), "{}", heard.len());
    assert!(heard.iter().all(|message| message.frame == FrameHeader::KEEPALIVE));
    assert_eq!(control.messages(&mut world), []);
    // Any byte that arrives suppresses it.
    control.noop(&mut world, 0, 1);
    let sent = world.driver(0).counters().keepalives_sent;
    for _ in 0..10 {
        world.pass(Nanos::from_secs(20));
        control.noop(&mut world, 0, 1);
    }
    assert_eq!(world.driver(0).counters().keepalives_sent, sent);
    // V2 has none.
    let mut old = World::new(1, Chaos::None);
    old.add(config(NODE));
    Rogue::open(&mut old, 1, Version::V2, ConnType::Control);
    old.pass(Nanos::from_secs(1000));
    assert_eq!(old.driver(0).counters().keepalives_sent, 0);
    assert!(!old.driver(0).conns.is_empty());
}

/// [FRM-18], [SOCK-5]
#[test]
fn a_message_waits_for_its_connection_until_its_deadline() {
    let mut world = world();
    // A host that accepts connections and sends nothing.
    world.net.listen(SocketAddr::new(ip4(3), 988), None);
    let early = world.put_until(0, process(3), 1, b"", world.now + Nanos::from_secs(20));
    let late = world.put_until(0, process(3), 1, b"", world.now + Nanos::from_secs(90));
    world.pass(Nanos::from_millis(19_900));
    assert_eq!(world.status(0, early), None);
    world.pass(Nanos::from_millis(200));
    assert_eq!(world.status(0, early), Some(Status::TimedOut));
    assert_eq!(world.driver(0).counters().expired_waiting, 1);
    // After sock_timeout the dial fails, and the waiting messages fail with it.
    world.pass(Nanos::from_millis(29_800));
    assert_eq!(world.status(0, late), None);
    world.pass(Nanos::from_millis(200));
    assert_eq!(world.status(0, late), Some(Status::TimedOut));
    assert_eq!(world.driver(0).counters().timeouts_dial, 1);
    assert_eq!((world.driver(0).connections(), world.driver(0).peers().count()), (0, 0));
}

#[test]
fn during_back_off_messages_wait_and_expire() {
    let mut world = world();
    world.put(0, process(9), 1, b"");
    world.run();
    let op = world.put_until(0, process(9), 1, b"", world.now + Nanos::from_millis(500));
    world.pass(Nanos::from_millis(499));
    assert_eq!(world.status(0, op), None);
    world.pass(Nanos::from_millis(2));
    assert_eq!(world.status(0, op), Some(Status::TimedOut));
    assert_eq!(world.driver(0).counters().dialled, 1);
    world.pass(Nanos::from_secs(5));
    assert_eq!(world.driver(0).counters().dialled, 1, "nothing waits any more");
    assert_eq!(world.driver(0).next_deadline(), Time::NEVER);
}

#[test]
fn one_busy_connection_does_not_delay_the_others() {
    let mut world = world();
    let flood = Rogue::open(&mut world, 1, Version::V3, ConnType::Control);
    let quiet = Rogue::open(&mut world, 3, Version::V3, ConnType::Control);
    let header = put_header(process(1), process(NODE), 1, 0);
    let message = [
        FrameHeader::LNET.encode(lustrine_wire::ByteOrder::Little).to_vec(),
        crate::testing::header_bytes(Version::V3, &header),
    ]
    .concat();
    world.net.say(flood.sock, &message.repeat(40_000));
    world.net.say(quiet.sock, &message);
    world.turn(0);
    let from = |world: &mut World, last| {
        world.core(0).arrived.iter().filter(|arrived| arrived.from == process(last)).count()
    };
    assert_eq!(from(&mut world, 3), 1);
    let flooded = from(&mut world, 1);
    assert!(flooded < 12_000, "{flooded} in one turn");
    assert!(world.driver(0).has_work());
    world.run();
    assert_eq!(from(&mut world, 1), 40_000);
}
