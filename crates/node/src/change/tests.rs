//! Changes of a node with real streams over the loopback.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

use lustrine_config::{IdentityChoice, InterfaceChoice, NetConfig};
use lustrine_control::{NewNet, NiSelector};
use lustrine_wire::acceptor::Request;
use lustrine_wire::hello::{ConnType, Hello, Ips, Version};
use lustrine_wire::nid::{Net, ProcessId};
use lustrine_wire::{ByteOrder, Progress};

use super::*;
use crate::node::Node;

/// Longer than any answer takes; only a failing test waits this long.
const LIMIT: Duration = Duration::from_secs(20);

/// The incarnation that an interface names in its HELLO.
fn incarnation_of(nid: Nid, at: SocketAddr) -> u64 {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time-out");
    let hello = Hello {
        version: Version::V3,
        order: ByteOrder::Little,
        src: ProcessId::lustre(Nid::from_ip(nid.net(), at.ip())),
        dst: ProcessId::lustre(nid),
        src_incarnation: 1,
        dst_incarnation: 0,
        kind: ConnType::Control,
        ips: Ips::NONE,
    };
    let mut bytes = Vec::new();
    Request::new(nid).encode(&mut bytes).expect("a short NID");
    hello.encode(&mut bytes).expect("short NIDs");
    stream.write_all(&bytes).expect("room");
    let mut answer = [0; 56];
    stream.read_exact(&mut answer).expect("a HELLO");
    match Hello::parse(&answer) {
        Ok(Progress::Got(hello, _)) => hello.src_incarnation,
        other => panic!("{other:?}"),
    }
}

/// [HEL-9]
#[test]
fn an_interface_that_is_added_again_has_a_new_incarnation() {
    let ip = IpAddr::V4(Ipv4Addr::new(127, 55, 0, 5));
    let free = TcpListener::bind((ip, 0)).and_then(|listener| listener.local_addr());
    let at = free.expect("a free port");
    let mut config = NodeConfig {
        nets: vec![NetConfig::new(Net::TCP, InterfaceChoice::Address(ip))],
        identity: IdentityChoice::Userland,
        accept: AcceptPolicy::All,
        ..NodeConfig::default()
    };
    config.tunables.socklnd.accept_port = i64::from(at.port());
    let node = Node::start(&config).expect("the port is free");
    let change = |request| node.change(&request, Mode::Apply).expect("it can be made");
    let first = Nid::from_ip(Net::TCP, ip);
    let second = Nid::from_ip(Net { number: 1, ..Net::TCP }, ip);
    let mut seen = vec![incarnation_of(first, at)];
    for _ in 0..2 {
        change(ChangeRequest::AddNet(NewNet { nid: Some(second), ..NewNet::default() }));
        seen.push(incarnation_of(second, at));
        change(ChangeRequest::DelNet { which: NiSelector::Nid(second), interfaces: Vec::new() });
    }
    assert_eq!(seen[0], incarnation_of(first, at), "this one stays");
    assert!(seen.is_sorted_by(|one, next| one < next), "{seen:x?}");
    node.stop();
}
