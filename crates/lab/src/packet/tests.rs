use proptest::prelude::*;

use super::*;

/// A train of TCP segments as a TUN device gives it: IPv4, 32 bytes of TCP header.
pub(crate) fn tcp_train(payload: usize, segment: u16, ports: (u16, u16)) -> Vec<u8> {
    let mut read = vec![0; OFFLOAD_HEADER + 52 + payload];
    let (offload, ip) = read.split_at_mut(OFFLOAD_HEADER);
    offload[0] = NEEDS_CHECKSUM;
    if payload > usize::from(segment) {
        offload[1] = GSO_TCPV4;
        offload[4..6].copy_from_slice(&segment.to_ne_bytes());
    }
    offload[2..4].copy_from_slice(&52u16.to_ne_bytes());
    offload[6..8].copy_from_slice(&20u16.to_ne_bytes());
    offload[8..10].copy_from_slice(&16u16.to_ne_bytes());
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((52 + payload) as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&0xfffeu16.to_be_bytes());
    ip[8] = 64;
    ip[9] = TCP;
    ip[12..16].copy_from_slice(&[10, 99, 0, 1]);
    ip[16..20].copy_from_slice(&[10, 99, 0, 2]);
    ip[20..22].copy_from_slice(&ports.0.to_be_bytes());
    ip[22..24].copy_from_slice(&ports.1.to_be_bytes());
    ip[24..28].copy_from_slice(&0xffff_ff00u32.to_be_bytes());
    ip[32] = 8 << 4;
    ip[33] = TCP_CWR | TCP_PSH | TCP_FIN | 0x10;
    for (at, byte) in ip[52..].iter_mut().enumerate() {
        *byte = (at % 251) as u8;
    }
    read
}

/// A packet that is not TCP: UDP of this many bytes of IP.
pub(crate) fn udp(ip_bytes: usize, ports: (u16, u16)) -> Vec<u8> {
    let mut read = tcp_train(ip_bytes.max(60) - 52, u16::MAX, ports);
    read.truncate(OFFLOAD_HEADER + ip_bytes);
    read[OFFLOAD_HEADER + 9] = UDP;
    read
}

/// The packet that a part of a train becomes.
fn part(read: &[u8], first: u32, count: u32) -> Vec<u8> {
    let train = Train::parse(read).unwrap();
    let mut headers = [0; CUT_MAX];
    let (len, rest) = train.cut(read, first, count, &mut headers);
    [&headers[..len], &read[rest]].concat()
}

#[test]
fn a_train_is_as_many_packets_as_the_wire_carries() {
    let read = tcp_train(4000, 1448, (1, 2));
    let train = Train::parse(&read).unwrap();
    assert_eq!(train.segments(), 3);
    assert_eq!([0, 1, 2].map(|at| train.packet_bytes(at)), [1500, 1500, 52 + 1104]);
    let single = Train::parse(&udp(1500, (1, 2))).unwrap();
    assert_eq!((single.segments(), single.packet_bytes(0)), (1, 1500));
}

/// 1448 of 1538 and 8948 of 9038 bytes are payload of TCP with timestamps.
#[test]
fn the_wire_carries_frames() {
    assert_eq!((wire_bytes(1500), wire_bytes(9000)), (1538, 9038));
    // The shortest frame, with preamble and gap.
    assert_eq!(wire_bytes(40), 84);
}

#[test]
fn a_part_of_a_train_has_headers_of_its_own() {
    let read = tcp_train(4000, 1448, (1, 2));
    let middle = part(&read, 1, 1);
    let (offload, ip) = middle.split_at(OFFLOAD_HEADER);
    assert_eq!((offload[0], offload[1]), (NEEDS_CHECKSUM, GSO_NONE));
    assert_eq!(u16_at(ip, 2), Some(1500));
    assert_eq!(u16_at(ip, 4), Some(0xffff), "one more than the first");
    assert_eq!(folded(sum(&ip[..20])), 0xffff, "the checksum of the header is right");
    assert_eq!(u32_at(ip, 24), Some(1448 - 256), "its number, which wraps around");
    assert_eq!(ip[33], 0x10, "neither the first (CWR) nor the last (PSH, FIN)");
    assert_eq!(ip[52..], read[OFFLOAD_HEADER + 52 + 1448..][..1448]);
    let last = part(&read, 1, 2);
    assert_eq!(last[1], GSO_TCPV4, "two segments are a train again");
    assert_eq!(u32_at(&last[OFFLOAD_HEADER..], 24), Some(1448 - 256));
    assert_eq!(last[OFFLOAD_HEADER + 33], TCP_PSH | TCP_FIN | 0x10);
    assert_eq!(part(&read, 0, 3), read, "the whole train is not changed");
}

/// The sum over the pseudo header and the length is what the kernel starts a checksum with.
#[test]
fn the_checksum_is_prepared_for_the_new_length() {
    let read = tcp_train(3000, 1448, (1, 2));
    let ip = &part(&read, 2, 1)[OFFLOAD_HEADER..];
    let tcp_bytes = 32 + (3000 - 2 * 1448);
    let pseudo = [10, 99, 0, 1, 10, 99, 0, 2, 0, TCP, 0, tcp_bytes as u8];
    assert_eq!(u16_at(ip, 36), Some(folded(sum(&pseudo))));
}

#[test]
fn what_is_no_packet_is_refused() {
    let good = tcp_train(4000, 1448, (1, 2));
    assert!(Train::parse(&good[..OFFLOAD_HEADER]).is_err(), "no packet at all");
    for (at, value, what) in [
        (1, 3, "a train of UDP"),
        (1, 5, "a train of UDP with another header"),
        (0, 0, "a train whose checksum is complete"),
        (6, 200, "a TCP header after the end of what can be one"),
        (OFFLOAD_HEADER, 0x15, "neither IPv4 nor IPv6"),
        (OFFLOAD_HEADER + 32, 0, "a TCP header of no length"),
    ] {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(Train::parse(&bad), Err(Malformed), "{what}");
    }
}

#[test]
fn streams_differ_by_their_ports_and_hosts_do_not() {
    let [one, two] = [(1, 2), (1, 3)].map(|ports| Train::parse(&udp(100, ports)).unwrap());
    assert_eq!(one.hosts(), two.hosts());
    assert_ne!(one.streams(), two.streams());
}

proptest! {
    /// The parts of a train together are its bytes, each with the number of its first byte.
    #[test]
    fn parts_are_the_whole(
        payload in 1usize..60_000,
        segment in 100u16..9000,
        at in any::<prop::sample::Index>(),
    ) {
        let read = tcp_train(payload, segment, (1, 2));
        let train = Train::parse(&read).unwrap();
        let count = train.segments();
        prop_assert_eq!(count as usize, payload.div_ceil(usize::from(segment)));
        let wire: u64 = (0..count).map(|at| train.packet_bytes(at)).sum();
        prop_assert_eq!(wire, u64::from(count) * 52 + payload as u64);
        let cut = at.index(count as usize) as u32;
        if cut > 0 {
            let (one, two) = (part(&read, 0, cut), part(&read, cut, count - cut));
            let header = OFFLOAD_HEADER + 52;
            prop_assert_eq!([&one[header..], &two[header..]].concat(), &read[header..]);
            let number = |part: &[u8]| u32_at(part, OFFLOAD_HEADER + 24).unwrap();
            let before = (one.len() - header) as u32;
            prop_assert_eq!(number(&two), number(&one).wrapping_add(before));
            for part in [&one, &two] {
                let part = Train::parse(part).unwrap();
                prop_assert!(part.segments() == cut || part.segments() == count - cut);
            }
        }
    }

    /// Nothing that a device gives makes it panic.
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400), gso in 0u8..6) {
        let mut bytes = bytes;
        if let [flags, kind, ..] = &mut bytes[..] {
            (*flags, *kind) = (NEEDS_CHECKSUM, gso);
        }
        if let Ok(train) = Train::parse(&bytes) {
            let count = train.segments();
            let mut headers = [0; CUT_MAX];
            for at in 0..count {
                let (len, rest) = train.cut(&bytes, at, 1, &mut headers);
                prop_assert!(count == 1 || train.packet_bytes(at)
                    == (len - OFFLOAD_HEADER + rest.len()) as u64);
            }
        }
    }
}
