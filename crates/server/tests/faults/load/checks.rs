//! What must be true when everything is over.

use std::collections::{BTreeMap, BTreeSet};

use lustrine_client::ClientError;
use lustrine_lnet::time::Time;

use super::ending::value_of;
use super::{CALLER, File, Load, NAMES, RECORD, REGISTERS, Record};
use super::{id_of, name_of};
use crate::faults::history::{Effect, Event, is_explained, listed};
use crate::world::{MDT, Place, World};

impl Load {
    /// Everything is over: what is there now must be explained by what was done. Returns the number
    /// of operations.
    pub(crate) fn finish(&mut self, world: &mut World) -> Result<u64, String> {
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
        // What is kept is shown without a server: one that knows nothing of it is found by a ping.
        let apart = self.args.evictions && self.args.keeps != (false, false);
        if apart {
            world.pass(60);
        }
        if self.loses() {
            self.sync_all(world)?;
        }
        let lookers = if apart { world.clients.len() } else { 1 };
        for register in 0..REGISTERS {
            for client in 0..lookers {
                self.last_read(world, client, register)?;
            }
            let target = self.target_of(File::Registers, self.place_of(register).0);
            let evictions = evictions(world, target, self.loses());
            let history = self.of_registers.entry(register).or_default();
            history.extend(evictions);
            let unsure = self.unsure.contains(&(true, register));
            if !unsure && !is_explained(history, None, self.args.keeps.0) {
                return Err(format!("register {register} is not linearizable:{}", listed(history)));
            }
        }
        for name in 0..NAMES {
            for client in 0..lookers {
                self.last_lookup(world, client, name)?;
            }
            let evictions = evictions(world, MDT, self.args.evictions && self.args.keeps.1);
            let history = self.of_names.entry(name).or_default();
            history.extend(evictions);
            let unsure = self.unsure.contains(&(false, name));
            if !unsure && !is_explained(history, None, false) {
                return Err(format!("name {name} is not linearizable:{}", listed(history)));
            }
        }
        self.check_log(world)?;
        self.count_files(world)?;
        Ok(self.operations)
    }

    /// Each client learns what it has lost, and then everything is there.
    fn sync_all(&mut self, world: &mut World) -> Result<(), String> {
        for client in 0..world.clients.len() {
            for file in [File::Registers, File::Log] {
                let (fid, layout) = self.file(file);
                for again in [false, true] {
                    let start = world.now;
                    let synced =
                        world.wait(client, |c, t, done| c.fsync(t, CALLER, fid, &layout, done));
                    self.synced(world, (client, file), start, &synced)?;
                    if synced.is_ok() {
                        break;
                    }
                    if again {
                        return Err(format!("client {client} cannot sync {file:?}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn last_read(
        &mut self,
        world: &mut World,
        client: usize,
        register: usize,
    ) -> Result<(), String> {
        let start = world.now;
        let (fid, layout) = self.registers.clone();
        let place = self.place_of(register);
        let bytes = world.wait(client, |c, t, done| c.read(t, CALLER, fid, &layout, place, done));
        let bytes = bytes.map_err(|error| format!("the last read failed: {error}"))?;
        let effect = Effect::Saw(value_of(&bytes)?);
        let event = Event { client, start, end: world.now, sure: true, effect };
        self.of_registers.entry(register).or_default().push(event);
        Ok(())
    }

    fn last_lookup(&mut self, world: &mut World, client: usize, name: usize) -> Result<(), String> {
        let (start, text, dir) = (world.now, name_of(name), self.dir);
        let found = world.wait(client, |c, t, done| c.lookup(t, CALLER, dir, &text, done));
        let seen = match found {
            Ok(attr) => Some(id_of(attr.fid)),
            Err(ClientError::Errno(2)) => None,
            Err(error) => return Err(format!("the last lookup failed: {error}")),
        };
        let effect = Effect::Saw(seen);
        let event = Event { client, start, end: world.now, sure: true, effect };
        self.of_names.entry(name).or_default().push(event);
        Ok(())
    }

    /// Each record is in the log once, where its append has put it, unless an eviction has taken it
    /// before it was synced.
    fn check_log(&mut self, world: &mut World) -> Result<(), String> {
        let (fid, layout) = self.log.clone();
        let len = (self.operations as u32 + 1) * RECORD as u32;
        let read =
            world.wait(1, |c, t, done| c.read_to_end(t, CALLER, fid, &layout, (0, len), done));
        let (bytes, _) = read.map_err(|error| format!("the log cannot be read: {error}"))?;
        if bytes.len() % RECORD != 0 {
            return Err(format!("the log has {} bytes", bytes.len()));
        }
        let lost: BTreeSet<u64> = self
            .appended
            .iter()
            .filter(|(_, record)| self.may_be_lost(world, record))
            .map(|(value, _)| *value)
            .collect();
        let lost_at: BTreeSet<u64> = lost.iter().map(|value| self.appended[value].offset).collect();
        let mut seen = BTreeMap::new();
        for (at, record) in bytes.chunks(RECORD).enumerate() {
            let offset = (at * RECORD) as u64;
            let Some(value) = value_of(record)? else {
                // Of two records the later one was stored.
                let explained = lost_at.contains(&offset) || !self.maybe_appended.is_empty();
                match self.loses() && explained {
                    true => continue,
                    false => return Err(format!("the log has a hole at {offset}")),
                }
            };
            if let Some(before) = seen.insert(value, offset) {
                return Err(format!("record {value} is at {before} and at {offset}"));
            }
            match self.appended.get(&value).map(|record| record.offset) {
                Some(expected) if expected == offset => {}
                None if self.maybe_appended.contains(&value) => {}
                other => return Err(format!("record {value} is at {offset}, not at {other:?}")),
            }
        }
        let missing = |value: &&u64| !seen.contains_key(value) && !lost.contains(value);
        match self.appended.keys().find(missing) {
            Some(lost) => Err(format!("record {lost} was appended, and is lost")),
            None => Ok(()),
        }
    }

    /// Whether an eviction can have taken a record.
    fn may_be_lost(&self, world: &World, record: &Record) -> bool {
        let Some(evictions) = world.evictions.as_ref().filter(|_| self.loses()) else {
            return false;
        };
        let (client, target) = (record.client, self.target_of(File::Log, record.offset));
        let of_log = self.reports.iter().filter(|report| report.file == File::Log);
        let reports: Vec<_> = of_log.filter(|report| report.client == client).collect();
        // An fsync has said that it is there, unless one before has said that something is lost.
        let synced = reports.iter().any(|sync| {
            let said = |report: &&super::Report| {
                report.failed && report.end >= record.end && report.start <= sync.end
            };
            sync.start >= record.end && !sync.failed && !reports.iter().copied().any(|r| said(&r))
        });
        // Another client has appended since, and had it written for that.
        let taken_over = |before: Time| {
            self.appended.values().any(|other| {
                let apart = evictions.of(Place { client: other.client, target });
                let apart = apart.iter().any(|(from, to)| *from <= other.end && other.start <= *to);
                let between = other.start > record.end && other.end < before;
                other.client != client && between && !apart
            })
        };
        let evicted = evictions.of(Place { client, target });
        let takes = |(from, to): (Time, Time)| to >= record.start && !taken_over(from);
        !synced && evicted.into_iter().any(takes)
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

/// What evictions from a target did to clients, if that is seen at all.
fn evictions(world: &World, target: usize, seen: bool) -> Vec<Event> {
    let event = |client, at, effect| Event { client, start: at, end: at, sure: true, effect };
    let Some(evictions) = world.evictions.as_ref().filter(|_| seen) else { return Vec::new() };
    let here = |place: &Place| place.target == target;
    let forgotten = evictions.forgotten.iter().filter(|(place, _)| here(place));
    let over = evictions.over().filter(|(place, _)| here(place));
    forgotten
        .map(|(place, at)| event(place.client, *at, Effect::Evicted))
        .chain(over.map(|(place, at)| event(place.client, at, Effect::Learned)))
        .collect()
}
