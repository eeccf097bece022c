//! Rogues that attack portal 0, which receives the pings and pushes of every node.

use lustrine_lnet::time::Nanos;
use lustrine_wire::frame::FrameHeader;
use lustrine_wire::header::{Body, Header, MdHandle};
use lustrine_wire::hello::{ConnType, Hello};
use lustrine_wire::nid::{Net, Nid, ProcessId};

use super::scene::{Scene, header, hello, message};

/// Number of rogues: more than the node's 64 buffers for pushes, and fewer than its limit of peers.
const ROGUES: u32 = 80;

const PUSH_LEN: u32 = 48;

/// A push, or what looks like one, of the rogue with this number.
fn push(number: u32, match_bits: u64) -> (ProcessId, Vec<u8>) {
    let src = ProcessId::lustre(Nid::new4(Net::TCP, 0x0c00_0000 + number));
    let ack_md = MdHandle::NONE;
    let body = Body::Put { ack_md, match_bits, hdr_data: 0, portal: 0, offset: 0 };
    let mut bytes = message(FrameHeader::LNET, &Header { src, ..header(body, PUSH_LEN) });
    bytes.resize(bytes.len() + PUSH_LEN as usize, 0);
    (src, bytes)
}

/// Each rogue stops one byte before the end of its push. A newcomer is discovered nevertheless: its
/// push finds a buffer.
pub(crate) fn stalled_pushes(scene: &mut Scene) {
    for number in 0..ROGUES {
        let (src, bytes) = push(number, lustrine_wire::PING_MATCH_BITS);
        let sock = scene.befriend(Hello { src, ..hello(ConnType::Control) });
        scene.say(sock, &bytes[..bytes.len() - 1]);
    }
    scene.run(Nanos::from_millis(10));
    scene.neighbour_discovers();
    scene.run(Nanos::from_secs(70));
}

/// PUTs to portal 0 that match nothing there: they are discarded, and none waits.
pub(crate) fn foreign_bits(scene: &mut Scene) {
    let (src, bytes) = push(0, 1);
    let sock = scene.befriend(Hello { src, ..hello(ConnType::Control) });
    for _ in 0..100 {
        scene.say(sock, &bytes);
    }
    scene.run(Nanos::from_millis(10));
    let dropped = scene.counter("dropped.put");
    assert!(dropped >= 100, "{dropped}");
    assert!(!scene.is_closed(sock), "an unwanted message is no crime");
}
