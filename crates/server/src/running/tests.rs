//! Requests of kernel clients: they get replies of the form that kernel servers give.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_capture::{Content, Item, RpcRole};
use lustrine_capture_testing::events;
use lustrine_fswire::connect::ConnectData;
use lustrine_fswire::message::{BARE_LEN, Message};
use lustrine_fswire::opcode::Target as Role;
use lustrine_fswire::rpc::Kind as RpcKind;
use lustrine_ptlrpc::server::{ConnectArgs, Connected};
use lustrine_wire::nid::{Nid, ProcessId};

use super::*;
use crate::disk::DiskKind;
use crate::mgs::{Filesystem, FsTarget};
use crate::store::{MdtArgs, OstArgs};

/// A request of a capture, its kind and its reply.
type Exchange = (RpcKind, Vec<u8>, Vec<u8>);

/// The answered requests of a capture, in the order of the replies.
fn exchanges(name: &str) -> Vec<Exchange> {
    let mut asked: BTreeMap<(String, u64), (RpcKind, Vec<u8>)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in events(name) {
        let Item::Message(message) = &event.item else { continue };
        let Content::Rpc(rpc) = &message.content else { continue };
        let payload = event.raw[message.payload_at()..].to_vec();
        let (src, dst) = (message.header.src.nid.to_string(), message.header.dst.nid.to_string());
        match rpc.role {
            RpcRole::Request => {
                let (parsed, body) = Message::parse_with_body(&payload).expect("a request");
                let kind = RpcKind::of_request(&parsed, &body);
                asked.insert((src, rpc.xid), (kind, payload));
            }
            RpcRole::Reply => {
                if let Some((kind, request)) = asked.remove(&(dst, rpc.xid)) {
                    found.push((kind, request, payload));
                }
            }
            RpcRole::EarlyReply => {}
        }
    }
    found
}

fn target(kind: DiskKind) -> (Target, Handle) {
    let mut target = Target::start(Disk::format(kind), &TargetTunables::default(), 1);
    let args = ConnectArgs {
        uuid: b"kernel",
        cookie: Handle::NONE,
        client_handle: Handle(1),
        conn_cnt: 1,
        initial: true,
        peer: ProcessId::lustre(Nid::ANY),
        local: Nid::ANY,
        granted: ConnectData {
            flags: lustrine_fswire::connect::ConnectFlags::LVB_TYPE,
            ..ConnectData::default()
        },
    };
    let connected = target.exports.connect(Time::ZERO, &args, |_| false);
    let Ok(Connected::New(cookie)) = connected else { panic!("it is new") };
    (target, cookie)
}

/// The lengths of structures of fixed size.
const FIXED: [usize; 6] = [184, 112, 216, 208, 144, 8192];

fn lens(message: &[u8]) -> Vec<usize> {
    Message::parse(message).expect("a message").buffers().map(<[u8]>::len).collect()
}

/// The captures follow each other: what one has made is there in the next.
#[test]
fn replies_to_kernel_clients_have_the_buffers_of_kernel_servers() {
    let fsname = "lustre".to_owned();
    let nids = vec!["10.0.0.1@tcp".parse().expect("a NID")];
    let targets = vec![FsTarget { kind: Role::Mdt, index: 0, nids }];
    let mgs = DiskKind::Mgs(vec![Filesystem { name: fsname.clone(), targets }]);
    let mdt = MdtArgs {
        fsname: fsname.clone(),
        index: 0,
        osts: vec![0, 1],
        stripe_count: 1,
        stripe_size: 4 << 20,
        created: 0,
    };
    let ost = DiskKind::Ost(OstArgs { fsname, index: 0, capacity: 1 << 40 });
    let mut targets = [target(mgs), target(DiskKind::Mdt(mdt)), target(ost)];
    let mut same = BTreeSet::new();
    let captures = [
        "fs/s01_client_mount.pcap",
        "fs/s02_mkdir.pcap",
        "fs/s03_create_empty.pcap",
        "fs/s04_write_4K.pcap",
        "fs/s10_stat_cold.pcap",
        "fs/s12_setattr.pcap",
        "fs/s13_rename.pcap",
        "fs/s14_link_symlink.pcap",
        "fs/s15_unlink.pcap",
        "fs/s16_statfs.pcap",
        "fs/s17_xattr.pcap",
        "fs/s22_flock.pcap",
    ];
    for (kind, request, expected) in captures.into_iter().flat_map(exchanges) {
        let (_, body) = Message::parse_with_body(&request).expect("a request");
        let status = crate::answer::body_of(&expected).status;
        // What goes on between servers, and connections, is no affair of a target here.
        if status < 0 || expected.len() == BARE_LEN || body.opcode.is_connect() {
            continue;
        }
        for (target, cookie) in &mut targets {
            let received = Box::new(Received {
                peer: ProcessId::lustre(Nid::ANY),
                local: Nid::ANY,
                portal: 0,
                xid: 0,
                message: request.clone(),
                body: PtlrpcBody { handle: *cookie, ..body },
                arrived: Time::ZERO,
                early_replies: false,
            });
            let mut job = Job::new(1, Work::Rpc, received, 0);
            let step = target.execute(Time::ZERO, &mut job);
            target.release(Time::ZERO, &mut job);
            target.locks.remove_client(0, *cookie);
            let (Step::Reply(reply) | Step::ReplyAfterCommit(reply)) = step else { continue };
            if crate::answer::body_of(&reply).status != status {
                continue;
            }
            let (ours, theirs) = (lens(&reply), lens(&expected));
            assert_eq!(ours.len(), theirs.len(), "{kind:?}: {ours:?} {theirs:?}");
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let fits = !FIXED.contains(theirs) || ours == theirs;
                assert!(fits, "{kind:?}: a buffer of {ours} bytes, not {theirs}");
            }
            same.insert(kind);
        }
    }
    let wanted = [
        RpcKind::MdsGetRoot,
        RpcKind::MdsStatfs,
        RpcKind::MdsGetattr,
        RpcKind::SeqQuery,
        RpcKind::ReintCreate,
        RpcKind::ReintSetattr,
        RpcKind::ReintLink,
        RpcKind::ReintUnlink,
        RpcKind::ReintRename,
        RpcKind::ReintSetxattr,
        RpcKind::EnqueueOpenCreat,
        RpcKind::EnqueueGetattr,
        RpcKind::OstStatfs,
        RpcKind::Enqueue,
    ];
    let missing: Vec<_> = wanted.iter().filter(|kind| !same.contains(kind)).collect();
    assert!(missing.is_empty(), "not seen: {missing:?}; seen: {same:?}");
}
