//! What clients do, and what they must see.

mod checks;
mod ending;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use lustrine_client::{
    Appended, Attr, FileLayout, FileOwner, FlockArgs, FlockMode, OpenArgs, OpenFile,
};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::time::{Nanos, Time};

use super::history::{Event, has_room};
use crate::world::{CALLER, OST, Rng, Slot, World};

const OWNER: FileOwner = FileOwner { uid: 0, gid: 0, projid: 0 };
const REGISTERS: usize = 4;
const NAMES: usize = 4;
/// Operations of a client at a time.
const WORKERS: usize = 2;
/// Bytes of a record that is appended.
const RECORD: usize = 16;

type Done<T> = lustrine_client::Done<T>;

/// An operation that is in flight.
enum Op {
    Write { register: usize, value: u64, slot: Slot<()> },
    Read { register: usize, slot: Slot<Bytes> },
    Make { name: usize, slot: Slot<Attr> },
    Remove { name: usize, slot: Slot<()> },
    Look { name: usize, slot: Slot<Attr> },
    Append { record: u64, slot: Slot<Appended> },
    Rename { to: usize, slot: Slot<()> },
    Find { at: usize, there: bool, slot: Slot<Attr> },
    Sync { file: File, slot: Slot<()> },
    Size { slot: Slot<(u64, u64)> },
    Lock { slot: Slot<()> },
    Hold { until: Time },
    Unlock { slot: Slot<()> },
    Open { name: Vec<u8>, slot: Slot<OpenFile> },
    Close { name: Vec<u8>, slot: Slot<()> },
    Delete { slot: Slot<()> },
}

/// The files whose data clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum File {
    Registers,
    Log,
}

/// A client was asked whether what it wrote is there.
struct Report {
    client: usize,
    file: File,
    start: Time,
    end: Time,
    /// Whether that was an fsync; or else it was a close that said that something is lost.
    is_sync: bool,
    failed: bool,
}

/// A record that was appended.
struct Record {
    client: usize,
    offset: u64,
    start: Time,
    end: Time,
}

/// What a load is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadArgs {
    /// Whether servers evict clients.
    pub(crate) evictions: bool,
    /// Whether clients keep data, and names.
    pub(crate) keeps: (bool, bool),
    /// Operations of each worker.
    pub(crate) operations: u64,
    /// Bytes of a stripe, and of a register, which is at the start of one: over all objects in
    /// turn.
    pub(crate) register: (u32, u32),
}

/// One thing after the other that a client does.
struct Worker {
    client: usize,
    left: u64,
    started: Time,
    op: Option<Op>,
    /// When it does something again.
    idle_until: Time,
    /// Where its own file is; none once that is not known.
    token: Option<usize>,
}

/// The work of all clients.
pub(crate) struct Load {
    rng: Rng,
    /// For what clients do that can be evicted, and for what only those do that keep data too.
    more: Rng,
    args: LoadArgs,
    workers: Vec<Worker>,
    dir: Fid,
    registers: (Fid, FileLayout),
    log: (Fid, FileLayout),
    of_registers: BTreeMap<usize, Vec<Event>>,
    of_names: BTreeMap<usize, Vec<Event>>,
    appended: BTreeMap<u64, Record>,
    maybe_appended: BTreeSet<u64>,
    reports: Vec<Report>,
    /// What was found to be wrong.
    wrong: Option<String>,
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
    pub(crate) fn new(world: &mut World, seed: u64, args: LoadArgs) -> Load {
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
            left: args.operations,
            started: world.now,
            op: None,
            idle_until: world.now,
            token: Some(0),
        };
        Load {
            rng: Rng::new(seed),
            more: Rng::new(seed ^ 0x0f5c),
            args,
            workers: (0..count).map(worker).collect(),
            dir,
            registers,
            log,
            of_registers: BTreeMap::new(),
            of_names: BTreeMap::new(),
            appended: BTreeMap::new(),
            maybe_appended: BTreeSet::new(),
            reports: Vec::new(),
            wrong: None,
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

    /// Whether clients can lose what they keep.
    fn loses(&self) -> bool {
        self.args.evictions && self.args.keeps.0
    }

    /// A file with data, and its layout.
    fn file(&self, file: File) -> (Fid, FileLayout) {
        match file {
            File::Registers => self.registers.clone(),
            File::Log => self.log.clone(),
        }
    }

    /// The target that has a byte of a file.
    fn target_of(&self, file: File, offset: u64) -> usize {
        let (_, layout) = self.file(file);
        let piece = layout.pieces(offset, 1)[0];
        let object = layout.object(piece.component, piece.stripe);
        OST + object.expect("it has objects").ost as usize
    }

    /// Targets crash. Where clients can be evicted, everything is on the disk at once.
    pub(crate) fn crashed(&mut self, mdt: bool, osts: bool) {
        if self.args.evictions {
            return;
        }
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
                Op::Size { .. } => "size",
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
                let worker = &self.workers[number];
                if worker.left > 0 && worker.idle_until <= world.now {
                    busy = true;
                    self.pause(world, number);
                    self.workers[number].left -= 1;
                    self.operations += 1;
                    self.start_any(world, number);
                    if let Some(wrong) = self.wrong.take() {
                        return Err(wrong);
                    }
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

    /// Without pauses, and without the time that waiting for flocks takes, operations would be over
    /// before anything happens to servers and networks.
    fn pause(&mut self, world: &World, number: usize) {
        if self.args.evictions && self.more.chance(1, 3) {
            let pause = Nanos::from_millis(self.more.below(6000));
            self.workers[number].idle_until = world.now + pause;
        }
    }

    /// When a worker does something again that does nothing now.
    pub(crate) fn next_time(&self) -> Time {
        let idle = |worker: &&Worker| worker.left > 0 && worker.op.is_none();
        let idle = self.workers.iter().filter(idle).map(|worker| worker.idle_until);
        idle.min().filter(|_| self.args.evictions).unwrap_or(Time::NEVER)
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
                let place = self.place_of(register);
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
            11 if !self.args.evictions => {
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
            _ if self.loses() => return self.start_more(world, number),
            _ => self.start_sync(world, client, File::Registers),
        };
        self.begin(world, number, op);
    }

    /// What clients do besides that can lose what they keep.
    fn start_more(&mut self, world: &mut World, number: usize) {
        let client = self.workers[number].client;
        let op = match self.more.below(8) {
            0..=2 => self.start_sync(world, client, File::Registers),
            3 | 4 => self.start_sync(world, client, File::Log),
            5 => return self.close(world, client, File::Registers),
            6 => return self.close(world, client, File::Log),
            _ => {
                let (fid, layout) = self.registers.clone();
                let slot = world.start(client, |c, t, done| c.size(t, CALLER, fid, &layout, done));
                Op::Size { slot }
            }
        };
        self.begin(world, number, op);
    }

    fn start_sync(&mut self, world: &mut World, client: usize, file: File) -> Op {
        let (fid, layout) = self.file(file);
        let slot = world.start(client, |c, t, done| c.fsync(t, CALLER, fid, &layout, done));
        Op::Sync { file, slot }
    }

    /// The range of a register.
    fn place_of(&self, register: usize) -> (u64, u32) {
        let (stripe, len) = self.args.register;
        (register as u64 * u64::from(stripe), len)
    }

    fn start_write(&mut self, world: &mut World, client: usize, register: usize) -> Op {
        self.next_value += 1;
        let value = self.next_value;
        let (fid, layout) = self.registers.clone();
        let (at, len) = self.place_of(register);
        let bytes = value.to_le_bytes().repeat(len as usize / 8);
        let slot = world.start(client, |c, t, done| {
            c.write(t, CALLER, (fid, OWNER), &layout, (at, bytes.into()), done);
        });
        Op::Write { register, value, slot }
    }

    fn start_append(&mut self, world: &mut World, client: usize) -> Op {
        self.next_value += 1;
        let record = self.next_value;
        let (fid, layout) = self.log.clone();
        let bytes = record.to_le_bytes().repeat(RECORD / 8);
        let slot = world.start(client, |c, t, done| {
            c.append(t, CALLER, (fid, OWNER), layout, bytes.into(), done);
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
}
