use proptest::prelude::*;

use super::*;

/// What a flow delivers: bytes as they are, missing ones as `?`.
#[derive(Default)]
struct Stream {
    flow: Flow,
    text: String,
}

impl Stream {
    fn insert_limited(&mut self, seq: u32, payload: &str, limit: usize) {
        let text = &mut self.text;
        self.flow.insert(seq, payload.as_bytes(), limit, &mut |chunk| show(text, chunk));
    }

    fn insert(&mut self, seq: u32, payload: &str) {
        self.insert_limited(seq, payload, 1 << 20);
    }

    fn flush(&mut self) {
        let text = &mut self.text;
        self.flow.flush(&mut |chunk| show(text, chunk));
    }

    fn acknowledge(&mut self, ack: u32) {
        let text = &mut self.text;
        self.flow.acknowledge(ack, &mut |chunk| show(text, chunk));
    }
}

fn show(text: &mut String, chunk: Chunk<'_>) {
    match chunk {
        Chunk::Data(bytes) => text.push_str(std::str::from_utf8(bytes).unwrap()),
        Chunk::Gap(missing) => text.extend((0..missing).map(|_| '?')),
    }
}

#[test]
fn sequence_numbers_wrap() {
    let mut s = Stream::default();
    s.flow.start_after(u32::MAX - 2);
    s.insert(u32::MAX - 1, "ab");
    s.insert(2, "ef");
    s.insert(0, "cd");
    assert_eq!(s.text, "abcdef");
}

#[test]
fn repeated_and_overlapping_segments() {
    let mut s = Stream::default();
    s.flow.start_after(99);
    s.insert(100, "abc");
    s.insert(100, "ABC");
    s.insert(102, "CDE");
    s.insert(108, "ij");
    s.insert(106, "ghijkl");
    s.insert(104, "EF");
    assert_eq!(s.text, "abcDEFghijkl", "what came first stays");
    assert_eq!(s.flow.held_bytes(), 0);
}

#[test]
fn keepalive_probes_carry_no_data() {
    let mut s = Stream::default();
    s.flow.start_after(99);
    s.insert(100, "abc");
    s.insert(99, "x");
    s.insert(98, "xyzxyz");
    assert_eq!(s.text, "abcz");
}

#[test]
fn a_hole_is_given_up_when_the_receiver_has_it() {
    let mut s = Stream::default();
    s.insert(100, "a");
    s.insert(103, "d");
    s.insert(106, "g");
    s.acknowledge(102);
    assert_eq!(s.text, "a", "the missing bytes may still come");
    s.acknowledge(104);
    assert_eq!(s.text, "a??d");
    s.acknowledge(107);
    assert_eq!(s.text, "a??d??g");
    s.insert(110, "k");
    s.acknowledge(90);
    assert_eq!(s.text, "a??d??g");
    s.flush();
    assert_eq!(s.text, "a??d??g???k");
}

#[test]
fn no_more_is_held_than_allowed() {
    let mut s = Stream::default();
    s.insert(0, "a");
    s.insert_limited(10, "bcd", 4);
    assert_eq!((s.text.as_str(), s.flow.held_bytes()), ("a", 3));
    s.insert_limited(20, "ef", 4);
    assert_eq!((s.text.as_str(), s.flow.held_bytes()), ("a?????????bcd", 2));
}

#[test]
fn absurd_jumps_are_ignored() {
    let mut s = Stream::default();
    s.insert(0, "a");
    s.insert(0x5000_0000, "b");
    s.insert(0xa000_0000, "c");
    assert_eq!((s.text.as_str(), s.flow.held_bytes()), ("a", 0));
}

/// More than a window is missing, as between two captures of one connection.
#[test]
fn a_stream_goes_on_after_more_than_a_window() {
    for ahead in [0x5000_0000_u32, 0x8000_0000, 0xb000_0000, 0xe000_0000] {
        let mut flow = Flow::default();
        let mut seen = Vec::new();
        let mut insert = |flow: &mut Flow, seq, payload: &[u8]| {
            flow.insert(seq, payload, 1 << 20, &mut |chunk| match chunk {
                Chunk::Data(bytes) => seen.push((0, bytes.to_vec())),
                Chunk::Gap(missing) => seen.push((missing, Vec::new())),
            });
        };
        insert(&mut flow, 100, b"a");
        insert(&mut flow, 103, b"d");
        for (index, byte) in b"vwxyz".iter().enumerate() {
            insert(&mut flow, 101 + ahead + index as u32, &[*byte]);
        }
        let ends: Vec<(u64, &[u8])> = seen.iter().map(|(gap, bytes)| (*gap, &bytes[..])).collect();
        // What was held behind the first hole comes first. Two segments are part of the gap.
        let gap = u64::from(ahead) - 3 + 2;
        assert_eq!(
            ends,
            [(0, &b"a"[..]), (2, b""), (0, b"d"), (gap, b""), (0, b"x"), (0, b"y"), (0, b"z")]
        );
    }
}

#[test]
fn segments_before_the_capture_do_not_move_the_stream() {
    let mut s = Stream::default();
    s.insert(1000, "a");
    for seq in 500..510 {
        s.insert(seq, "x");
    }
    s.insert(1001, "b");
    assert_eq!(s.text, "ab");
}

#[test]
fn the_end_is_delivered_in_sequence() {
    let mut s = Stream::default();
    s.flow.start_after(99);
    assert!(!s.flow.is_finished());
    s.flow.close(103, 1);
    s.insert(103, "d");
    assert!(!s.flow.is_finished());
    s.insert(100, "abc");
    assert!(s.flow.is_finished());
    assert_eq!(s.text, "abcd");
}

#[test]
fn a_repeated_syn_is_not_a_new_connection() {
    let mut s = Stream::default();
    assert!(s.flow.may_start_after(5));
    s.flow.start_after(5);
    s.insert(6, "abc");
    assert!(s.flow.may_start_after(5));
    assert!(!s.flow.may_start_after(6));
}

proptest! {
    /// The stream is delivered whatever the order in which its segments arrive after the first one.
    #[test]
    fn any_order_of_segments_gives_the_stream(
        start in any::<u32>(),
        cuts in prop::collection::vec((0usize..200, 1usize..60), 1..60),
    ) {
        let data: String = (0..200u8).map(|i| char::from(b'a' + i % 26)).collect();
        let mut s = Stream::default();
        s.flow.start_after(start.wrapping_sub(1));
        for (at, len) in cuts {
            let end = (at + len).min(data.len());
            s.insert(start.wrapping_add(at as u32), &data[at..end]);
        }
        s.insert(start, &data);
        prop_assert_eq!(s.flow.held_bytes(), 0);
        prop_assert_eq!(s.text, data);
    }
}
