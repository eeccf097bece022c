//! Extended attributes.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::{
    AclEntry, MdValid, MdtBody, OpenFlags, Reint, ReintOp, SetxattrRecord, XattrFlags,
};
use lustrine_fswire::rpc::{Request, mds};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;

use super::attr_locks::early;
use super::{CallArgs, Caller, Client, Done, OpenArgs, OpenFile};
use crate::attr::Attr;
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::reply::reply_of;

/// Longest name of an attribute in bytes.
const NAME_MAX: usize = 255;
/// Longest value in bytes.
const VALUE_MAX: usize = 65536;

/// The access control list, which says more than the permissions.
pub(super) const ACL: &[u8] = b"system.posix_acl_access";

/// Attributes that servers keep for themselves: they accept new values, and ignore them [MDT-23].
const OWN_TO_SERVERS: &[&[u8]] = &[
    b"trusted.lov",
    b"trusted.lma",
    b"trusted.link",
    b"trusted.fid",
    b"trusted.version",
    b"trusted.som",
    b"trusted.hsm",
    b"trusted.lfsck_namespace",
    b"trusted.dmv",
    b"lustre.lov",
];

impl Client {
    /// Reads an extended attribute of a file. Names are those of Linux, such as `user.comment`.
    pub fn getxattr(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        name: &[u8],
        done: Done<Vec<u8>>,
    ) {
        if let Err(error) = check_name(name) {
            return done(self, turn, Err(error));
        }
        if name == ACL
            && let Some(attr) = self.kept_attr(turn.now, caller, fid)
            && attr.has_acl == Some(false)
        {
            return done(self, turn, Err(ClientError::Errno(errno::ENODATA)));
        }
        let name = name.to_vec();
        let is_users = is_users(&name, &caller);
        let ask = move |client: &mut Client, turn: &mut Turn<'_>, done| {
            client.ask_xattr(turn, caller, fid, Some(name), done);
        };
        match is_users {
            true => self.if_accessible(turn, caller, fid, OpenFlags::READ, done, ask),
            false => ask(self, turn, done),
        }
    }

    /// Lists the names of the extended attributes of a file. Those of servers are among them.
    pub fn listxattr(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        done: Done<Vec<Vec<u8>>>,
    ) {
        let then: Done<Vec<u8>> = Box::new(move |client, turn, list| {
            done(client, turn, list.and_then(|list| names(&list)));
        });
        self.ask_xattr(turn, caller, fid, None, then);
    }

    /// Does something to a file if the caller may read it, or write it. Servers do not check this
    /// for attributes of users: kernel clients do so [MDT-24]. Here an open has the server check
    /// it; a directory, which cannot be opened to be written, is judged by its permissions.
    fn if_accessible<T: Send + 'static>(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        flags: OpenFlags,
        done: Done<T>,
        act: impl FnOnce(&mut Client, &mut Turn<'_>, Done<T>) + Send + 'static,
    ) {
        let then: Done<(Attr, Vec<AclEntry>)> = Box::new(move |client, turn, seen| {
            let refusal = match &seen {
                Err(_) => None,
                // Others than files and directories have no such attributes.
                Ok((attr, _)) if !attr.is_file() && !attr.is_dir() => Some(errno::EPERM),
                Ok((attr, acl)) if attr.is_dir() && flags == OpenFlags::WRITE => {
                    match may_change(attr, acl, &caller) {
                        true => return act(client, turn, done),
                        false => Some(errno::EACCES),
                    }
                }
                Ok(_) => None,
            };
            let refused = refusal.map(ClientError::Errno).or(seen.err());
            if let Some(error) = refused {
                return done(client, turn, Err(error));
            }
            let args = OpenArgs { flags, mode: 0, umask: 0 };
            let then: Done<OpenFile> = Box::new(move |client, turn, opened| match opened {
                Ok(open) => {
                    let then: Done<()> = Box::new(move |client, turn, closed| match closed {
                        Ok(()) => act(client, turn, done),
                        Err(error) => done(client, turn, Err(error)),
                    });
                    client.close(turn, caller, open, None, then);
                }
                Err(error) => done(client, turn, Err(error)),
            });
            client.open(turn, caller, fid, args, then);
        });
        self.getattr_with_acl(turn, caller, fid, then);
    }

    /// The value of an attribute, or the list of all names.
    fn ask_xattr(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        name: Option<Vec<u8>>,
        done: Done<Vec<u8>>,
    ) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let wanted = if name.is_some() { MdValid::XATTR } else { MdValid::XATTRLS };
            let room = client.ea_room(import);
            let body = caller.body(MdtBody {
                fid1: fid,
                valid: MdValid::ID | wanted,
                eadatasize: room,
                ..MdtBody::default()
            });
            let name = name.as_deref().map(Text::new);
            let request = mds::Getxattr { body, name, ..mds::Getxattr::default() };
            let mut call = CallArgs::from(Request::MdsGetxattr(request));
            call.reply_len = 1024 + room;
            call.caller = Some(caller);
            client.call_for(turn, import, call, done, |answer| {
                let reply = reply_of!(&answer.reply, MdsGetxattr)?;
                let value = reply.value.get(..reply.body.eadatasize as usize);
                let value = value.ok_or_else(|| malformed("an attribute that is cut off"))?;
                Ok(value.to_vec())
            });
        });
    }

    /// Sets an extended attribute. With [`XattrFlags::CREATE`] it must not be there, with
    /// [`XattrFlags::REPLACE`] it must.
    ///
    /// The value has at most 65,536 bytes; servers may accept less. Attributes that servers keep
    /// for themselves, such as `trusted.lov`, are refused with EOPNOTSUPP.
    #[allow(
        clippy::too_many_arguments,
        reason = "the arguments of setxattr(2), and whom to answer"
    )]
    pub fn setxattr(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        done: Done<()>,
    ) {
        if value.len() > VALUE_MAX {
            return done(self, turn, Err(ClientError::Errno(errno::E2BIG)));
        }
        self.change_xattr(turn, caller, fid, name, (MdValid::XATTR, value, flags), done);
    }

    /// Removes an extended attribute.
    pub fn removexattr(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        name: &[u8],
        done: Done<()>,
    ) {
        let change = (MdValid::XATTRRM, &[][..], XattrFlags::empty());
        self.change_xattr(turn, caller, fid, name, change, done);
    }

    fn change_xattr(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        name: &[u8],
        (what, value, flags): (MdValid, &[u8], XattrFlags),
        done: Done<()>,
    ) {
        if let Err(error) = check_name(name) {
            return done(self, turn, Err(error));
        }
        if OWN_TO_SERVERS.contains(&name) {
            return done(self, turn, Err(ClientError::Errno(errno::EOPNOTSUPP)));
        }
        let (name, value) = (name.to_vec(), value.to_vec());
        let (is_users, is_acl) = (is_users(&name, &caller), name == ACL);
        let change = move |client: &mut Client, turn: &mut Turn<'_>, done: Done<()>| {
            client.send_change(turn, caller, fid, name, (what, value, flags), done);
        };
        match is_users {
            true => self.if_accessible(turn, caller, fid, OpenFlags::WRITE, done, change),
            false => self.before_permissions(turn, (fid, is_acl), done, change),
        }
    }

    fn send_change(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        name: Vec<u8>,
        (what, value, flags): (MdValid, Vec<u8>, XattrFlags),
        done: Done<()>,
    ) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let record = caller.setxattr_record(SetxattrRecord {
                op: ReintOp::SETXATTR,
                fid,
                valid: what | MdValid::CTIME,
                time: client.wall(turn),
                size: value.len() as u32,
                flags,
                ..SetxattrRecord::default()
            });
            let locks = client.early_cancels(import, [fid]);
            let request = mds::ReintSetxattr {
                record: Reint::Setxattr(record),
                name: Text::new(&name),
                value: &value,
                locks: early(&locks),
                ..mds::ReintSetxattr::default()
            };
            let call = CallArgs::change(Request::ReintSetxattr(request), &caller);
            client.call_for(turn, import, call, done, |answer| {
                reply_of!(&answer.reply, ReintSetxattr).map(drop)
            });
        });
    }
}

/// The capability to read and write all files.
const CAP_DAC_OVERRIDE: u32 = 1 << 1;

/// Whether an attribute is one that belongs to who may read and write the file, and the caller is
/// bound by that.
fn is_users(name: &[u8], caller: &Caller) -> bool {
    name.starts_with(b"user.") && caller.capabilities & CAP_DAC_OVERRIDE == 0
}

/// Whether permissions, or the access control list, allow a caller to change a directory. Of the
/// groups of a process those count that the caller names.
fn may_change(attr: &Attr, acl: &[AclEntry], caller: &Caller) -> bool {
    const WRITE: u32 = 2;
    let groups = [caller.gid, caller.suppgid, caller.suppgid2];
    attr.allowed(acl, caller.uid, |gid| groups.contains(&gid), WRITE) & WRITE != 0
}

/// Names have a namespace, and no zero bytes.
fn check_name(name: &[u8]) -> Outcome<()> {
    match name {
        [] => Err(ClientError::Errno(errno::EINVAL)),
        _ if name.len() > NAME_MAX => Err(ClientError::Errno(errno::ERANGE)),
        _ if name.contains(&0) => Err(ClientError::Errno(errno::EINVAL)),
        _ => Ok(()),
    }
}

/// The names of a list, each of which ends with a zero byte.
fn names(list: &[u8]) -> Outcome<Vec<Vec<u8>>> {
    let Some((last, list)) = list.split_last() else { return Ok(Vec::new()) };
    let names: Vec<Vec<u8>> = list.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    match *last == 0 && names.iter().all(|name| !name.is_empty()) {
        true => Ok(names),
        false => Err(malformed("a list of attributes")),
    }
}

#[cfg(test)]
mod tests {
    use lustrine_fswire::mdt::AclTag;

    use super::*;

    #[test]
    fn a_list_of_names_ends_each_with_a_zero_byte() {
        assert_eq!(names(b""), Ok(vec![]));
        assert_eq!(names(b"user.a\0user.b\0"), Ok(vec![b"user.a".to_vec(), b"user.b".to_vec()]));
        assert!(names(b"user.a").is_err());
        assert!(names(b"user.a\0\0").is_err());
        assert!(names(b"\0").is_err());
    }

    #[test]
    fn the_access_control_list_of_a_directory_decides_and_not_its_mask() {
        // u:1000:rwx, g::r-x, m::rwx, o::r-x: the group has the bits of the mask in the mode.
        let entry = |tag, perm, id| AclEntry { tag, perm, id };
        let acl = [
            entry(AclTag::USER_OBJ, 7, 0),
            entry(AclTag::USER, 7, 1000),
            entry(AclTag::GROUP_OBJ, 5, 0),
            entry(AclTag::MASK, 7, 0),
            entry(AclTag::OTHER, 5, 0),
        ];
        let attr = Attr { mode: 0o040_775, uid: 1, gid: 50, ..Attr::default() };
        let caller = |uid, gid| Caller { uid, gid, capabilities: 0, ..Caller::ROOT };
        let cases = [(1, 1, true), (1000, 1000, true), (2, 50, false), (2, 2, false)];
        for (uid, gid, may) in cases {
            assert_eq!(may_change(&attr, &acl, &caller(uid, gid)), may, "{uid} {gid}");
        }
        assert!(may_change(&attr, &[], &caller(2, 50)));
    }
}
