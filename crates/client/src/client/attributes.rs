//! Changes of attributes: permissions, owners, times, sizes.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::{AttrFlags, Bias, OpenFlags, Reint, ReintOp, SetattrRecord};
use lustrine_fswire::rpc::{Request, mds};
use lustrine_lnet::service::Turn;

use super::attr_locks::early;
use super::validity::restricts_search;
use super::{CallArgs, Caller, Client, Done, OpenArgs, OpenFile};
use crate::attr::{Attr, TYPE_MASK};
use crate::error::{ClientError, Outcome, errno};
use crate::layout::FileLayout;
use crate::reply::reply_of;

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present time. Who may write the file may set it.
    Now,
    /// Seconds since 1970. Only the owner may set it.
    At(i64),
}

/// Attributes to set; none of them is left as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Permissions: the lower 12 bits count.
    pub mode: Option<u32>,
    /// The permissions lack the set-user-ID and set-group-ID bits because the file is written to:
    /// the writer, who need not be the owner, may do this [MDT-25].
    pub clears_ids: bool,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size of a regular file in bytes, up to 2^63 - 1: it is cut, or grows by a hole.
    pub size: Option<u64>,
    /// The time of the last access.
    pub atime: Option<SetTime>,
    /// The time of the last change of the data.
    pub mtime: Option<SetTime>,
    /// Whether the caller has the file open to write it. The owner may set a size then, whatever
    /// the permissions are.
    pub open: bool,
}

impl Changes {
    /// Whether nothing is to be set.
    pub fn is_empty(&self) -> bool {
        Changes { open: false, ..*self } == Changes::default()
    }
}

impl Client {
    /// Sets attributes. The outcome is the file as it is then; its size is known if it was set.
    ///
    /// A new size reaches the objects of the file, after the metadata server has agreed. If one of
    /// them cannot be reached, the size is not defined: the operation has to be repeated.
    pub fn set_attributes(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        changes: Changes,
        done: Done<Attr>,
    ) {
        if changes.size.is_none() && changes.atime.is_none() && changes.mtime.is_none() {
            return match changes.is_empty() {
                true => self.getattr(turn, caller, fid, done),
                false => self.set_at_mdt(turn, caller, fid, changes, done),
            };
        }
        self.set_with_objects(turn, caller, fid, (changes, MakeObjects::Yes), done);
    }

    /// Sets attributes of which the objects have some too: sizes and times.
    fn set_with_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        (changes, make): (Changes, MakeObjects),
        done: Done<Attr>,
    ) {
        let then: Done<Attr> = Box::new(move |client, turn, attr| {
            let attr = match attr {
                Ok(attr)
                    if make == MakeObjects::Yes
                        && attr.is_file()
                        && attr.layout.is_empty()
                        && grows(&changes) =>
                {
                    return client.make_objects_and_set(turn, caller, fid, changes, done);
                }
                attr => attr,
            };
            let layout = attr.and_then(|attr| {
                check_owner(&attr, &caller, &changes)?;
                let layout = layout_for(&attr, &changes)?;
                if let Some(size) = changes.size {
                    client.check_size(fid, &layout, size)?;
                }
                Ok(layout)
            });
            let layout = match layout {
                Ok(layout) => layout,
                Err(error) => return done(client, turn, Err(error)),
            };
            let then: Done<Attr> = Box::new(move |client, turn, set| match set {
                Ok(_) => client.set_at_objects(turn, caller, (fid, layout), changes, done),
                Err(error) => done(client, turn, Err(error)),
            });
            // First where it may be refused.
            client.set_at_mdt(turn, caller, fid, changes, then);
        });
        self.getattr(turn, caller, fid, then);
    }

    /// Sets attributes of a file that was never written to: it gets objects first, by an open. They
    /// hold its size.
    fn make_objects_and_set(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        changes: Changes,
        done: Done<Attr>,
    ) {
        let args = OpenArgs { flags: OpenFlags::WRITE, mode: 0, umask: 0 };
        let then: Done<OpenFile> = Box::new(move |client, turn, opened| {
            let open = match opened {
                Ok(open) if !open.layout.components.is_empty() => open,
                Ok(open) => {
                    let then: Done<()> = Box::new(move |client, turn, _| {
                        let error = ClientError::Layout("it has no objects".to_owned());
                        done(client, turn, Err(error));
                    });
                    return client.close(turn, caller, open, None, then);
                }
                Err(error) => return done(client, turn, Err(error)),
            };
            let then: Done<()> = Box::new(move |client, turn, closed| match closed {
                Ok(()) => {
                    let how = (changes, MakeObjects::No);
                    client.set_with_objects(turn, caller, fid, how, done);
                }
                Err(error) => done(client, turn, Err(error)),
            });
            client.close(turn, caller, open, None, then);
        });
        self.open(turn, caller, fid, args, then);
    }

    /// Sets attributes at the metadata server.
    fn set_at_mdt(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        changes: Changes,
        done: Done<Attr>,
    ) {
        let restricts = changes.mode.is_some_and(restricts_search);
        let send = move |client: &mut Client, turn: &mut Turn<'_>, import, done: Done<Attr>| {
            let record = caller.setattr_record(record(fid, &changes, client.wall(turn)));
            let locks = client.early_cancels(import, [fid]);
            let request = mds::ReintSetattr {
                record: Reint::Setattr(record),
                locks: early(&locks),
                ..Default::default()
            };
            let call = CallArgs::change(Request::ReintSetattr(request), &caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let set =
                    answer.and_then(|answer| reply_of!(&answer.reply, ReintSetattr).map(drop));
                match set {
                    // The reply has no layout.
                    Ok(()) => client.getattr(turn, caller, fid, done),
                    Err(error) => done(client, turn, Err(error)),
                }
            });
        };
        self.before_permissions(turn, (fid, restricts), done, move |client, turn, done| {
            client.at_mdt_of(turn, fid, done, send);
        });
    }

    /// Sets what objects have of a file: its end and its times.
    fn set_at_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, FileLayout),
        changes: Changes,
        done: Done<Attr>,
    ) {
        let now = self.wall(turn);
        let time = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::At(seconds) => seconds,
        };
        let (atime, mtime) = (changes.atime.map(time), changes.mtime.map(time));
        let finish: Done<()> = Box::new(move |client, turn, set| {
            if let Err(error) = set {
                return done(client, turn, Err(error));
            }
            let then: Done<Attr> = Box::new(move |client, turn, attr| {
                let attr = attr.map(|mut attr| {
                    attr.size = changes.size.or(attr.size);
                    attr
                });
                done(client, turn, attr);
            });
            client.getattr(turn, caller, fid, then);
        });
        let sets_times = atime.is_some() || mtime.is_some();
        let Some(size) = changes.size else {
            return self.set_object_times(turn, caller, (fid, layout), (atime, mtime), finish);
        };
        let file = (fid, layout.clone());
        let then: Done<()> = Box::new(move |client, turn, cut| match cut {
            Ok(()) if sets_times => {
                client.set_object_times(turn, caller, (fid, layout), (atime, mtime), finish);
            }
            other => finish(client, turn, other),
        });
        self.truncate_objects(turn, caller, file, (size, mtime.unwrap_or(now)), then);
    }
}

/// Servers let anyone who may write a file set any time of it, as kernel clients check who may
/// [MDT-22].
fn check_owner(attr: &Attr, caller: &Caller, changes: &Changes) -> Outcome<()> {
    let sets = |time| matches!(time, Some(SetTime::At(_)));
    let may = caller.uid == attr.uid || caller.capabilities & CAP_FOWNER != 0;
    match may || !(sets(changes.atime) || sets(changes.mtime)) {
        true => Ok(()),
        false => Err(ClientError::Errno(errno::EPERM)),
    }
}

/// Whether a file that was never written to gets objects first. Once is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MakeObjects {
    Yes,
    No,
}

/// The capability to act as the owner of any file.
const CAP_FOWNER: u32 = 1 << 3;

/// Whether a size is to be set that an empty file does not have, and that a file can have.
fn grows(changes: &Changes) -> bool {
    changes.size.is_some_and(|size| size > 0 && i64::try_from(size).is_ok())
}

/// The layout of a file whose objects are to be changed.
fn layout_for(attr: &Attr, changes: &Changes) -> Outcome<FileLayout> {
    let Some(size) = changes.size else {
        return match attr.is_file() {
            true => FileLayout::parse(&attr.layout),
            false => Ok(FileLayout::default()),
        };
    };
    if attr.is_dir() {
        return Err(ClientError::Errno(errno::EISDIR));
    }
    if !attr.is_file() {
        return Err(ClientError::Errno(errno::EINVAL));
    }
    if i64::try_from(size).is_err() {
        return Err(ClientError::Errno(errno::EFBIG));
    }
    FileLayout::parse(&attr.layout)
}

/// The record that sets attributes at the metadata server [MDT-22].
fn record(fid: Fid, changes: &Changes, now: i64) -> SetattrRecord {
    let mut valid = match changes.clears_ids {
        true => AttrFlags::FORCE | AttrFlags::KILL_SUID | AttrFlags::KILL_SGID,
        false => AttrFlags::CTIME | AttrFlags::CTIME_SET,
    };
    let mut record = SetattrRecord { op: ReintOp::SETATTR, fid, ctime: now, ..Default::default() };
    (record.atime, record.mtime) = (now, now);
    if let Some(mode) = changes.mode {
        valid |= AttrFlags::MODE;
        record.mode = mode & !TYPE_MASK & 0o7777;
    }
    if let Some(uid) = changes.uid {
        valid |= AttrFlags::UID | AttrFlags::KILL_SUID;
        record.uid = uid;
    }
    if let Some(gid) = changes.gid {
        valid |= AttrFlags::GID | AttrFlags::KILL_SUID;
        record.gid = gid;
    }
    if let Some(size) = changes.size {
        valid |= AttrFlags::SIZE | AttrFlags::MTIME;
        valid.set(AttrFlags::OVERRIDE, changes.open);
        record.size = size;
        record.bias = Bias::DATA_MODIFIED;
    }
    if let Some(time) = changes.atime {
        // Without the SET bits a server of 2.17 asks for the owner.
        valid |= AttrFlags::ATIME | AttrFlags::ATIME_SET;
        if let SetTime::At(seconds) = time {
            record.atime = seconds;
        }
    }
    if let Some(time) = changes.mtime {
        valid |= AttrFlags::MTIME | AttrFlags::MTIME_SET;
        if let SetTime::At(seconds) = time {
            record.mtime = seconds;
        }
    }
    record.valid = valid;
    record
}
