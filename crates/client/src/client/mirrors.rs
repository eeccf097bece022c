//! Files with mirrors: a change of one of them makes the others stale first [LAYOUT-12].

use bytes::Bytes;

use lustrine_fswire::fid::Fid;
use lustrine_fswire::ldlm::LayoutOp;
use lustrine_lnet::service::Turn;

use super::{Caller, Client, Done};
use crate::attr::FileOwner;
use crate::error::{ClientError, errno};
use crate::layout::FileLayout;

/// How often a change asks for the layout of the file: others may change it meanwhile.
const LAYOUTS_MAX: u32 = 8;

/// A change of a range of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileChange {
    pub(super) caller: Caller,
    pub(super) fid: Fid,
    pub(super) op: LayoutOp,
    /// The first byte, and that behind the last one.
    pub(super) range: (u64, u64),
}

impl Client {
    /// Changes a file with mirrors by a layout that allows it: the one that is known, or one that
    /// the metadata server prepares. If an object says that it is of a later layout, that one is
    /// asked for.
    pub(super) fn change_mirrored<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        change: FileChange,
        layout: &FileLayout,
        done: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, &FileLayout, Done<T>) + Clone + Send + 'static,
    ) {
        let prepared = layout.may_change(change.range);
        self.change_file(turn, (change, prepared), layout, done, act);
    }

    /// The same, of any file. If it is not prepared, the metadata server prepares it first.
    pub(super) fn change_file<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        (change, prepared): (FileChange, bool),
        layout: &FileLayout,
        done: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, &FileLayout, Done<T>) + Clone + Send + 'static,
    ) {
        match prepared {
            true => self.change_by(turn, (change, LAYOUTS_MAX), layout, done, act),
            false => self.prepare(turn, (change, LAYOUTS_MAX), done, act),
        }
    }

    fn prepare<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        (change, left): (FileChange, u32),
        done: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, &FileLayout, Done<T>) + Clone + Send + 'static,
    ) {
        let Some(left) = left.checked_sub(1) else {
            return done(self, turn, Err(ClientError::Errno(errno::ESTALE)));
        };
        let FileChange { caller, fid, op, range } = change;
        let then: Done<FileLayout> = Box::new(move |client, turn, layout| match layout {
            Ok(layout) => client.change_by(turn, (change, left), &layout, done, act),
            Err(error) => done(client, turn, Err(error)),
        });
        self.layout_intent(turn, caller, fid, (op, range), then);
    }

    fn change_by<T: 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        again: (FileChange, u32),
        layout: &FileLayout,
        done: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, &FileLayout, Done<T>) + Clone + Send + 'static,
    ) {
        let next = act.clone();
        let then: Done<T> = Box::new(move |client, turn, outcome| match outcome {
            Err(ClientError::Errno(errno::ESTALE)) => client.prepare(turn, again, done, next),
            outcome => done(client, turn, outcome),
        });
        act(self, turn, layout, then);
    }

    /// Writes a range of a file with mirrors.
    #[allow(clippy::too_many_arguments, reason = "the file, the range, and whom to answer")]
    pub(super) fn write_mirrored(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, owner): (Fid, FileOwner),
        layout: &FileLayout,
        (offset, bytes): (u64, Bytes),
        done: Done<()>,
    ) {
        let range = (offset, offset.saturating_add(bytes.len() as u64));
        let change = FileChange { caller, fid, op: LayoutOp::WRITE, range };
        self.change_mirrored(turn, change, layout, done, move |client, turn, layout, done| {
            let data = (offset, bytes.clone());
            client.write_objects(turn, caller, (fid, owner), layout, data, &[], done);
        });
    }
}
