//! What a client asks its management server, and what it makes of answers that break the protocol.

mod anew;

use lustrine_fswire::codec::{Wire, Writer};
use lustrine_fswire::connect::ConnectFlags;
use lustrine_fswire::ldlm::{LdlmReply, LdlmRequest, LockDesc, LockMode, LockType, Resource};
use lustrine_fswire::llog::{
    CHUNK_SIZE, CfgCommand, Chunk, LlogBody, LlogFlags, LlogHeader, LlogHeaderFields, LogId,
    LustreCfg, Marker, MarkerFlags, Record, RecordKind,
};
use lustrine_fswire::mgs::{ConfigKind, ConfigRes, NidEntry, NidEntryHeader, NidForm, TargetKind};
use lustrine_fswire::rpc::{Lvb, dlm};
use lustrine_ptlrpc::{Import, RpcError};

use super::*;
use crate::client::mgc::{ConfigLock, MgcView, Which};
use crate::client::settings::{MaxRpcs, RpcSettings};
use crate::config::{Command, Parameter, Scope};

/// The log of a file system with the targets that the client of these tests has.
#[derive(Clone, Default)]
struct Log {
    bytes: Vec<u8>,
    index: u32,
}

impl Log {
    fn of_targets() -> Log {
        let mut log = Log::default();
        for (kind, index) in [("MDT", 0), ("OST", 0), ("OST", 1)] {
            log.target(kind, index);
        }
        log
    }

    fn command(&mut self, command: CfgCommand, arguments: &[&[u8]]) {
        let mut config = LustreCfg::new(command, arguments);
        if command == CfgCommand::ADD_UUID {
            config.header.nid = test_nid(1).to_short().expect("a short NID");
        }
        let mut payload = Vec::new();
        config.write(&mut Writer::new(&mut payload));
        self.index += 1;
        let record =
            Record { index: self.index, kind: RecordKind::CONFIG, id: 0, payload: &payload };
        record.write(&mut Writer::new(&mut self.bytes));
    }

    fn marker(&mut self, flags: MarkerFlags) {
        let marker = Marker { flags, ..Marker::default() }.to_bytes();
        self.command(CfgCommand::MARKER, &[&[], &marker]);
    }

    fn target(&mut self, kind: &str, index: u32) {
        let (uuid, number) = (format!("lustre-{kind}{index:04x}_UUID"), index.to_string());
        self.marker(MarkerFlags::START);
        self.command(CfgCommand::ADD_UUID, &[&[], b"node"]);
        self.command(CfgCommand::SETUP, &[uuid.as_bytes(), uuid.as_bytes(), b"node"]);
        let add = if kind == "MDT" { CfgCommand::ADD_MDC } else { CfgCommand::LOV_ADD_OBD };
        self.command(add, &[b"all", uuid.as_bytes(), number.as_bytes(), b"1"]);
        self.marker(MarkerFlags::END);
    }

    /// What `lctl set_param -P` writes.
    fn parameter(&mut self, text: &str) {
        self.marker(MarkerFlags::START);
        self.command(CfgCommand::SET_PARAM, &[b"lustre", text.as_bytes(), b"lctl"]);
        self.marker(MarkerFlags::END);
    }
}

/// The lock that an enqueue asks for, and the client's handle.
fn asked_lock(asked: &Asked) -> (LockDesc, Handle, u32) {
    asked.with(|request| match request {
        Request::Enqueue(enqueue) => {
            let lock: &LdlmRequest<'_> = &enqueue.lock;
            (lock.desc, lock.handle(0).expect("a handle"), lock.count)
        }
        other => panic!("{other:?}"),
    })
}

impl World {
    /// Grants the lock that is asked for, which must be of this configuration.
    fn grant_config(&mut self, name: &str, kind: ConfigKind) -> Handle {
        let asked = self.next(Kind::Enqueue);
        let (desc, handle, count) = asked_lock(&asked);
        let resource = Resource::of_config(name.as_bytes(), kind.0.into());
        let expected = LockDesc {
            kind: LockType::PLAIN,
            resource,
            req_mode: LockMode::CR,
            ..LockDesc::default()
        };
        assert_eq!((desc, count), (expected, 0));
        let desc = LockDesc { granted_mode: LockMode::CR, ..desc };
        let reply = LdlmReply { desc, handle: Handle(handle.0 ^ 0xff), ..LdlmReply::default() };
        let reply = dlm::EnqueueReply { reply, lvb: Some(Lvb(&[])) };
        self.answer(&asked, 0, &ReplyBuffers::Enqueue(reply));
        handle
    }

    fn opened(&mut self, name: &str) {
        let asked = self.next(Kind::LlogCreate);
        asked.with(|request| match request {
            Request::LlogCreate(create) => {
                assert_eq!(create.name.expect("a name").as_bytes(), name.as_bytes());
            }
            other => panic!("{other:?}"),
        });
        let body = LlogBody { log: LogId { id: 7, seq: 1, ogen: 0 }, ..LlogBody::default() };
        self.answer(&asked, 0, &ReplyBuffers::LlogCreate(obd::Llog { body }));
    }

    /// Answers READ_HEADER: all records up to `last` are live.
    fn header(&mut self, last: u32) {
        let asked = self.next(Kind::LlogReadHeader);
        let fields = LlogHeaderFields {
            bitmap_offset: 88,
            flags: LlogFlags::PLAIN,
            ..LlogHeaderFields::default()
        };
        let header = LlogHeader { fields, bitmap: &[0xff; 8096], last_index: last };
        let reply = obd::LlogHead { header: Some(header) };
        self.answer(&asked, 0, &ReplyBuffers::LlogReadHeader(reply));
    }

    /// Answers NEXT_BLOCK with a chunk. The first record that was asked for.
    fn block(&mut self, log: &Log) -> u32 {
        let asked = self.next(Kind::LlogNextBlock);
        let body = asked.with(|request| match request {
            Request::LlogNextBlock(block) => block.body,
            other => panic!("{other:?}"),
        });
        let mut bytes = log.bytes.clone();
        bytes.resize(CHUNK_SIZE, 0);
        let reply = obd::LlogBlock { body, chunk: Chunk(&bytes) };
        self.answer(&asked, 0, &ReplyBuffers::LlogNextBlock(reply));
        body.index
    }

    /// Answers MGS_CONFIG_READ with entries. The first version that was asked for.
    fn table(&mut self, bytes: &[u8], (offset, size): (u64, u64)) -> u64 {
        let asked = self.next(Kind::MgsConfigRead);
        let body = asked.with(|request| match request {
            Request::MgsConfigRead(read) => read.body,
            other => panic!("{other:?}"),
        });
        assert_eq!((body.name.as_bytes(), body.kind), (&b"lustre-cliir"[..], ConfigKind::RECOVER));
        self.put((portal::MGS_BULK, asked.body.mbits, 0), bytes);
        let reply = obd::ConfigReadReply { res: ConfigRes { offset, size } };
        self.answer(&asked, 0, &ReplyBuffers::MgsConfigRead(reply));
        body.offset
    }

    fn view(&self) -> MgcView {
        self.client.mgc(self.now)
    }

    /// Lets the pause pass after which locks are asked for again.
    fn pause(&mut self) {
        self.now = self.now + Nanos::from_secs(11);
        self.act(|client, turn| client.drive(turn));
        // Pings of connections that were not used.
        self.asked.retain(|asked| asked.kind != Kind::ObdPing);
    }

    /// The server calls a lock back; the client cancels it.
    fn call_back(&mut self, handle: Handle) {
        let import = self.client.mgs.expect("it is mounted");
        let desc =
            LockDesc { kind: LockType::PLAIN, req_mode: LockMode::EX, ..LockDesc::default() };
        let handles = [handle, Handle(handle.0 ^ 0xff)];
        let lock =
            LdlmRequest { desc, handles: handles.as_slice().into(), ..LdlmRequest::default() };
        let request = Request::LdlmBlCallback(dlm::Lock { lock });
        self.send_callback(import, &request);
    }

    /// The client gives a lock back.
    fn canceled(&mut self) {
        let cancel = self.next(Kind::LdlmCancel);
        self.answer(&cancel, 0, &ReplyBuffers::Bare);
    }

    /// Nothing is answered until the client connects to the MGS once more.
    fn cut_off(&mut self) -> Asked {
        for _ in 0..300 {
            self.now = self.now + Nanos::from_secs(1);
            self.act(|client, turn| client.drive(turn));
            self.asked.retain(|asked| asked.kind == Kind::MgsConnect);
            if let Some(asked) = self.asked.pop_front() {
                return asked;
            }
        }
        panic!("it does not find out");
    }

    fn connected(&mut self, asked: &Asked, imperative_recovery: bool) {
        let mut data = offers::of(Target::Mgs, false, true);
        if !imperative_recovery {
            data.flags -= ConnectFlags::IMP_RECOV;
        }
        self.answer(asked, 0, &ReplyBuffers::MgsConnect(obd::ConnectReply { data }));
    }

    /// Time passes until locks are asked for again; the servers answer pings meanwhile.
    fn requeue_time(&mut self) {
        let at = self.client.mgc_deadline();
        while self.now < at {
            self.now = at.min(self.now + Nanos::from_secs(1));
            self.act(|client, turn| client.drive(turn));
            let (pings, others): (VecDeque<_>, _) =
                self.asked.drain(..).partition(|asked| asked.kind == Kind::ObdPing);
            self.asked = others;
            for ping in pings {
                self.answer(&ping, 0, &ReplyBuffers::Bare);
            }
        }
        self.asked.retain(|asked| asked.kind == Kind::Enqueue);
    }

    /// Grants and reads what is asked for again, which is all that there is.
    fn read_again(&mut self) {
        self.grant_config("lustre", ConfigKind::RECOVER);
        self.table(&[], (2, 2));
        self.read_logs_again();
    }

    fn read_logs_again(&mut self) {
        self.grant_config("lustre", ConfigKind::CONFIG);
        self.opened("lustre-client");
        self.header(Log::of_targets().index);
        self.grant_config("params", ConfigKind::PARAMS);
        self.refuse(Kind::LlogCreate, 2);
        self.grant_config("lustre", ConfigKind::CONFIG);
        self.refuse(Kind::LlogCreate, 2);
        assert!(self.asked.is_empty());
    }

    fn config_locks(&self) -> Vec<ConfigLock> {
        self.view().configs.iter().map(|config| config.lock).collect()
    }

    /// Most reads and writes at the first object target.
    fn ost_limit(&self) -> u16 {
        let import = self.client.rpc.import(self.client.osts[&0]).expect("it is known");
        import.tunables().max_rpcs_in_flight
    }

    /// The request for the root is answered.
    fn root(&mut self) {
        let asked = self.next(Kind::MdsGetRoot);
        let body = MdtBody { fid1: Fid::ROOT, valid: MdValid::ID, ..MdtBody::default() };
        self.answer(&asked, 0, &ReplyBuffers::MdsGetRoot(mds::GetRootReply { body }));
    }

    /// The first half of a mount: up to the root. The lock of the targets' log.
    fn mounting(log: &Log) -> (World, Slot<Fid>, Handle) {
        let mut world = World::new();
        let slot = world.start(Client::mount);
        let asked = world.next(Kind::MgsConnect);
        let granted = obd::ConnectReply { data: offers::of(Target::Mgs, false, true) };
        world.answer(&asked, 0, &ReplyBuffers::MgsConnect(granted));
        world.grant_config("lustre", ConfigKind::CONFIG);
        world.refuse(Kind::LlogCreate, 2);
        let targets = world.grant_config("lustre", ConfigKind::CONFIG);
        world.opened("lustre-client");
        world.header(log.index);
        (world, slot, targets)
    }

    /// A client that is mounted, and its locks of targets, table and parameters.
    fn mounted(parameters: &Log, table: &[u8], versions: (u64, u64)) -> (World, [Handle; 3]) {
        let log = Log::of_targets();
        let (mut world, slot, targets) = World::mounting(&log);
        assert_eq!(world.block(&log), 1);
        world.root();
        let recover = world.grant_config("lustre", ConfigKind::RECOVER);
        assert_eq!(world.table(table, versions), 1);
        let params = world.grant_config("params", ConfigKind::PARAMS);
        world.opened("params");
        world.header(parameters.index);
        if parameters.index > 0 {
            world.block(parameters);
        }
        assert_eq!(slot.outcome(), Ok(Fid::ROOT));
        assert!(world.asked.is_empty());
        (world, [targets, recover, params])
    }
}

/// An entry of a table of NIDs.
fn entry(version: u64, target: (TargetKind, u32), instance: u32) -> Vec<u8> {
    entry_at(test_nid(1), version, target, instance)
}

/// The same, at a node.
fn entry_at(nid: Nid, version: u64, (kind, index): (TargetKind, u32), instance: u32) -> Vec<u8> {
    let raw = nid.to_long();
    let header = NidEntryHeader {
        version,
        instance,
        index,
        len: 44,
        kind,
        form: NidForm::LONG,
        nid_size: 20,
        nid_count: 1,
    };
    let mut bytes = Vec::new();
    NidEntry::new(header, &raw).write(&mut Writer::new(&mut bytes));
    bytes
}

/// The order is that of fs/s01_client_mount #7 to #40.
#[test]
fn a_mount_asks_as_a_kernel_does() {
    let mut parameters = Log::default();
    parameters.parameter("osc.*.max_rpcs_in_flight=3");
    parameters.parameter("obdfilter.*.read_cache_enable=0");
    let table = [entry(3, (TargetKind::MDT, 0), 0), entry(4, (TargetKind::OST, 0), 0)].concat();
    let (world, _) = World::mounted(&parameters, &table, (4, 4));
    let view = world.view();
    let locks: Vec<_> = view.configs.iter().map(|config| (config.lock, config.last)).collect();
    let last = u64::from(Log::of_targets().index);
    let held = ConfigLock::Held;
    assert_eq!(locks, [(held, 0), (held, last), (held, 4), (held, 6)]);
    assert_eq!((view.ignored, view.reconnects, view.changes), (1, 0, 0));
}

#[test]
fn a_lock_that_is_called_back_is_asked_for_after_a_pause_and_only_what_is_new_is_read() {
    let (mut world, [targets, ..]) = World::mounted(&Log::default(), &[], (2, 2));
    world.call_back(targets);
    assert_eq!(world.callbacks.pop_front(), Some(0));
    world.canceled();
    assert!(world.asked.is_empty(), "it waits");
    // Once more: the client does not have it.
    world.call_back(targets);
    assert_eq!(world.callbacks.pop_front(), Some(-22));
    world.now = world.now + Nanos::from_secs(4);
    world.act(|client, turn| client.drive(turn));
    assert!(world.asked.is_empty(), "it still waits");
    world.pause();
    let again = world.grant_config("lustre", ConfigKind::CONFIG);
    let mut log = Log::of_targets();
    let known = log.index;
    log.target("OST", 2);
    world.opened("lustre-client");
    world.header(log.index);
    assert_eq!(world.block(&log), known + 1);
    let connect = world.next(Kind::OstConnect);
    let granted = obd::ConnectReply { data: offers::of(Target::Ost, false, false) };
    world.answer(&connect, 0, &ReplyBuffers::OstConnect(granted));
    let name = connect.with(|request| match request {
        Request::OstConnect(connect) => connect.target.as_bytes().to_vec(),
        other => panic!("{other:?}"),
    });
    assert!(name.starts_with(b"lustre-OST0002_UUID"), "{name:?}");
    assert!(world.asked.is_empty(), "the others are not asked for");
    // It is called back while it is being read: it is given up at once, and read once more.
    world.call_back(again);
    world.canceled();
    world.pause();
    let third = world.grant_config("lustre", ConfigKind::CONFIG);
    world.call_back(third);
    world.opened("lustre-client");
    world.canceled();
    world.header(log.index);
    assert!(world.asked.is_empty());
    assert_eq!(world.view().configs[1].lock, ConfigLock::Lost);
    world.pause();
    world.grant_config("lustre", ConfigKind::CONFIG);
}

/// As after a writeconf: it has fewer records, and another target is not there any more.
/// The order is that of fs/s42_partition: the MGS knows the client, and has called nothing back.
#[test]
fn locks_are_asked_for_again_after_the_connection_was_cut() {
    let (mut world, _) = World::mounted(&Log::default(), &[], (2, 2));
    let connect = world.cut_off();
    assert_eq!(world.config_locks(), [ConfigLock::Lost; 4]);
    world.reconnects = true;
    world.connected(&connect, true);
    for _ in Which::ALL {
        world.canceled();
    }
    assert!(world.asked.is_empty(), "it waits");
    assert_eq!(world.config_locks(), [ConfigLock::Lost; 4]);
    world.pause();
    world.read_again();
    assert_eq!(world.config_locks(), [ConfigLock::Held; 4]);
    let losses: Vec<_> = world.view().configs.iter().map(|config| config.losses).collect();
    assert_eq!(losses, [1; 4]);
}

#[test]
fn locks_of_configurations_are_not_replayed_and_are_asked_for_again() {
    let (mut world, _) = World::mounted(&Log::default(), &[], (2, 2));
    let connect = world.cut_off();
    world.recovering = true;
    world.connected(&connect, true);
    // The end of the recovery: no lock was replayed.
    let ping = world.next(Kind::ObdPing);
    world.answer(&ping, 0, &ReplyBuffers::Bare);
    assert!(world.asked.is_empty());
    assert_eq!(world.config_locks(), [ConfigLock::Lost; 4]);
    world.pause();
    world.read_again();
    assert_eq!(world.config_locks(), [ConfigLock::Held; 4]);
}

#[test]
fn an_mgs_that_does_not_tell_of_restarts_any_more_is_not_asked_for_ever() {
    let (mut world, _) = World::mounted(&Log::default(), &[], (2, 2));
    let connect = world.cut_off();
    world.reconnects = true;
    world.connected(&connect, false);
    for _ in Which::ALL {
        world.canceled();
    }
    world.pause();
    world.read_logs_again();
    let (held, none) = (ConfigLock::Held, ConfigLock::None);
    assert_eq!(world.config_locks(), [held, held, none, held]);
    assert_eq!(world.client.mgc_deadline(), Time::NEVER);
}

#[test]
fn pauses_double_with_each_round_that_fails() {
    let (mut world, [_, recover, params]) = World::mounted(&Log::default(), &[], (2, 2));
    for handle in [recover, params] {
        world.call_back(handle);
        world.canceled();
    }
    for seconds in [5, 10, 20, 40, 60, 60] {
        let pause = world.client.mgc_deadline().since(world.now);
        let (least, most) = (Nanos::from_secs(seconds), Nanos::from_secs(seconds + 5));
        assert!((least..most).contains(&pause), "{pause:?} instead of {least:?}");
        world.requeue_time();
        // Refused for good, and for now: one round all the same.
        world.refuse(Kind::Enqueue, 2);
        world.refuse(Kind::Enqueue, 12);
    }
    // A round that succeeds ends that.
    world.requeue_time();
    world.grant_config("lustre", ConfigKind::RECOVER);
    world.table(&[], (2, 2));
    let params = world.grant_config("params", ConfigKind::PARAMS);
    world.refuse(Kind::LlogCreate, 2);
    assert_eq!(world.client.mgc_deadline(), Time::NEVER);
    world.call_back(params);
    let pause = world.client.mgc_deadline().since(world.now);
    assert!(pause < Nanos::from_secs(10), "{pause:?}");
}

#[test]
fn a_table_that_is_malformed_says_nothing() {
    let good = entry(5, (TargetKind::OST, 1), 9);
    let mut bad = good.clone();
    bad[23] = 0;
    let cases: [(Vec<u8>, (u64, u64)); 6] = [
        ([good.clone(), bad].concat(), (5, 5)),
        (good[..30].to_vec(), (5, 5)),
        // It says that there is more, and does not go on.
        (Vec::new(), (0, 5)),
        // It says that it covers three versions, and that there is more, but names no target.
        (Vec::new(), (3, 5)),
        // It covers more than there is.
        (good.clone(), (6, 5)),
        (vec![0xff; 4096], (5, 5)),
    ];
    for (bytes, versions) in cases {
        let (mut world, _) = World::mounted(&Log::default(), &bytes, versions);
        let view = world.view();
        assert!(view.configs[2].error.is_some() && view.reconnects == 0, "{view:?}");
        assert_eq!(view.configs[2].lock, ConfigLock::Held);
        // It is not asked for again until it changes.
        world.pause();
        assert!(world.asked.is_empty());
    }
}

#[test]
fn a_table_without_end_is_given_up() {
    let (mut world, [_, recover, _]) = World::mounted(&Log::default(), &[], (2, 2));
    world.call_back(recover);
    world.canceled();
    world.pause();
    world.grant_config("lustre", ConfigKind::RECOVER);
    let mut parts = 0;
    while world.asked.front().is_some_and(|asked| asked.kind == Kind::MgsConfigRead) {
        parts += 1;
        let version = 2 + parts;
        world.table(&entry(version, (TargetKind::OST, 77), 1), (version, u64::MAX));
    }
    assert_eq!(parts, 16);
    assert!(world.view().configs[2].error.is_some());
}

#[test]
fn a_table_that_begins_anew_is_read_from_the_start() {
    let (mut world, [_, recover, _]) = World::mounted(&Log::default(), &[], (9, 9));
    world.call_back(recover);
    world.canceled();
    world.pause();
    world.grant_config("lustre", ConfigKind::RECOVER);
    assert_eq!(world.table(&[], (3, 3)), 10);
    assert_eq!(world.table(&entry(3, (TargetKind::OST, 0), 4), (3, 3)), 1);
    assert_eq!(world.view().configs[2].last, 3);
}

#[test]
fn records_that_cannot_be_carried_out_stop_a_mount_and_are_left_out_later() {
    let mut bad = Log::of_targets();
    bad.marker(MarkerFlags::START);
    bad.command(CfgCommand(0xcf0ff), &[]);
    let (mut world, slot, _) = World::mounting(&bad);
    world.block(&bad);
    let error = slot.outcome().expect_err("an unknown command");
    assert!(error.to_string().contains("an unknown command"), "{error}");
    assert!(world.asked.is_empty(), "nothing more is asked");

    let (mut world, [targets, ..]) = World::mounted(&Log::default(), &[], (2, 2));
    world.call_back(targets);
    world.canceled();
    world.pause();
    let again = world.grant_config("lustre", ConfigKind::CONFIG);
    bad.marker(MarkerFlags::END);
    bad.parameter("osc.*.max_rpcs_in_flight=3");
    world.opened("lustre-client");
    world.header(bad.index);
    world.block(&bad);
    let view = world.view();
    assert_eq!(
        view.last_change.map(|(what, _)| what).as_deref(),
        Some("osc.*.max_rpcs_in_flight=3")
    );
    let left_out = view.configs[1].left_out.clone().expect("what was left out");
    let number = Log::of_targets().index + 2;
    assert_eq!(left_out, format!("record {number}: an unknown command"));
    assert_eq!(view.configs[1].error, None);
    // The lock is held: it is notified of the next change. What was left out is still shown then.
    assert_eq!(view.configs[1].lock, ConfigLock::Held);
    world.call_back(again);
    world.canceled();
    world.pause();
    world.grant_config("lustre", ConfigKind::CONFIG);
    world.opened("lustre-client");
    world.header(bad.index);
    assert_eq!(world.view().configs[1].left_out, Some(left_out));
}

#[test]
fn chunks_that_say_nothing_new_end_the_reading() {
    for bytes in [Vec::new(), vec![0xff; CHUNK_SIZE]] {
        let (mut world, [_, _, params]) = World::mounted(&Log::default(), &[], (2, 2));
        world.call_back(params);
        world.canceled();
        world.pause();
        world.grant_config("params", ConfigKind::PARAMS);
        world.opened("params");
        world.header(u32::MAX);
        world.block(&Log { bytes, index: 0 });
        assert!(world.asked.is_empty());
        assert!(world.view().configs[3].error.is_some());
    }
}

#[test]
fn an_unmount_ends_a_mount_that_waits() {
    let mut world = World::new();
    let slot = world.start(Client::mount);
    let gone = world.start(Client::unmount);
    assert_eq!(slot.outcome(), Err(crate::error::ClientError::Rpc(RpcError::Closed)));
    assert!(gone.is_pending());
}

/// Parameters as a reading of `params` finds them.
fn parameters(texts: impl Iterator<Item = String>) -> Vec<Command> {
    let parameter = |text: String| Parameter::of_path(text.as_bytes()).expect("a parameter");
    texts.map(|text| Command::Parameter(parameter(text))).collect()
}

/// What a log costs is counted in parameters that are held against targets.
#[test]
fn a_long_log_costs_little_in_one_turn() {
    let (mut world, _) = World::mounted(&Log::default(), &[], (2, 2));
    let take = |world: &mut World, commands: Vec<Command>| {
        let before = world.client.mgc.steps();
        world.act(|client, turn| client.take_commands(turn, Which::Params, commands));
        world.client.mgc.steps() - before
    };
    // One parameter 60,000 times: the last one counts.
    let same = (0..60_000).map(|at| format!("osc.*.max_rpcs_in_flight={}", 1 + at % 500));
    assert_eq!(take(&mut world, parameters(same)), 3);
    assert_eq!(world.ost_limit(), 1 + 59_999 % 500);
    assert_eq!(world.view().changes, 1);
    // Many patterns, and many devices: neither pushes the others out.
    let patterns = (0..60_000).map(|at| format!("osc.*{at}.max_rpcs_in_flight=7"));
    let cost = take(&mut world, parameters(patterns));
    assert!(cost <= 3 * 1024, "{cost}");
    let device = |at: u32| {
        let device = format!("lustre-OST{at:04x}-osc");
        Parameter::of_device(device.as_bytes(), b"osc.max_rpcs_in_flight=9").expect("a parameter")
    };
    let devices = (0..60_000).map(|at| Command::Parameter(device(at))).collect();
    assert_eq!(take(&mut world, devices), 2);
    let kept = world.client.mgc.kept();
    let of_devices = kept.iter().filter(|kept| matches!(kept.scope, Scope::Device(_))).count();
    assert_eq!((kept.len(), of_devices), (2048, 1024));
    // A new value does not take a second place.
    take(&mut world, vec![Command::Parameter(device(59_999))]);
    assert_eq!(world.client.mgc.kept().len(), 2048);
    // A value that it cannot have does not hide the one before.
    let texts = ["osc.*.max_rpcs_in_flight=11", "osc.*.max_rpcs_in_flight=none"];
    take(&mut world, parameters(texts.into_iter().map(str::to_owned)));
    assert_eq!(world.ost_limit(), 11);
}

#[test]
fn a_target_that_starts_all_the_time_is_connected_once_for_a_part_of_the_table() {
    let (mut world, [_, recover, _]) = World::mounted(&Log::default(), &[], (2, 2));
    world.call_back(recover);
    world.canceled();
    world.pause();
    world.grant_config("lustre", ConfigKind::RECOVER);
    let elsewhere = |at| entry_at(test_nid(5), at, (TargetKind::OST, 0), at as u32);
    let starts: Vec<u8> = (3..1003).flat_map(elsewhere).collect();
    assert!(starts.len() <= 64 << 10);
    world.table(&starts, (1002, 1002));
    assert_eq!(world.view().reconnects, 1);
    assert_eq!(world.view().configs[2].last, 1002);
}

#[test]
fn what_the_user_sets_wins_over_parameters_of_the_mount_that_come_late() {
    let log = Log::of_targets();
    let (mut world, slot, _) = World::mounting(&log);
    world.block(&log);
    world.root();
    world.grant_config("lustre", ConfigKind::RECOVER);
    // The table is not given in time.
    world.now = world.now + Nanos::from_secs(6);
    world.act(|client, turn| client.drive(turn));
    assert_eq!(slot.outcome(), Ok(Fid::ROOT));
    let settings =
        RpcSettings { max_rpcs_in_flight: Some(MaxRpcs::Fixed(32)), ..RpcSettings::default() };
    world.act(|client, turn| client.set_rpc_settings(turn, settings));
    world.table(&[], (2, 2));
    let params = world.grant_config("params", ConfigKind::PARAMS);
    let mut parameters = Log::default();
    parameters.parameter("osc.*.max_rpcs_in_flight=3");
    parameters.parameter("osc.*.max_mod_rpcs_in_flight=3");
    world.opened("params");
    world.header(parameters.index);
    world.block(&parameters);
    assert_eq!(world.ost_limit(), 32);
    assert_eq!(world.view().changes, 1, "what the user has not set is carried out");
    // A later change counts.
    world.call_back(params);
    world.canceled();
    world.pause();
    world.grant_config("params", ConfigKind::PARAMS);
    parameters.parameter("osc.*.max_rpcs_in_flight=4");
    world.opened("params");
    world.header(parameters.index);
    world.block(&parameters);
    assert_eq!(world.ost_limit(), 4);
}
