//! Real streams over the loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use super::*;

/// Longer than any wait on the slowest machine; only a failing test waits this long.
const LIMIT: Duration = Duration::from_secs(20);

/// A stream of `io`, and its other end.
fn stream(io: &mut LoopIo) -> (SockId, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let remote = listener.local_addr().unwrap();
    let sock = io.connect(None, SourcePort::Any, remote).unwrap();
    let (other, _) = listener.accept().unwrap();
    wait_for(io, sock, |readiness| readiness.writable);
    io.connected(sock).unwrap();
    (sock, other)
}

fn new_io() -> LoopIo {
    LoopIo::new(Poller::new(8).unwrap(), Arena::new(1 << 20), SocketOptions::default())
}

/// Sleeps until a report of the stream says what is wanted.
fn wait_for(io: &mut LoopIo, sock: SockId, wanted: impl Fn(&Readiness) -> bool) {
    let mut ready = Vec::new();
    for _ in 0..100 {
        io.wait(Some(LIMIT), &mut ready).unwrap();
        assert!(!ready.is_empty(), "nothing was reported within {LIMIT:?}");
        for report in &ready {
            let (about, readiness) = io.readiness(report).unwrap();
            if about == sock && wanted(&readiness) {
                return;
            }
        }
    }
    panic!("no such report");
}

/// Reads a byte without waiting for a report of it.
fn poll(io: &mut LoopIo, sock: SockId) -> u8 {
    let mut byte = [0];
    let mut ready = Vec::new();
    loop {
        match Io::read(io, sock, &[], &mut byte) {
            IoOutcome::Bytes(1) => return byte[0],
            IoOutcome::WouldBlock => io.wait(Some(Duration::ZERO), &mut ready).unwrap(),
            outcome => panic!("{outcome:?}"),
        }
    }
}

/// A stream that the poller does not watch, as it is polled.
fn unwatched() -> (LoopIo, SockId, TcpStream) {
    let mut io = new_io();
    let (sock, mut other) = stream(&mut io);
    for count in 0..10_000_u32 {
        if io.hot.is_unwatched(sock) {
            return (io, sock, other);
        }
        other.write_all(&[count as u8]).unwrap();
        assert_eq!(poll(&mut io, sock), count as u8);
    }
    panic!("the poller still watches the stream");
}

#[test]
fn what_comes_before_a_sleep_is_reported_also_of_a_stream_that_was_not_watched() {
    let (mut io, sock, mut other) = unwatched();
    other.write_all(&[7]).unwrap();
    wait_for(&mut io, sock, |readiness| readiness.readable);
    assert_eq!(poll(&mut io, sock), 7);
    other.write_all(&[8]).unwrap();
    wait_for(&mut io, sock, |readiness| readiness.readable);
}

#[test]
fn a_loop_that_looks_but_does_not_read_has_the_stream_reported() {
    let (mut io, sock, mut other) = unwatched();
    other.write_all(&[7]).unwrap();
    let mut ready = Vec::new();
    let start = std::time::Instant::now();
    while !ready.iter().any(|report: &Ready| report.token == sock.0 && report.readable) {
        assert!(start.elapsed() < LIMIT, "no report");
        io.wait(Some(Duration::ZERO), &mut ready).unwrap();
    }
}

#[test]
fn the_end_of_a_stream_that_is_not_watched_is_reported() {
    let (mut io, sock, other) = unwatched();
    drop(other);
    wait_for(&mut io, sock, |readiness| readiness.hangup);
}

#[test]
fn room_to_write_is_reported_although_the_stream_is_read() {
    let (mut io, sock, mut other) = unwatched();
    let bytes = vec![0; 1 << 16];
    let mut written = 0;
    while let IoOutcome::Bytes(count) =
        Io::write(&mut io, sock, &[Piece::Bytes(&bytes)], WriteMode::Copy)
    {
        written += count;
    }
    let reader = std::thread::spawn(move || {
        let mut left = written;
        let mut sink = vec![0; 1 << 16];
        while left > 0 {
            left -= other.read(&mut sink).unwrap();
        }
        other
    });
    let mut ready = Vec::new();
    let start = std::time::Instant::now();
    loop {
        assert!(start.elapsed() < LIMIT, "no report");
        // Each look comes after a read, so only the write asks for reports.
        assert!(matches!(Io::read(&mut io, sock, &[], &mut [0]), IoOutcome::WouldBlock));
        io.wait(Some(Duration::ZERO), &mut ready).unwrap();
        if ready.iter().any(|report: &Ready| report.token == sock.0 && report.writable) {
            break;
        }
    }
    reader.join().unwrap();
}

#[test]
fn a_stream_that_waits_for_room_to_write_stays_watched_however_often_it_is_read() {
    let mut io = new_io();
    let (sock, mut other) = stream(&mut io);
    let bytes = vec![0; 1 << 16];
    while let IoOutcome::Bytes(_) =
        Io::write(&mut io, sock, &[Piece::Bytes(&bytes)], WriteMode::Copy)
    {}
    for count in 0..1000_u32 {
        other.write_all(&[count as u8]).unwrap();
        assert_eq!(poll(&mut io, sock), count as u8);
        assert!(!io.hot.is_unwatched(sock), "after {count} reads");
    }
}

#[test]
fn a_stream_that_is_not_watched_can_be_closed_and_its_place_used_again() {
    let (mut io, sock, _other) = unwatched();
    io.close(sock);
    let (next, mut other) = stream(&mut io);
    assert_ne!(next, sock);
    other.write_all(&[9]).unwrap();
    wait_for(&mut io, next, |readiness| readiness.readable);
    assert_eq!(poll(&mut io, next), 9);
}

#[test]
fn block_ends_are_the_first_and_last_words_of_each_block() {
    assert_eq!(block_ends(8, 4096).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(block_ends(4096, 4096).collect::<Vec<_>>(), [0, 4088]);
    assert_eq!(block_ends(5000, 4096).collect::<Vec<_>>(), [0, 4088, 4096, 4992]);
    assert_eq!(block_ends(0, 4096).count(), 0);
}

/// What this machine lacks for a dial is no fault of the network.
#[test]
fn a_dial_without_descriptors_or_memory_is_not_called_unreachable() {
    use lustrine_sys::ConnectError;
    // EMFILE, ENFILE, ENOBUFS, ENOMEM.
    for errno in [24, 23, 105, 12] {
        let error = ConnectError::NoResources(io::Error::from_raw_os_error(errno));
        assert_eq!(connect_error(&error), IoError::Exhausted, "{errno}");
    }
}

/// What stays on this machine is copied before it arrives.
#[test]
fn zero_copy_writes_that_were_copied_are_counted() {
    let mut io = new_io();
    let (sock, mut other) = stream(&mut io);
    let bytes = vec![7; 1 << 15];
    let IoOutcome::Bytes(written) =
        Io::write(&mut io, sock, &[Piece::Bytes(&bytes)], WriteMode::ZeroCopy)
    else {
        panic!("there is room for a few bytes");
    };
    let mut sink = vec![0; written];
    other.read_exact(&mut sink).unwrap();
    assert_eq!(sink, bytes[..written]);
    let (mut done, mut copied) = (0, 0);
    let mut ready = Vec::new();
    while done == 0 {
        let mut reports: Vec<Readiness> = Vec::new();
        reports.extend(io.next_copied().map(|(_, readiness)| readiness));
        if reports.is_empty() {
            io.wait(Some(LIMIT), &mut ready).unwrap();
            assert!(!ready.is_empty(), "nothing was reported within {LIMIT:?}");
            reports.extend(ready.iter().map(|report| io.readiness(report).unwrap().1));
        }
        done += reports.iter().map(|report| report.zero_copy_done).sum::<u32>();
        copied += reports.iter().map(|report| report.zero_copy_copied).sum::<u32>();
    }
    assert_eq!((done, copied), (1, 1));
}

#[test]
fn memory_that_was_taken_is_given_back_in_steps() {
    const MIB: u64 = 1 << 20;
    let mut io = LoopIo::new(
        Poller::new(8).unwrap(),
        Arena::with_taken(4 * MIB, 64 * MIB),
        SocketOptions::default(),
    );
    let mut now = Time::ZERO + Nanos::from_secs(1);
    io.release_memory(now);
    assert_eq!(io.release_deadline(), Time::NEVER);
    let mut take = || io.alloc(MIB as u32).map(|span| io.take(span)).unwrap();
    let taken: Vec<Bytes> = (0..40).map(|_| take()).collect();
    assert_eq!(io.memory_mapped(), 40 * MIB);
    assert_eq!(io.release_deadline(), now + MEMORY_PERIOD);
    drop(taken);
    now = io.release_deadline();
    io.release_memory(now);
    // Four regions each time; there is room for two.
    assert_eq!((io.memory_mapped(), io.release_deadline()), (32 * MIB, now + RELEASE_INTERVAL));
    io.release_memory(now);
    assert_eq!(io.memory_mapped(), 32 * MIB, "a moment for others");
    let mut steps = 0;
    while io.release_deadline() != Time::NEVER {
        now = io.release_deadline();
        io.release_memory(now);
        steps += 1;
    }
    assert_eq!((io.memory_mapped(), steps), (4 * MIB, 4));
}
