//! What kernel clients and an MGS said to each other, read by this client.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_capture::{Content, Item, RpcRole};
use lustrine_capture_testing::events;
use lustrine_fswire::ldlm::LdlmRequest;
use lustrine_fswire::llog::{LlogHeader, LogId};
use lustrine_fswire::message::Message;
use lustrine_fswire::mgs::{TargetKind, nid_table};
use lustrine_fswire::opcode::Opcode;
use lustrine_fswire::rpc::{Kind, Reply, Request};

use super::*;
use crate::config::{Command, Setting};

/// The captures in which clients follow a configuration.
const CAPTURES: [&str; 12] = [
    "fs/s01_client_mount.pcap",
    "fs/s30_second_client_mount.pcap",
    "fs/s42_partition.pcap",
    "fs/s43_ost_restart.pcap",
    "fs/s44_mdt_forced_restart.pcap",
    "fs/s45_remount_after_both_down.pcap",
    "fs/s46_mdt_failover_restart.pcap",
    "fs/s47_server_power_cycle_replay.pcap",
    "fs/t3_client_mount.pcap",
    "fs/t7_conf_param.pcap",
    "fs-x/x36_imperative_recovery_mdt0.pcap.xz",
    "fs-x/x36_imperative_recovery_ost0.pcap.xz",
];

/// What a capture shows of configurations.
#[derive(Default)]
struct Seen {
    /// The logs that each client has opened, by the server's id, and what was read of them.
    logs: BTreeMap<(String, String), (LogId, ConfigReader)>,
    /// Entries of tables of NIDs: kind, index, instance, NIDs.
    entries: BTreeSet<(u8, u32, u32, Vec<String>)>,
    /// Seconds from a callback for the lock of a configuration to the next enqueue for it.
    pauses: Vec<f64>,
    /// Enqueues for locks of configurations.
    enqueues: usize,
    /// Requests for tables of NIDs.
    tables: usize,
}

/// Whether a lock is one that a client of ours would ask for.
fn is_followed(lock: &LdlmRequest<'_>, fsname: &str) -> bool {
    let resources = Which::ALL.map(|which| which.resource(fsname));
    lock.desc.kind == LockType::PLAIN && resources.contains(&lock.desc.resource)
}

fn look(capture: &str, fsname: &str) -> Seen {
    let mut seen = Seen::default();
    let mut requests: BTreeMap<(String, u64), Vec<u8>> = BTreeMap::new();
    let mut headers: BTreeMap<(String, u64), Vec<u8>> = BTreeMap::new();
    let mut lost: BTreeMap<(String, Resource), u64> = BTreeMap::new();
    for event in events(capture) {
        let Item::Message(message) = &event.item else { continue };
        let payload = &event.raw[message.payload_at()..];
        let (src, dst) = (message.header.src.nid.to_string(), message.header.dst.nid.to_string());
        if let Content::Bulk(bulk) = &message.content
            && bulk.kind == Kind::MgsConfigRead
        {
            for entry in nid_table(payload) {
                let entry = entry.expect("a good entry");
                let header = entry.header;
                let nids = entry.nids().map(|nid| nid.to_string()).collect();
                seen.entries.insert((header.kind.0, header.index, header.instance, nids));
            }
        }
        let Content::Rpc(rpc) = &message.content else { continue };
        match rpc.role {
            RpcRole::Request => {
                let (parsed, body) = Message::parse_with_body(payload).expect("a request");
                let request = Request::parse(&parsed, &body).expect("its buffers");
                match &request {
                    Request::Enqueue(enqueue) if is_followed(&enqueue.lock, fsname) => {
                        let lock = &enqueue.lock;
                        assert_eq!((lock.desc.req_mode, lock.count), (LockMode::CR, 0));
                        assert!(lock.flags.is_empty() && parsed.buffers().count() == 2);
                        seen.enqueues += 1;
                        if let Some(at) = lost.remove(&(src.clone(), lock.desc.resource)) {
                            seen.pauses.push((event.time_ns - at) as f64 / 1e9);
                        }
                    }
                    Request::LdlmBlCallback(callback) if is_followed(&callback.lock, fsname) => {
                        let key = (dst.clone(), callback.lock.desc.resource);
                        lost.entry(key).or_insert(event.time_ns);
                    }
                    Request::MgsConfigRead(read) => {
                        assert_eq!(
                            read.body.name.as_bytes(),
                            Which::Recover.name(fsname).as_bytes()
                        );
                        assert_eq!((read.body.nid_size, read.body.bits), (20, 12));
                        seen.tables += 1;
                    }
                    _ => {}
                }
                requests.insert((src, rpc.xid), payload.to_vec());
            }
            RpcRole::Reply => {
                let Some(asked) = requests.get(&(dst.clone(), rpc.xid)) else { continue };
                let (parsed, body) = Message::parse_with_body(asked).expect("a request");
                let request = Request::parse(&parsed, &body).expect("its buffers");
                let (answer, answered) = Message::parse_reply(payload).expect("a reply");
                let Ok(reply) = Reply::parse(Kind::of_request(&parsed, &body), &answer) else {
                    continue;
                };
                if answered.status < 0 {
                    continue;
                }
                match (&request, &reply) {
                    (Request::LlogCreate(create), Reply::LlogCreate(made)) => {
                        let name = create.name.expect("a name").as_bytes();
                        let name = String::from_utf8_lossy(name).into_owned();
                        let log = seen.logs.entry((dst.clone(), name)).or_default();
                        log.0 = made.body.log;
                    }
                    (Request::LlogReadHeader(asked), Reply::LlogReadHeader(head)) => {
                        let header = head.header.expect("a header");
                        let mut bytes = Vec::new();
                        header.write(&mut lustrine_fswire::codec::Writer::new(&mut bytes));
                        headers.insert((dst, asked.body.log.id), bytes);
                    }
                    (Request::LlogNextBlock(asked), Reply::LlogNextBlock(block)) => {
                        let id = asked.body.log;
                        let Some(header) = headers.get(&(dst.clone(), id.id)) else { continue };
                        let header = LlogHeader::parse(header).expect("a header");
                        let log = seen
                            .logs
                            .iter_mut()
                            .find(|((client, _), (log, _))| *client == dst && *log == id);
                        let Some((_, (_, reader))) = log else { continue };
                        let live = |index| header.is_live(index);
                        reader.read(block.chunk, header.last_index, live).expect("good records");
                    }
                    _ => {}
                }
            }
            RpcRole::EarlyReply => {}
        }
    }
    seen
}

/// [MGS-2] [MGS-14]: locks are asked for as this client asks for them, and again 5 to 10 seconds
/// after they were called back.
#[test]
fn kernel_clients_wait_before_they_ask_for_a_lock_again() {
    let (mut pauses, mut enqueues, mut tables) = (Vec::new(), 0, 0);
    for capture in CAPTURES {
        let fsname = if capture.starts_with("fs-x") { "lustre" } else { "lab" };
        let seen = look(capture, fsname);
        pauses.extend(seen.pauses);
        enqueues += seen.enqueues;
        tables += seen.tables;
    }
    assert!(enqueues >= 20 && tables >= 8, "{enqueues} enqueues, {tables} tables");
    assert!(pauses.len() >= 8, "{pauses:?}");
    assert!(pauses.iter().all(|pause| (5.0..10.5).contains(pause)), "{pauses:?}");
}

/// [MGS-15]: what `lctl conf_param` and `lctl set_param -P` have written in fs/t7_conf_param.
#[test]
fn parameters_are_those_that_an_administrator_has_set() {
    let seen = look("fs/t7_conf_param.pcap", "lab");
    let mut found = Vec::new();
    for ((_, name), (_, mut reader)) in seen.logs {
        for command in reader.take_commands() {
            match command {
                Command::Parameter(parameter) => {
                    found.push((name.clone(), parameter.to_string(), Setting::of(&parameter)));
                }
                Command::Unused(text) => panic!("{text}"),
            }
        }
    }
    let of_osc = "osc.lab-*.max_rpcs_in_flight=7".to_owned();
    let of_llite = "lab-client.llite.max_read_ahead_mb=20".to_owned();
    assert!(found.contains(&("params".to_owned(), of_osc, Some(Setting::MaxRpcsInFlight(7)))));
    let setting = Some(Setting::MaxReadAhead(20 << 20));
    assert!(found.contains(&("lab-client".to_owned(), of_llite, setting)), "{found:?}");
}

/// [MGS-13]: what the MGS says of targets that restart, and where they are at a mount.
#[test]
fn tables_say_where_targets_are() {
    let at = |node: &str| vec![format!("{node}@tcp")];
    let (mdt, ost) = (TargetKind::MDT.0, TargetKind::OST.0);
    let seen = look("fs/s01_client_mount.pcap", "lab");
    let entries = [(mdt, 0, 1, at("10.77.0.2")), (ost, 0, 1, at("10.77.0.2"))];
    assert_eq!(seen.entries, BTreeSet::from(entries));
    let seen = look("fs-x/x36_imperative_recovery_ost0.pcap.xz", "lustre");
    assert_eq!(seen.entries, BTreeSet::from([(ost, 0, 2, at("10.78.0.9"))]));
}

/// The requests of a mount in their order.
#[test]
fn kernel_clients_ask_for_configurations_in_this_order() {
    let mut asked = Vec::new();
    for event in events("fs/s01_client_mount.pcap") {
        let Item::Message(message) = &event.item else { continue };
        let Content::Rpc(rpc) = &message.content else { continue };
        let payload = &event.raw[message.payload_at()..];
        if rpc.role != RpcRole::Request {
            continue;
        }
        let (parsed, body) = Message::parse_with_body(payload).expect("a request");
        match Request::parse(&parsed, &body).expect("its buffers") {
            Request::Enqueue(enqueue) if enqueue.lock.desc.kind == LockType::PLAIN => {
                let resource = enqueue.lock.desc.resource;
                asked.push(resource);
            }
            _ => assert_ne!(body.opcode, Opcode::MGS_TARGET_REG),
        }
    }
    assert_eq!(asked, Which::ALL.map(|which| which.resource("lab")));
}
