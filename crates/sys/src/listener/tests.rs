use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};

use lustrine_testing::{Need, not_run};

use super::*;
use crate::poller::{Interest, Poller};
use crate::socket::SourcePort;
use crate::testing::{LOCALHOST, accept, establish, listener, wait_for};

fn dial(listener: &Listener) -> Socket {
    let remote = listener.local_addr().unwrap();
    Socket::connect(None, SourcePort::Any, remote, &SocketOptions::default()).unwrap()
}

#[test]
fn accepting_without_a_waiting_connection_is_not_an_error() {
    assert!(listener().accept().unwrap().is_none());
}

/// Each of them uses the rules of the kernel for sockets that may share a port.
#[test]
fn what_is_claimed_refuses_connections_and_all_who_want_to_have_it() {
    let at = SocketAddr::from((Ipv4Addr::new(127, 0, 88, 9), 0));
    let free = std::net::TcpListener::bind(at).unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let claim = Claim::bind(at).unwrap();
    let refused = std::net::TcpStream::connect(at).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    for _ in 0..2 {
        let taken = [
            Claim::bind(at).map(drop),
            Listener::bind(at, 1, SocketOptions::default()).map(drop),
            std::net::TcpListener::bind(at).map(drop),
        ];
        for taken in taken {
            assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse);
        }
    }
    drop(claim);
    let listener = Listener::bind(at, 1, SocketOptions::default()).unwrap();
    assert_eq!(Claim::bind(at).unwrap_err().kind(), ErrorKind::AddrInUse);
    // A connection that is still open, as that of a node that has just ended.
    let dialled = dial(&listener);
    establish(&dialled).unwrap();
    let accepted = accept(&listener);
    drop(listener);
    let claim = Claim::bind(at).unwrap();
    drop((accepted, dialled, claim));
}

#[test]
fn the_poller_reports_until_all_are_accepted() {
    let listener = listener();
    let mut poller = Poller::new(1).unwrap();
    poller.add(&listener, 9, Interest::Readable).unwrap();
    let dialled = [dial(&listener), dial(&listener), dial(&listener)];
    for _ in &dialled {
        wait_for(&mut poller, 9, |r| r.readable);
        assert!(listener.accept().unwrap().is_some());
    }
    assert!(listener.accept().unwrap().is_none());
    let mut ready = Vec::new();
    poller.wait(Some(std::time::Duration::ZERO), &mut ready).unwrap();
    assert_eq!(ready, []);
}

#[test]
fn a_connection_that_broke_in_the_backlog_does_no_harm() {
    let listener = listener();
    let dialled = dial(&listener);
    establish(&dialled).unwrap();
    drop(dialled);
    let good = dial(&listener);
    establish(&good).unwrap();
    let wanted = good.local_addr().unwrap();
    let found = [accept(&listener), accept(&listener)];
    assert_eq!(found[1].peer, wanted, "in order of arrival");
}

#[test]
fn an_address_can_have_one_listener() {
    let first = listener();
    let addr = first.local_addr().unwrap();
    let second = Listener::bind(addr, 1, SocketOptions::default());
    assert_eq!(second.unwrap_err().kind(), ErrorKind::AddrInUse);
    let foreign = SocketAddr::new(Ipv4Addr::new(192, 0, 2, 1).into(), 0);
    let foreign = Listener::bind(foreign, 1, SocketOptions::default());
    assert_eq!(foreign.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
}

#[test]
fn a_port_can_be_listened_on_again_at_once() {
    let first = listener();
    let addr = first.local_addr().unwrap();
    let dialled = dial(&first);
    let accepted = accept(&first);
    establish(&dialled).unwrap();
    // Our side closes first: its end of the connection is the one that remains in TIME_WAIT.
    drop(accepted);
    drop(first);
    Listener::bind(addr, 1, SocketOptions::default()).unwrap();
}

#[test]
fn one_port_can_have_a_listener_for_each_version_of_ip() {
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let Ok(six) = Listener::bind(any, 1, SocketOptions::default()) else {
        not_run(Need::Ipv6, "::1 cannot be listened on");
        return;
    };
    let port = six.local_addr().unwrap().port();
    let four = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let four = Listener::bind(four, 1, SocketOptions::default()).unwrap();
    let remote = SocketAddr::new(LOCALHOST, port);
    let options = SocketOptions::default();
    let dialled = Socket::connect(None, SourcePort::Any, remote, &options).unwrap();
    establish(&dialled).unwrap();
    assert!(accept(&four).peer.is_ipv4());
    assert!(six.accept().unwrap().is_none());
}

#[test]
fn errors_of_one_connection_are_distinct_from_errors_of_the_listener() {
    for error in [Errno::CONNABORTED, Errno::INTR, Errno::NETDOWN, Errno::PROTO] {
        assert!(is_about_one_connection(error), "{error}");
    }
    for error in [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::BADF, Errno::INVAL] {
        assert!(!is_about_one_connection(error), "{error}");
    }
}
