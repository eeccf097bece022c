use etherparse::PacketBuilder;
use lustrine_wire::Nid;
use lustrine_wire::acceptor::Request;
use proptest::prelude::*;

use super::*;
use crate::packet::LinkType;

/// A TCP segment for a test; fields that are not set are zero.
#[derive(Debug, Clone, Default)]
struct Tcp {
    /// From the listener.
    back: bool,
    port: u16,
    seq: u32,
    ack: Option<u32>,
    flags: &'static str,
    payload: Vec<u8>,
}

impl Tcp {
    fn frame(&self, listener: u16) -> Vec<u8> {
        let (a, b) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let ((from, source), (to, target)) = if self.back {
            ((b, listener), (a, self.port))
        } else {
            ((a, self.port), (b, listener))
        };
        let mut tcp = PacketBuilder::ipv4(from, to, 64).tcp(source, target, self.seq, 1000);
        if let Some(ack) = self.ack {
            tcp = tcp.ack(ack);
        }
        if self.flags.contains('S') {
            tcp = tcp.syn();
        }
        if self.flags.contains('F') {
            tcp = tcp.fin();
        }
        if self.flags.contains('R') {
            tcp = tcp.rst();
        }
        let mut out = Vec::new();
        tcp.write(&mut out, &self.payload).unwrap();
        out
    }
}

fn run_on(listener: u16, limits: Limits, segments: &[Tcp]) -> (Dissector, Vec<Event>) {
    let mut dissector = Dissector::new(limits);
    let mut events = Vec::new();
    for segment in segments {
        let bytes = segment.frame(listener);
        dissector.frame(&Frame { time_ns: 1, link: LinkType::Raw, bytes: &bytes });
        events.extend(std::iter::from_fn(|| dissector.poll_event()));
    }
    (dissector, events)
}

fn run(segments: &[Tcp]) -> Vec<String> {
    let (mut dissector, mut events) = run_on(988, Limits::default(), segments);
    dissector.finish();
    assert_eq!(dissector.held, 0, "all memory is given back");
    events.extend(std::iter::from_fn(|| dissector.poll_event()));
    events.iter().map(describe).collect()
}

fn describe(event: &Event) -> String {
    let side = match event.direction {
        Direction::FromOpener => '>',
        Direction::FromAcceptor => '<',
    };
    let what = match &event.item {
        Item::Opened { opener, start, .. } => format!("opened {} {start:?}", opener.port()),
        Item::Request(_) => "request".into(),
        Item::Undecoded(why) => format!("{why:?}"),
        other => format!("{other:?}"),
    };
    format!("{}{side} {what}", event.stream)
}

fn request() -> Vec<u8> {
    let mut out = Vec::new();
    Request::new(Nid::LO).encode(&mut out).unwrap();
    out
}

fn syn(seq: u32) -> Tcp {
    Tcp { port: 1023, seq, flags: "S", ..Tcp::default() }
}

fn data(seq: u32, ack: u32, payload: &[u8]) -> Tcp {
    Tcp { port: 1023, seq, ack: Some(ack), payload: payload.to_vec(), ..Tcp::default() }
}

#[test]
fn a_connection_is_decoded_from_handshake_to_fin() {
    let summary = run(&[
        syn(99),
        Tcp { back: true, ack: Some(100), ..syn(499) },
        data(100, 500, &request()),
        Tcp { flags: "F", ..data(116, 500, &[]) },
        Tcp { back: true, flags: "F", ..data(500, 117, &[]) },
    ]);
    assert_eq!(summary, ["1> opened 1023 Handshake", "1> request", "1> Fin", "1< Fin"]);
}

#[test]
fn ends_that_are_used_again_are_a_new_connection() {
    let first = [syn(99), data(100, 500, &request())];
    let again = [syn(5000), data(5001, 900, &request())];
    let summary = run(&[&first[..], &again].concat());
    assert_eq!(
        summary,
        ["1> opened 1023 Handshake", "1> request", "2> opened 1023 Handshake", "2> request",]
    );
    let summary = run(&[syn(99), syn(99), data(100, 500, &request()), syn(99)]);
    assert_eq!(summary, ["1> opened 1023 Handshake", "1> request"], "a repeated SYN is none");
}

/// The case of `rogue/r_race_high_none`: the listener still has the old connection, answers the new
/// SYN with an acknowledgement of the old connection, and receives a reset.
#[test]
fn segments_of_an_earlier_connection_are_ignored() {
    let summary = run(&[
        syn(2_776_496_013),
        Tcp { back: true, ..data(887_086_347, 2_776_430_476, &[]) },
        Tcp { flags: "R", ack: None, ..data(2_776_430_476, 0, &[]) },
        syn(2_776_496_013),
        Tcp { back: true, ack: Some(2_776_496_014), ..syn(1_096_521_853) },
        data(2_776_496_014, 1_096_521_854, &request()),
    ]);
    assert_eq!(summary, ["1> opened 1023 Handshake", "1> request"]);
}

#[test]
fn refused_and_broken_connections_are_reported() {
    let refused = Tcp { back: true, flags: "R", ..data(0, 100, &[]) };
    let summary = run(&[syn(99), refused, syn(99), data(100, 7, &request()[..9])]);
    assert_eq!(
        summary,
        ["1> opened 1023 Handshake", "1< Reset", "2> opened 1023 Handshake", "2> CutOff"]
    );
    let summary =
        run(&[syn(99), data(100, 7, &request()[..9]), Tcp { flags: "R", ..data(109, 7, &[]) }]);
    assert_eq!(summary, ["1> opened 1023 Handshake", "1> Reset", "1> CutOff"]);
}

#[test]
fn a_connection_without_its_start_is_decoded_from_either_side() {
    let summary = run(&[Tcp { back: true, ..data(500, 117, &[]) }]);
    assert_eq!(summary, ["1> opened 1023 MidStream"]);
}

#[test]
fn other_ports_are_reported_only_if_lnet_uses_them() {
    let (_, events) = run_on(22, Limits::default(), &[syn(9), data(10, 1, b"SSH-2.0-x")]);
    assert!(events.is_empty());
    let (_, events) = run_on(989, Limits::default(), &[syn(9), data(10, 1, &request())]);
    let summary: Vec<_> = events.iter().map(describe).collect();
    assert_eq!(summary, ["1> opened 1023 Handshake", "1> request"]);
}

#[test]
fn the_oldest_connection_is_forgotten_when_the_table_is_full() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let segments: Vec<_> = (1..=50).map(|port| Tcp { port, ..syn(9) }).collect();
    let (dissector, _) = run_on(988, limits, &segments);
    assert_eq!((dissector.connections.len(), dissector.age.len()), (3, 3));
    assert_eq!(dissector.stats().streams, 50);
}

#[test]
fn memory_is_bounded() {
    let limits = Limits { held_per_direction: 10_000, held_total: 50_000, ..Limits::default() };
    let mut segments = Vec::new();
    for port in 1..=200 {
        segments.push(Tcp { port, ..syn(9) });
        // Everything comes after a hole, so everything must be held back.
        let chunk = |i: u32| Tcp { port, ..data(20 + 2000 * i, 1, &[0xee; 1000]) };
        segments.extend((0..20).map(chunk));
    }
    let (dissector, events) = run_on(988, limits, &segments);
    assert!(dissector.held <= limits.held_total, "{}", dissector.held);
    assert!(events.iter().any(|event| matches!(event.item, Item::Gap { .. })));
}

/// Other protocols, and connections that have ended, leave the memory to what is not complete.
#[test]
fn connections_that_hold_nothing_cost_no_memory() {
    let mut segments = Vec::new();
    for port in 1..=50 {
        segments.extend([Tcp { port, ..syn(9) }, Tcp { port, ..data(10, 1, &[b'x'; 1400]) }]);
    }
    let (dissector, _) = run_on(22, Limits::default(), &segments);
    assert_eq!((dissector.connections.len(), dissector.held), (50, 0));
    let first = request();
    let whole = |port| [Tcp { port, ..syn(9) }, Tcp { port, ..data(10, 1, &first) }];
    let segments: Vec<_> = (1..=50).flat_map(whole).collect();
    let (dissector, events) = run_on(988, Limits::default(), &segments);
    assert_eq!((dissector.held, events.len()), (0, 100));
}

/// What opens a connection decides how all that follows is read.
#[test]
fn a_part_of_what_opens_a_connection_is_kept_when_memory_is_short() {
    let limits = Limits { held_total: 8, ..Limits::default() };
    let bytes = request();
    let (head, tail) = bytes.split_at(12);
    let (_, events) = run_on(988, limits, &[syn(9), data(10, 1, head), data(22, 1, tail)]);
    let summary: Vec<_> = events.iter().map(describe).collect();
    assert_eq!(summary, ["1> opened 1023 Handshake", "1> request"]);
}

proptest! {
    #[test]
    fn arbitrary_segments_are_survived(
        list in prop::collection::vec(
            (any::<bool>(), 0u32..600, prop::option::of(0u32..600), 0usize..9, 0usize..120), 0..60),
    ) {
        let limits = Limits { connections: 2, held_per_direction: 200, held_total: 600 };
        let flags = ["S", "F", "R", "", "", "", "", "", "SF"];
        let segments: Vec<Tcp> = list
            .into_iter()
            .map(|(back, seq, ack, flag, len)| Tcp {
                back,
                port: 1000 + (len % 3) as u16,
                seq: seq.wrapping_sub(300),
                ack,
                flags: flags[flag],
                payload: request().into_iter().cycle().take(len).collect(),
            })
            .collect();
        let (mut dissector, _) = run_on(988, limits, &segments);
        prop_assert!(dissector.held <= limits.held_total + 400);
        dissector.finish();
        prop_assert_eq!(dissector.held, 0);
        prop_assert!(dissector.connections.is_empty());
    }
}
