//! Replays of kernel clients, from what they had sent and received before.

use std::collections::BTreeMap;

use lustrine_capture::{Content, Item, RpcRole};
use lustrine_capture_testing::events;
use lustrine_fswire::body::BodyFlags;
use lustrine_fswire::rpc::Reply;
use lustrine_fswire::rpc::dlm::OpenReply;

use super::*;

/// The buffers behind the body, which differs in what the connection determines.
fn buffers(bytes: &[u8]) -> Vec<Vec<u8>> {
    let message = Message::parse(bytes).expect("a message");
    message.buffers().skip(1).map(<[u8]>::to_vec).collect()
}

/// What was sent first, and its reply.
type Exchange = (Vec<u8>, Option<Vec<u8>>);

/// What a server chose, by its reply.
fn choices(kind: Kind, reply: &[u8]) -> Choices {
    let message = Message::parse(reply).expect("a reply");
    match Reply::parse(kind, &message).expect("a reply to it") {
        Reply::EnqueueOpen(OpenReply { body, ea, .. })
        | Reply::EnqueueOpenCreat(OpenReply { body, ea, .. }) => {
            Choices::Open { fid: body.fid1, handle: body.open_handle, layout: ea.0.into() }
        }
        Reply::EnqueueLayout(reply) => Choices::Layout(reply.lvb.expect("a layout").0.to_vec()),
        other => panic!("{other:?}"),
    }
}

/// How many replays of each kind of a capture are what this client would send.
fn replays(capture: &str) -> BTreeMap<Kind, u32> {
    let mut counts = BTreeMap::new();
    // By client and xid.
    let mut sent: BTreeMap<(String, u64), Exchange> = BTreeMap::new();
    for event in events(capture) {
        let Item::Message(message) = &event.item else { continue };
        let Content::Rpc(rpc) = &message.content else { continue };
        let payload = &event.raw[message.payload_at()..];
        let (src, dst) = (message.header.src.nid, message.header.dst.nid);
        match rpc.role {
            RpcRole::Reply => {
                if let Some((_, reply)) = sent.get_mut(&(dst.to_string(), rpc.xid)) {
                    reply.get_or_insert_with(|| payload.to_vec());
                }
            }
            RpcRole::Request => {
                let key = (src.to_string(), rpc.xid);
                let (parsed, body) = Message::parse_with_body(payload).expect("a request");
                let kind = Kind::of_request(&parsed, &body);
                let Some((first, reply)) = sent.get(&key) else {
                    if !body.flags.contains(BodyFlags::REPLAY) {
                        sent.insert(key, (payload.to_vec(), None));
                    }
                    continue;
                };
                let Some(reply) = reply.as_deref().filter(|_| {
                    body.flags.contains(BodyFlags::REPLAY)
                        && matches!(
                            kind,
                            Kind::EnqueueOpen | Kind::EnqueueOpenCreat | Kind::EnqueueLayout
                        )
                }) else {
                    continue;
                };
                let ours = with_choices(first, &choices(kind, reply)).expect("it can be replayed");
                assert_eq!(buffers(&ours), buffers(payload), "{capture}: {kind:?}");
                *counts.entry(kind).or_default() += 1;
            }
            RpcRole::EarlyReply => {}
        }
    }
    counts
}

/// [MDT-21].
#[test]
fn replays_are_those_of_kernel_clients() {
    let creates = |count| BTreeMap::from([(Kind::EnqueueOpenCreat, count)]);
    assert_eq!(replays("fs/s47_server_power_cycle_replay.pcap"), creates(2));
    assert_eq!(
        replays("fs-c/c12_mdtrestart.pcap.xz"),
        BTreeMap::from([(Kind::EnqueueOpen, 1)]),
        "of an open file that was committed"
    );
    assert_eq!(replays("fs-x/x25_power_cut_replay.pcap.xz"), creates(2));
    let layouts = replays("fs-x/x37_layout_replay.pcap.xz");
    let expected = [(Kind::EnqueueOpenCreat, 3), (Kind::EnqueueLayout, 2)];
    assert_eq!(layouts, BTreeMap::from(expected));
}
