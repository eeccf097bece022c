//! Changes of the configuration while clients are mounted, and imperative recovery.

use crate::world::{CALLER, MDT, MGS, OST, World};
use lustrine_client::{
    CacheTunables, ClientError, ConfigLock, FileOwner, MgcTunables, MgcView, OpenArgs, OpenFile,
};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_fswire::opcode::{Target, portal};
use lustrine_lnet::time::Nanos;
use lustrine_lnet_testing::{Delivery, test_nid};
use lustrine_ptlrpc::ImportState;
use lustrine_server::{ConfigChange, Disk, DiskKind, FsTarget, OstArgs, TargetTunables};
use lustrine_wire::header::Body;

const ESHUTDOWN: i32 = 108;
const READ_WRITE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE);
const OWNER: FileOwner = FileOwner { uid: 0, gid: 0, projid: 0 };
/// Longest pause before a lock is asked for again, and some more.
const PAUSE: u64 = 11;

fn set_param(text: &str) -> ConfigChange {
    ConfigChange::SetParam(text.to_owned())
}

fn conf_param(device: &str, parameter: &str) -> ConfigChange {
    ConfigChange::ConfParam { device: device.to_owned(), parameter: parameter.to_owned() }
}

fn configure(world: &mut World, change: &ConfigChange) {
    assert!(world.at_server(|server, turn| server.configure(turn, "lustre", change)));
    world.settle();
}

fn view(world: &World, client: usize) -> MgcView {
    world.clients[client].mgc(world.now)
}

/// The locks of a client, in the order of a mount.
fn locks(world: &World, client: usize) -> Vec<ConfigLock> {
    view(world, client).configs.iter().map(|config| config.lock).collect()
}

/// A setting of a target.
fn in_flight(world: &World, client: usize, target: &str) -> u16 {
    let mut targets = world.clients[client].targets();
    let found = targets.find(|(import, _)| import.view().target.starts_with(target));
    found.expect("a target").0.tunables().max_rpcs_in_flight
}

fn state(world: &World, client: usize, target: &str) -> Option<ImportState> {
    let imports = world.clients[client].imports();
    let import = imports.into_iter().find(|import| import.target.starts_with(target));
    import.map(|import| import.state)
}

fn create(world: &mut World, name: &str) -> OpenFile {
    let (root, args) =
        (world.root, OpenArgs { flags: READ_WRITE | OpenFlags::CREAT, mode: 0o644, umask: 0o022 });
    world.wait(0, |c, t, done| c.create(t, CALLER, root, name.as_bytes(), args, done)).unwrap()
}

fn write(world: &mut World, file: &OpenFile, bytes: &[u8]) -> Result<(), ClientError> {
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    world.wait(0, |c, t, done| {
        c.write(t, CALLER, (fid, OWNER), &layout, (0, bytes.to_vec().into()), done)
    })
}

#[test]
fn a_mount_holds_the_locks_of_its_configurations_and_gives_them_back() {
    let mut world = World::mounted(2);
    assert_eq!(locks(&world, 0), [ConfigLock::Held; 4]);
    let names: Vec<String> =
        view(&world, 0).configs.into_iter().map(|config| config.name).collect();
    assert_eq!(names, ["lustre-sptlrpc", "lustre-client", "lustre-cliir", "params"]);
    assert!(view(&world, 0).imperative_recovery);
    assert_eq!(world.server.targets()[MGS].locks, 8);
    for client in 0..2 {
        world.wait(client, |c, t, done| c.unmount(t, done)).unwrap();
    }
    let mgs = world.server.targets()[MGS].clone();
    assert_eq!((mgs.clients, mgs.locks), (0, 0));
}

#[test]
fn who_does_not_follow_has_no_locks_and_reads_once() {
    let mut world = World::following(
        1,
        TargetTunables::default(),
        MgcTunables { follows: false, ..MgcTunables::default() },
    );
    configure(&mut world, &set_param("osc.lustre-*.max_rpcs_in_flight=3"));
    world.pass(PAUSE);
    assert_eq!(locks(&world, 0), [ConfigLock::None; 4]);
    assert_eq!((world.server.targets()[MGS].locks, in_flight(&world, 0, "lustre-OST0000")), (0, 8));
}

#[test]
fn parameters_are_seen_while_mounted() {
    let mut world = World::mounted(2);
    let before = world.server.targets()[MGS].callbacks;
    configure(&mut world, &set_param("osc.lustre-*.max_rpcs_in_flight=3"));
    // Each client has given up one lock, and no other.
    assert_eq!(world.server.targets()[MGS].callbacks, before + 2);
    assert_eq!(locks(&world, 0)[3], ConfigLock::Lost);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 8);
    world.pass(PAUSE);
    for client in 0..2 {
        assert_eq!(locks(&world, client), [ConfigLock::Held; 4]);
        assert_eq!(in_flight(&world, client, "lustre-OST0001"), 3);
        assert_eq!(in_flight(&world, client, "lustre-MDT0000"), 8);
    }
    configure(&mut world, &conf_param("lustre-OST0001-osc", "osc.max_rpcs_in_flight=5"));
    configure(&mut world, &set_param("jobid_var=procname_uid"));
    world.pass(PAUSE);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 3);
    assert_eq!(in_flight(&world, 0, "lustre-OST0001"), 5);
    let view = view(&world, 0);
    assert_eq!((view.changes, view.ignored), (2, 1));
    assert_eq!(view.last_ignored.as_deref(), Some("jobid_var=procname_uid"));
    let (last, _) = view.last_change.expect("a change");
    assert_eq!(last, "lustre-OST0001-osc.osc.max_rpcs_in_flight=5");
}

/// They hold no locks. Metadata targets stay connected.
#[test]
fn targets_are_disconnected_when_they_are_not_used_for_as_long_as_the_configuration_says() {
    let mut world = World::mounted(1);
    let states = |world: &World| {
        ["MDT0000", "OST0000", "OST0001"].map(|name| state(world, 0, &format!("lustre-{name}")))
    };
    let (full, idle) = (Some(ImportState::Full), Some(ImportState::Idle));
    world.pass(25);
    assert_eq!(states(&world), [full, idle, idle]);
    assert_eq!([OST, OST + 1].map(|ost| world.server.targets()[ost].clients), [0, 0]);
    let file = create(&mut world, "data");
    write(&mut world, &file, &[7; 200_000]).unwrap();
    configure(&mut world, &set_param("osc.*.idle_timeout=0"));
    world.pass(600);
    assert_eq!(states(&world), [full; 3]);
}

/// A client whose connection was about to end when the target restarted is waited for in its
/// recovery, and comes back to end it.
#[test]
fn a_recovery_does_not_wait_for_a_client_that_has_become_idle() {
    let mgc = MgcTunables { imperative_recovery: false, ..MgcTunables::default() };
    let mut world = World::following(1, TargetTunables::default(), mgc);
    world.pass(15);
    world.server.crash_target(OST);
    world.server.start_target(OST);
    world.pass(1);
    assert!(world.server.targets()[OST].recovering, "it is known there");
    world.pass(10);
    assert!(!world.server.targets()[OST].recovering);
    world.pass(25);
    assert_eq!(state(&world, 0, "lustre-OST0000"), Some(ImportState::Idle));
    assert_eq!(
        (world.server.targets()[OST].clients, world.server.targets()[OST].evictions),
        (0, 0)
    );
}

#[test]
fn who_sets_something_last_wins() {
    let mut world = World::mounted(1);
    let mut settings = lustrine_client::RpcSettings::default();
    settings.set("max_rpcs_in_flight", "20").unwrap();
    world.at_client(0, |client, turn| client.set_rpc_settings(turn, settings));
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 20);
    configure(&mut world, &set_param("osc.*.max_rpcs_in_flight=4"));
    world.pass(PAUSE);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 4);
    // What was read once is not read again.
    world.at_client(0, |client, turn| client.set_rpc_settings(turn, settings));
    configure(&mut world, &set_param("osc.*.max_dirty_mb=64"));
    world.pass(PAUSE);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 20);
}

#[test]
fn the_parameters_of_a_mount_are_in_force_when_it_is_over() {
    let mut world = World::new(1, TargetTunables::default());
    configure(&mut world, &set_param("osc.lustre-OST0000-osc-[^M]*.max_rpcs_in_flight=2"));
    configure(&mut world, &conf_param("lustre-OST0001-osc", "osc.max_rpcs_in_flight=6"));
    world.root = world.wait(0, |client, turn, done| client.mount(turn, done)).unwrap();
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 2);
    assert_eq!(in_flight(&world, 0, "lustre-OST0001"), 6);
    assert_eq!((view(&world, 0).changes, view(&world, 0).last_change), (0, None));
}

#[test]
fn a_target_that_is_switched_off_fails_requests_and_comes_back() {
    let mut world = World::mounted(1);
    let file = create(&mut world, "data");
    assert_eq!(file.layout.objects().count(), 2);
    write(&mut world, &file, &[7; 200_000]).unwrap();
    configure(&mut world, &conf_param("lustre-OST0001-osc", "osc.active=0"));
    world.pass(PAUSE);
    let start = world.now;
    let refused = write(&mut world, &file, &[8; 200_000]).unwrap_err();
    assert_eq!(refused.errno(), ESHUTDOWN);
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    let size = world.wait(0, |c, t, done| c.size(t, CALLER, fid, &layout, done)).unwrap_err();
    assert_eq!(size.errno(), ESHUTDOWN);
    // What is on the other one can be written.
    write(&mut world, &file, &[8; 60_000]).unwrap();
    assert_eq!(world.now, start, "nothing waits");
    // A restart of the target does not bring it back.
    world.server.crash_target(OST + 1);
    world.server.start_target(OST + 1);
    world.pass(200);
    assert_eq!(state(&world, 0, "lustre-OST0001"), Some(ImportState::Disconn));
    configure(&mut world, &conf_param("lustre-OST0001-osc", "osc.active=1"));
    world.pass(PAUSE);
    write(&mut world, &file, &[9; 200_000]).unwrap();
    let read =
        world.wait(0, |c, t, done| c.read(t, CALLER, fid, &layout, (0, 200_000), done)).unwrap();
    assert!(read.iter().all(|byte| *byte == 9));
}

#[test]
fn what_waits_for_a_target_fails_when_it_is_switched_off() {
    let cache = CacheTunables::of(32 << 20);
    let mut world = World::caching(1, TargetTunables::default(), cache);
    world.root = world.wait(0, |client, turn, done| client.mount(turn, done)).unwrap();
    let file = create(&mut world, "data");
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    write(&mut world, &file, &[7; 200_000]).unwrap();
    world.server.crash_target(OST + 1);
    let synced = world.start(0, |c, t, done| c.fsync(t, CALLER, fid, &layout, done));
    world.pass(60);
    assert!(synced.is_pending());
    configure(&mut world, &conf_param("lustre-OST0001-osc", "osc.active=0"));
    world.pass(PAUSE);
    let lost = synced.take().expect("it is over").unwrap_err();
    assert_eq!(lost.errno(), ESHUTDOWN);
    let read = world.wait(0, |c, t, done| c.read(t, CALLER, fid, &layout, (65_536, 65_536), done));
    assert_eq!(read.unwrap_err().errno(), ESHUTDOWN);
}

#[test]
fn an_object_target_is_added_and_used() {
    let mut world = World::mounted(2);
    let server = world.clients.len();
    let nids = vec![test_nid(server)];
    let target = FsTarget { kind: Target::Ost, index: 2, nids };
    configure(&mut world, &set_param("osc.*.max_rpcs_in_flight=3"));
    world.pass(PAUSE);
    let args = OstArgs { fsname: "lustre".to_owned(), index: 2, capacity: 1 << 30 };
    let disk = Disk::format(DiskKind::Ost(args));
    configure(&mut world, &ConfigChange::AddTarget(target));
    world.server.add_disk(disk);
    // Before the clients know it, its objects are nowhere.
    assert_eq!(state(&world, 0, "lustre-OST0002"), None);
    world.pass(PAUSE);
    for client in 0..2 {
        assert_eq!(state(&world, client, "lustre-OST0002"), Some(ImportState::Full));
        assert_eq!(in_flight(&world, client, "lustre-OST0002"), 3);
    }
    let (last, _) = view(&world, 0).last_change.expect("a change");
    assert_eq!(last, "lustre-OST0002 added");
    for number in 0..3 {
        let file = create(&mut world, &format!("file-{number}"));
        write(&mut world, &file, &[7; 200_000]).unwrap();
    }
    assert!(world.server.targets()[OST + 2].files > 0, "it has objects");
}

#[test]
fn nodes_are_added_where_a_target_can_be() {
    let mut world = World::mounted(1);
    let nids = vec![test_nid(0)];
    let change = ConfigChange::AddConn { kind: Target::Ost, index: 1, nids };
    configure(&mut world, &change);
    world.pass(PAUSE);
    let (last, _) = view(&world, 0).last_change.expect("a change");
    assert_eq!(last, "lustre-OST0001 has 2 NIDs");
    let mut targets = world.clients[0].targets();
    let peer = lustrine_wire::nid::ProcessId::lustre(test_nid(0));
    assert!(targets.any(|(import, _)| {
        import.view().target.starts_with("lustre-OST0001") && import.has_peer(&peer)
    }));
}

#[test]
fn two_changes_in_quick_succession_are_both_seen() {
    // At every distance from the first: while the lock is asked for, and while the log is read.
    for step in 0..60 {
        let mut world = World::mounted(1);
        let links = crate::world::Links::new(step, (Nanos::from_millis(200), Nanos::ZERO));
        world.links = Some(links);
        configure(&mut world, &set_param("osc.*.max_rpcs_in_flight=3"));
        let end = world.now + Nanos::from_millis(step * 200);
        while world.now < end {
            world.settle();
            world.advance();
        }
        configure(&mut world, &set_param("osc.*.max_rpcs_in_flight=4"));
        world.pass(3 * PAUSE);
        assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 4, "step {step}");
        assert_eq!(locks(&world, 0), [ConfigLock::Held; 4], "step {step}");
    }
}

#[test]
fn a_callback_that_is_lost_comes_again() {
    let mut world = World::mounted(1);
    let mut lost = 0;
    world.fate = Box::new(move |net| {
        let header = &net.packets[0].header;
        let callback = matches!(header.body, Body::Put { portal: portal::LDLM_CALLBACK, .. });
        match header.dst.nid == test_nid(0) && callback && lost < 2 {
            true => {
                lost += 1;
                Delivery::Lose
            }
            false => Delivery::Deliver,
        }
    });
    configure(&mut world, &set_param("osc.*.max_rpcs_in_flight=3"));
    assert_eq!(locks(&world, 0), [ConfigLock::Held; 4], "the client knows nothing");
    world.pass(2 * 7 + PAUSE);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 3);
    assert_eq!(world.server.targets()[MGS].evictions, 0);
}

#[test]
fn changes_are_read_after_a_restart_of_the_mgs() {
    let mut world = World::mounted(1);
    let root = world.root;
    world.server.crash_target(MGS);
    configure(&mut world, &set_param("osc.*.max_rpcs_in_flight=3"));
    world.pass(100);
    // The mount works without the MGS.
    world.wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"dir", (0o755, 0), done)).unwrap();
    assert_ne!(locks(&world, 0), [ConfigLock::Held; 4]);
    world.server.start_target(MGS);
    world.pass(60);
    assert_eq!(locks(&world, 0), [ConfigLock::Held; 4]);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 3);
    // Whatever it is doing when the MGS goes.
    for millis in (0..12_000).step_by(250) {
        configure(
            &mut world,
            &set_param(&format!("osc.*.max_rpcs_in_flight={}", 5 + millis / 250)),
        );
        let end = world.now + Nanos::from_millis(millis);
        while world.now < end {
            world.settle();
            world.advance();
        }
        world.server.crash_target(MGS);
        world.server.start_target(MGS);
        world.pass(60);
        assert_eq!(locks(&world, 0), [ConfigLock::Held; 4], "after {millis} ms");
        assert_eq!(u64::from(in_flight(&world, 0, "lustre-OST0000")), 5 + millis / 250);
    }
}

#[test]
fn a_client_that_the_mgs_has_evicted_gets_its_locks_again() {
    let mut world = World::mounted(1);
    let evicted = world.at_server(|server, turn| server.evict(turn, MGS, b"mgc-0"));
    assert!(evicted);
    configure(&mut world, &set_param("osc.*.max_rpcs_in_flight=3"));
    // It learns of it by a ping.
    world.pass(30 + PAUSE);
    assert_eq!(locks(&world, 0), [ConfigLock::Held; 4]);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 3);
}

#[test]
fn a_storm_of_callbacks_costs_one_round_for_each_pause() {
    let mut world = World::mounted(1);
    let before = world.server.targets()[MGS].callbacks;
    let begin = world.now;
    for number in 0..600u32 {
        configure(
            &mut world,
            &set_param(&format!("osc.*.max_rpcs_in_flight={}", 1 + number % 512)),
        );
        let end = world.now + Nanos::from_millis(100);
        while world.now < end {
            world.settle();
            world.advance();
        }
    }
    let seconds = world.now.since(begin).0 / 1_000_000_000;
    let rounds = world.server.targets()[MGS].callbacks - before;
    assert!(rounds <= seconds / 5 + 1, "{rounds} callbacks in {seconds} s");
    world.pass(PAUSE);
    assert_eq!(in_flight(&world, 0, "lustre-OST0000"), 1 + 599 % 512);
}

/// The time that a write takes which begins when an object target is down, and how often the
/// client has connected because the MGS said so. Another client does nothing.
fn restart(target: usize, down: u64, recovers: bool) -> (Nanos, u64) {
    let mgc = MgcTunables { imperative_recovery: recovers, ..MgcTunables::default() };
    let mut world = World::following(2, TargetTunables::default(), mgc);
    let file = create(&mut world, "data");
    world.pass(1);
    let (fid, layout) = (file.attr.fid, file.layout.clone());
    world.server.crash_target(target);
    let written = world.start(0, |c, t, done| {
        c.write(t, CALLER, (fid, OWNER), &layout, (0, vec![7; 200_000].into()), done);
    });
    let root = world.root;
    let made = world.start(0, |c, t, done| c.mkdir(t, CALLER, root, b"dir", (0o755, 0), done));
    world.pass(down);
    world.server.start_target(target);
    let begin = world.now;
    world.outcome(&written).unwrap();
    world.outcome(&made).unwrap();
    let taken = world.now.since(begin);
    assert_eq!(world.server.targets()[target].evictions, 0);
    (taken, view(&world, 0).reconnects + view(&world, 1).reconnects)
}

#[test]
fn a_restart_is_noticed_at_once_if_the_mgs_tells_of_it() {
    let mut table = Vec::new();
    for (name, target) in [("MDT", MDT), ("OST", OST)] {
        for down in [20, 45, 100, 160] {
            let (with, notified) = restart(target, down, true);
            let (without, none) = restart(target, down, false);
            table.push(format!(
                "{name} down {down} s: {with:?} with imperative recovery, {without:?} without"
            ));
            assert!(notified >= 1 && none == 0, "{table:?}");
            assert!(with <= Nanos::from_secs(PAUSE), "{table:?}");
            assert!(with < without, "{table:?}");
        }
    }
}

#[test]
fn the_table_of_nids_is_read_from_where_it_is_known() {
    let mut world = World::mounted(1);
    let version = |world: &World| view(world, 0).configs[2].last;
    let first = version(&world);
    for lives in 1..=3 {
        world.server.crash_target(OST);
        world.server.start_target(OST);
        world.pass(60);
        assert_eq!(version(&world), first + lives);
    }
    // A target that is not used is not connected for that.
    assert_eq!(state(&world, 0, "lustre-OST0000"), Some(ImportState::Idle));
    // A restart that the client notices by itself makes no second one.
    let reconnects = view(&world, 0).reconnects;
    world.server.crash_target(OST);
    world.server.start_target(OST);
    let file = create(&mut world, "data");
    write(&mut world, &file, &[7; 200_000]).unwrap();
    world.pass(60);
    assert_eq!(view(&world, 0).reconnects, reconnects);
}
