//! Operations that are over, and what came of them.

use std::collections::BTreeSet;

use lustrine_client::ClientError;
use lustrine_lnet::time::{Nanos, Time};

use super::{CALLER, Done, File, FlockMode, Load, Op, REGISTERS, Record, Report};
use super::{id_of, range};
use crate::faults::history::{ANY, Effect, Event};
use crate::world::{OST, World};

impl Load {
    /// Notes what an operation has done to a register or to a name.
    fn note(&mut self, world: &World, number: usize, register: bool, at: usize, effect: Effect) {
        self.note_as(world, number, (register, at), effect, true);
    }

    /// The same of an operation that has failed: it was done meanwhile, or never.
    fn note_failed(&mut self, world: &World, number: usize, place: (bool, usize), effect: Effect) {
        self.note_as(world, number, place, effect, false);
    }

    fn note_as(
        &mut self,
        world: &World,
        number: usize,
        (register, at): (bool, usize),
        effect: Effect,
        sure: bool,
    ) {
        let worker = &self.workers[number];
        let event =
            Event { client: worker.client, start: worker.started, end: world.now, sure, effect };
        let histories = if register { &mut self.of_registers } else { &mut self.of_names };
        histories.entry(at).or_default().push(event);
    }

    /// Whether an operation may fail so: only if its client learns meanwhile that it was evicted.
    fn lost(
        &self,
        world: &World,
        number: usize,
        error: &ClientError,
        what: &str,
    ) -> Result<(), String> {
        let worker = &self.workers[number];
        match was_evicted(error) && self.learned_since(world, worker.client, worker.started) {
            true => Ok(()),
            false => {
                let client = worker.client;
                Err(format!("{what} of client {client} failed: {error} ({})", error.errno()))
            }
        }
    }

    fn learned_since(&self, world: &World, client: usize, since: Time) -> bool {
        let evictions = world.evictions.as_ref().filter(|_| self.args.evictions);
        evictions.is_some_and(|evictions| evictions.learned_since(client, since))
    }

    /// Whether a client has learnt that it lost data of a file, as none of some earlier reports
    /// could say.
    fn has_lost(
        &self,
        world: &World,
        (client, file): (usize, File),
        before: Time,
        said: impl Fn(&Report, Time) -> bool,
    ) -> bool {
        let evictions = world.evictions.as_ref().filter(|_| self.loses());
        let learned = evictions.into_iter().flat_map(|evictions| &evictions.learned);
        let targets = match file {
            File::Registers => vec![OST, OST + 1],
            // It never gets longer than a stripe.
            File::Log => vec![self.target_of(file, 0)],
        };
        let mut of_data = learned.filter(|(place, at)| {
            place.client == client && targets.contains(&place.target) && *at <= before
        });
        let of_file = |report: &&Report| (report.client, report.file) == (client, file);
        let reports = || self.reports.iter().filter(of_file);
        of_data.any(|(_, at)| !reports().any(|report| said(report, *at)))
    }

    /// An fsync is over. It fails if the client learns meanwhile that it was evicted, or if it is
    /// the first one since the client has learnt that it lost something.
    pub(super) fn synced(
        &mut self,
        world: &World,
        (client, file): (usize, File),
        start: Time,
        outcome: &Result<(), ClientError>,
    ) -> Result<(), String> {
        if let Err(error) = outcome {
            let expected = self.learned_since(world, client, start)
                || self.has_lost(world, (client, file), start, |report, learned| {
                    report.is_sync && report.start >= learned && report.end < start
                });
            if !was_evicted(error) || !expected {
                let text = format!("an fsync of {file:?} of client {client} failed: {error}");
                return Err(format!("{text} ({})", error.errno()));
            }
        }
        let (end, failed) = (world.now, outcome.is_err());
        self.reports.push(Report { client, file, start, end, is_sync: true, failed });
        if file == File::Registers && self.loses() {
            let effect = if failed { Effect::Reported } else { Effect::Synced };
            let event = Event { client, start, end, sure: true, effect };
            (0..REGISTERS).for_each(|register| self.note_report(register, event));
        }
        Ok(())
    }

    /// Notes what an fsync or a close has said. One that says what another one has said before, and
    /// nothing was written since, is left out.
    fn note_report(&mut self, register: usize, event: Event) {
        let history = self.of_registers.entry(register).or_default();
        let own = || history.iter().filter(|other| other.client == event.client);
        let before = own().rfind(|other| other.effect == Effect::Synced);
        let written = |since: Time| {
            own().any(|other| matches!(other.effect, Effect::Set(_)) && other.end >= since)
        };
        let since = before.map_or(Time::ZERO, |before| before.start);
        if event.effect == Effect::Reported || written(since) {
            history.push(event);
        }
    }

    /// A program closes a file, which reports whether something was lost.
    pub(super) fn close(&mut self, world: &mut World, client: usize, file: File) {
        let (fid, _) = self.file(file);
        let Some(error) = world.at_client(client, |c, _| c.write_error(fid)) else {
            return;
        };
        let now = world.now;
        let expected = self.has_lost(world, (client, file), now, |report, learned| {
            // A close reports it once, and none after an fsync.
            if report.is_sync { report.start >= learned } else { report.end >= learned }
        });
        if !was_evicted(&error) || !expected {
            self.wrong.get_or_insert(format!("a close of {file:?} of client {client}: {error}"));
        }
        let (start, end) = (now, now);
        self.reports.push(Report { client, file, start, end, is_sync: false, failed: true });
        if file == File::Registers {
            let event = Event { client, start, end, sure: true, effect: Effect::Reported };
            (0..REGISTERS).for_each(|register| self.note_report(register, event));
        }
    }

    /// Looks whether an operation is over. It is given back if it is not, or if another one follows
    /// it.
    pub(super) fn end(
        &mut self,
        world: &mut World,
        number: usize,
        op: Op,
    ) -> Result<Option<Op>, String> {
        match op {
            Op::Write { register, value, slot } => {
                let Some(outcome) = slot.take() else {
                    return Ok(Some(Op::Write { register, value, slot }));
                };
                let effect = Effect::Set(Some(value));
                match outcome {
                    Ok(()) => self.note(world, number, true, register, effect),
                    Err(error) => {
                        self.lost(world, number, &error, "a write")?;
                        self.note_failed(world, number, (true, register), effect);
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
                    Err(error) => self.lost(world, number, &error, "a read")?,
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
                        self.lost(world, number, &error, "a mkdir")?;
                        self.note_failed(world, number, (false, name), Effect::Made(ANY));
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
                        self.lost(world, number, &error, "a rmdir")?;
                        self.note_failed(world, number, (false, name), Effect::Removed);
                    }
                }
            }
            Op::Look { name, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Look { name, slot })) };
                let seen = match outcome {
                    Ok(attr) => Some(Some(id_of(attr.fid))),
                    Err(ClientError::Errno(2)) => Some(None),
                    Err(error) => {
                        self.lost(world, number, &error, "a lookup")?;
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
                        let worker = &self.workers[number];
                        let (client, offset) = (worker.client, appended.offset);
                        let (start, end) = (worker.started, world.now);
                        self.appended.insert(record, Record { client, offset, start, end });
                    }
                    Err(error) => {
                        self.lost(world, number, &error, "an append")?;
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
                        self.lost(world, number, &error, "a rename")?;
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
                    Err(error) => {
                        self.lost(world, number, &error, "a look at a file that was renamed")?
                    }
                }
            }
            Op::Sync { file, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Sync { file, slot })) };
                let start = self.workers[number].started;
                self.synced(world, (client, file), start, &outcome)?;
            }
            Op::Size { slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Size { slot })) };
                match outcome {
                    Ok((size, _)) => {
                        let end = |register: usize| {
                            let (at, len) = self.place_of(register);
                            at + u64::from(len)
                        };
                        let possible: BTreeSet<u64> = (0..REGISTERS).map(end).collect();
                        if size != 0 && !possible.contains(&size) {
                            return Err(format!("the registers have a size of {size}"));
                        }
                    }
                    Err(error) => self.lost(world, number, &error, "a size")?,
                }
            }
            Op::Lock { slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Lock { slot })) };
                outcome.or_else(|error| self.lost(world, number, &error, "a flock"))?;
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
                outcome.or_else(|error| self.lost(world, number, &error, "an unlock"))?;
            }
            Op::Open { name, slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Open { name, slot })) };
                match outcome {
                    Ok(file) => {
                        let slot =
                            world.start(client, |c, t, done| c.close(t, CALLER, file, None, done));
                        return Ok(Some(Op::Close { name, slot }));
                    }
                    Err(error) => self.lost(world, number, &error, "a create")?,
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
                    Err(error) => self.lost(world, number, &error, "a close")?,
                }
            }
            Op::Delete { slot } => {
                let Some(outcome) = slot.take() else { return Ok(Some(Op::Delete { slot })) };
                outcome.or_else(|error| self.lost(world, number, &error, "an unlink"))?;
            }
            _ => unreachable!("it is handled elsewhere"),
        }
        Ok(None)
    }
}

/// Whether an operation has failed because its client was evicted.
fn was_evicted(error: &ClientError) -> bool {
    const EIO: i32 = 5;
    matches!(error, ClientError::Rpc(_)) && error.errno() == EIO
}

/// The value of a register or a record: the same in all of it. None if nothing was ever written.
pub(super) fn value_of(bytes: &[u8]) -> Result<Option<u64>, String> {
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
