use super::*;

#[test]
fn questions_of_icmp_are_packets_of_it() {
    let echo = IcmpQuestion::Echo { id: 7, sequence: 9, payload: 3 }.encode();
    assert_eq!((echo[0], echo.len()), (8, 11));
    let clock = IcmpQuestion::Clock { id: 7, sequence: 9, now_ms: 0x0102_0304 }.encode();
    assert_eq!((clock[0], clock.len(), &clock[8..12]), (13, 20, &[1, 2, 3, 4][..]));
    // The answer to the echo, behind an IP header without options.
    let mut packet = vec![0x45, 0, 0, 31, 0, 0, 0, 0, 61, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    packet.extend([0, 0, 0, 0, 0, 7, 0, 9, 0, 0, 0]);
    let answer = IcmpAnswer::parse(&packet).unwrap();
    assert_eq!(answer.message, IcmpMessage::Echo { id: 7, sequence: 9 });
    assert_eq!((answer.from.octets(), hops_of_ttl(answer.ttl)), ([10, 0, 0, 2], 4));
}

#[test]
fn clocks_are_compared_across_midnight() {
    let clock = |asked_ms, received_ms, answered_ms| IcmpMessage::Clock {
        id: 1,
        sequence: 1,
        asked_ms,
        received_ms,
        answered_ms,
    };
    assert_eq!(clock(1000, 1025, 1025).clock_difference(1050), Some(0));
    assert_eq!(clock(86_399_990, 5, 5).clock_difference(30), Some(-5));
    assert_eq!(clock(1000, 4_600_000, 4_600_000).clock_difference(1000), Some(4_599_000));
    assert_eq!(clock(1000, 1 << 31, 0).clock_difference(1000), None);
    assert_eq!(IcmpMessage::Other.clock_difference(1), None);
}
