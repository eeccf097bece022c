use lustrine_lnet::memory::Span;
use lustrine_wire::ByteOrder;
use lustrine_wire::nid::ProcessId;
use proptest::prelude::*;
use slotmap::SlotMap;

use super::*;
use crate::testing::{Chaos, Net, TestIo, header_bytes, ip4, process, put_header};

const V3: Format = Format {
    version: Version::V3,
    sent: ByteOrder::Little,
    received: ByteOrder::Little,
    csum: false,
};
const V2: Format = Format { version: Version::V2, ..V3 };

/// What the core does with the message of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Store,
    StorePart,
    Discard,
}

#[derive(Clone, Debug)]
struct Message {
    len: usize,
    cookie: u64,
    choice: Choice,
    noop_before: bool,
}

fn payload(index: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + index) as u8).collect()
}

fn stream(format: Format, messages: &[Message]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        if message.noop_before && format.framed() {
            bytes.extend(FrameHeader::noop(100 + index as u64).encode(format.received));
        }
        let payload = payload(index, message.len);
        let header = put_header(process(1), process(2), index as u64, message.len as u32);
        if format.framed() {
            let frame = FrameHeader { zc_request: message.cookie, ..FrameHeader::LNET };
            bytes.extend(with_csum(format, frame, &header, &payload).encode(format.received));
        }
        bytes.extend(header_bytes(format.version, &header));
        bytes.extend(payload);
    }
    bytes
}

fn with_csum(format: Format, frame: FrameHeader, header: &Header, payload: &[u8]) -> FrameHeader {
    if !format.csum {
        return frame;
    }
    let sum = frame.csum_start(format.received);
    let sum = crc::update(sum, &header_bytes(format.version, header));
    FrameHeader { csum: crc::update(sum, payload), ..frame }
}

/// What came out of the reader: heads with their numbers, settled parts, stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Noop(u64),
    Head(u64),
    ReceivedMessage { cookie: u64, stored: u32, discarded: u32, intact: bool },
}

/// Feeds the reader as a driver would, with bytes cut after each of `cuts`; `direct` says whether
/// payload lands in place.
fn read(
    format: Format,
    bytes: &[u8],
    messages: &[Message],
    cuts: &[usize],
    direct: bool,
) -> (Vec<Seen>, Vec<Vec<u8>>) {
    let net = Net::new(1, Chaos::None);
    let mut io = TestIo::new(&net, 0, ip4(1));
    let mut ops: SlotMap<OpKey, ()> = SlotMap::with_key();
    let mut reader = Reader::new(format);
    let (mut seen, mut stored) = (Vec::new(), Vec::<Vec<Span>>::new());
    let mut number = 0;
    let mut held: Vec<u8> = Vec::new();
    let mut at = 0;
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        let end = (at + cut).min(bytes.len());
        held.extend_from_slice(&bytes[at..end]);
        at = end;
        let mut used = 0;
        loop {
            let rest = &held[used..];
            match reader.expected() {
                Expected::Head => match reader.head(rest).expect("a good stream") {
                    None => break,
                    Some((Head::Noop(frame), len)) => {
                        seen.push(Seen::Noop(frame.zc_ack));
                        used += len;
                    }
                    Some((Head::Message { header, .. }, len)) => {
                        used += len;
                        seen.push(Seen::Head(number as u64));
                        let wanted = match messages[number].choice {
                            Choice::Store => header.payload_len,
                            Choice::StorePart => header.payload_len / 2,
                            Choice::Discard => 0,
                        };
                        let spans: Spans = [wanted / 3, wanted - wanted / 3]
                            .into_iter()
                            .map(|len| io.memory.borrow_mut().alloc(len))
                            .collect();
                        stored.push(spans.to_vec());
                        let verdict = match messages[number].choice {
                            Choice::Discard => Verdict::Drop,
                            _ => Verdict::Into { op: ops.insert(()), spans },
                        };
                        number += 1;
                        let received = reader.decide(verdict).unwrap();
                        seen.extend(received.map(to_seen));
                    }
                },
                _ if rest.is_empty() => break,
                Expected::Payload => {
                    if direct {
                        let mut len = 0;
                        for span in reader.destination().0 {
                            let take = (span.len as usize).min(rest.len() - len);
                            Memory::write(&mut io, span, &rest[len..len + take]);
                            len += take;
                        }
                        reader.landed(&io, len);
                        used += len;
                    } else {
                        used += reader.copy_in(&mut io, rest);
                    }
                    seen.extend(reader.complete().map(to_seen));
                }
                Expected::Skip(left) => {
                    let len = rest.len().min(left as usize);
                    reader.skipped(len);
                    used += len;
                }
                Expected::Verdict => unreachable!("decided at once"),
            }
        }
        held.drain(..used);
    }
    assert!(held.is_empty() && !reader.within_message());
    let memory = io.memory.borrow();
    let payloads = stored
        .iter()
        .map(|spans| spans.iter().flat_map(|span| memory.bytes(*span).to_vec()).collect())
        .collect();
    (seen, payloads)
}

fn to_seen(received: ReceivedMessage) -> Seen {
    let ReceivedMessage { cookie, stored, discarded, intact, .. } = received;
    Seen::ReceivedMessage { cookie, stored, discarded, intact }
}

fn a_message() -> impl Strategy<Value = Message> {
    let choice = prop_oneof![Just(Choice::Store), Just(Choice::StorePart), Just(Choice::Discard)];
    let len = prop_oneof![Just(0), 1..300usize, 5000..20_000usize];
    (len, 0..5u64, choice, any::<bool>()).prop_map(|(len, cookie, choice, noop_before)| Message {
        len,
        cookie,
        choice,
        noop_before,
    })
}

fn a_format() -> impl Strategy<Value = Format> {
    let version =
        prop_oneof![Just(Version::V1), Just(Version::V2), Just(Version::V3), Just(Version::V4)];
    (version, any::<bool>(), any::<bool>()).prop_map(|(version, big, csum)| Format {
        version,
        sent: ByteOrder::Little,
        received: if big { ByteOrder::Big } else { ByteOrder::Little },
        csum: csum && version == Version::V2,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_chunking_gives_what_no_chunking_gives(
        format in a_format(),
        messages in prop::collection::vec(a_message(), 1..8),
        cuts in prop::collection::vec(prop_oneof![1..5usize, 1..200usize, 1..9000usize], 0..200),
        direct in any::<bool>(),
    ) {
        let bytes = stream(format, &messages);
        let whole = read(format, &bytes, &messages, &[], false);
        let cut = read(format, &bytes, &messages, &cuts, direct);
        prop_assert_eq!(&whole, &cut);
        for (index, message) in messages.iter().enumerate() {
            let wanted = match message.choice {
                Choice::Store => message.len,
                Choice::StorePart => message.len / 2,
                Choice::Discard => 0,
            };
            prop_assert_eq!(&whole.1[index], &payload(index, message.len)[..wanted]);
        }
        let intact = |seen: &Seen| !matches!(seen, Seen::ReceivedMessage { intact: false, .. });
        prop_assert!(whole.0.iter().all(intact));
    }

    #[test]
    fn no_bytes_make_the_reader_panic(
        version in prop_oneof![Just(Version::V1), Just(Version::V3), Just(Version::V4)],
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        fix in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if fix && bytes.len() > 24 {
            bytes[..4].copy_from_slice(&[0xc1, 0, 0, 0]);
        }
        let format = Format { version, ..V3 };
        let mut reader = Reader::new(format);
        if let Ok(Some((head, len))) = reader.head(&bytes) {
            prop_assert!(len <= bytes.len());
            if let Head::Message { header, .. } = head {
                prop_assert!(header.payload_len <= 1 << 20);
            }
        }
    }
}

/// One message through a reader; what `head` and, if that went well, storing gave.
fn one(format: Format, frame: FrameHeader, body: &[u8]) -> Result<bool, ProtocolViolation> {
    let header = put_header(process(1), process(2), 1, body.len() as u32);
    let mut bytes = frame.encode(format.received).to_vec();
    bytes.extend(header_bytes(format.version, &header));
    let net = Net::new(1, Chaos::None);
    let mut io = TestIo::new(&net, 0, ip4(1));
    let mut reader = Reader::new(format);
    reader.head(&bytes)?.expect("a whole head");
    let mut ops: SlotMap<OpKey, ()> = SlotMap::with_key();
    let span = io.memory.borrow_mut().alloc(body.len() as u32);
    let spans = [span].into_iter().collect();
    match reader.decide(Verdict::Into { op: ops.insert(()), spans })? {
        Some(received) => Ok(received.intact),
        None => {
            reader.copy_in(&mut io, body);
            Ok(reader.complete().expect("all is in").intact)
        }
    }
}

fn sum_of_all(format: Format, frame: FrameHeader, body: &[u8]) -> u32 {
    let header = put_header(process(1), process(2), 1, body.len() as u32);
    with_csum(Format { csum: true, ..format }, frame, &header, body).csum
}

/// [FRM-8], [FRM-10]
#[test]
fn r_csumv2_and_r_csumv2bad() {
    let frame = FrameHeader { zc_ack: 9, ..FrameHeader::LNET };
    for body in [&b""[..], b"payload"] {
        let good = sum_of_all(V2, frame, body);
        assert_eq!(one(V2, FrameHeader { csum: good, ..frame }, body), Ok(true));
        let bad = one(V2, FrameHeader { csum: good + 1, ..frame }, body);
        // Without payload the core never sees the header.
        assert_eq!(bad, if body.is_empty() { Err(ProtocolViolation::Checksum) } else { Ok(false) });
    }
}

/// [FRM-9]
#[test]
fn r_csumv3good_and_r_csumv3payloadonly() {
    let body = b"payload";
    for format in [V3, Format { version: Version::V4, ..V3 }] {
        let whole = sum_of_all(format, FrameHeader::LNET, body);
        assert_eq!(one(format, FrameHeader { csum: whole, ..FrameHeader::LNET }, body), Ok(false));
        let payload = crc::update(crc::INIT, body);
        assert_eq!(one(format, FrameHeader { csum: payload, ..FrameHeader::LNET }, body), Ok(true));
        let empty = FrameHeader { csum: 0x1ceb_857e, ..FrameHeader::LNET };
        assert_eq!(one(format, empty, b""), Err(ProtocolViolation::Checksum));
        let empty = FrameHeader { csum: crc::INIT, ..FrameHeader::LNET };
        assert_eq!(one(format, empty, b""), Ok(true));
    }
}

#[test]
fn checksums_of_noops() {
    let frame = FrameHeader::noop(7);
    let sum = FrameHeader { csum: 0x3d9e_3319, ..frame };
    let mut reader = Reader::new(V2);
    assert!(matches!(reader.head(&sum.encode(ByteOrder::Little)), Ok(Some((Head::Noop(_), 24)))));
    let bad = FrameHeader { csum: 1, ..frame };
    assert_eq!(
        reader.head(&bad.encode(ByteOrder::Little)).unwrap_err(),
        ProtocolViolation::Checksum
    );
    // V3 compares with the sum of nothing [FRM-9].
    let mut reader = Reader::new(V3);
    assert_eq!(
        reader.head(&sum.encode(ByteOrder::Little)).unwrap_err(),
        ProtocolViolation::Checksum
    );
    let nothing = FrameHeader { csum: crc::INIT, ..frame };
    assert!(matches!(reader.head(&nothing.encode(ByteOrder::Little)), Ok(Some(_))));
}

/// [FRM-10]
#[test]
fn a_checksum_is_not_looked_at_when_part_is_discarded() {
    let header = put_header(process(1), process(2), 1, 10);
    let frame = FrameHeader { csum: 0xbad, ..FrameHeader::LNET };
    let mut bytes = frame.encode(ByteOrder::Little).to_vec();
    bytes.extend(header_bytes(Version::V2, &header));
    let mut reader = Reader::new(V2);
    reader.head(&bytes).unwrap();
    let received = reader.decide(Verdict::Drop).unwrap().unwrap();
    assert!(received.intact);
    assert_eq!(
        (received.op, received.discarded, reader.expected()),
        (None, 10, Expected::Skip(10))
    );
}

/// [FRM-3]
#[test]
fn violations_have_names() {
    let mut reader = Reader::new(V3);
    let mut bytes = [0; 96];
    bytes[0] = 0xc5;
    assert_eq!(reader.head(&bytes).unwrap_err(), ProtocolViolation::FrameKind, "r_badksm");
    bytes[0] = 0xc1;
    bytes[24 + 24] = 7;
    assert_eq!(reader.head(&bytes).unwrap_err(), ProtocolViolation::Header, "r_badtype");
    bytes[24 + 24] = 1;
    bytes[24 + 28..24 + 32].copy_from_slice(&((1 << 20) + 1u32).to_le_bytes());
    let too_long = ProtocolViolation::Refused(HeaderViolation::PayloadTooLong);
    assert_eq!(reader.head(&bytes).unwrap_err(), too_long, "r_put1m1");
    bytes[24 + 24] = 2;
    let on_get = ProtocolViolation::Refused(HeaderViolation::PayloadOnAckOrGet);
    assert_eq!(reader.head(&bytes).unwrap_err(), on_get);
    assert!(!reader.within_message());
}

#[test]
fn a_parked_message_wants_nothing_until_it_is_decided() {
    let header = put_header(ProcessId::lustre(process(1).nid), process(2), 1, 4);
    let mut bytes = FrameHeader::LNET.encode(ByteOrder::Little).to_vec();
    bytes.extend(header_bytes(Version::V3, &header));
    let mut reader = Reader::new(V3);
    reader.head(&bytes).unwrap();
    assert_eq!(reader.decide(Verdict::Park), Ok(None));
    assert!(reader.parked() && reader.expected() == Expected::Verdict);
    assert_eq!(reader.destination(), (Spans::new(), true));
    let received = reader.decide(Verdict::Done).unwrap().unwrap();
    assert_eq!((received.stored, received.discarded), (0, 4));
    reader.skipped(4);
    assert!(!reader.within_message() && reader.abandoned().is_none());
}

/// What is summed up is read in portions, and nothing behind it goes where payload belongs.
#[test]
fn payload_with_a_checksum_is_read_in_portions() {
    let len = SUM_PORTION + 100;
    let header = put_header(process(1), process(2), 1, len);
    for (csum, portion, rest) in [(0, len, true), (7, SUM_PORTION, false)] {
        let frame = FrameHeader { csum, ..FrameHeader::LNET };
        let mut bytes = frame.encode(ByteOrder::Little).to_vec();
        bytes.extend(header_bytes(Version::V2, &header));
        let mut reader = Reader::new(V2);
        reader.head(&bytes).unwrap();
        let spans = Spans::from_slice(&[Span { region: 0, offset: 0, len }]);
        let op = SlotMap::<OpKey, ()>::with_key().insert(());
        assert_eq!(reader.decide(Verdict::Into { op, spans }), Ok(None));
        let (next, is_rest) = reader.destination();
        assert_eq!((total_len(&next), is_rest), (portion, rest));
    }
}
