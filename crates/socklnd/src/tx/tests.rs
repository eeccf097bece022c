use lustrine_lnet::memory::Memory as _;
use lustrine_wire::ByteOrder;
use lustrine_wire::header::{Body, MdHandle};
use lustrine_wire::hello::Version;
use lustrine_wire::nid::{Net as WireNet, Nid, ProcessId};
use slotmap::SlotMap;

use super::*;
use crate::io::Readiness;
use crate::testing::{Chaos, Net, TestIo, header_bytes, ip4, process, put_header};

const PLAIN: Format = Format {
    version: Version::V3,
    sent: ByteOrder::Little,
    received: ByteOrder::Little,
    csum: false,
};

/// A stream whose other end the test listens at.
struct Line {
    net: Net,
    io: TestIo,
    sock: SockId,
    far: SockId,
    ops: SlotMap<OpKey, ()>,
    tx: Tx,
    heard: Vec<u8>,
    calls: u64,
}

impl Line {
    fn new(chaos: Chaos) -> Line {
        let net = Net::new(3, chaos);
        let address = core::net::SocketAddr::new(ip4(9), 988);
        net.listen(address, None);
        let mut io = TestIo::new(&net, 0, ip4(1));
        let sock = io.connect(None, crate::io::SourcePort::Any, address).unwrap();
        let far = net.take_incoming(None).unwrap().sock;
        let (ops, tx) = (SlotMap::with_key(), Tx::default());
        Line { net, io, sock, far, ops, tx, heard: Vec::new(), calls: 0 }
    }

    fn push(
        &mut self,
        format: Format,
        payload: &[u8],
        piece: u32,
        cookies: Cookies,
    ) -> (OpKey, SendProgress) {
        let op = self.ops.insert(());
        let header = put_header(process(1), process(2), 5, payload.len() as u32);
        let spans: Vec<Span> = payload
            .chunks(piece as usize)
            .map(|chunk| self.io.memory.borrow_mut().filled(chunk))
            .collect();
        let progress = self.tx.push_message(&self.io, format, op, &header, &spans, cookies);
        (op, progress.expect("short NIDs"))
    }

    /// Writes as much as goes; returns what was finished by it.
    fn write(&mut self) -> Vec<Finished> {
        let mut written = WriteTotals::default();
        self.tx.write(&mut self.io, self.sock, u64::MAX / 2, &mut written).unwrap();
        self.calls += written.calls;
        self.heard.extend(self.net.hear(self.far));
        std::iter::from_fn(|| self.tx.finished()).collect()
    }

    fn write_all(&mut self) -> Vec<Finished> {
        let mut finished = Vec::new();
        while self.tx.waiting() != 0 {
            finished.extend(self.write());
        }
        finished
    }
}

fn expected(payload: &[u8], cookies: Cookies) -> Vec<u8> {
    let frame =
        FrameHeader { zc_request: cookies.request, zc_ack: cookies.ack, ..FrameHeader::LNET };
    let header = put_header(process(1), process(2), 5, payload.len() as u32);
    let mut bytes = frame.encode(ByteOrder::Little).to_vec();
    bytes.extend(header_bytes(Version::V3, &header));
    bytes.extend_from_slice(payload);
    bytes
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 7 + index / 251) as u8).collect()
}

#[test]
fn many_small_messages_leave_in_one_write_and_count_as_sent_at_once() {
    let mut line = Line::new(Chaos::None);
    let mut bytes = Vec::new();
    for len in 0..64 {
        let payload = pattern(len * 4);
        let (_, progress) = line.push(PLAIN, &payload, 4096, Cookies::default());
        assert_eq!(progress, SendProgress::Sent);
        bytes.extend(expected(&payload, Cookies::default()));
    }
    assert_eq!(line.write_all(), []);
    assert_eq!((line.calls, &line.heard), (1, &bytes));
}

#[test]
fn what_is_staged_beyond_the_bound_is_sent_when_written() {
    let mut line = Line::new(Chaos::None);
    let mut late = Vec::new();
    for index in 0..40 {
        let (op, progress) = line.push(PLAIN, &[index; 4096], 4096, Cookies::default());
        let staged = (usize::from(index) + 1) * (4096 + 96);
        assert_eq!(progress == SendProgress::Sent, staged <= 64 * 1024, "{staged}");
        if progress == SendProgress::Pending {
            late.push(Finished::Op(op));
        }
    }
    assert!(line.tx.has_room());
    assert_eq!(line.write_all(), late);
}

#[test]
fn a_connection_has_room_only_for_so_much() {
    let mut line = Line::new(Chaos::None);
    let mut progress = 0;
    while line.tx.has_room() {
        line.push(PLAIN, &[1; 4096], 4096, Cookies::default());
        progress += 1;
        assert!(progress <= STAGED_MAX / 4096 + 1);
    }
    assert_eq!(line.tx.waiting(), progress as u64 * (4096 + 96));
    line.write_all();
    while line.tx.has_room() {
        line.push(PLAIN, &[1; 5000], 100, Cookies::default());
    }
    assert!(line.tx.segments.len() <= SEGMENTS_MAX + 51);
}

#[test]
fn large_payloads_stay_where_they_are_and_finish_in_order() {
    for chaos in [Chaos::None, Chaos::Chunks] {
        let mut line = Line::new(chaos);
        let mut bytes = Vec::new();
        let mut late = Vec::new();
        for (len, piece) in [(10, 10), (4097, 5000), (100_000, 4096), (0, 1), (70_000, 70_000)] {
            let payload = pattern(len);
            let cookies = Cookies { request: 0, ack: len as u64 };
            let (op, progress) = line.push(PLAIN, &payload, piece, cookies);
            assert_eq!(progress == SendProgress::Sent, len <= 4096);
            if progress == SendProgress::Pending {
                late.push(Finished::Op(op));
            }
            bytes.extend(expected(&payload, cookies));
        }
        assert_eq!(line.write_all(), late);
        assert_eq!(line.heard, bytes);
        assert_eq!(line.tx.abandoned().count(), 0);
    }
}

#[test]
fn zero_copy_writes_carry_payload_alone() {
    for chaos in [Chaos::None, Chaos::Chunks] {
        let mut line = Line::new(chaos);
        let mut bytes = Vec::new();
        for request in [2, 3] {
            let payload = pattern(50_000);
            let cookies = Cookies { request, ack: 0 };
            let (_, progress) = line.push(PLAIN, &payload, 20_000, cookies);
            assert_eq!(progress, SendProgress::Pending);
            bytes.extend(expected(&payload, cookies));
        }
        let finished = line.write_all();
        assert_eq!(finished, [Finished::Cookie(2), Finished::Cookie(3)]);
        assert_eq!(line.heard, bytes);
        let (two, three) = (line.tx.in_system(2), line.tx.in_system(3));
        assert!(two >= 1 && three >= 1);
        if chaos == Chaos::None {
            assert_eq!((two, three, line.calls), (1, 1, 4));
        }
        let released: Vec<u64> = std::iter::from_fn(|| line.tx.released()).collect();
        assert_eq!(released, [vec![2; two], vec![3; three]].concat());
    }
}

#[test]
fn the_budget_ends_a_round() {
    let mut line = Line::new(Chaos::None);
    for _ in 0..3 {
        line.push(PLAIN, &pattern(100_000), 100_000, Cookies::default());
    }
    let mut written = WriteTotals::default();
    line.net.set_window(100_000);
    let wrote = line.tx.write(&mut line.io, line.sock, 50_000, &mut written).unwrap();
    assert_eq!((wrote, written.bytes), (WriteEnd::Blocked, 100_000));
    line.net.hear(line.far);
    line.net.set_window(usize::MAX);
    let wrote = line.tx.write(&mut line.io, line.sock, 50_000, &mut written).unwrap();
    assert_eq!(wrote, WriteEnd::All, "one write moved all that was left");
}

/// Worked example E3 of the wire specification. [FRM-8]
#[test]
fn checksum_of_example_e3() {
    let mut line = Line::new(Chaos::None);
    let address = |last: u32| ProcessId::lustre(Nid::new4(WireNet::TCP, 0x0a00_0000 + last));
    let handle = MdHandle { interface: 0x17a0_0000_0000_0011, object: 0x41 };
    let header = Header {
        dst: address(2),
        src: address(1),
        payload_len: 5,
        body: Body::Put {
            ack_md: handle,
            match_bits: 0x1122_3344_5566_7788,
            hdr_data: 0xdead,
            portal: 30,
            offset: 0,
        },
    };
    let span = line.io.memory.borrow_mut().filled(b"hello");
    let format = Format { version: Version::V2, csum: true, ..PLAIN };
    let op = line.ops.insert(());
    line.tx.push_message(&line.io, format, op, &header, &[span], Cookies::default()).unwrap();
    line.tx.push_noop(format, FrameHeader::noop(7));
    line.write_all();
    assert_eq!(line.heard[4..8], 0x4d2c_c3e3_u32.to_le_bytes());
    assert_eq!(&line.heard[96..101], b"hello");
    let noop = FrameHeader::parse(line.heard[101..].first_chunk().unwrap(), ByteOrder::Little);
    assert_eq!(noop.unwrap().csum, 0x3d9e_3319);
}

#[test]
fn checksums_of_copied_and_lent_payloads_agree() {
    let format = Format { version: Version::V2, csum: true, ..PLAIN };
    for len in [4096, 4097] {
        let mut line = Line::new(Chaos::None);
        let payload = pattern(len);
        line.push(format, &payload, 1000, Cookies { request: 0, ack: 9 });
        line.write_all();
        let frame =
            FrameHeader::parse(line.heard.first_chunk().unwrap(), ByteOrder::Little).unwrap();
        let sum = crc::update(frame.csum_start(ByteOrder::Little), &line.heard[24..]);
        assert_eq!(frame.csum, sum, "payload of {len}");
    }
}

/// Payloads are summed when they are about to be written, in pieces and among others.
#[test]
fn every_message_carries_its_checksum_however_it_is_written() {
    let format = Format { version: Version::V2, csum: true, ..PLAIN };
    let lens = [0, 5000, 1 << 20, 20_000, 17, 4096, 300_000, 4097, 9000, 70_000, 0, 262_144, 8192];
    for (chaos, piece) in [(Chaos::None, 1 << 20), (Chaos::Chunks, 5000)] {
        let mut line = Line::new(chaos);
        for (index, len) in lens.iter().enumerate() {
            let request = if index % 3 == 2 { index as u64 } else { 0 };
            line.push(format, &pattern(*len), piece, Cookies { request, ack: 0 });
            if index % 4 == 1 {
                line.write();
            }
        }
        line.write_all();
        let mut rest = &line.heard[..];
        for len in &lens {
            let (message, behind) = rest.split_at(format.head_len() + len);
            let frame =
                FrameHeader::parse(message.first_chunk().unwrap(), ByteOrder::Little).unwrap();
            let sum = crc::update(frame.csum_start(ByteOrder::Little), &message[24..]);
            assert_eq!(frame.csum, sum, "{chaos:?}, payload of {len}");
            assert!(message[format.head_len()..] == pattern(*len));
            rest = behind;
        }
        assert!(rest.is_empty());
    }
}

/// As many as may wait are not summed all at once: they would be out of the cache again.
#[test]
fn a_payload_is_summed_when_it_is_its_turn() {
    let format = Format { version: Version::V2, csum: true, ..PLAIN };
    let mut line = Line::new(Chaos::None);
    for _ in 0..4 {
        line.push(format, &pattern(1 << 20), 1 << 20, Cookies::default());
    }
    line.tx.complete_front_heads(&line.io);
    assert_eq!(line.tx.pending_checksums.len(), 3);
    let mut line = Line::new(Chaos::None);
    for _ in 0..8 {
        line.push(format, &pattern(10_000), 10_000, Cookies::default());
    }
    line.tx.complete_front_heads(&line.io);
    assert_eq!(line.tx.pending_checksums.len(), 0, "they go in one write");
}

#[test]
fn a_nid_without_short_form_is_refused_without_a_trace() {
    let mut line = Line::new(Chaos::None);
    line.push(PLAIN, b"before", 10, Cookies::default());
    let waiting = line.tx.waiting();
    let far = ProcessId::lustre(Nid::new6(WireNet::TCP, [1; 16]));
    let op = line.ops.insert(());
    let header = put_header(process(1), far, 5, 0);
    let refused = line.tx.push_message(&line.io, PLAIN, op, &header, &[], Cookies::default());
    assert_eq!(refused, Err(NidTooLong(far.nid)));
    assert_eq!(line.tx.waiting(), waiting);
    line.write_all();
    assert_eq!(line.heard, expected(b"before", Cookies::default()));
}

#[test]
fn a_broken_stream_is_an_error_and_gives_operations_back() {
    let mut line = Line::new(Chaos::None);
    let (op, _) = line.push(PLAIN, &pattern(10_000), 10_000, Cookies::default());
    line.push(PLAIN, &pattern(10_000), 10_000, Cookies { request: 2, ack: 0 });
    line.net.break_stream(line.sock);
    let mut written = WriteTotals::default();
    let result = line.tx.write(&mut line.io, line.sock, 1 << 20, &mut written);
    assert_eq!(result, Err(IoError::Reset));
    assert_eq!(line.tx.abandoned().collect::<Vec<_>>(), [op]);
    let report = line.net.take_report(0).map(|(_, readiness)| readiness);
    assert!(report.is_some_and(|readiness: Readiness| readiness.writable));
    assert!(line.io.alloc(1).is_some());
}

#[test]
fn watched_messages_are_named_once_they_begin_to_leave() {
    let mut line = Line::new(Chaos::None);
    line.push(PLAIN, b"no one watches", 20, Cookies::default());
    let [one, two, three] = [(); 3].map(|()| line.ops.insert(()));
    line.tx.watch(one);
    line.push(PLAIN, b"small", 10, Cookies::default());
    line.tx.watch(two);
    line.push(PLAIN, &pattern(10_000), 10_000, Cookies::default());
    assert_eq!(line.tx.next_started(), None);
    line.write_all();
    line.tx.watch(three);
    let far = ProcessId::lustre(Nid::new6(WireNet::TCP, [1; 16]));
    let header = put_header(process(1), far, 5, 0);
    let refused = line.tx.push_message(&line.io, PLAIN, three, &header, &[], Cookies::default());
    assert!(refused.is_err());
    line.push(PLAIN, b"behind", 10, Cookies::default());
    line.write_all();
    let next_started: Vec<_> = std::iter::from_fn(|| line.tx.next_started()).collect();
    assert_eq!(next_started, [one, two]);
}
