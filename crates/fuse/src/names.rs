//! Names of files that exist: moves, hard links, removals.
//!
//! Without `default_permissions` the kernel takes it that the file system allows all, and servers
//! check only what they are asked: what remains is checked here.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, RenameFlags, ReplyEmpty, ReplyEntry, Request};
use lustrine_client::{Attr, Caller, Client, ClientError, Done, Outcome};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::AclEntry;
use lustrine_lnet::service::Turn;

use crate::reply::Asked;
use crate::requester::{CAP_FOWNER, MAY_READ, MAY_WRITE, Requester, Seen};
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
        let asked = Asked::new(&self.shared, request, reply);
        if !flags.is_empty() {
            // Servers have no request for it, as kernel clients say too.
            return asked.fail(Errno::EINVAL);
        }
        let dirs = self.shared.dir(parent.0).and_then(|from| {
            let to = self.shared.dir(new_parent.0)?;
            Ok((from, to))
        });
        let Some((asked, (from, to))) = asked.with(dirs) else { return };
        let requester = self.shared.requester(request);
        let asks = requester.clone();
        let (name, new_name) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        self.shared.post_as(
            requester,
            &[from, to],
            move |client, turn, caller, done| {
                let requester = asks.clone();
                let rename = Rename {
                    caller,
                    from: (from.fid, name.clone()),
                    to: (to.fid, new_name.clone()),
                };
                let then: Done<Attr> = Box::new(move |client, turn, object| {
                    let object = match object {
                        Ok(object) => object,
                        Err(error) => return done(client, turn, Err(error)),
                    };
                    if !object.is_dir() || from.fid == to.fid {
                        return rename.start(client, turn, object.mode, done);
                    }
                    // Its entry for the directory above changes.
                    let seen: Done<Seen> = Box::new(move |client, turn, seen| match seen {
                        Ok((attr, acl)) if requester.may(&attr, &acl, MAY_WRITE) => {
                            rename.start(client, turn, attr.mode, done);
                        }
                        Ok(_) => done(client, turn, Err(ClientError::Errno(EACCES))),
                        Err(error) => done(client, turn, Err(error)),
                    });
                    client.getattr_with_acl(turn, caller, object.fid, seen);
                });
                client.lookup(turn, caller, from.fid, &name, then);
            },
            |client, turn, _, renamed| asked.finish()(client, turn, renamed),
        );
    }

    /// Gives a file one more name. If the file is gone, another one may have its name by now:
    /// ESTALE has the kernel look its path up again.
    pub(crate) fn link_file(
        &self,
        request: &Request,
        number: INodeNo,
        (new_parent, new_name): (INodeNo, &OsStr),
        reply: ReplyEntry,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let nodes = self.shared.node(number.0).and_then(|node| {
            let dir = self.shared.dir(new_parent.0)?;
            Ok((node, dir))
        });
        let Some((asked, (node, dir))) = asked.with(nodes) else { return };
        let requester = self.shared.requester(request);
        let asks = requester.clone();
        let name = new_name.as_bytes().to_vec();
        let checks = requester.capabilities & CAP_FOWNER == 0 && links_are_protected();
        let linked = move |client: &mut Client,
                           turn: &mut Turn<'_>,
                           caller: Caller,
                           linked: Outcome<()>| match linked {
            Ok(()) => client.getattr(turn, caller, node.fid, asked.entry(caller)),
            Err(error) if is_gone(&error) => {
                // The file is, or the directory.
                let seen: Done<Attr> = Box::new(move |_, _, seen| match seen {
                    Err(error) if is_gone(&error) => asked.fail(Errno::ESTALE),
                    _ => asked.fail_with(&error),
                });
                client.getattr(turn, caller, node.fid, seen);
            }
            Err(error) => asked.fail_with(&error),
        };
        let link =
            move |client: &mut Client, turn: &mut Turn<'_>, caller: Caller, done: Done<()>| {
                if !checks {
                    return client.link(turn, caller, node.fid, dir.fid, &name, done);
                }
                let (requester, name) = (asks.clone(), name.clone());
                let seen: Done<Seen> = Box::new(move |client, turn, seen| match seen {
                    Ok((attr, acl)) if may_link(&requester, &attr, &acl) => {
                        client.link(turn, caller, node.fid, dir.fid, &name, done);
                    }
                    Ok(_) => done(client, turn, Err(ClientError::Errno(EPERM))),
                    Err(error) => done(client, turn, Err(error)),
                });
                client.getattr_with_acl(turn, caller, node.fid, seen);
            };
        self.shared.post_as(requester, &[dir, node], link, linked);
    }

    /// Removes a name.
    pub(crate) fn remove_name(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        is_dir: bool,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, dir)) = asked.with(self.shared.dir(parent.0)) else { return };
        let requester = self.shared.requester(request);
        let name = name.as_bytes().to_vec();
        self.shared.post_as(
            requester,
            &[dir],
            move |client, turn, caller, done| {
                client.unlink(turn, caller, dir.fid, &name, is_dir, done);
            },
            |client, turn, _, removed| asked.finish()(client, turn, removed),
        );
    }
}

/// Errnos of Linux for what is not allowed.
const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// A move that is allowed as far as this program checks it.
struct Rename {
    caller: Caller,
    from: (Fid, Vec<u8>),
    to: (Fid, Vec<u8>),
}

impl Rename {
    /// Asks the server; `mode` is that of the file.
    fn start(self, client: &mut Client, turn: &mut Turn<'_>, mode: u32, done: Done<()>) {
        let Rename { caller, from, to } = self;
        let (from, to) = ((from.0, &from.1[..]), (to.0, &to.1[..]));
        client.rename(turn, caller, from, to, mode, done);
    }
}

/// Whether it is an error of a file or a directory that does not exist.
fn is_gone(error: &ClientError) -> bool {
    const ENOENT: i32 = 2;
    matches!(error, ClientError::Errno(ENOENT))
}

/// Whether only the owner of a file, and those who can read and write it, may make links to it.
fn links_are_protected() -> bool {
    protects(fs::read_to_string("/proc/sys/fs/protected_hardlinks").ok().as_deref())
}

/// The same by the value of the sysctl. Without one, they are.
fn protects(value: Option<&str>) -> bool {
    value.is_none_or(|value| value.trim() != "0")
}

/// Whether a process may make a link to a file if links are protected, as proc_sys_fs(5) says: to
/// its own files, and to regular files that it can read and write and that give no rights of
/// another user or group. (Of capabilities counts what [`Requester::of`] leaves.)
fn may_link(requester: &Requester, attr: &Attr, acl: &[AclEntry]) -> bool {
    const SET_GID_AND_RUN: u32 = 0o2010;
    let is_plain = attr.mode & 0o170_000 == 0o100_000
        && attr.mode & 0o4000 == 0
        && attr.mode & SET_GID_AND_RUN != SET_GID_AND_RUN;
    requester.owns(attr) || is_plain && requester.may(attr, acl, MAY_READ | MAY_WRITE)
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::mdt::AclTag;

    use super::*;

    #[test]
    fn links_are_made_by_owners_and_by_who_may_write() {
        let process = |uid, gid, capabilities| Requester { uid, gid, capabilities, groups: vec![] };
        let may = |who: Requester, mode| {
            may_link(&who, &Attr { uid: 1, gid: 9, mode, ..Attr::default() }, &[])
        };
        let (stranger, member) = (|| process(2, 2, 0), || process(2, 9, 0));
        assert!(may(process(1, 1, 0), 0o100_400) && may(process(2, 2, CAP_FOWNER), 0o104_400));
        assert!(may(stranger(), 0o100_666) && may(member(), 0o100_660));
        // It cannot be read, or not be written.
        assert!(!may(stranger(), 0o100_662) && !may(stranger(), 0o100_664));
        assert!(!may(member(), 0o100_640));
        // Links to these keep what the owner removes.
        assert!(!may(stranger(), 0o104_666) && !may(stranger(), 0o102_676));
        assert!(may(stranger(), 0o102_666), "without the group's right to run it");
        assert!(!may(stranger(), 0o010_666) && !may(stranger(), 0o120_777));
        assert!(may(process(1, 1, 0), 0o120_777));
        let entry = |tag, id, perm| AclEntry { tag, perm, id };
        let list = [
            entry(AclTag::USER_OBJ, u32::MAX, 6),
            entry(AclTag::USER, 2, 6),
            entry(AclTag::GROUP_OBJ, u32::MAX, 4),
            entry(AclTag::MASK, u32::MAX, 6),
            entry(AclTag::OTHER, u32::MAX, 4),
        ];
        let attr = Attr { uid: 1, gid: 9, mode: 0o100_664, ..Attr::default() };
        assert!(may_link(&stranger(), &attr, &list));
        // The permissions show the mask where that of the group would be.
        assert!(
            !may_link(&member(), &attr, &list[..1]) && !may_link(&process(3, 9, 0), &attr, &list)
        );
        assert!([None, Some("1\n")].into_iter().all(protects) && !protects(Some("0\n")));
    }
}
