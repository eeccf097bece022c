//! Random runs of clients and servers, with losses, cuts, crashes, evictions and slow disks.
//!
//! A seed determines everything. What clients do is written down, and must be explained by one
//! order of all operations, each done once at some time between its start and its end, whatever
//! happened to servers and networks: acknowledged changes are never lost, and none is made twice.
//! In the end nothing is left of locks, grants, open files and requests, and all operations are
//! over.

mod configuring;
mod history;
mod load;

use std::collections::BTreeMap;

use lustrine_client::{AttrCounts, CacheCounts, CacheTunables, LockCounts};
use lustrine_lnet::time::{Nanos, Time};
use lustrine_ptlrpc::ImportView;
use lustrine_server::{CommitTunables, TargetTunables, TargetView};

use crate::world::{CALLER, Evictions, Links, MDT, MGS, OST, Rng, World};
use load::{Load, LoadArgs};

/// What happens to the world at some time.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Targets crash: a bit for each.
    Crash(u64),
    /// Targets start that have crashed.
    Start,
    /// A client is cut off.
    Cut(usize),
    /// A client is reached again.
    Splice(usize),
    /// Messages of a thousand are lost.
    Loss(u64),
    /// A client is evicted from a target.
    Evict(usize, usize),
    /// The management server crashes, or starts.
    Mgs(bool),
    /// A limit is set for all clients.
    Configure(u16),
}

/// Which runs have clients that keep something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caches {
    /// Any.
    Any,
    /// Only those without evictions, as when there were no others.
    #[allow(dead_code, reason = "not all programs use it")]
    WithoutEvictions,
}

/// A random run.
struct Plan {
    clients: usize,
    faults: Vec<(Nanos, Fault)>,
    tunables: TargetTunables,
    latency: (Nanos, Nanos),
    /// Whether clients can lose what was acknowledged and is not on a disk.
    evictions: bool,
    /// Operations of each client.
    operations: u64,
    /// What clients keep of data, attributes and names.
    cache: CacheTunables,
    /// Whether the management server notifies clients of targets that start.
    imperative_recovery: bool,
    /// Clients disconnect from an object target that is not used for so many seconds; never if it
    /// is 0.
    idle_timeout: u64,
    /// Bytes of a stripe, and of a register.
    register: (u32, u32),
}

const fn seconds(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

impl Plan {
    fn new(rng: &mut Rng, caches: Caches) -> Plan {
        let clients = rng.between(2, 5) as usize;
        let evictions = rng.chance(1, 2);
        // A client that is evicted does not replay: what it was answered has to be on the disk.
        let commit = match evictions {
            true => CommitTunables { interval: Nanos::ZERO, latency: Nanos::ZERO },
            false => CommitTunables {
                interval: Nanos::from_millis(rng.below(10_000)),
                latency: Nanos::from_millis(rng.below(2_000)),
            },
        };
        let mut tunables = TargetTunables { commit, ..TargetTunables::default() };
        if !evictions {
            // Who appends has the lock of one target while another one is down, and must not be
            // evicted for that.
            tunables.lock_callback_timeout = seconds(1000);
        }
        let mut faults = Vec::new();
        for _ in 0..rng.between(1, 6) {
            let at = Nanos::from_millis(rng.below(200_000));
            let later = |more: Nanos| Nanos(at.0 + more.0);
            match rng.below(if evictions { 5 } else { 3 }) {
                0 | 1 => {
                    faults.push((at, Fault::Crash(rng.between(1, 7))));
                    faults.push((later(Nanos::from_millis(rng.below(30_000))), Fault::Start));
                }
                2 => {
                    faults.push((at, Fault::Loss(rng.between(5, 150))));
                    faults.push((later(seconds(rng.between(1, 60))), Fault::Loss(0)));
                }
                3 => {
                    let client = rng.below(clients as u64) as usize;
                    faults.push((at, Fault::Cut(client)));
                    faults.push((later(seconds(rng.between(1, 300))), Fault::Splice(client)));
                }
                _ => {
                    let client = rng.below(clients as u64) as usize;
                    let target = MDT + rng.below(3) as usize;
                    faults.push((at, Fault::Evict(client, target)));
                }
            }
        }
        // From numbers of its own, as the caches.
        let mut of_config = Rng::new(rng.clone().draw() ^ 0xc0f1);
        let imperative_recovery = of_config.chance(2, 3);
        faults.extend(configuring::faults(&mut of_config, evictions));
        faults.sort_by_key(|(at, _)| *at);
        let latency = (
            Nanos::from_micros(rng.between(10, 20_000)),
            Nanos::from_micros(rng.below(3) * rng.below(20_000)),
        );
        let operations = rng.between(30, 120);
        // From numbers of its own: the seeds that are listed were found without.
        let mut of_cache = Rng::new(operations ^ faults.len() as u64);
        let mut cache = match of_cache.below(3) {
            0 => CacheTunables::NONE,
            1 => CacheTunables::of(32 << 20),
            _ => LITTLE,
        };
        cache.attrs = [0, 2, 1000][of_cache.below(3) as usize];
        if evictions && caches == Caches::WithoutEvictions {
            cache = CacheTunables::NONE;
        } else if evictions && cache != CacheTunables::NONE {
            for _ in 0..of_cache.below(4) {
                let at = Nanos::from_millis(of_cache.below(200_000));
                let client = of_cache.below(clients as u64) as usize;
                faults.push((at, Fault::Evict(client, MDT + of_cache.below(3) as usize)));
            }
            faults.sort_by_key(|(at, _)| *at);
        }
        // Short ones let clients go and come all the time.
        let mut of_idle = Rng::new(operations ^ 0x1d1e);
        let idle_timeout = if of_idle.chance(1, 2) { of_idle.between(1, 20) } else { 0 };
        // Most of a long one is not copied into the cache. It goes with one request in any case:
        // who reads may see a part of what goes with several.
        let is_long = Rng::new(operations ^ 0x10e6).chance(1, 2);
        let register = if is_long { (512 << 10, 200_000) } else { (65_536, 4096) };
        if is_long && cache.max_cached == LITTLE.max_cached {
            (cache.max_cached, cache.max_dirty) = (600_000, 400_000);
        }
        Plan {
            clients,
            faults,
            tunables,
            latency,
            evictions,
            operations,
            cache,
            imperative_recovery,
            idle_timeout,
            register,
        }
    }
}

/// So little that data have to go all the time.
const LITTLE: CacheTunables =
    CacheTunables { max_cached: 200_000, max_dirty: 50_000, ..CacheTunables::of(1) };

/// Targets that can crash: all but the management server.
const TARGETS: [usize; 3] = [MDT, OST, OST + 1];

/// How long everything may take once the faults are over: a recovery with a client that is lost,
/// and what was lost is noticed, twice.
const PATIENCE: Nanos = seconds(3000);

/// What late replies may have promised to a client: four of the largest amounts.
const LATE_GRANTS: u64 = 4 * (8 << 20);

/// Runs a seed, and says what it was.
///
/// # Errors
/// What went wrong.
pub(crate) fn run(seed: u64, caches: Caches) -> Result<String, String> {
    let mut rng = Rng::new(seed.wrapping_mul(0x1234_5678_9abc_def1) ^ 0x5eed);
    let plan = Plan::new(&mut rng, caches);
    let caches = vec![plan.cache; plan.clients];
    let mut world = World::with_stripes(plan.tunables, &caches, (2, plan.register.0));
    world.server.set_imperative_recovery(plan.imperative_recovery);
    configuring::set_param(&mut world, &format!("osc.*.idle_timeout={}", plan.idle_timeout));
    for client in 0..plan.clients {
        let root = world.wait(client, |client, turn, done| client.mount(turn, done));
        world.root = root.map_err(|error| format!("a mount failed: {error}"))?;
    }
    // A server that has no record of a client on its disk evicts it after a crash.
    if plan.cache.max_cached > 0 {
        world.pass(15);
    }
    let (evictions, operations) = (plan.evictions, plan.operations);
    let keeps = (plan.cache.max_cached > 0, plan.cache.attrs > 0);
    let args = LoadArgs { evictions, keeps, operations, register: plan.register };
    let mut load = Load::new(&mut world, rng.draw(), args);
    world.evictions = Some(Evictions::default());
    world.links = Some(Links::new(rng.draw(), plan.latency));
    let begin = world.now;
    for (at, fault) in &plan.faults {
        run_until(&mut world, &mut load, begin + *at)?;
        if let Fault::Crash(which) = fault {
            load.crashed(which & 1 == 1, which & 6 != 0);
        }
        eprintln!("{:?} FAULT {fault:?}", world.now);
        apply(&mut world, *fault);
    }
    heal(&mut world);
    let end = world.now + PATIENCE;
    while !load.is_over() {
        if world.now >= end {
            let locks = world.server.locks(MDT);
            return Err(format!("operations do not end: {}; locks {locks:?}", load.describe()));
        }
        step(&mut world, &mut load)?;
    }
    let operations = load.finish(&mut world)?;
    configuring::check(&mut world, &plan.faults)?;
    if keeps != (false, false) {
        age(&mut world, plan.idle_timeout)?;
    }
    rest(&mut world, keeps)?;
    let evictions = world.evictions.take().map_or(0, |evictions| evictions.forgotten.len());
    unmount(&mut world, &load)?;
    let time = world.now.since(begin).as_secs_f64();
    let (clients, faults) = (plan.clients, plan.faults.len());
    let caches = match (plan.cache.max_cached > 0, plan.cache.attrs > 0) {
        (false, false) => "",
        (true, false) => " that keep data",
        (false, true) => " that keep names",
        (true, true) => " that keep data and names",
    };
    Ok(format!(
        "{clients} clients{caches}, {operations} operations, {faults} faults, \
         {evictions} evictions, \
         {time:.0} s"
    ))
}

fn step(world: &mut World, load: &mut Load) -> Result<(), String> {
    world.settle();
    while load.go_on(world)? {
        world.settle();
    }
    world.alarm = load.next_time();
    world.advance();
    world.alarm = Time::NEVER;
    Ok(())
}

fn run_until(world: &mut World, load: &mut Load, end: Time) -> Result<(), String> {
    while world.now < end {
        step(world, load)?;
    }
    Ok(())
}

fn apply(world: &mut World, fault: Fault) {
    let links = world.links.as_mut().expect("there are links");
    match fault {
        Fault::Crash(which) => {
            let hit = TARGETS.into_iter().enumerate().filter(|(bit, _)| which >> bit & 1 == 1);
            hit.for_each(|(_, target)| world.server.crash_target(target));
        }
        Fault::Start => TARGETS.into_iter().for_each(|target| world.server.start_target(target)),
        Fault::Cut(client) => {
            links.cut.insert(client);
        }
        Fault::Splice(client) => {
            links.cut.remove(&client);
        }
        Fault::Loss(loss) => links.loss = loss,
        Fault::Evict(client, target) => {
            let uuid = format!("client-{client}");
            world.at_server(|server, turn| server.evict(turn, target, uuid.as_bytes()));
        }
        Fault::Mgs(false) => world.server.crash_target(MGS),
        Fault::Mgs(true) => world.server.start_target(MGS),
        Fault::Configure(limit) => configuring::configure(world, limit),
    }
}

fn heal(world: &mut World) {
    TARGETS.into_iter().for_each(|target| world.server.start_target(target));
    world.server.start_target(MGS);
    let links = world.links.as_mut().expect("there are links");
    links.cut.clear();
    links.loss = 0;
}

/// Clients that do nothing keep nothing once it is old, and servers have no locks for them.
fn age(world: &mut World, idle_timeout: u64) -> Result<(), String> {
    world.pass(1300);
    for (number, client) in world.clients.iter().enumerate() {
        let CacheCounts { cached, dirty, unstable, objects, .. } = client.cache_counts();
        let AttrCounts { entries, names, missing, .. } = client.attr_counts();
        let kept = ((cached, dirty, unstable), objects, (entries, names, missing));
        if kept != ((0, 0, 0), 0, (0, 0, 0)) || client.in_use() != (0, 0) {
            let in_use = client.in_use();
            return Err(format!("client {number} keeps {kept:?}, and uses {in_use:?}"));
        }
        for (import, locks) in client.targets() {
            let ImportView { target: name, kept, .. } = import.view();
            if kept != 0 {
                return Err(format!("client {number} would replay {kept} requests at {name}"));
            }
            if !name.contains("MGS") && locks != LockCounts::default() {
                return Err(format!("client {number} has {locks:?} at {name}"));
            }
        }
    }
    for (index, target) in world.server.targets().into_iter().enumerate().skip(MDT) {
        let stay = index == MDT || idle_timeout == 0;
        let connected = if stay { world.clients.len() } else { 0 };
        if target.locks != 0 || target.clients != connected {
            let TargetView { name, locks, clients, .. } = target;
            return Err(format!("{name} has {locks} locks of {clients} clients"));
        }
    }
    Ok(())
}

/// Clients that are connected, and do nothing, use nothing. Of what is looked at here, a disconnect
/// would leave nothing whatever happened before.
fn rest(world: &mut World, (keeps_data, keeps_names): (bool, bool)) -> Result<(), String> {
    let root = world.root;
    for client in 0..world.clients.len() {
        // What was lost has been told already, or is told now.
        let _ = world.wait(client, |c, t, done| c.sync(t, CALLER, root, done));
    }
    // Closes, locks that are given back, and pings that say which replies have arrived.
    world.pass(120);
    // A reply that was lost may have promised more than the client knows of. One that arrives when
    // its client has connected again promises what the server does not count any more.
    let late = LATE_GRANTS * world.clients.len() as u64;
    let mut believed: BTreeMap<String, u64> = BTreeMap::new();
    for (import, bytes) in world.clients.iter().flat_map(|client| client.grants()) {
        let name = import.view().target.replace("_UUID", "");
        *believed.entry(name).or_default() += bytes;
    }
    for target in world.server.targets().into_iter().skip(MDT) {
        let believed = believed.get(&target.name).copied().unwrap_or(0);
        if believed > target.granted + late {
            let TargetView { name, granted, .. } = target;
            return Err(format!("{name} has granted {granted} bytes, and clients have {believed}"));
        }
        let unused = [
            ("open files", target.opens),
            ("requests", target.requests),
            ("replies", target.saved_replies),
            ("locks", if keeps_data || keeps_names { 0 } else { target.locks }),
            ("recovery", usize::from(target.recovering)),
        ];
        if let Some((what, count)) = unused.into_iter().find(|(_, count)| *count > 0) {
            return Err(format!("{}: {count} {what}, and clients do nothing", target.name));
        }
        if let Some(what) = target.violations.first() {
            return Err(format!("{}: {what}", target.name));
        }
    }
    Ok(())
}

/// All clients go, and leave nothing.
fn unmount(world: &mut World, load: &Load) -> Result<(), String> {
    // Locks that are given back, objects that are destroyed, and clients that connect again to say
    // that they go: the pause between their attempts can be so long.
    world.pass(60);
    for client in 0..world.clients.len() {
        // An error that is reported here is one of those that were found before.
        let _ = world.wait(client, |client, turn, done| client.flush_all(turn, done));
        let left = world.clients[client].cache_counts();
        if (left.dirty, left.unstable) != (0, 0) {
            return Err(format!("client {client} goes with {left:?}"));
        }
        let gone = world.wait(client, |client, turn, done| client.unmount(turn, done));
        gone.map_err(|error| format!("an unmount failed: {error}"))?;
    }
    world.pass(30);
    for (index, target) in world.server.targets().into_iter().enumerate() {
        let left = [
            ("clients", target.clients),
            ("locks", target.locks),
            ("open files", target.opens),
            ("bytes granted", target.granted as usize),
            ("requests", target.requests),
            ("replies", target.saved_replies),
            ("recovery", usize::from(target.recovering)),
        ];
        for (what, count) in left {
            if count != 0 {
                return Err(format!("{}: {count} {what} are left", target.name));
            }
        }
        let files = load.files();
        if index == MDT && target.files != files {
            return Err(format!("{} files, {files} have names", target.files));
        }
    }
    Ok(())
}
