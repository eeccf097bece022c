//! Extended attributes, and access(2).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{AccessFlags, Errno, INodeNo, ReplyEmpty, ReplyXattr, Request};
use lustrine_client::Attr;
use lustrine_fswire::mdt::XattrFlags;

use crate::reply::Asked;
use crate::requester::Requester;
use crate::server::Server;

/// The start of the names that users may choose.
const USER: &[u8] = b"user.";

impl Server {
    /// Whether the mount knows extended attributes of this name.
    fn knows(&self, name: &[u8]) -> Result<(), Errno> {
        match !self.user_xattr && name.starts_with(USER) {
            true => Err(Errno::EOPNOTSUPP),
            false => Ok(()),
        }
    }

    pub(crate) fn get_xattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let name = name.as_bytes().to_vec();
        let node = self.knows(&name).and_then(|()| self.shared.node(number.0));
        let Some((asked, node)) = asked.with(node) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, value: Vec<u8>| asked.value(&value, room));
            client.getxattr(turn, caller, node.fid, &name, done);
        });
    }

    pub(crate) fn list_xattrs(
        &self,
        request: &Request,
        number: INodeNo,
        room: u32,
        reply: ReplyXattr,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let Some((asked, node)) = asked.with(self.shared.node(number.0)) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let user_xattr = self.user_xattr;
        let privileged = caller.capabilities & 1 << CAP_SYS_ADMIN != 0;
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, names: Vec<Vec<u8>>| {
                let mut list = Vec::new();
                for name in names {
                    let hidden = name.starts_with(USER) && !user_xattr
                        || name.starts_with(b"trusted.") && !privileged;
                    if !hidden {
                        list.extend(name);
                        list.push(0);
                    }
                }
                asked.value(&list, room);
            });
            client.listxattr(turn, caller, node.fid, done);
        });
    }

    pub(crate) fn set_xattr(
        &self,
        request: &Request,
        number: INodeNo,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let name = name.as_bytes().to_vec();
        let node = self.knows(&name).and_then(|()| self.shared.node(number.0));
        let Some((asked, node)) = asked.with(node) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let value = value.to_vec();
        let flags = XattrFlags::from_bits_truncate(flags as u32);
        self.shared.post(move |client, turn| {
            client.setxattr(turn, caller, node.fid, &name, &value, flags, asked.finish());
        });
    }

    pub(crate) fn remove_xattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let name = name.as_bytes().to_vec();
        let node = self.knows(&name).and_then(|()| self.shared.node(number.0));
        let Some((asked, node)) = asked.with(node) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        self.shared.post(move |client, turn| {
            client.removexattr(turn, caller, node.fid, &name, asked.finish());
        });
    }

    /// Answers access(2) by the permissions that the server shows now. Access control lists are
    /// not considered here: an open, which the server decides, considers them.
    pub(crate) fn check_access(
        &self,
        request: &Request,
        number: INodeNo,
        mask: AccessFlags,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, reply);
        let Some((asked, node)) = asked.with(self.shared.node(number.0)) else { return };
        let requester = self.shared.requester(request);
        let caller = requester.caller(&[node.gid]);
        let asks = mask.bits() as u32 & 7;
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, attr: Attr| {
                asked.shared.nodes().seen(&attr);
                match may(&requester, &attr, asks) {
                    true => asked.ok(),
                    false => asked.fail(Errno::EACCES),
                }
            });
            client.getattr(turn, caller, node.fid, done);
        });
    }
}

/// The bit of CAP_SYS_ADMIN.
const CAP_SYS_ADMIN: u32 = 21;

/// Whether permissions allow what is asked for: 4 to read, 2 to write, 1 to execute or search.
pub(crate) fn may(requester: &Requester, attr: &Attr, asks: u32) -> bool {
    if requester.overrides_permissions() {
        // To execute a file, somebody must have the right to.
        return attr.is_dir() || asks & 1 == 0 || attr.mode & 0o111 != 0;
    }
    let shift = match () {
        () if requester.uid == attr.uid => 6,
        () if requester.is_in(attr.gid) => 3,
        () => 0,
    };
    asks & !(attr.mode >> shift) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_applies_decides() {
        let owner = Requester { uid: 1, gid: 9, ..Requester::default() };
        let group = Requester { uid: 2, gid: 7, ..Requester::default() };
        let other = Requester { uid: 3, gid: 8, ..Requester::default() };
        let attr = Attr { mode: 0o100_417, uid: 1, gid: 7, ..Attr::default() };
        assert!(may(&owner, &attr, 4) && !may(&owner, &attr, 1));
        assert!(may(&group, &attr, 1) && !may(&group, &attr, 4));
        assert!(may(&other, &attr, 7) && may(&other, &attr, 0));
    }

    #[test]
    fn the_superuser_executes_what_somebody_may_execute() {
        let root = Requester::of(0, 0, 0);
        let file = |mode| Attr { mode, uid: 1, ..Attr::default() };
        assert!(may(&root, &file(0o100_000), 6));
        assert!(!may(&root, &file(0o100_644), 1));
        assert!(may(&root, &file(0o100_010), 1));
        assert!(may(&root, &file(0o040_000), 7));
    }
}
