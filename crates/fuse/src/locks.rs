//! Locks of flock(2) and fcntl(2), which the metadata servers keep for all machines.

use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use fuser::{Errno, FileHandle, LockOwner, ReplyEmpty, ReplyLock, Request};
use lustrine_client::{Client, ClientError, FlockArgs, FlockKey, FlockMode};
use lustrine_lnet::service::Turn;

use crate::closes::Awaits;
use crate::convert::errno;
use crate::options::Locks;
use crate::reply::Asked;
use crate::server::Server;
use crate::shared::{OpenedFile, Shared};
use crate::signals::has_signal;

/// How often processes that wait for a lock are looked at for a signal.
const SIGNALS_INTERVAL: Duration = Duration::from_millis(100);

// Linux has them as numbers in fcntl.h.
const F_RDLCK: i32 = 0;
const F_WRLCK: i32 = 1;
const F_UNLCK: i32 = 2;

/// The request at the client that an operation has made, if it has made one.
type Made = Arc<OnceLock<FlockKey>>;

impl Shared {
    /// Gives up the locks whose processes are not to wait any longer. Whether others wait.
    pub(crate) fn give_up_locks(&self, stops: impl Fn(u32) -> bool) -> bool {
        let Some(keys) = self.locks.to_give_up(stops) else { return false };
        let given_up = keys.clone();
        let is_posted = keys.is_empty()
            || self.try_post(move |client, turn| {
                for key in given_up {
                    client.give_up_flock(turn, key);
                }
            });
        if !is_posted {
            self.locks.not_given_up(&keys);
        }
        true
    }

    /// Looks after processes that wait for locks, until none does: fuser 0.18 answers the kernel
    /// that it cannot interrupt requests, so signals have to be looked for.
    fn watch_locks(self: &Arc<Shared>) {
        let shared: Weak<Shared> = Arc::downgrade(self);
        let watch = move || {
            while let Some(shared) = shared.upgrade() {
                if !shared.give_up_locks(has_signal) {
                    return;
                }
                drop(shared);
                thread::sleep(SIGNALS_INTERVAL);
            }
        };
        let started = thread::Builder::new().name("fuse-locks".to_owned()).spawn(watch);
        if started.is_err() {
            // They wait, and cannot be interrupted; the next one tries again.
            self.locks.unwatched();
        }
    }
}

impl Server {
    /// What stands in the way of a lock.
    pub(crate) fn test_lock(
        &self,
        request: &Request,
        handle: FileHandle,
        owner: LockOwner,
        range: (u64, u64),
        (kind, pid): (i32, u32),
        reply: ReplyLock,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let found = self.lock_args(handle, owner, range, (kind, pid));
        let Some((asked, (file, args))) = asked.with(found) else { return };
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, holder: Option<FlockArgs>| match holder {
                Some(held) => {
                    let kind = if held.mode == FlockMode::Read { F_RDLCK } else { F_WRLCK };
                    asked.locked((held.start, held.end), kind, held.pid);
                }
                None => asked.locked(range, F_UNLCK, 0),
            });
            client.test_flock(turn, file.caller, file.fid, args, done);
        });
    }

    /// Takes a lock, or gives one up.
    pub(crate) fn set_lock(
        &self,
        (request, handle): (&Request, FileHandle),
        owner: LockOwner,
        range: (u64, u64),
        (kind, pid): (i32, u32),
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let (file, args) = match self.lock_args(handle, owner, range, (kind, pid)) {
            Ok(found) => found,
            Err(error) => return reply.error(error),
        };
        let locks = args.mode != FlockMode::Unlock;
        if locks {
            self.shared.locks.note(file.fid, args.owner, handle.0);
        }
        let waits = wait && locks;
        let number = if waits { self.shared.locks.begin(request.pid()) } else { None };
        if waits && number.is_none() {
            return reply.error(Errno::ENOLCK);
        }
        let made = Made::default();
        let made_again = Made::default();
        let of_asked = [Arc::clone(&made), Arc::clone(&made_again)];
        let (shared, fid) = (Arc::clone(&self.shared), file.fid);
        // If it is interrupted, what it has asked for stays in flight, and what the same owner,
        // such as the parent process, asks for after that must not be undone by it.
        let before = move || {
            if locks {
                // A close by another thread may have ended what was noted.
                shared.locks.note(fid, args.owner, handle.0);
            }
            let made = of_asked.clone();
            let is_posted = shared.try_post(move |client, turn| {
                let keys = made.iter().filter_map(|made| made.get());
                keys.for_each(|key| client.abandon_flock(turn, *key));
            });
            if is_posted {
                number.into_iter().for_each(|number| shared.locks.end(number));
            }
            is_posted
        };
        let asked = Asked::with_before(&self.shared, request, reply, Box::new(before));
        if asked.is_interrupted() {
            return;
        }
        let may_wait = locks && !wait;
        let awaits =
            may_wait && self.shared.closes.are_awaited(file.fid, Awaits::Locks, Instant::now());
        let (shared, caller, fid) = (Arc::clone(&self.shared), file.caller, file.fid);
        self.shared.post(move |client, turn| {
            let table = Arc::clone(&shared);
            if asked.is_interrupted() {
                return;
            }
            let done = move |asked: Asked<ReplyEmpty>, outcome: Result<(), ClientError>| {
                number.into_iter().for_each(|number| table.locks.end(number));
                if !asked.claim() {
                    return;
                }
                // A close by another thread may have ended all locks while this one was waited for.
                if outcome.is_ok() && locks {
                    table.locks.note(fid, args.owner, handle.0);
                }
                match outcome {
                    Ok(()) => asked.ok(),
                    Err(error) => asked.fail(errno(&error)),
                }
            };
            let closes = Arc::clone(&shared);
            let then = move |_: &mut Client, _: &mut Turn<'_>, outcome: Result<(), ClientError>| {
                let may_succeed = |error| closes.may_succeed(fid, Awaits::Locks, awaits, error);
                if !may_wait || !outcome.as_ref().is_err_and(may_succeed) {
                    return done(asked, outcome);
                }
                // The lock of a file that a program has closed before may be in the way.
                closes.post_after_closes(fid, Awaits::Locks, move |client, turn| {
                    if asked.is_interrupted() {
                        return;
                    }
                    let then =
                        move |_: &mut Client, _: &mut Turn<'_>, outcome| done(asked, outcome);
                    let key = client.flock(turn, caller, fid, args, wait, Box::new(then));
                    let _ = made_again.set(key);
                });
            };
            let key = client.flock(turn, caller, fid, args, wait, Box::new(then));
            let _ = made.set(key);
            if number.is_some_and(|number| shared.locks.asked(number, key)) {
                shared.watch_locks();
            }
        });
    }

    /// A process closes a file: what it has written begins to be sent, and it learns of earlier
    /// writes that failed. Its locks of fcntl(2) on the file end, also those that it has taken
    /// through another descriptor.
    pub(crate) fn flush_file(
        &self,
        request: &Request,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let Ok(file) = self.shared.file(handle.0) else { return reply.ok() };
        let owned = self.locks == Locks::Cluster && self.shared.locks.forget(file.fid, owner.0);
        let has_locks = self.shared.locks.are_through(file.fid, handle.0);
        self.shared.closes.flushed((file.fid, handle.0), Instant::now(), has_locks);
        if !owned && !self.caches {
            return reply.ok();
        }
        let made = Made::default();
        let (shared, of_asked, of_file) =
            (Arc::clone(&self.shared), Arc::clone(&made), Arc::clone(&file));
        // The locks end in any case, and before the kernel gives the owner's number to another
        // process.
        let before = move || {
            if !owned {
                return true;
            }
            let (made, file) = (Arc::clone(&of_asked), Arc::clone(&of_file));
            shared.try_post(move |client, turn| {
                let key = *made.get_or_init(|| {
                    let done = Box::new(|_: &mut Client, _: &mut Turn<'_>, _| {});
                    client.unlock_all(turn, file.caller, file.fid, owner.0, done)
                });
                client.abandon_flock(turn, key);
            })
        };
        let asked = Asked::with_before(&self.shared, request, reply, Box::new(before));
        self.shared.post(move |client, turn| {
            client.start_flush(turn, file.fid);
            let error = client.write_error(file.fid);
            let answer = move |asked: Asked<ReplyEmpty>| match error {
                Some(error) => asked.fail_with(&error),
                None => asked.ok(),
            };
            if !owned {
                return answer(asked);
            }
            let then = asked.done(move |asked, _, _, ()| answer(asked));
            made.get_or_init(|| client.unlock_all(turn, file.caller, file.fid, owner.0, then));
        });
    }

    fn lock_args(
        &self,
        handle: FileHandle,
        owner: LockOwner,
        (start, end): (u64, u64),
        (kind, pid): (i32, u32),
    ) -> Result<(Arc<OpenedFile>, FlockArgs), Errno> {
        if self.locks != Locks::Cluster {
            return Err(Errno::ENOSYS);
        }
        let mode = match kind {
            F_RDLCK => FlockMode::Read,
            F_WRLCK => FlockMode::Write,
            F_UNLCK => FlockMode::Unlock,
            _ => return Err(Errno::EINVAL),
        };
        let file = self.shared.file(handle.0)?;
        Ok((file, FlockArgs { mode, start, end, owner: owner.0, pid }))
    }
}
