use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::thread;

use super::*;

const PEER: &str = "127.0.0.1@tcp";

/// A peer that answers the HELLO, and then sends these bytes again and again until the connection
/// ends.
fn flooding_peer(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut handshake = [0; 64];
        assert!(stream.read(&mut handshake).unwrap() > 0);
        let hello = Hello {
            version: Version::V3,
            order: ByteOrder::Little,
            src: ProcessId::lustre(PEER.parse().unwrap()),
            dst: ProcessId::lustre(PEER.parse().unwrap()),
            src_incarnation: 7,
            dst_incarnation: 0,
            kind: ConnType::Control,
            ips: Ips::NONE,
        };
        let mut answer = Vec::new();
        hello.encode(&mut answer).unwrap();
        stream.write_all(&answer).unwrap();
        while stream.write_all(&bytes).is_ok() {}
    });
    address
}

fn connected(budget: &mut Budget, bytes: Vec<u8>) -> Conversation {
    let (to, nid) = (flooding_peer(bytes), PEER.parse().unwrap());
    let caller = Caller { local: Ipv4Addr::LOCALHOST.into(), nid, incarnation: 5 };
    let (outcome, open) = caller.handshake(budget, to, nid, Source::Any, None);
    assert!(matches!(outcome, DialOutcome::Hello { .. }), "{outcome:?}");
    open.unwrap()
}

/// Keepalives, and a message whose payload never ends.
fn floods() -> [Vec<u8>; 2] {
    let keepalives = FrameHeader::KEEPALIVE.encode(ByteOrder::Little).repeat(1000);
    let nid = PEER.parse().unwrap();
    let put = Header {
        dst: ProcessId::lustre(nid),
        src: ProcessId::lustre(nid),
        payload_len: 1 << 20,
        body: Body::Reply { md: MdHandle { interface: 1, object: 1 } },
    };
    let mut raw = [0; Header::SHORT_LEN];
    put.encode_short(&mut raw).unwrap();
    [keepalives, [&FrameHeader::LNET.encode(ByteOrder::Little)[..], &raw].concat()]
}

#[test]
fn what_a_peer_sends_without_end_ends_with_the_bytes_of_the_budget() {
    for flood in floods() {
        let mut budget = Budget::new(256 << 10);
        budget.begin(3600.0);
        let mut open = connected(&mut budget, flood);
        let until = budget.until(Duration::from_secs(3600));
        assert_eq!(open.answer(&mut budget, until), None);
        assert!(budget.was_exceeded() && open.received.len() <= (256 << 10) + CHUNK);
    }
}

#[test]
fn what_a_peer_sends_without_end_ends_with_the_time() {
    let [keepalives, _] = floods();
    let mut budget = Budget::new(u64::MAX);
    budget.begin(3600.0);
    let mut open = connected(&mut budget, keepalives);
    let until = Instant::now() + Duration::from_millis(50);
    assert_eq!(open.answer(&mut budget, until), None);
    assert!(!budget.was_exceeded());
}
