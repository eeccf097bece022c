//! Space of files: reserved before it is written to, and given back.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::ldlm::LayoutOp;
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::Obdo;
use lustrine_fswire::rpc::Request;
use lustrine_lnet::service::Turn;

use super::end_locks::{ObjectLock, Place};
use super::mirrors::FileChange;
use super::transfer::{OBJECT, Versioned as _};
use super::{Caller, Client, Done};
use crate::attr::FileOwner;
use crate::error::{ClientError, Outcome, errno};
use crate::layout::FileLayout;

/// What becomes of a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// It gets space; a file that ends before the end of the range ends there afterwards.
    Reserve,
    /// It gets space, also behind the end of the file.
    KeepSize,
    /// Its space is given back: it is read as zeros.
    PunchHole,
}

impl Allocate {
    /// The number of it [OST-15].
    fn mode(self) -> u32 {
        match self {
            Allocate::Reserve => 0,
            Allocate::KeepSize => 1,
            Allocate::PunchHole => 3,
        }
    }
}

impl Client {
    /// Reserves space for a range of a file, or gives it back. The range is the first byte and the
    /// length. Components that are needed get their objects first.
    ///
    /// # Errors
    /// The outcome is EINVAL for an empty range, EFBIG beyond the largest file, and EOPNOTSUPP for
    /// data on a metadata target.
    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of fallocate(2), and whom to answer"
    )]
    pub fn allocate(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner): (Fid, FileOwner),
        layout: &FileLayout,
        what: Allocate,
        (offset, len): (u64, u64),
        done: Done<()>,
    ) {
        let range = match checked(offset, len) {
            Ok(range) => range,
            Err(error) => return done(self, turn, Err(error)),
        };
        let file = (fid, owner);
        if what != Allocate::PunchHole || layout.may_write(offset, len) {
            return self.allocate_in(turn, caller, file, layout, (what, range), done);
        }
        // Another client may have written since where there were no objects.
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| match layout {
            Ok(layout) => client.allocate_in(turn, caller, file, &layout, (what, range), done),
            Err(error) => done(client, turn, Err(error)),
        });
        self.layout_of(turn, caller, fid, then);
    }

    /// The same for the layout that the file has now.
    fn allocate_in(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner): (Fid, FileOwner),
        layout: &FileLayout,
        (what, range): (Allocate, (u64, u64)),
        done: Done<()>,
    ) {
        let change = FileChange { caller, fid, op: LayoutOp::WRITE, range };
        // What has no objects has no space to give back.
        let prepared = match what {
            Allocate::PunchHole => layout.may_change(range),
            Allocate::Reserve | Allocate::KeepSize => layout.may_write(range.0, range.1 - range.0),
        };
        self.change_file(
            turn,
            (change, prepared),
            layout,
            done,
            move |client, turn, layout, done| {
                client.allocate_objects(turn, caller, (fid, owner), layout, (what, range), done);
            },
        );
    }

    fn allocate_objects(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner): (Fid, FileOwner),
        layout: &FileLayout,
        (what, (start, end)): (Allocate, (u64, u64)),
        done: Done<()>,
    ) {
        let on_mdt = layout.component_on_mdt().and_then(|index| layout.components.get(index));
        if on_mdt.is_some_and(|component| start < component.end && component.start < end) {
            return done(self, turn, Err(ClientError::Errno(errno::EOPNOTSUPP)));
        }
        if what != Allocate::PunchHole && !layout.may_write(start, end - start) {
            let error = ClientError::Layout("a part of the file has no objects yet".to_owned());
            return done(self, turn, Err(error));
        }
        // Space behind the largest end can be given back, as there is none.
        if what != Allocate::PunchHole
            && let Err(error) = self.check_size(fid, layout, end)
        {
            return done(self, turn, Err(error));
        }
        let ranges = layout.object_ranges(start, end);
        if what != Allocate::Reserve || ranges.len() < 2 {
            let file = (fid, owner, layout);
            return self.allocate_ranges(turn, caller, file, (what, ranges), &[], done);
        }
        let wanted = ranges.iter().map(|(place, from, _)| (*place, *from)).collect();
        let file = layout.clone();
        self.set_end(
            turn,
            caller,
            (fid, layout),
            wanted,
            done,
            move |client, turn, locks, done| {
                let file = (fid, owner, &file);
                client.allocate_ranges(turn, caller, file, (what, ranges), locks, done);
            },
        );
    }

    /// The same for these parts of objects, under locks that the client has, or without any, under
    /// those of the servers.
    fn allocate_ranges(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner, layout): (Fid, FileOwner, &FileLayout),
        (what, ranges): (Allocate, Vec<(Place, u64, u64)>),
        locks: &[ObjectLock],
        done: Done<()>,
    ) {
        let now = self.wall(turn);
        let mut requests = Vec::new();
        for (place, from, to) in ranges {
            let mut body = Obdo {
                valid: OBJECT
                    | MdValid::SIZE
                    | MdValid::BLOCKS
                    | MdValid::UID
                    | MdValid::GID
                    | MdValid::MTIME
                    | MdValid::CTIME,
                size: from,
                blocks: to,
                nlink: what.mode(),
                uid: owner.uid,
                gid: owner.gid,
                projid: owner.projid,
                mtime: now,
                ctime: now,
                ..Obdo::default()
            };
            body.valid.set(MdValid::PROJID, owner.projid != 0);
            body.set_version(layout.version());
            if let Err(error) = self.name_lock(&mut body, place, locks) {
                return done(self, turn, Err(error));
            }
            requests.push((place, body));
        }
        self.at_objects(turn, caller, (fid, layout), requests, Request::OstFallocate, done);
    }
}

/// The first byte of a range, and that behind its last one.
fn checked(offset: u64, len: u64) -> Outcome<(u64, u64)> {
    if len == 0 {
        return Err(ClientError::Errno(errno::EINVAL));
    }
    match offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok()) {
        Some(end) => Ok((offset, end)),
        None => Err(ClientError::Errno(errno::EFBIG)),
    }
}
