//! Requests that are answered from what the client keeps, in the thread that has read the request:
//! they do not have to wait for the event loop.
//!
//! The client is locked meanwhile. So the kernel has the answer before the event loop can have it
//! invalidate something of it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use fuser::{INodeNo, ReplyAttr, ReplyEntry, ReplyXattr, Request};
use lustrine_client::{Cached, Caller, Client};
use lustrine_fswire::fid::Fid;
use lustrine_lnet::time::Time;

use crate::convert::errno;
use crate::reply::{Asked, send_attr, send_entry, send_value};
use crate::server::Server;
use crate::shared::Shared;

impl Server {
    /// Looks a name up.
    pub(crate) fn look_up_name(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let dir = match self.shared.dir(parent.0) {
            Ok(dir) => dir,
            Err(error) => return reply.error(error),
        };
        let name = name.as_bytes();
        let who = || self.shared.requester(request).caller(&[dir.gid]);
        let reply = self.shared.look_up_at_once(None, (dir.fid, name), reply, who);
        let Some(reply) = reply else { return };
        let requester = self.shared.requester(request);
        let caller = requester.caller(&[dir.gid]);
        let reply = self.shared.look_up_at_once(Some(caller), (dir.fid, name), reply, || caller);
        let Some(reply) = reply else { return };
        let asked = Asked::new(&self.shared, request, reply);
        let name: Arc<[u8]> = name.into();
        let sought = Arc::clone(&name);
        self.shared.post_as(
            requester,
            &[dir],
            move |client, turn, caller, done| client.lookup(turn, caller, dir.fid, &sought, done),
            move |client, turn, caller, found| {
                asked.looked_up(caller, (dir.fid, name))(client, turn, found);
            },
        );
    }

    /// Shows the attributes of a file that the kernel knows.
    pub(crate) fn show_attributes(&self, request: &Request, number: INodeNo, reply: ReplyAttr) {
        let node = match self.shared.node(number.0) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let reply = self.shared.getattr_at_once(node.fid, reply);
        let Some(reply) = reply else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let asked = Asked::of_file(&self.shared, request, reply);
        self.shared.post(move |client, turn| {
            client.getattr(turn, caller, node.fid, asked.attributes(caller));
        });
    }
}

/// Each gives the reply back if the client does not know the answer.
impl Shared {
    /// Answers a look-up of a name in a directory, for a caller or, without one, if anyone may know
    /// the answer. `who` asks, if there is something to be asked for ahead.
    fn look_up_at_once(
        &self,
        caller: Option<Caller>,
        name: (Fid, &[u8]),
        reply: ReplyEntry,
        who: impl FnOnce() -> Caller,
    ) -> Option<ReplyEntry> {
        let mut ahead = None;
        let reply = self.at_once(reply, |client, now, reply| {
            let Some((found, next)) = client.cached_lookup(now, caller, name) else {
                return Some(reply);
            };
            // Before the answer: then the process is still there.
            ahead = next.map(|ahead| (who(), ahead));
            match found {
                Ok(Cached { attr, valid }) => send_entry(self, reply, &attr, valid),
                Err(error) => reply.error(errno(&error)),
            }
            None
        });
        if let Some((caller, ahead)) = ahead {
            self.post(move |client, turn| client.start_ahead(turn, caller, ahead));
        }
        reply
    }

    /// Answers a request for attributes.
    fn getattr_at_once(&self, fid: Fid, reply: ReplyAttr) -> Option<ReplyAttr> {
        self.at_once(reply, |client, now, reply| {
            let Some(Cached { attr, valid }) = client.cached_attr(now, fid) else {
                return Some(reply);
            };
            send_attr(self, reply, &attr, self.attr_valid(valid, &attr));
            None
        })
    }

    /// Answers a request for an extended attribute.
    pub(crate) fn getxattr_at_once(
        &self,
        (fid, name): (Fid, &[u8]),
        room: u32,
        reply: ReplyXattr,
    ) -> Option<ReplyXattr> {
        // Who asks for others does not wait for the client.
        if !Client::knows_xattr(name) {
            return Some(reply);
        }
        self.at_once(reply, |client, now, reply| {
            match client.cached_xattr(now, (fid, name)) {
                None => return Some(reply),
                Some(Ok(value)) => send_value(reply, &value, room),
                Some(Err(error)) => reply.error(errno(&error)),
            }
            None
        })
    }

    fn at_once<R>(
        &self,
        reply: R,
        answer: impl FnOnce(&mut Client, Time, R) -> Option<R>,
    ) -> Option<R> {
        // Not moved into the closure: it is called only if the client is there.
        let mut reply = Some(reply);
        self.files().with_client(|client, now| {
            reply = reply.take().and_then(|reply| answer(client, now, reply));
        });
        reply
    }
}
