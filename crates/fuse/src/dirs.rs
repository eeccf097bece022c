//! Open directories, and the space of the file system.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{FileHandle, FopenFlags, INodeNo, ReplyDirectory, ReplyEmpty, ReplyOpen, Request};
use lustrine_client::{Client, DirPage, OpenArgs, OpenFile, Outcome, READDIR_LEN};
use lustrine_fswire::mdt::OpenFlags as Wanted;
use lustrine_lnet::service::Turn;

use crate::convert::kind;
use crate::data::close_unused;
use crate::listings::{END, Part, hash_of};
use crate::reply::Asked;
use crate::server::Server;
use crate::shared::{OpenedDir, Permit};

impl Server {
    /// Opens a directory. This is where the server checks whether it may be listed.
    pub(crate) fn open_dir(&self, request: &Request, number: INodeNo, reply: ReplyOpen) {
        let asked = Asked::of_file(&self.shared, request, reply);
        let Some((asked, node)) = asked.with(self.shared.dir(number.0)) else { return };
        let requester = self.shared.requester(request);
        let args = OpenArgs { flags: Wanted::READ | Wanted::DIRECTORY, mode: 0, umask: 0 };
        self.shared.post_as(
            requester,
            &[node],
            move |client, turn, caller, done| client.open(turn, caller, node.fid, args, done),
            |client, turn, caller, opened: Outcome<OpenFile>| match opened {
                Ok(open) if !asked.claim() => close_unused(client, turn, caller, open),
                Ok(open) => {
                    let handle = asked.shared.add_dir(OpenedDir::new(open, caller));
                    asked.opened(handle, FopenFlags::empty());
                }
                Err(error) => asked.fail_with(&error),
            },
        );
    }

    /// Lists entries from a position on, as many as there is room for.
    ///
    /// A position follows from the hash of the name of the next entry: it leads to the same place
    /// for all clients, and as long as the directory exists. Names with the same hash can come
    /// twice after a seek; a listing from the start to the end has each name once.
    pub(crate) fn list_dir(
        &self,
        request: &Request,
        handle: FileHandle,
        position: u64,
        reply: ReplyDirectory,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, dir)) = asked.with(self.shared.opened_dir(handle.0)) else { return };
        let handle = handle.0;
        {
            let mut state = dir.state();
            if position == END || state.part.goes_on(position) {
                if position == END {
                    state.part = Part::default();
                }
                list(asked, &mut state.part);
                drop(state);
                return self.shared.keep_part(handle, &dir);
            }
        }
        let fid = dir.fid;
        let targets = move |client: &Client| client.targets_of_dir(fid);
        let job = move |client: &mut Client, turn: &mut Turn<'_>, permit: Permit| {
            if asked.is_interrupted() {
                return;
            }
            let caller = dir.caller;
            let done = asked.done(move |asked, _: &mut Client, _: &mut Turn<'_>, page: DirPage| {
                let shared = Arc::clone(&asked.shared);
                let mut state = dir.state();
                state.part.take(position, page);
                list(asked, &mut state.part);
                drop(state);
                shared.keep_part(handle, &dir);
                drop(permit);
            });
            client.readdir(turn, caller, fid, hash_of(position), done);
        };
        self.shared.post_with_data(READDIR_LEN, targets, Box::new(job));
    }

    pub(crate) fn close_dir(&self, request: &Request, handle: FileHandle, reply: ReplyEmpty) {
        let asked = Asked::new(&self.shared, request, reply);
        let removed = self.shared.remove_dir(handle.0);
        let Some((asked, dir)) = asked.with(removed) else { return };
        self.shared.post(move |client, turn| {
            let open = dir.state().open.clone();
            client.close(turn, dir.caller, open, None, asked.finish());
        });
    }
}

/// Answers with the entries that are there.
fn list(asked: Asked<ReplyDirectory>, part: &mut Part) {
    asked.listed(|reply| {
        while let Some((entry, next)) = part.next() {
            let kind = kind(u32::from(entry.file_type.unwrap_or_default()));
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(INodeNo(entry.fid.inode()), next, kind, name) {
                break;
            }
            part.advance();
        }
    });
}
