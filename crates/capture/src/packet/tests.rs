use etherparse::PacketBuilder;
use proptest::prelude::*;

use super::*;

fn tcp(builder: etherparse::PacketBuilderStep<etherparse::IpHeaders>) -> Vec<u8> {
    let mut out = Vec::new();
    builder.tcp(1023, 988, 77, 1000).ack(55).write(&mut out, b"hello").unwrap();
    out
}

fn raw() -> Vec<u8> {
    tcp(PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64))
}

fn check(link: LinkType, bytes: &[u8]) {
    let segment = Frame { time_ns: 0, link, bytes }.segment().unwrap();
    assert_eq!((segment.source.port(), segment.target.port()), (1023, 988));
    assert_eq!((segment.seq, segment.ack), (77, Some(55)));
    assert_eq!(segment.payload, b"hello");
}

#[test]
fn every_link_type_is_read() {
    let ethernet = || PacketBuilder::ethernet2([1; 6], [2; 6]);
    let mut bytes = tcp(ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64));
    check(LinkType::Ethernet, &bytes);
    bytes.extend([0; 20]);
    check(LinkType::Ethernet, &bytes);
    check(
        LinkType::Ethernet,
        &tcp(ethernet()
            .single_vlan(etherparse::VlanId::try_new(7).unwrap())
            .ipv6([1; 16], [2; 16], 64)),
    );
    check(LinkType::Raw, &raw());
    check(LinkType::Raw, &tcp(PacketBuilder::ipv6([1; 16], [2; 16], 64)));
    check(LinkType::Loopback, &[&[2, 0, 0, 0], &raw()[..]].concat());
    let mut cooked = vec![0; 16];
    cooked[14] = 0x08;
    check(LinkType::LinuxCooked, &[&cooked, &raw()[..]].concat());
    let mut cooked = vec![0; 20];
    cooked[0] = 0x08;
    check(LinkType::LinuxCooked2, &[&cooked, &raw()[..]].concat());
}

#[test]
fn link_types_have_the_numbers_of_capture_files() {
    assert_eq!(LinkType::from_number(1), Some(LinkType::Ethernet));
    assert_eq!(LinkType::from_number(276), Some(LinkType::LinuxCooked2));
    assert_eq!(LinkType::from_number(105), None);
}

/// The IP header of a frame longer than 64 KiB, as segmentation offload makes them, cannot hold its
/// length.
#[test]
fn an_offloaded_frame_without_length_is_read() {
    let mut bytes = raw();
    bytes[2..4].copy_from_slice(&[0, 0]);
    check(LinkType::Raw, &bytes);
}

#[test]
fn a_cut_frame_keeps_the_bytes_that_it_has() {
    let bytes = raw();
    let bytes = &bytes[..bytes.len() - 2];
    let segment = Frame { time_ns: 0, link: LinkType::Raw, bytes }.segment().unwrap();
    assert_eq!(segment.payload, b"hel");
}

#[test]
fn other_packets_are_not_segments() {
    let mut udp = Vec::new();
    PacketBuilder::ipv4([1; 4], [2; 4], 64).udp(988, 988).write(&mut udp, b"x").unwrap();
    assert_eq!(Frame { time_ns: 0, link: LinkType::Raw, bytes: &udp }.segment(), None);
    let mut fragment = raw();
    fragment[7] = 100;
    assert_eq!(Frame { time_ns: 0, link: LinkType::Raw, bytes: &fragment }.segment(), None);
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_survived(
        bytes in prop::collection::vec(any::<u8>(), 0..120), number in 0i32..280,
    ) {
        if let Some(link) = LinkType::from_number(number) {
            let _ = Frame { time_ns: 0, link, bytes: &bytes }.segment();
        }
        for link in [LinkType::Raw, LinkType::LinuxCooked, LinkType::LinuxCooked2] {
            let _ = Frame { time_ns: 0, link, bytes: &bytes }.segment();
        }
    }
}
