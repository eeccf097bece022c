//! What clients do, and what they must see.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_client::{
    Appended, Attr, ClientError, FileLayout, FileOwner, FlockArgs, FlockMode, OpenArgs, OpenFile,
};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::time::{Nanos, Time};

use super::history::{ANY, Effect, Event, has_room, is_explained};
use crate::world::{CALLER, Rng, Slot, World};

const OWNER: FileOwner = FileOwner { uid: 0, gid: 0, projid: 0 };
/// Bytes of a register, and the distance from one to the next: over all objects in turn.
const REGISTER: usize = 4096;
const DISTANCE: u64 = 65536;
const REGISTERS: usize = 4;
const NAMES: usize = 4;
/// Operations of a client at a time.
const WORKERS: usize = 2;
/// Bytes of a record that is appended.
const RECORD: usize = 16;

type Done<T> = lustrine_client::Done<T>;

/// An operation that is under way.
enum Op {
    Write { register: usize, value: u64, slot: Slot<()> },
    Read { register: usize, slot: Slot<Vec<u8>> },
    Make { name: usize, slot: Slot<Attr> },
    Remove { name: usize, slot: Slot<()> },
    Look { name: usize, slot: Slot<Attr> },
    Append { record: u64, slot: Slot<Appended> },
    Rename { to: usize, slot: Slot<()> },
    Find { at: usize, there: bool, slot: Slot<Attr> },
    Sync { slot: Slot<()> },
    Lock { slot: Slot<()> },
    Hold { until: Time },
    Unlock { slot: Slot<()> },
    Open { name: Vec<u8>, slot: Slot<OpenFile> },
    Close { name: Vec<u8>, slot: Slot<()> },
    Delete { slot: Slot<()> },
}

/// One thing after the other that a client does.
struct Worker {
    client: usize,
    left: u64,
    started: Time,
    op: Option<Op>,
    /// Where its own file is; none once that is not known.
    token: Option<usize>,
}

/// The work of all clients.
pub(crate) struct Load {
    rng: Rng,
    evictions: bool,
    workers: Vec<Worker>,
    dir: Fid,
    registers: (Fid, FileLayout),
    log: (Fid, FileLayout),
    of_registers: BTreeMap<usize, Vec<Event>>,
    of_names: BTreeMap<usize, Vec<Event>>,
    appended: BTreeMap<u64, u64>,
    maybe_appended: BTreeSet<u64>,
    next_value: u64,
    /// Registers and names whose servers crashed while they were changed: others may have seen a
    /// change that was not on the disk, was not acknowledged, and is made again later.
    unsure: BTreeSet<(bool, usize)>,
    /// Who has the flock.
    holder: Option<usize>,
    operations: u64,
    files: u64,
}

fn name_of(name: usize) -> Vec<u8> {
    format!("name-{name}").into_bytes()
}

fn token_of(worker: usize, at: usize) -> Vec<u8> {
    format!("token-{worker}-{at}").into_bytes()
}

fn id_of(fid: Fid) -> u64 {
    fid.seq << 20 ^ u64::from(fid.oid)
}

fn range(worker: usize, mode: FlockMode) -> FlockArgs {
    FlockArgs { mode, start: 0, end: FlockArgs::END, owner: worker as u64 + 1, pid: 1 }
}

impl Load {
    /// Prepares the files.
    pub(crate) fn new(world: &mut World, seed: u64, evictions: bool, operations: u64) -> Load {
        let root = world.root;
        let mode = (0o755, 0);
        let dir = world
            .wait(0, |c, t, done| c.mkdir(t, CALLER, root, b"shared", mode, done))
            .expect("nothing is in the way")
            .fid;
        let mut file = |name: &'static [u8]| {
            let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
            let args = OpenArgs { flags, mode: 0o644, umask: 0 };
            let open = world
                .wait(0, |c, t, done| c.create(t, CALLER, root, name, args, done))
                .expect("nothing is in the way");
            let file = (open.attr.fid, open.layout.clone());
            world
                .wait(0, |c, t, done| c.close(t, CALLER, open, None, done))
                .expect("nothing is in the way");
            file
        };
        let (registers, log) = (file(b"registers"), file(b"log"));
        let count = world.clients.len() * WORKERS;
        for worker in 0..count {
            let name = token_of(worker, 0);
            let mode = (0o100_644, 0);
            world
                .wait(0, |c, t, done| c.mknod(t, CALLER, dir, &name, mode, 0, done))
                .expect("nothing is in the way");
        }
        world.wait(0, |c, t, done| c.sync(t, CALLER, root, done)).expect("nothing is in the way");
        let worker = |number: usize| Worker {
            client: number % world.clients.len(),
            left: operations,
            started: world.now,
            op: None,
            token: Some(0),
        };
        Load {
            rng: Rng::new(seed),
            evictions,
            workers: (0..count).map(worker).collect(),
            dir,
            registers,
            log,
            of_registers: BTreeMap::new(),
            of_names: BTreeMap::new(),
            appended: BTreeMap::new(),
            maybe_appended: BTreeSet::new(),
            next_value: 1,
            unsure: BTreeSet::new(),
            holder: None,
            operations: 0,
            files: 0,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.workers.iter().all(|worker| worker.left == 0 && worker.op.is_none())
    }

    /// Files that have names, in the end.
    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    /// Targets crash.
    pub(crate) fn crashed(&mut self, mdt: bool, osts: bool) {
        for worker in &self.workers {
            match worker.op {
                Some(Op::Write { register, .. }) if osts => {
                    self.unsure.insert((true, register));
                }
                Some(Op::Make { name, .. } | Op::Remove { name, .. }) if mdt => {
                    self.unsure.insert((false, name));
                }
                _ => {}
            }
        }
    }

    /// What is not over.
    pub(crate) fn describe(&self) -> String {
        let busy = self.workers.iter().enumerate().filter_map(|(number, worker)| {
            let op = worker.op.as_ref()?;
            let what = match op {
                Op::Write { .. } => "write",
                Op::Read { .. } => "read",
                Op::Make { .. } => "mkdir",
                Op::Remove { .. } => "rmdir",
                Op::Look { .. } => "lookup",
                Op::Append { .. } => "append",
                Op::Rename { .. } => "rename",
                Op::Find { .. } => "find",
                Op::Sync { .. } => "fsync",
                Op::Lock { .. } => "flock",
                Op::Hold { .. } => "hold",
                Op::Unlock { .. } => "unlock",
                Op::Open { .. } => "open",
                Op::Close { .. } => "close",
                Op::Delete { .. } => "unlink",
            };
            Some(format!("worker {number}: {what} since {:?}", worker.started))
        });
        busy.collect::<Vec<_>>().join("; ")
    }

    /// Ends operations that are over, and starts others. Whether there was anything to do.
    pub(crate) fn go_on(&mut self, world: &mut World) -> Result<bool, String> {
        let mut busy = false;
        for number in 0..self.workers.len() {
            let Some(op) = self.workers[number].op.take() else {
                if self.workers[number].left > 0 {
                    busy = true;
                    self.workers[number].left -= 1;
                    self.operations += 1;
                    self.start_any(world, number);
                }
                continue;
            };
            match self.end(world, number, op)? {
                Some(op) => self.workers[number].op = Some(op),
                None => busy = true,
            }
        }
        Ok(busy)
    }

    fn begin(&mut self, world: &World, number: usize, op: Op) {
        let worker = &mut self.workers[number];
        worker.started = world.now;
        worker.op = Some(op);
    }

    fn start_any(&mut self, world: &mut World, number: usize) {
        let client = self.workers[number].client;
        let (dir, kind) = (self.dir, self.rng.below(14));
        let register = self.rng.below(REGISTERS as u64) as usize;
        let name = self.rng.below(NAMES as u64) as usize;
        let full = |events: Option<&Vec<Event>>| events.is_some_and(|events| !has_room(events));
        let no_register = full(self.of_registers.get(&register));
        let no_name = full(self.of_names.get(&name));
        let op = match kind {
            0..=2 if !no_register => self.start_write(world, client, register),
            3 | 4 if !no_register => {
                let (fid, layout) = self.registers.clone();
                let place = (register as u64 * DISTANCE, REGISTER as u32);
                let slot =
                    world.start(client, |c, t, done| c.read(t, CALLER, fid, &layout, place, done));
                Op::Read { register, slot }
            }
            5 if !no_name => {
                let text = name_of(name);
                let mode = (0o755, 0);
                let slot =
                    world.start(client, |c, t, done| c.mkdir(t, CALLER, dir, &text, mode, done));
                Op::Make { name, slot }
            }
            6 if !no_name => {
                let text = name_of(name);
                let slot =
                    world.start(client, |c, t, done| c.unlink(t, CALLER, dir, &text, true, done));
                Op::Remove { name, slot }
            }
            7 if !no_name => {
                let text = name_of(name);
                let slot = world.start(client, |c, t, done| c.lookup(t, CALLER, dir, &text, done));
                Op::Look { name, slot }
            }
            8 => self.start_append(world, client),
            9 | 10 if self.workers[number].token.is_some() => self.start_token(world, number),
            11 if !self.evictions => {
                let (fid, args) = (self.registers.0, range(number, FlockMode::Write));
                let slot = world.start(client, |c, t, done: Done<()>| {
                    c.flock(t, CALLER, fid, args, true, done);
                });
                Op::Lock { slot }
            }
            12 => {
                self.next_value += 1;
                let name = format!("temporary-{}", self.next_value).into_bytes();
                let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT | OpenFlags::EXCL;
                let args = OpenArgs { flags, mode: 0o644, umask: 0 };
                let slot =
                    world.start(client, |c, t, done| c.create(t, CALLER, dir, &name, args, done));
                Op::Open { name, slot }
            }
            _ => {
                let (fid, layout) = self.registers.clone();
                let slot = world.start(client, |c, t, done| c.fsync(t, CALLER, fid, &layout, done));
                Op::Sync { slot }
            }
        };
        self.begin(world, number, op);
    }

    fn start_write(&mut self, world: &mut World, client: usize, register: usize) -> Op {
        self.next_value += 1;
        let value = self.next_value;
        let (fid, layout) = self.registers.clone();
        let bytes = value.to_le_bytes().repeat(REGISTER / 8);
        let at = register as u64 * DISTANCE;
        let slot = world.start(client, |c, t, done| {
            c.write(t, CALLER, (fid, OWNER), &layout, (at, &bytes), done);
        });
        Op::Write { register, value, slot }
    }

    fn start_append(&mut self, world: &mut World, client: usize) -> Op {
        self.next_value += 1;
        let record = self.next_value;
        let (fid, layout) = self.log.clone();
        let bytes = record.to_le_bytes().repeat(RECORD / 8);
        let slot = world.start(client, |c, t, done| {
            c.append(t, CALLER, (fid, OWNER), layout, bytes, done);
        });
        Op::Append { record, slot }
    }

    /// Moves the worker's own file, or looks where it is.
    fn start_token(&mut self, world: &mut World, number: usize) -> Op {
        let (client, dir) = (self.workers[number].client, self.dir);
        let at = self.workers[number].token.expect("it is known");
        if self.rng.chance(1, 2) {
            let there = self.rng.chance(1, 2);
            let at = if there { at } else { 1 - at };
            let name = token_of(number, at);
            let slot = world.start(client, |c, t, done| c.lookup(t, CALLER, dir, &name, done));
            return Op::Find { at, there, slot };
        }
        let (old, new) = (token_of(number, at), token_of(number, 1 - at));
        let slot = world.start(client, |c, t, done| {
            c.rename(t, CALLER, (dir, &old), (dir, &new), 0o100_644, done);
        });
        Op::Rename { to: 1 - at, slot }
    }

    /// Notes what a register or a name did.
    fn note(&mut self, world: &World, number: usize, register: bool, at: usize, effect: Effect) {
        self.note_until(number, register, at, effect, Some(world.now));
    }

    fn note_until(
        &mut self,
        number: usize,
        register: bool,
        at: usize,
        effect: Effect,
        end: Option<Time>,
    ) {
        let event = Event { start: self.workers[number].started, end, effect };
        let histories = if register { &mut self.of_registers } else { &mut self.of_names };
        histories.entry(at).or_default().push(event);
    }

    /// Whether an operation may fail so: only if a client is evicted.
    fn lost(&self, error: &ClientError, what: &str) -> Result<(), String> {
        match error {
            ClientError::Rpc(_) if self.evictions => Ok(()),
            _ => Err(format!("{what} failed: {error} ({})", error.errno())),
        }
    }

    /// Looks whether an operation is over. It is given back if it is not, or if another one follows
    /// it.
    fn end(&mut self, world: &mut World, number: usize, op: Op) -> Result<Option<Op>, String> {
        match op {
            Op::Write { register, value, slot } => {
                let Some(outcome) = slot.take() else {
                    return Ok(Some(Op::Write { register, value, slot }));
                };
                let effect = Effect::Set(Some(value));
                match outcome {
                    Ok(()) => self.note(world, number, true, register, effect),
                    Err(error) => {
                        self.lost(&error, "a write")?;
                        self.note_until(number, true, register, effect, None);
                    }
                }
            }
            Op::Read { register, slot } => {
                let Some(outcome) = slot.take() else {
                    return Ok(Some(Op::Read { register, slot }));
                };
                match outcome {
                    Ok(bytes) => {
                        let value = value_of(&bytes)?;
                        self.note(world, number, true, register, Effect::Saw(value));
                    }
                    Err(error) => self.lost(&error, "a read")?,
                }
            }
            Op::Make { name, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Make { name, slot })) };
                match outcome {
                    Ok(attr) => {
                        self.note(world, number, false, name, Effect::Made(id_of(attr.fid)));
                    }
                    Err(ClientError::Errno(17)) => {
                        self.note(world, number, false, name, Effect::NotMade);
                    }
                    Err(error) => {
                        self.lost(&error, "a mkdir")?;
                        self.note_until(number, false, name, Effect::Made(ANY), None);
                    }
                }
            }
            Op::Remove { name, slot } => {
                let Some(outcome) = slot.take() else {
                    return Ok(Some(Op::Remove { name, slot }));
                };
                match outcome {
                    Ok(()) => self.note(world, number, false, name, Effect::Removed),
                    Err(ClientError::Errno(2)) => {
                        self.note(world, number, false, name, Effect::Saw(None));
                    }
                    Err(error) => {
                        self.lost(&error, "a rmdir")?;
                        self.note_until(number, false, name, Effect::Removed, None);
                    }
                }
            }
            Op::Look { name, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Look { name, slot })) };
                let seen = match outcome {
                    Ok(attr) => Some(Some(id_of(attr.fid))),
                    Err(ClientError::Errno(2)) => Some(None),
                    Err(error) => {
                        self.lost(&error, "a lookup")?;
                        None
                    }
                };
                if let Some(seen) = seen {
                    self.note(world, number, false, name, Effect::Saw(seen));
                }
            }
            Op::Append { record, slot } => {
                let Some(outcome) = slot.take() else {
                    return Ok(Some(Op::Append { record, slot }));
                };
                match outcome {
                    Ok(appended) => {
                        self.appended.insert(record, appended.offset);
                    }
                    Err(error) => {
                        self.lost(&error, "an append")?;
                        self.maybe_appended.insert(record);
                    }
                }
            }
            other => return self.end_other(world, number, other),
        }
        Ok(None)
    }

    fn end_other(
        &mut self,
        world: &mut World,
        number: usize,
        op: Op,
    ) -> Result<Option<Op>, String> {
        let (client, dir) = (self.workers[number].client, self.dir);
        match op {
            Op::Rename { to, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Rename { to, slot })) };
                self.workers[number].token = match outcome {
                    Ok(()) => Some(to),
                    Err(error) => {
                        self.lost(&error, "a rename")?;
                        None
                    }
                };
            }
            Op::Find { at, there, slot } => {
                let Some(outcome) = slot.take() else {
                    return Ok(Some(Op::Find { at, there, slot }));
                };
                match outcome {
                    Ok(_) if there => {}
                    Err(ClientError::Errno(2)) if !there => {}
                    Ok(_) => return Err(format!("worker {number}: its file has two names")),
                    Err(error) => self.lost(&error, "a look at a file that was renamed")?,
                }
            }
            Op::Sync { slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Sync { slot })) };
                outcome.or_else(|error| self.lost(&error, "an fsync"))?;
            }
            Op::Lock { slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Lock { slot })) };
                outcome.or_else(|error| self.lost(&error, "a flock"))?;
                if let Some(other) = self.holder.replace(number) {
                    return Err(format!("workers {other} and {number} have the flock"));
                }
                let until = world.now + Nanos::from_millis(self.rng.below(3000));
                return Ok(Some(Op::Hold { until }));
            }
            Op::Hold { until } if world.now < until => return Ok(Some(Op::Hold { until })),
            Op::Hold { .. } => {
                self.holder = None;
                let (fid, args) = (self.registers.0, range(number, FlockMode::Unlock));
                let slot = world.start(client, |c, t, done: Done<()>| {
                    c.flock(t, CALLER, fid, args, true, done);
                });
                return Ok(Some(Op::Unlock { slot }));
            }
            Op::Unlock { slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Unlock { slot })) };
                outcome.or_else(|error| self.lost(&error, "an unlock"))?;
            }
            Op::Open { name, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Open { name, slot })) };
                match outcome {
                    Ok(file) => {
                        let slot =
                            world.start(client, |c, t, done| c.close(t, CALLER, file, None, done));
                        return Ok(Some(Op::Close { name, slot }));
                    }
                    Err(error) => self.lost(&error, "a create")?,
                }
            }
            Op::Close { name, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Close { name, slot })) };
                match outcome {
                    Ok(()) => {
                        let slot = world.start(client, |c, t, done| {
                            c.unlink(t, CALLER, dir, &name, false, done);
                        });
                        return Ok(Some(Op::Delete { slot }));
                    }
                    Err(error) => self.lost(&error, "a close")?,
                }
            }
            Op::Delete { slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Delete { slot })) };
                outcome.or_else(|error| self.lost(&error, "an unlink"))?;
            }
            _ => unreachable!("it is handled elsewhere"),
        }
        Ok(None)
    }

    /// Everything is over: what is there now must be explained by what was done. Returns the number
    /// of operations.
    pub(crate) fn finish(&mut self, world: &mut World) -> Result<u64, String> {
        let now = |world: &World| Some(world.now);
        // An eviction that a client has not noticed yet takes its first operation.
        for _ in 0..2 {
            for client in 0..world.clients.len() {
                for fid in [self.dir, self.registers.0] {
                    let _ = world.wait(client, |c, t, done| c.getattr(t, CALLER, fid, done));
                }
                let (fid, layout) = self.registers.clone();
                let _ = world.wait(client, |c, t, done| c.size(t, CALLER, fid, &layout, done));
            }
        }
        for register in 0..REGISTERS {
            let start = world.now;
            let (fid, layout) = self.registers.clone();
            let place = (register as u64 * DISTANCE, REGISTER as u32);
            let bytes = world.wait(0, |c, t, done| c.read(t, CALLER, fid, &layout, place, done));
            let bytes = bytes.map_err(|error| format!("the last read failed: {error}"))?;
            let effect = Effect::Saw(value_of(&bytes)?);
            let event = Event { start, end: now(world), effect };
            let history = self.of_registers.entry(register).or_default();
            history.push(event);
            let unsure = self.unsure.contains(&(true, register));
            if !unsure && !is_explained(history, None) {
                return Err(format!("register {register} is not linearizable: {history:?}"));
            }
        }
        for name in 0..NAMES {
            let (start, text, dir) = (world.now, name_of(name), self.dir);
            let found = world.wait(0, |c, t, done| c.lookup(t, CALLER, dir, &text, done));
            let seen = match found {
                Ok(attr) => Some(id_of(attr.fid)),
                Err(ClientError::Errno(2)) => None,
                Err(error) => return Err(format!("the last lookup failed: {error}")),
            };
            let event = Event { start, end: now(world), effect: Effect::Saw(seen) };
            let history = self.of_names.entry(name).or_default();
            history.push(event);
            let unsure = self.unsure.contains(&(false, name));
            if !unsure && !is_explained(history, None) {
                return Err(format!("name {name} is not linearizable: {history:?}"));
            }
        }
        self.check_log(world)?;
        self.count_files(world)?;
        Ok(self.operations)
    }

    /// Each record is in the log once, where its append has put it.
    fn check_log(&mut self, world: &mut World) -> Result<(), String> {
        let (fid, layout) = self.log.clone();
        let len = (self.operations as u32 + 1) * RECORD as u32;
        let read =
            world.wait(1, |c, t, done| c.read_to_end(t, CALLER, fid, &layout, (0, len), done));
        let (bytes, _) = read.map_err(|error| format!("the log cannot be read: {error}"))?;
        if bytes.len() % RECORD != 0 {
            return Err(format!("the log has {} bytes", bytes.len()));
        }
        let mut seen = BTreeMap::new();
        for (at, record) in bytes.chunks(RECORD).enumerate() {
            let value = value_of(record)?.ok_or("the log has a hole")?;
            let offset = (at * RECORD) as u64;
            if let Some(before) = seen.insert(value, offset) {
                return Err(format!("record {value} is at {before} and at {offset}"));
            }
            match self.appended.get(&value) {
                Some(expected) if *expected == offset => {}
                None if self.maybe_appended.contains(&value) => {}
                other => return Err(format!("record {value} is at {offset}, not at {other:?}")),
            }
        }
        match self.appended.keys().find(|record| !seen.contains_key(record)) {
            Some(lost) => Err(format!("record {lost} was appended, and is lost")),
            None => Ok(()),
        }
    }

    fn count_files(&mut self, world: &mut World) -> Result<(), String> {
        let mut files = 1;
        for dir in [world.root, self.dir] {
            let mut from = 0;
            loop {
                let page = world.wait(0, |c, t, done| c.readdir(t, CALLER, dir, from, done));
                let page = page.map_err(|error| format!("a directory cannot be read: {error}"))?;
                let names = page.entries.iter().map(|entry| entry.name.as_slice());
                files += names.filter(|name| ![&b"."[..], b".."].contains(name)).count() as u64;
                match page.next {
                    Some(next) => from = next,
                    None => break,
                }
            }
        }
        self.files = files;
        Ok(())
    }
}

/// The value of a register or a record: the same in all of it. None if nothing was ever written.
fn value_of(bytes: &[u8]) -> Result<Option<u64>, String> {
    let words = bytes.chunks(8).map(|word| {
        let mut whole = [0; 8];
        whole[..word.len()].copy_from_slice(word);
        u64::from_le_bytes(whole)
    });
    let values: BTreeSet<u64> = words.collect();
    match values.len() {
        0 => Ok(None),
        1 => Ok(values.first().copied().filter(|value| *value != 0)),
        _ => Err(format!("a write was done in part: {values:?}")),
    }
}
