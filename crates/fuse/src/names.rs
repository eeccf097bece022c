//! Names of files that exist: moves, hard links, removals.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, RenameFlags, ReplyEmpty, ReplyEntry, Request};
use lustrine_client::Attr;

use crate::reply::Asked;
use crate::server::Server;

impl Server {
    /// Gives a file another name, in the same directory or in another one.
    pub(crate) fn rename_file(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, reply);
        if !flags.is_empty() {
            // Servers have no request for it, as kernel clients say too.
            return asked.fail(Errno::EINVAL);
        }
        let dirs = self.shared.dir(parent.0).and_then(|from| {
            let to = self.shared.dir(new_parent.0)?;
            Ok((from, to))
        });
        let Some((asked, (from, to))) = asked.with(dirs) else { return };
        let caller = self.shared.requester(request).caller(&[from.gid, to.gid]);
        let (name, new_name) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        self.shared.post(move |client, turn| {
            let sought = name.clone();
            let then = asked.done(move |asked, client, turn, object: Attr| {
                let (from, to) = ((from.fid, &name[..]), (to.fid, &new_name[..]));
                client.rename(turn, caller, from, to, object.mode, asked.finish());
            });
            client.lookup(turn, caller, from.fid, &sought, then);
        });
    }

    /// Gives a file one more name.
    pub(crate) fn link_file(
        &self,
        request: &Request,
        number: INodeNo,
        (new_parent, new_name): (INodeNo, &OsStr),
        reply: ReplyEntry,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let nodes = self.shared.node(number.0).and_then(|node| {
            let dir = self.shared.dir(new_parent.0)?;
            Ok((node, dir))
        });
        let Some((asked, (node, dir))) = asked.with(nodes) else { return };
        let caller = self.shared.requester(request).caller(&[dir.gid, node.gid]);
        let name = new_name.as_bytes().to_vec();
        self.shared.post(move |client, turn| {
            let then = asked.done(move |asked, client, turn, ()| {
                client.getattr(turn, caller, node.fid, asked.entry(caller));
            });
            client.link(turn, caller, node.fid, dir.fid, &name, then);
        });
    }

    /// Removes a name.
    pub(crate) fn remove_name(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        is_dir: bool,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let Some((asked, dir)) = asked.with(self.shared.dir(parent.0)) else { return };
        let caller = self.shared.requester(request).caller(&[dir.gid]);
        let name = name.as_bytes().to_vec();
        self.shared.post(move |client, turn| {
            client.unlink(turn, caller, dir.fid, &name, is_dir, asked.finish());
        });
    }
}
