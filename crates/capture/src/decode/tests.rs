use lustrine_wire::header::{Body, MdHandle};
use lustrine_wire::hello::{ConnType, Ips};
use lustrine_wire::{Nid, PING_MATCH_BITS, PING_PORTAL, ProcessId, ping};
use proptest::prelude::*;

use super::*;

const MD: MdHandle = MdHandle { interface: 1, object: 2 };

/// A decoder and its surroundings.
struct Bench {
    decoder: Decoder,
    known: Correlations,
    events: VecDeque<Event>,
}

impl Bench {
    fn new(start: Start) -> Bench {
        Bench {
            decoder: Decoder::new(Direction::FromOpener, start, true),
            known: Correlations::new(),
            events: VecDeque::new(),
        }
    }

    fn with(&mut self, act: impl FnOnce(&mut Decoder, &mut Context<'_>)) -> &mut Bench {
        let cx = &mut Context {
            time_ns: 7,
            stream: 1,
            known: &mut self.known,
            events: &mut self.events,
        };
        act(&mut self.decoder, cx);
        self
    }

    fn data(&mut self, bytes: &[u8]) -> &mut Bench {
        self.with(|decoder, cx| decoder.data(cx, bytes))
    }

    fn gap(&mut self, missing: u64) -> &mut Bench {
        self.with(|decoder, cx| decoder.gap(cx, missing))
    }

    /// The reported events in short form: offset, length, kind.
    fn summary(&self) -> Vec<String> {
        self.events
            .iter()
            .map(|e| format!("{}+{} {}", e.offset, e.raw.len(), describe(e)))
            .collect()
    }
}

fn describe(event: &Event) -> String {
    match &event.item {
        Item::Message(message) => {
            format!("{} {:?}", message.header.body.kind().name(), message.format.version)
        }
        Item::Noop(noop) => format!("NOOP {:?}", noop.format.certainty),
        Item::Gap { missing } => format!("gap {missing}"),
        Item::Undecoded(why) => format!("{why:?}"),
        Item::Request(_) => "request".into(),
        Item::Hello(_) => "hello".into(),
        other => format!("{other:?}"),
    }
}

fn id(text: &str) -> ProcessId {
    ProcessId::lustre(text.parse().unwrap())
}

fn hello(version: Version, order: ByteOrder) -> Vec<u8> {
    let hello = Hello {
        version,
        order,
        src: id("10.0.0.1@tcp"),
        dst: id("10.0.0.2@tcp"),
        src_incarnation: 5,
        dst_incarnation: 0,
        kind: ConnType::Control,
        ips: Ips::NONE,
    };
    let mut out = Vec::new();
    hello.encode(&mut out).unwrap();
    out
}

fn request(order: ByteOrder) -> Vec<u8> {
    let mut out = Vec::new();
    let request = Request { order, ..Request::new("10.0.0.2@tcp".parse().unwrap()) };
    request.encode(&mut out).unwrap();
    out
}

/// A REPLY with a payload of zeroes.
fn reply(version: Version, order: ByteOrder, len: u32) -> Vec<u8> {
    let header = Header {
        dst: id("10.0.0.2@tcp"),
        src: id("10.0.0.1@tcp"),
        payload_len: len,
        body: Body::Reply { md: MD },
    };
    let mut out = Vec::new();
    if version != Version::V1 {
        out.extend_from_slice(&FrameHeader::LNET.encode(order));
    }
    if version == Version::V4 {
        let mut raw = [0; 96];
        header.encode_long(&mut raw);
        out.extend_from_slice(&raw);
    } else {
        let mut raw = [0; 72];
        header.encode_short(&mut raw).unwrap();
        out.extend_from_slice(&raw);
    }
    out.resize(out.len() + len as usize, 0);
    out
}

fn v3_reply(len: u32) -> Vec<u8> {
    reply(Version::V3, ByteOrder::Little, len)
}

#[test]
fn both_byte_orders_and_all_versions_decode() {
    // [HEL-4] [FRM-4]
    for (version, order) in [
        (Version::V1, ByteOrder::Little),
        (Version::V2, ByteOrder::Big),
        (Version::V3, ByteOrder::Big),
        (Version::V4, ByteOrder::Little),
        (Version::V4, ByteOrder::Big),
    ] {
        let mut bench = Bench::new(Start::Handshake);
        bench.data(&request(order)).data(&hello(version, order));
        bench.data(&reply(version, order, 5)).data(&reply(version, order, 0));
        let kinds: Vec<_> = bench.events.iter().map(describe).collect();
        let message = format!("REPLY {version:?}");
        assert_eq!(kinds, ["request", "hello", &message, &message]);
    }
}

#[test]
fn a_hole_within_a_payload_is_skipped() {
    let message = v3_reply(1000);
    let mut bench = Bench::new(Start::MidStream);
    bench.data(&message).data(&message[..300]).gap(500).data(&message[800..]).data(&message);
    assert_eq!(
        bench.summary(),
        [
            "0+1096 REPLY V3",
            "1096+300 Incomplete",
            "1396+0 gap 500",
            "1896+296 Incomplete",
            "2192+1096 REPLY V3",
        ]
    );
    let mut bench = Bench::new(Start::MidStream);
    bench.data(&message[..300]).gap(796).data(&message);
    assert_eq!(bench.summary(), ["0+300 Incomplete", "300+0 gap 796", "1096+1096 REPLY V3"]);
}

#[test]
fn the_next_boundary_is_found_after_a_larger_hole() {
    let message = v3_reply(50);
    for lost in [51, 100, 150] {
        let mut bench = Bench::new(Start::MidStream);
        let stream = [&message[..], &message, &message, &message].concat();
        let at = message.len() + 100 + lost;
        bench.data(&stream[..message.len() + 100]).gap(lost as u64).data(&stream[at..]);
        let last = bench.summary().pop().unwrap();
        assert_eq!(last, format!("{}+146 REPLY V3", 3 * message.len()), "{lost}");
    }
}

#[test]
fn a_stream_of_which_only_a_noop_is_known() {
    let noop = FrameHeader::KEEPALIVE.encode(ByteOrder::Little);
    let mut bench = Bench::new(Start::MidStream);
    bench.data(&noop).data(&reply(Version::V4, ByteOrder::Little, 3)).data(&noop);
    assert_eq!(bench.summary(), ["0+24 NOOP Assumed", "24+123 REPLY V4", "147+24 NOOP Inferred"]);
    let mut bench = Bench::new(Start::MidStream);
    bench.data(&noop).gap(48).data(&noop);
    assert_eq!(
        bench.summary(),
        ["0+24 NOOP Assumed", "24+0 gap 48", "72+24 NOOP Assumed"],
        "a connection that carries nothing but acknowledgements"
    );
}

#[test]
fn everything_after_an_error_is_reported_as_such() {
    let mut bench = Bench::new(Start::Handshake);
    bench.data(&request(ByteOrder::Little)).data(b"GET / HTTP/1.0\r\n").data(b"more");
    assert!(matches!(
        bench.events[1].item,
        Item::Undecoded(Undecoded::Hello(HelloError::BadMagic(_)))
    ));
    assert_eq!(bench.summary()[2], "32+4 AfterError");
    bench.with(|decoder, cx| decoder.end(cx));
    assert_eq!(bench.events.len(), 3);
}

#[test]
fn an_unfinished_message_is_reported_at_the_end() {
    let mut bench = Bench::new(Start::MidStream);
    bench.data(&v3_reply(50)[..140]).with(|decoder, cx| decoder.end(cx));
    assert_eq!(bench.summary(), ["0+140 CutOff"]);
}

#[test]
fn memory_is_given_back_on_demand() {
    let message = v3_reply(1 << 20);
    let mut bench = Bench::new(Start::MidStream);
    bench.data(&message[..500_000]);
    assert!(bench.decoder.held_bytes() >= 500_000);
    bench.with(|decoder, cx| decoder.shed(cx));
    assert_eq!(bench.decoder.held_bytes(), 0);
    bench.data(&message[500_000..]).data(&v3_reply(1));
    let summary = bench.summary();
    assert_eq!(summary[0], "0+500000 Incomplete");
    assert_eq!(summary.last().unwrap(), &format!("{}+97 REPLY V3", message.len()));
}

#[test]
fn connections_of_other_protocols_are_ignored() {
    for (start, first) in [(Start::Handshake, "SSH-2.0"), (Start::MidStream, &"x".repeat(200))] {
        for direction in [Direction::FromOpener, Direction::FromAcceptor] {
            let mut bench = Bench::new(start);
            bench.decoder = Decoder::new(direction, start, false);
            bench.data(first.as_bytes()).data(&v3_reply(1)).gap(5);
            bench.with(|decoder, cx| decoder.end(cx));
            bench.with(|decoder, cx| decoder.report(cx, Item::Fin));
            assert!(bench.events.is_empty(), "{:?}", bench.summary());
        }
    }
}

#[test]
fn the_answer_to_a_ping_is_known_by_its_handle() {
    // [PING-1]
    let nid: Nid = "10.0.0.1@tcp".parse().unwrap();
    let get = Header {
        dst: id("10.0.0.1@tcp"),
        src: id("10.0.0.2@tcp"),
        payload_len: 0,
        body: Body::Get {
            return_md: MD,
            match_bits: PING_MATCH_BITS,
            portal: PING_PORTAL,
            offset: 0,
            sink_len: 272,
        },
    };
    let mut known = Correlations::new();
    assert_eq!(content::look(&get, &[], &mut known), Content::Empty);
    let mut info = Vec::new();
    let entry = ping::PingEntry { nid, status: ping::NiStatus::Up };
    ping::PingInfo::build(ping::Features::NI_STATUS, 12345, 3, &[entry], &mut info);
    let reply =
        Header { dst: get.src, src: get.dst, payload_len: 48, body: Body::Reply { md: MD } };
    let Content::Ping(found) = content::look(&reply, &info, &mut known) else { panic!() };
    assert_eq!((found.sequence, found.entries), (3, vec![entry]));
    assert!(matches!(content::look(&reply, &info[..20], &mut known), Content::Malformed(_)));
}

proptest! {
    /// The events are the same however a stream is cut into pieces.
    #[test]
    fn any_chunking_gives_the_same_events(
        cuts in prop::collection::vec(0usize..3000, 0..20), version in 0usize..4
    ) {
        let version = [Version::V1, Version::V2, Version::V3, Version::V4][version];
        let le = ByteOrder::Little;
        let stream = [
            request(le), hello(version, le), reply(version, le, 1000), reply(version, le, 0),
            reply(version, le, 77), b"\xff\xff\xff\xffgarbage".repeat(20),
        ].concat();
        let mut whole = Bench::new(Start::Handshake);
        whole.data(&stream);
        let mut cuts = cuts;
        cuts.push(stream.len());
        cuts.sort_unstable();
        let mut pieces = Bench::new(Start::Handshake);
        let mut at = 0;
        for cut in cuts {
            let cut = cut.min(stream.len());
            pieces.data(&stream[at..cut]);
            at = cut;
        }
        let good = |bench: &Bench| bench.summary().into_iter().take(5).collect::<Vec<_>>();
        prop_assert_eq!(good(&pieces), good(&whole));
        let total = |bench: &Bench| bench.events.iter().map(|e| e.raw.len()).sum::<usize>();
        prop_assert!(total(&pieces) + pieces.decoder.buf.len() == stream.len());
    }

    /// Every byte is accounted for exactly once in arbitrary streams.
    #[test]
    fn arbitrary_streams_are_survived(
        pieces in prop::collection::vec(
            (0u8..8, prop::collection::vec(any::<u8>(), 0..150), 0u64..300), 0..20),
        midway in any::<bool>(),
    ) {
        let mut bench = Bench::new(if midway { Start::MidStream } else { Start::Handshake });
        let mut fed = 0;
        for (choice, noise, missing) in pieces {
            let bytes = match choice {
                0 => request(ByteOrder::Little),
                1 => hello(Version::V3, ByteOrder::Little),
                2 | 3 => v3_reply(40),
                4 => FrameHeader::noop(9).encode(ByteOrder::Little).to_vec(),
                5 => noise,
                6 => { bench.gap(missing); fed += missing; continue }
                _ => { bench.with(|decoder, cx| decoder.shed(cx)); continue }
            };
            fed += bytes.len() as u64;
            bench.data(&bytes);
        }
        bench.with(|decoder, cx| decoder.end(cx));
        let mut end = 0;
        for event in &bench.events {
            prop_assert_eq!(event.offset, end);
            end += event.raw.len() as u64;
            if let Item::Gap { missing } = event.item {
                end += missing;
            }
        }
        prop_assert_eq!(end, fed);
    }
}
