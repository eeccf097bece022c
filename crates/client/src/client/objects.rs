//! Operations on the objects of a file: their ends, their times, their durability.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::ldlm::LayoutOp;
use lustrine_fswire::mdt::{MdValid, MdtBody};
use lustrine_fswire::ost::{Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Request, mds, ost};
use lustrine_lnet::service::Turn;
use lustrine_ptlrpc::{Keep, RpcError};

use super::cache::ObjectKey;
use super::end_locks::{ObjectLock, Place};
use super::io::{Work, part_of};
use super::mirrors::FileChange;
use super::transfer::{OBJECT, Versioned as _};
use super::{CallArgs, Caller, Client, Done};
use crate::error::{ClientError, Outcome, errno};
use crate::layout::FileLayout;
use crate::reply::{parse, reply_of};

/// An object of a file, as component and stripe, and the parameters of a request for it. The id is
/// filled in where it is sent.
type ObjectRequest = (Place, Obdo);

/// So often a truncation begins anew, because another client has given the file more objects, or
/// because a lock was lost.
const ATTEMPTS_MAX: u32 = 16;

/// Where a file is to end.
#[derive(Clone, Copy, Debug)]
struct NewEnd {
    size: u64,
    /// The times of modification and change that the objects get.
    time: i64,
    /// How often the truncation may begin anew.
    attempts: u32,
}

impl Client {
    /// Makes a file durable: what the metadata server has done to it, and the data of its objects
    /// [OST-12].
    pub fn fsync(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        done: Done<()>,
    ) {
        let body = Obdo {
            valid: OBJECT | MdValid::SIZE | MdValid::BLOCKS,
            size: 0,
            blocks: u64::MAX,
            ..Obdo::default()
        };
        let places = layout.objects().map(|(component, stripe, _)| ((component, stripe), body));
        let requests: Vec<ObjectRequest> = places.collect();
        let file = layout.clone();
        let then: Done<()> = Box::new(move |client, turn, flushed| {
            if let Err(error) = flushed {
                return done(client, turn, Err(error));
            }
            // A server that restarts meanwhile may refuse what it gets again.
            let done: Done<()> = Box::new(move |client, turn, committed| {
                let lost = client.take_loss(fid);
                done(client, turn, committed.and(lost.map_or(Ok(()), Err)));
            });
            // The metadata server has a part in it, so that there is one request at least.
            let work = Work::Change { done };
            let Some(io) = client.start_io(turn, 2 + requests.len(), work) else { return };
            let part = part_of(io);
            client.sync(turn, caller, fid, part);
            // Other programs may have written to objects that are not in this layout.
            let own = requests.iter().filter_map(|(place, _)| {
                let target = client.target_of(fid, &file, *place).ok()?;
                Some(ObjectKey { import: target.import, oi: target.oi })
            });
            let own = own.collect();
            let part = part_of(io);
            client.commit_file(turn, fid, &own, part);
            for request in requests {
                let part = part_of(io);
                client.at_object(turn, caller, (fid, &file), request, Request::OstSync, part);
            }
        });
        self.flush(turn, fid, then);
    }

    /// Cuts the objects of a file, or lets them grow, so that it ends at `size`. The metadata
    /// server knows of it already. Components that are needed get their objects first.
    pub(super) fn truncate_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, FileLayout),
        (size, time): (u64, i64),
        done: Done<()>,
    ) {
        let end = NewEnd { size, time, attempts: ATTEMPTS_MAX };
        self.truncate_to(turn, caller, (fid, layout), end, done);
    }

    fn truncate_to(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, FileLayout),
        end: NewEnd,
        done: Done<()>,
    ) {
        let size = end.size;
        if layout.mirrors.is_some() {
            let range = (size.saturating_sub(1), u64::MAX);
            let change = FileChange { caller, fid, op: LayoutOp::WRITE, range };
            return self.change_mirrored(
                turn,
                change,
                &layout,
                done,
                move |client, turn, layout, done| {
                    if !layout.may_change(range) {
                        let text = "other mirrors would not be stale".to_owned();
                        return done(client, turn, Err(ClientError::Layout(text)));
                    }
                    client.punch(turn, caller, (fid, layout), end, done);
                },
            );
        }
        if layout.components.is_empty() || layout.reaches(size) {
            return self.punch(turn, caller, (fid, &layout), end, done);
        }
        let range = (size - 1, size);
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| {
            let layout = layout.and_then(|layout| match layout.reaches(size) {
                true => Ok(layout),
                false => Err(ClientError::Layout("the end of the file has no object".to_owned())),
            });
            match layout {
                Ok(layout) => client.punch(turn, caller, (fid, &layout), end, done),
                Err(error) => done(client, turn, Err(error)),
            }
        });
        self.layout_intent(turn, caller, fid, (LayoutOp::TRUNC, range), then);
    }

    /// The object of a file that has one is locked by its server for the time of the request. Of
    /// others, those that are to be cut are locked by this client until all are, so that no client
    /// appends in between.
    fn punch(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, &FileLayout),
        end: NewEnd,
        done: Done<()>,
    ) {
        let sizes = layout.object_sizes(end.size).into_iter();
        let wanted: Vec<_> =
            sizes.map(|(component, stripe, size)| ((component, stripe), size)).collect();
        let has_one = layout.objects().count() + layout.component_on_mdt().iter().count() < 2;
        if has_one || wanted.is_empty() || wanted.len() < 2 && layout.is_complete() {
            return self.punch_objects(turn, caller, (fid, layout), end, &[], done);
        }
        let file = layout.clone();
        if layout.mirrors.is_some() {
            let act = move |client: &mut Client, turn: &mut Turn<'_>, locks: &[_], done| {
                client.punch_objects(turn, caller, (fid, &file), end, locks, done);
            };
            return self.set_end(turn, caller, (fid, layout), wanted, done, act);
        }
        let is_complete = layout.is_complete();
        let act = move |client: &mut Client, turn: &mut Turn<'_>, locks: &[_], done: Done<()>| {
            if is_complete {
                return client.punch_objects(turn, caller, (fid, &file), end, locks, done);
            }
            // Another client can have given the file more objects before this one had the locks,
            // and have written there.
            let held = locks.to_vec();
            let then: Done<FileLayout> = Box::new(move |client, turn, layout| match layout {
                Ok(layout) if layout == file => {
                    client.punch_objects(turn, caller, (fid, &layout), end, &held, done);
                }
                Ok(_) => done(client, turn, Err(ClientError::Errno(errno::ESTALE))),
                Err(error) => done(client, turn, Err(error)),
            });
            client.layout_under(turn, caller, fid, locks, then);
        };
        // A server that has evicted this client, or that a lock has left meanwhile, is asked anew.
        let again: Done<()> = Box::new(move |client, turn, cut| match cut {
            Err(ClientError::Errno(errno::ESTALE) | ClientError::Rpc(RpcError::Evicted)) => {
                let Some(attempts) = end.attempts.checked_sub(1) else {
                    return done(client, turn, Err(ClientError::Errno(errno::EIO)));
                };
                let end = NewEnd { attempts, ..end };
                let then: Done<FileLayout> = Box::new(move |client, turn, layout| match layout {
                    Ok(layout) => client.truncate_to(turn, caller, (fid, layout), end, done),
                    Err(error) => done(client, turn, Err(error)),
                });
                client.layout_of(turn, caller, fid, then);
            }
            cut => done(client, turn, cut),
        });
        self.set_end(turn, caller, (fid, layout), wanted, again, act);
    }

    /// The same under locks that the client has, or without any, under those of the servers.
    fn punch_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, &FileLayout),
        end: NewEnd,
        locks: &[ObjectLock],
        done: Done<()>,
    ) {
        let mut requests = Vec::new();
        for (component, stripe, size) in layout.object_sizes(end.size) {
            let place = (component, stripe);
            let mut body = Obdo {
                valid: OBJECT | MdValid::SIZE | MdValid::BLOCKS | MdValid::MTIME | MdValid::CTIME,
                size,
                // To the end of the object [OST-10].
                blocks: u64::MAX,
                mtime: end.time,
                ctime: end.time,
                ..Obdo::default()
            };
            if let Err(error) = self.name_lock(&mut body, place, locks) {
                return done(self, turn, Err(error));
            }
            body.set_version(layout.version());
            requests.push((place, body));
        }
        self.at_objects(turn, caller, (fid, layout), requests, Request::OstPunch, done);
    }

    /// Sets times of all objects of a file: what is shown of it is the largest of all [OST-11].
    pub(super) fn set_object_times(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, FileLayout),
        (atime, mtime): (Option<i64>, Option<i64>),
        done: Done<()>,
    ) {
        let mut body = Obdo { valid: OBJECT | MdValid::CTIME, ..Obdo::default() };
        body.ctime = self.wall(turn);
        if let Some(atime) = atime {
            body.valid |= MdValid::ATIME;
            body.atime = atime;
        }
        if let Some(mtime) = mtime {
            body.valid |= MdValid::MTIME;
            body.mtime = mtime;
        }
        // Others write their data first, which would bring back newer times, and forget the times
        // that they know [OST-11].
        let all = |body: Obdo| -> Vec<ObjectRequest> {
            let objects = layout.objects();
            objects.map(|(component, stripe, _)| ((component, stripe), body)).collect()
        };
        let (changes, file) = (all(body), layout.clone());
        let then: Done<()> = Box::new(move |client, turn, flushed| match flushed {
            Ok(()) => {
                // A program that reads can have got a lock again before, with the old times.
                let (set, of_cache) = (body, file.clone());
                let then: Done<()> = Box::new(move |client, turn, outcome| {
                    if outcome.is_ok() {
                        client.note_times(fid, &of_cache, &set);
                    }
                    done(client, turn, outcome);
                });
                let file = (fid, &file);
                client.at_objects(turn, caller, file, changes, Request::OstSetattr, then);
            }
            Err(error) => done(client, turn, Err(error)),
        });
        self.write_back(turn, caller, (fid, &layout), then);
    }

    /// Has all clients, this one included, write what they have of a file, and give their locks
    /// back.
    pub(super) fn write_back(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, &FileLayout),
        done: Done<()>,
    ) {
        let flush = Obdo {
            valid: OBJECT | MdValid::FLAGS,
            flags: ObdoFlags::SRVLOCK | ObdoFlags::FLUSH,
            ..Obdo::default()
        };
        let objects = layout.objects();
        let all = objects.map(|(component, stripe, _)| ((component, stripe), flush)).collect();
        self.at_objects(turn, caller, (fid, layout), all, Request::OstGetattr, done);
    }

    /// Makes a request for each object of a list, all at once.
    pub(super) fn at_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, &FileLayout),
        requests: Vec<ObjectRequest>,
        make: fn(ost::Object) -> Request<'static>,
        done: Done<()>,
    ) {
        let work = Work::Change { done };
        let Some(io) = self.start_io(turn, requests.len(), work) else { return };
        for request in requests {
            let part = part_of(io);
            self.at_object(turn, caller, (fid, layout), request, make, part);
        }
    }

    /// Makes a request for one object whose answer is its status.
    fn at_object(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, &FileLayout),
        (place, body): ObjectRequest,
        make: fn(ost::Object) -> Request<'static>,
        done: Done<()>,
    ) {
        let target = match self.target_of(fid, layout, place) {
            Ok(target) => target,
            Err(error) => return done(self, turn, Err(error)),
        };
        let request = make(ost::Object { body: Obdo { oi: target.oi, ..body } });
        let kind = request.kind();
        let mut call = CallArgs::from(request);
        call.caller = Some(caller);
        // A server that restarts gets changes again that it has lost.
        call.keep = Keep::UntilCommitted;
        self.call_for(turn, target.import, call, done, move |answer| {
            parse(&answer.reply, kind).map(drop)
        });
    }

    /// Has the metadata server commit what it has done to a file, and all that came before it.
    pub fn sync(&mut self, turn: &mut Turn<'_>, caller: Caller, fid: Fid, done: Done<()>) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let body = caller.body(MdtBody { fid1: fid, valid: MdValid::ID, ..MdtBody::default() });
            let mut call = CallArgs::from(Request::MdsSync(mds::Getattr { body }));
            call.caller = Some(caller);
            client.call_for(turn, import, call, done, |answer| -> Outcome<()> {
                reply_of!(&answer.reply, MdsSync).map(drop)
            });
        });
    }
}
