//! Open directories, and the space of the file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileHandle, FopenFlags, INodeNo, ReplyDirectory, ReplyEmpty, ReplyOpen, Request};
use lustrine_client::{Client, DirPage, OpenArgs, OpenFile};
use lustrine_fswire::mdt::OpenFlags as Wanted;
use lustrine_lnet::service::Turn;

use crate::convert::kind;
use crate::reply::Asked;
use crate::server::Server;
use crate::shared::{DirState, OpenedDir};

/// The position behind the last entry.
const END: u64 = i64::MAX as u64;

impl Server {
    /// Opens a directory. This is where the server checks whether it may be listed.
    pub(crate) fn open_dir(&self, request: &Request, number: INodeNo, reply: ReplyOpen) {
        let asked = Asked::new(&self.shared, reply);
        let Some((asked, node)) = asked.with(self.shared.dir(number.0)) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let args = OpenArgs { flags: Wanted::READ | Wanted::DIRECTORY, mode: 0, umask: 0 };
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, open: OpenFile| {
                let handle = asked.shared.add_dir(OpenedDir::new(open, caller));
                asked.opened(handle, FopenFlags::empty());
            });
            client.open(turn, caller, node.fid, args, done);
        });
    }

    /// Lists entries from a position on, as many as there is room for.
    ///
    /// A position is the hash of the name of the next entry: it leads to the same place for all
    /// clients, and as long as the directory exists. Names with the same hash can come twice after
    /// a seek; a listing from the start to the end has each name once.
    pub(crate) fn list_dir(
        &self,
        _: INodeNo,
        handle: FileHandle,
        position: u64,
        reply: ReplyDirectory,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let Some((asked, dir)) = asked.with(self.shared.opened_dir(handle.0)) else { return };
        let from = {
            let mut state = dir.state();
            // From the start everything is read again.
            let goes_on = position != 0 && position == state.position;
            if position == END || goes_on && state.at < state.entries.len() {
                if position == END {
                    state.at = state.entries.len();
                }
                return list(asked, &mut state);
            }
            position
        };
        self.shared.post(move |client, turn| {
            let (caller, fid) = (dir.caller, dir.fid);
            let done = asked.done(move |asked, _: &mut Client, _: &mut Turn<'_>, page: DirPage| {
                let mut state = dir.state();
                (state.at, state.position) = (0, from);
                (state.entries, state.next) = (page.entries, page.next);
                list(asked, &mut state);
            });
            client.readdir(turn, caller, fid, from, done);
        });
    }

    pub(crate) fn close_dir(&self, handle: FileHandle, reply: ReplyEmpty) {
        let asked = Asked::new(&self.shared, reply);
        let removed = self.shared.remove_dir(handle.0);
        let Some((asked, dir)) = asked.with(removed) else { return };
        self.shared.post(move |client, turn| {
            let open = dir.state().open.clone();
            client.close(turn, dir.caller, open, None, asked.finish());
        });
    }
}

/// Answers with the entries that are there.
fn list(mut asked: Asked<ReplyDirectory>, state: &mut DirState) {
    while let Some(entry) = state.entries.get(state.at) {
        let next = match state.entries.get(state.at + 1) {
            Some(next) => next.hash,
            None => state.next.unwrap_or(END),
        };
        let kind = kind(u32::from(entry.file_type.unwrap_or_default()));
        let name = OsStr::from_bytes(&entry.name);
        if asked.reply.add(INodeNo(entry.fid.inode()), next, kind, name) {
            break;
        }
        state.at += 1;
        state.position = next;
    }
    asked.listed();
}
