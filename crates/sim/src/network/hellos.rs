//! Watches the HELLOs of the nodes: no node may answer a dialler NONE three times in a row
//! [SOCK-18].

use core::net::IpAddr;
use std::collections::BTreeMap;

use lustrine_socklnd::io::SockId;
use lustrine_wire::Progress;
use lustrine_wire::acceptor::Request;
use lustrine_wire::hello::{ConnType, Hello};
use lustrine_wire::nid::Nid;

use super::{HostId, Network, place};

/// Longest request and HELLO that the check reads.
const HEAD_MAX: usize = 256;

/// A peer that dials from a port above this one is another process at each dial [USR-2].
const PRIVILEGED_PORT_MAX: u16 = 1023;

/// So many answers of this kind in a row are one too many.
const NONE_ANSWERS_MAX: u32 = 3;

/// A handshake that the accepting node has not finished.
#[derive(Debug, Default)]
struct Handshake {
    read: Vec<u8>,
    written: Vec<u8>,
}

/// What nodes have been asked and have not answered, and how often in a row they refused.
#[derive(Debug, Default)]
pub(super) struct Hellos {
    handshakes: BTreeMap<SockId, Handshake>,
    refused: BTreeMap<(HostId, IpAddr, Nid), u32>,
}

impl Hellos {
    /// A stream has ended.
    pub(super) fn forget(&mut self, sock: SockId) {
        self.handshakes.remove(&sock);
    }

    /// A host has gone down: its next node knows nothing of the one before it.
    pub(super) fn forget_host(&mut self, host: HostId) {
        self.refused.retain(|(of, ..), _| *of != host);
    }
}

/// The HELLO that a dialler has sent after its request.
fn dialled(head: &[u8]) -> Option<Hello> {
    let Ok(Progress::Got(_, len)) = Request::parse(head) else { return None };
    hello_in(&head[len..])
}

fn hello_in(bytes: &[u8]) -> Option<Hello> {
    match Hello::parse(bytes) {
        Ok(Progress::Got(hello, _)) => Some(hello),
        _ => None,
    }
}

fn keep(held: &mut Vec<u8>, bytes: &[u8]) {
    let room = HEAD_MAX.saturating_sub(held.len());
    held.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

impl Network {
    /// A node has read these bytes from a stream that it accepted and has written nothing to.
    pub(crate) fn watch_read(&mut self, sock: SockId, bytes: &[u8]) {
        let silent = self.end(sock).is_some_and(|end| end.written == 0);
        if place(sock).1 == 1 && silent {
            keep(&mut self.hellos.handshakes.entry(sock).or_default().read, bytes);
        }
    }

    /// A node writes these bytes.
    ///
    /// # Panics
    /// When they end the third NONE in a row to one dialler.
    pub(crate) fn watch_write(&mut self, host: HostId, sock: SockId, bytes: &[u8]) {
        let Some(handshake) = self.hellos.handshakes.get_mut(&sock) else { return };
        keep(&mut handshake.written, bytes);
        let Some(asked) = dialled(&handshake.read) else { return };
        let Some(answer) = hello_in(&handshake.written) else { return };
        self.hellos.forget(sock);
        let Some((_, remote)) = self.addresses(sock) else { return };
        if remote.port() > PRIVILEGED_PORT_MAX {
            return;
        }
        let dialler = (host, remote.ip(), asked.src.nid);
        let refused = self.hellos.refused.entry(dialler).or_insert(0);
        // Another version is a proposal; a peer asks for BULK connections beyond the first ones
        // until it has heard NONE three times.
        let bulk = matches!(asked.kind, ConnType::BulkIn | ConnType::BulkOut);
        if answer.kind != ConnType::None {
            *refused = 0;
        } else if answer.version == asked.version && !bulk {
            *refused += 1;
            let wrong = *refused >= NONE_ANSWERS_MAX;
            assert!(!wrong, "{host:?} answers NONE {refused} times in a row to {}", asked.src.nid);
        }
    }
}

#[cfg(test)]
mod tests {
    use lustrine_lnet::time::Time;
    use lustrine_wire::ByteOrder;
    use lustrine_wire::hello::{Ips, Version};
    use lustrine_wire::nid::{Net, ProcessId};

    use super::*;
    use crate::rng::Rng;

    fn hello(kind: ConnType) -> Vec<u8> {
        let src = ProcessId::lustre(Nid::new4(Net::TCP, 0x0a00_0001));
        let (version, order, ips) = (Version::V3, ByteOrder::Little, Ips::NONE);
        let (src_incarnation, dst_incarnation) = (1, 0);
        let hello =
            Hello { version, order, src, dst: src, src_incarnation, dst_incarnation, kind, ips };
        let mut bytes = Vec::new();
        hello.encode(&mut bytes).expect("short NIDs");
        bytes
    }

    /// A node is dialled and answers so, each in pieces of one byte.
    fn answers(kinds: &[(ConnType, ConnType)]) {
        let mut network = Network::new(Time(1), Rng::new(1));
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
        let [one, two] = addresses.map(|address: IpAddr| network.add_host(&[address], true));
        let to = core::net::SocketAddr::new(addresses[1], 988);
        for (port, (asked, answer)) in kinds.iter().enumerate() {
            let from = core::net::SocketAddr::new(addresses[0], 1000 + port as u16);
            let sock = super::super::other(network.dial_from(one, from, to));
            let mut bytes = Vec::new();
            Request::new(Nid::new4(Net::TCP, 0x0a00_0002)).encode(&mut bytes).expect("short");
            bytes.extend(hello(*asked));
            for byte in bytes {
                network.watch_read(sock, &[byte]);
            }
            for byte in hello(*answer) {
                network.watch_write(two, sock, &[byte]);
            }
        }
        assert!(network.hellos.handshakes.is_empty());
    }

    const CONTROL: (ConnType, ConnType) = (ConnType::Control, ConnType::Control);
    const REFUSED: (ConnType, ConnType) = (ConnType::Control, ConnType::None);
    const BULK_REFUSED: (ConnType, ConnType) = (ConnType::BulkIn, ConnType::None);

    #[test]
    fn refusals_with_an_acceptance_between_them_pass() {
        answers(&[REFUSED, REFUSED, CONTROL, REFUSED, BULK_REFUSED, BULK_REFUSED, REFUSED]);
    }

    #[test]
    #[should_panic(expected = "answers NONE 3 times in a row to 10.0.0.1@tcp")]
    fn the_third_refusal_in_a_row_does_not() {
        answers(&[REFUSED, REFUSED, REFUSED]);
    }
}
