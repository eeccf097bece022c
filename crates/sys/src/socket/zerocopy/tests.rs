use std::io::IoSlice;

use lustrine_testing::{Need, not_run};

use proptest::prelude::*;

use super::*;
use crate::poller::{Interest, Poller};
use crate::testing::{pair, receive, wait_for};

/// A control message in the kernel's layout.
fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    let len = size_of::<libc::cmsghdr>() + data.len();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(level.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(data);
    bytes.resize(len.next_multiple_of(size_of::<usize>()), 0);
    bytes
}

fn report(errno: i32, origin: u8, code: u8, lo: u32, hi: u32) -> Vec<u8> {
    let mut bytes = errno.to_ne_bytes().to_vec();
    bytes.extend([origin, 0, code, 0, 0, 0, 0, 0]);
    // Info and data follow the padding.
    bytes.truncate(8);
    bytes.extend(lo.to_ne_bytes());
    bytes.extend(hi.to_ne_bytes());
    bytes
}

#[test]
fn reports_are_found_among_other_control_messages() {
    let mut control = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMP, &[1; 16]);
    control.extend(message(libc::SOL_IP, libc::IP_RECVERR, &report(0, 5, 1, 3, 9)));
    control.extend(message(libc::SOL_IP, libc::IP_RECVERR, &report(111, 2, 0, 1, 1)));
    control.extend(message(libc::SOL_IPV6, libc::IPV6_RECVERR, &report(0, 5, 0, u32::MAX, 2)));
    let found: Vec<_> = completions(&control).collect();
    assert_eq!(
        found,
        [
            Completion { lo: 3, hi: 9, copied: true },
            Completion { lo: u32::MAX, hi: 2, copied: false },
        ]
    );
}

#[test]
fn a_message_longer_than_the_data_is_ignored() {
    let whole = message(libc::SOL_IP, libc::IP_RECVERR, &report(0, 5, 0, 1, 1));
    for len in 0..whole.len() {
        assert_eq!(completions(&whole[..len]).count(), 0, "{len} bytes");
    }
    assert_eq!(completions(&whole).count(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_parsed_without_panic(control in prop::collection::vec(any::<u8>(), 0..256)) {
        prop_assert!(completions(&control).count() <= control.len() / 16);
    }

    /// Lengths that are almost correct reach further code than random ones.
    #[test]
    fn any_length_field_is_parsed_to_the_end(
        len in 0usize..200, rest in prop::collection::vec(any::<u8>(), 100)
    ) {
        let mut control = len.to_ne_bytes().to_vec();
        control.extend(rest);
        prop_assert!(completions(&control).count() <= control.len() / 16);
    }
}

#[test]
fn every_zero_copy_send_is_completed_once_and_in_order() {
    let (a, b) = pair();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&a, 0, Interest::Stream).unwrap();
    let payload: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    let mut next = 0;
    for round in 0..20 {
        let pinned = match a.writev_zerocopy(&[IoSlice::new(b"head"), IoSlice::new(&payload)]) {
            ZeroCopyOutcome::Pinned { bytes, id } => {
                assert_eq!(id, next);
                next += 1;
                bytes
            }
            ZeroCopyOutcome::Copied(IoOutcome::Bytes(bytes)) if round == 0 => {
                not_run(Need::ZeroCopy, &format!("{bytes} bytes were copied"));
                return;
            }
            other => panic!("{other:?}"),
        };
        let received = receive(&b, pinned);
        assert_eq!(&received[..4], b"head");
        assert_eq!(received[4..], payload[..pinned - 4]);
    }
    let mut done = 0;
    loop {
        a.zerocopy_completions(&mut |lo, hi, _copied| {
            assert_eq!(lo, done, "each send once, none left out");
            done = hi + 1;
        })
        .unwrap();
        if done == next {
            break;
        }
        wait_for(&mut poller, 0, |r| r.error);
    }
    a.take_error().expect("completions are no errors of the stream");
}

#[test]
fn an_ordinary_send_in_between_is_not_numbered() {
    let (a, b) = pair();
    let id_of = |outcome| match outcome {
        ZeroCopyOutcome::Pinned { id, .. } => Some(id),
        ZeroCopyOutcome::Copied(_) => None,
    };
    let Some(first) = id_of(a.writev_zerocopy(&[IoSlice::new(&[1; 30_000])])) else {
        not_run(Need::ZeroCopy, "the bytes were copied");
        return;
    };
    assert!(matches!(a.writev(&[IoSlice::new(&[2; 10])]), IoOutcome::Bytes(10)));
    assert!(matches!(
        a.writev_zerocopy(&[IoSlice::new(&[])]),
        ZeroCopyOutcome::Copied(IoOutcome::Bytes(0))
    ));
    let second = id_of(a.writev_zerocopy(&[IoSlice::new(&[3; 30_000])]));
    assert_eq!((first, second), (0, Some(1)));
    receive(&b, 60_010);
    let mut poller = Poller::new(1).unwrap();
    poller.add(&a, 0, Interest::Stream).unwrap();
    let mut completed = Vec::new();
    while completed.len() < 2 {
        wait_for(&mut poller, 0, |r| r.error);
        a.zerocopy_completions(&mut |lo, hi, _| completed.extend(lo..=hi)).unwrap();
    }
    assert_eq!(completed, [0, 1]);
}
