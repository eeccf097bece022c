//! Test support: pairs of streams, and waiting without sleeping.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use crate::listener::{Accepted, Listener};
use crate::poller::{Interest, Poller, Ready};
use crate::socket::{IoOutcome, Socket, SocketOptions, SourcePort};

/// Longer than any wait on the slowest machine; only a failing test waits this long.
const LIMIT: Duration = Duration::from_secs(20);

pub(crate) const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) fn listener() -> Listener {
    Listener::bind(SocketAddr::new(LOCALHOST, 0), 127, SocketOptions::default()).unwrap()
}

/// Polls until a report of `token` satisfies `wanted`.
pub(crate) fn wait_for(poller: &mut Poller, token: u64, wanted: impl Fn(&Ready) -> bool) -> Ready {
    let start = Instant::now();
    let mut ready = Vec::new();
    while let Some(left) = LIMIT.checked_sub(start.elapsed()) {
        poller.wait(Some(left), &mut ready).unwrap();
        if let Some(report) = ready.iter().find(|r| r.token == token && wanted(r)) {
            return *report;
        }
    }
    panic!("no such report of {token} within {LIMIT:?}; last: {ready:?}");
}

/// Waits for the next stream.
pub(crate) fn accept(listener: &Listener) -> Accepted {
    let mut poller = Poller::new(1).unwrap();
    poller.add(listener, 0, Interest::Readable).unwrap();
    wait_for(&mut poller, 0, |r| r.readable);
    listener.accept().unwrap().expect("it was reported")
}

/// Waits until the stream is connected.
pub(crate) fn establish(socket: &Socket) -> std::io::Result<()> {
    let mut poller = Poller::new(1).unwrap();
    poller.add(socket, 0, Interest::Stream).unwrap();
    wait_for(&mut poller, 0, |r| r.writable);
    assert!(socket.connected()?, "reported before it was decided");
    Ok(())
}

/// A stream dialled with `options` to `listener`, and its other end.
pub(crate) fn dial(listener: &Listener, options: &SocketOptions) -> (Socket, Accepted) {
    let remote = listener.local_addr().unwrap();
    let dialled = Socket::connect(None, SourcePort::Any, remote, options).unwrap();
    let accepted = accept(listener);
    establish(&dialled).unwrap();
    (dialled, accepted)
}

/// Two connected streams.
pub(crate) fn pair() -> (Socket, Socket) {
    let (dialled, accepted) = dial(&listener(), &SocketOptions::default());
    (dialled, accepted.socket)
}

/// Sends all of `bytes`, which must fit the buffers.
pub(crate) fn send(socket: &Socket, bytes: &[u8]) {
    match socket.writev(&[IoSlice::new(bytes)]) {
        IoOutcome::Bytes(n) if n == bytes.len() => {}
        other => panic!("sending {} bytes: {other:?}", bytes.len()),
    }
}

/// Receives until `len` bytes have arrived.
pub(crate) fn receive(socket: &Socket, len: usize) -> Vec<u8> {
    let mut poller = Poller::new(1).unwrap();
    poller.add(socket, 0, Interest::Stream).unwrap();
    let mut bytes = vec![0; len];
    let mut have = 0;
    while have < len {
        match socket.readv(&mut [IoSliceMut::new(&mut bytes[have..])]) {
            IoOutcome::Bytes(n) => have += n,
            IoOutcome::WouldBlock => drop(wait_for(&mut poller, 0, |r| r.readable)),
            other => panic!("after {have} of {len} bytes: {other:?}"),
        }
    }
    bytes
}
