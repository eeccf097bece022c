use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::AsFd;
use std::time::Duration;

use lustrine_testing::{Need, not_run};

use rustix::net::sockopt;

use super::*;
use crate::listener::Listener;
use crate::poller::{Interest, Poller};
use crate::testing::{LOCALHOST, accept, dial, establish, listener, pair, receive, send, wait_for};

#[test]
fn both_ends_agree_on_the_addresses() {
    let listener = listener();
    let (dialled, accepted) = dial(&listener, &SocketOptions::default());
    assert_eq!(dialled.peer_addr().unwrap(), listener.local_addr().unwrap());
    assert_eq!(accepted.peer, dialled.local_addr().unwrap());
    assert_eq!(accepted.socket.peer_addr().unwrap(), accepted.peer);
}

#[test]
fn ipv6_works_in_the_same_way() {
    let here = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 0);
    let Ok(listener) = Listener::bind(here, 1, SocketOptions::default()) else {
        not_run(Need::Ipv6, "::1 cannot be listened on");
        return;
    };
    let options = SocketOptions { tos: Some(0x20), ..SocketOptions::default() };
    let remote = listener.local_addr().unwrap();
    let local = Some(Ipv6Addr::LOCALHOST.into());
    let dialled = Socket::connect(local, SourcePort::Any, remote, &options).unwrap();
    let accepted = accept(&listener);
    establish(&dialled).unwrap();
    send(&dialled, b"six");
    assert_eq!(receive(&accepted.socket, 3), b"six");
    assert_eq!(sockopt::ipv6_tclass(&dialled).unwrap(), 0x20);
}

#[test]
fn slices_are_gathered_and_scattered_in_order() {
    let (a, b) = pair();
    let pieces: [&[u8]; 4] = [b"one", b"", b"two", b"three"];
    let pieces = pieces.map(IoSlice::new);
    assert!(matches!(a.writev(&pieces), IoOutcome::Bytes(11)));
    let mut poller = Poller::new(1).unwrap();
    poller.add(&b, 0, Interest::Stream).unwrap();
    wait_for(&mut poller, 0, |r| r.readable);
    let (mut first, mut second) = ([0; 4], [0; 20]);
    let outcome = b.readv(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]);
    assert!(matches!(outcome, IoOutcome::Bytes(11)), "{outcome:?}");
    assert_eq!((&first, &second[..7]), (b"onet", &b"wothree"[..]));
}

#[test]
fn slices_beyond_the_limit_of_a_call_are_sent_by_the_next_call() {
    let (a, b) = pair();
    let pieces = vec![IoSlice::new(b"x"); SLICES_MAX + 5];
    assert!(matches!(a.writev(&pieces), IoOutcome::Bytes(SLICES_MAX)));
    assert_eq!(receive(&b, SLICES_MAX), vec![b'x'; SLICES_MAX]);
    let mut bytes = vec![[0u8; 1]; SLICES_MAX + 5];
    let mut slices: Vec<_> = bytes.iter_mut().map(|b| IoSliceMut::new(b)).collect();
    assert!(matches!(b.readv(&mut slices), IoOutcome::WouldBlock));
}

#[test]
fn an_idle_stream_would_block_and_an_empty_read_is_no_end() {
    let (a, _b) = pair();
    assert!(matches!(a.readv(&mut [IoSliceMut::new(&mut [0; 8])]), IoOutcome::WouldBlock));
    let (mut empty, mut also_empty) = ([], []);
    let mut nothing = [IoSliceMut::new(&mut empty), IoSliceMut::new(&mut also_empty)];
    for slices in [&mut nothing[..], &mut []] {
        let outcome = a.readv(slices);
        assert!(matches!(outcome, IoOutcome::Bytes(0) | IoOutcome::WouldBlock), "{outcome:?}");
    }
}

#[test]
fn the_end_of_the_stream_is_reported_after_the_last_byte() {
    let (a, b) = pair();
    send(&a, b"last");
    a.shutdown(Shutdown::Write).unwrap();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&b, 0, Interest::Stream).unwrap();
    wait_for(&mut poller, 0, |r| r.hangup && r.readable);
    assert_eq!(receive(&b, 4), b"last");
    assert!(matches!(b.readv(&mut [IoSliceMut::new(&mut [0; 8])]), IoOutcome::Closed));
    send(&b, b"the other half works");
    assert_eq!(receive(&a, 20), b"the other half works");
}

#[test]
fn writing_stops_when_the_buffers_are_full_and_goes_on_when_there_is_room() {
    let (a, b) = pair();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&a, 0, Interest::Stream).unwrap();
    wait_for(&mut poller, 0, |r| r.writable);
    let chunk = vec![7; 1 << 16];
    let mut sent = 0;
    loop {
        match a.writev(&[IoSlice::new(&chunk)]) {
            IoOutcome::Bytes(n) => sent += n,
            IoOutcome::WouldBlock => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(receive(&b, sent).iter().all(|&byte| byte == 7));
    wait_for(&mut poller, 0, |r| r.writable);
    assert!(matches!(a.writev(&[IoSlice::new(&chunk)]), IoOutcome::Bytes(_)));
}

#[test]
fn writing_to_a_closed_peer_fails_without_a_signal() {
    let (a, b) = pair();
    send(&a, b"never read"); // so that closing resets the stream
    let mut poller = Poller::new(2).unwrap();
    poller.add(&b, 1, Interest::Stream).unwrap();
    wait_for(&mut poller, 1, |r| r.readable);
    poller.add(&a, 0, Interest::Stream).unwrap();
    drop(b);
    wait_for(&mut poller, 0, |r| r.hangup && r.error);
    assert_eq!(a.take_error().unwrap_err().kind(), ErrorKind::ConnectionReset);
    match a.writev(&[IoSlice::new(b"x")]) {
        IoOutcome::Failed(e) => assert_eq!(e.kind(), ErrorKind::BrokenPipe),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_refused_connection_is_an_error() {
    let remote = listener().local_addr().unwrap(); // closed again at once
    match Socket::connect(None, SourcePort::Any, remote, &SocketOptions::default()) {
        Ok(socket) => {
            assert_eq!(establish(&socket).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
        Err(ConnectError::Failed(e)) => assert_eq!(e.kind(), ErrorKind::ConnectionRefused),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_without_an_answer_is_undecided() {
    let here = SocketAddr::new(LOCALHOST, 0);
    let full = Listener::bind(here, 0, SocketOptions::default()).unwrap();
    let remote = full.local_addr().unwrap();
    let options = SocketOptions::default();
    let dial = || Socket::connect(None, SourcePort::Any, remote, &options).unwrap();
    let _first = dial();
    establish(&_first).unwrap();
    // The backlog of one is full; the kernel drops further connections.
    let second = dial();
    assert!(!second.connected().unwrap());
}

#[test]
fn a_foreign_address_cannot_be_dialled_from() {
    let remote = listener().local_addr().unwrap();
    let foreign: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
    for source in [SourcePort::Any, SourcePort::Privileged] {
        let result = Socket::connect(Some(foreign), source, remote, &SocketOptions::default());
        match result {
            Err(ConnectError::NoSuchLocalAddress(addr)) => assert_eq!(addr, foreign),
            Err(ConnectError::NoPrivilege) if source == SourcePort::Privileged => {
                not_run(Need::PrivilegedPorts, "the user may not bind them");
            }
            other => panic!("{source:?}: {other:?}"),
        }
    }
    let six = Some(Ipv6Addr::LOCALHOST.into());
    let result = Socket::connect(six, SourcePort::Any, remote, &SocketOptions::default());
    assert!(matches!(result, Err(ConnectError::FamilyMismatch { .. })), "{result:?}");
}

#[test]
fn options_reach_both_ends() {
    let options = SocketOptions {
        nodelay: true,
        send_buffer: Some(100_000),
        recv_buffer: Some(120_000),
        tos: Some(0x10),
        keepalive: Some(Keepalive {
            idle: Duration::from_secs(30),
            interval: Duration::from_secs(5),
            count: NonZeroU32::new(6).unwrap(),
        }),
        unacknowledged_max: Some(Duration::from_secs(50)),
        paced_from: Some(Duration::ZERO),
        segment_max: Some(1000),
        keep_icmp_errors: true,
    };
    let here = SocketAddr::new(LOCALHOST, 0);
    let listener = Listener::bind(here, 1, options.clone()).unwrap();
    let (dialled, accepted) = dial(&listener, &options);
    dialled.pace(&options);
    for socket in [dialled, accepted.socket] {
        assert!(sockopt::tcp_nodelay(&socket).unwrap());
        assert_eq!(sockopt::ip_tos(&socket).unwrap(), 0x10);
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap(), Duration::from_secs(30));
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap(), Duration::from_secs(5));
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), 6);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 50_000);
        assert_eq!(sockopt::socket_linger(&socket).unwrap(), None);
        let pace: u64 = crate::sockopt::get(&socket, SO_MAX_PACING_RATE);
        // Kernels before 5.1 have four bytes of it.
        assert_eq!(pace as u32, PACE_MAX as u32);
        // The kernel counts twice the requested size.
        assert_eq!(socket.buffer_sizes().unwrap(), BufferSizes { send: 200_000, recv: 240_000 });
        let info = socket.info().unwrap();
        let options = if info.timestamps { 12 } else { 0 };
        assert_eq!((info.segment_out, info.segment_asked), (1000 - options, 1000 - options));
        assert_eq!((info.segments_sent, info.segments_received, info.out_of_order), (0, 0, 0));
        assert!(info.rtt > Duration::ZERO && info.congestion_window > 0, "{info:?}");
    }
}

/// A stream is paced from the round trip on that was asked for, at either end.
#[test]
fn long_paths_are_paced() {
    let paced = |socket: &Socket| {
        let pace: u64 = crate::sockopt::get(socket, SO_MAX_PACING_RATE);
        pace as u32 == PACE_MAX as u32
    };
    for (from, expected) in [
        (Some(Duration::from_micros(1)), true),
        (Some(Duration::from_secs(60)), false),
        (None, false),
    ] {
        let options = SocketOptions { paced_from: from, ..SocketOptions::default() };
        let listener = Listener::bind(SocketAddr::new(LOCALHOST, 0), 1, options.clone()).unwrap();
        let (dialled, accepted) = dial(&listener, &options);
        dialled.pace(&options);
        assert_eq!([paced(&dialled), paced(&accepted.socket)], [expected; 2], "{from:?}");
    }
}

/// Dials `remote` from a privileged port, or records that the test cannot run.
#[track_caller]
fn dial_privileged(remote: SocketAddr, local: Option<IpAddr>) -> Option<Socket> {
    let options = SocketOptions::default();
    match Socket::connect(local, SourcePort::Privileged, remote, &options) {
        Ok(socket) => Some(socket),
        Err(ConnectError::NoPrivilege) => {
            assert!(!privileged_ports_usable(local).unwrap(), "the two must agree");
            not_run(Need::PrivilegedPorts, "the user may not bind them");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn port(socket: &Socket) -> u16 {
    socket.local_addr().unwrap().port()
}

/// The local address of a test that depends on ports: one that no other process on the machine
/// uses.
fn own_address(test: u8) -> Option<IpAddr> {
    Some(Ipv4Addr::new(127, 83, 115, test).into())
}

#[test]
fn privileged_ports_are_taken_downwards_and_shared_between_peers() {
    let (one, two) = (listener(), listener());
    let (remote_one, remote_two) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    let local = own_address(1);
    let Some(first) = dial_privileged(remote_one, local) else { return };
    assert!(privileged_ports_usable(local).unwrap());
    assert!((512..=1023).contains(&port(&first)));
    assert_eq!(accept(&one).peer.port(), port(&first));
    // The same peer again: the next free port; another peer: the same ports.
    let second = dial_privileged(remote_one, local).unwrap();
    assert!(port(&second) < port(&first));
    let other = dial_privileged(remote_two, local).unwrap();
    assert!(port(&other) >= port(&first));
    establish(&second).unwrap();
    establish(&other).unwrap();
    // If the system chooses the address, other processes may use the same ports.
    let anywhere = dial_privileged(remote_two, None).unwrap();
    assert!((512..=1023).contains(&port(&anywhere)));
}

#[test]
fn all_privileged_ports_towards_one_peer_are_used_before_they_are_exhausted() {
    let listener = listener();
    let remote = listener.local_addr().unwrap();
    let local = own_address(2);
    let Some(first) = dial_privileged(remote, local) else { return };
    let mut sockets = vec![first];
    let options = SocketOptions::default();
    let error = loop {
        assert!(sockets.len() <= 512);
        match Socket::connect(local, SourcePort::Privileged, remote, &options) {
            Ok(socket) => sockets.push(socket),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ConnectError::PortsExhausted(to) if to == remote), "{error}");
    assert!(sockets.len() > 256, "only {} ports were found free", sockets.len());
    let lowest = sockets.iter().map(port).min();
    assert!(lowest.is_some_and(|port| (512..540).contains(&port)), "stopped at {lowest:?}");
}

#[test]
fn a_port_with_a_listener_is_passed_over() {
    let target = listener();
    let remote = target.local_addr().unwrap();
    let local = own_address(3);
    let Some(probe) = dial_privileged(remote, local) else { return };
    drop(probe);
    // A listener uses the first ports that are tried.
    let taken: Vec<_> = (1020..=1023)
        .filter_map(|port| {
            let addr = SocketAddr::new(local?, port);
            Listener::bind(addr, 1, SocketOptions::default()).ok()
        })
        .collect();
    assert!(privileged_ports_usable(local).unwrap(), "in use, but permitted");
    if taken.len() == 4 {
        let socket = dial_privileged(remote, local).unwrap();
        assert!(port(&socket) < 1020, "{}", port(&socket));
    } else {
        not_run(Need::Resources, "ports 1020 to 1023 are in use");
    }
}

#[test]
fn the_check_for_privileged_ports_fails_for_a_foreign_address() {
    let foreign = Some(Ipv4Addr::new(192, 0, 2, 1).into());
    if privileged_ports_usable(None).unwrap() {
        let error = privileged_ports_usable(foreign).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrNotAvailable);
    } else {
        not_run(Need::PrivilegedPorts, "the user may not bind them");
    }
}

#[test]
fn a_socket_gives_access_to_its_descriptor() {
    let (a, _b) = pair();
    let flags = rustix::fs::fcntl_getfl(a.as_fd()).unwrap();
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
}
