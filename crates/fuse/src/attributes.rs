//! Extended attributes, and access(2).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{AccessFlags, Errno, INodeNo, ReplyEmpty, ReplyXattr, Request};
use lustrine_fs::Status;
use lustrine_fswire::layout::magic;
use lustrine_fswire::mdt::XattrFlags;

use crate::reply::Asked;
use crate::requester::Seen;
use crate::server::Server;
use crate::settings;
use crate::status::MountStatus;

/// The start of the names that users may choose.
const USER: &[u8] = b"user.";
/// The layout of a file, for root and for all.
const LAYOUT: [&[u8]; 2] = [b"trusted.lov", b"lustre.lov"];
/// Other attributes that servers keep for themselves.
const OF_SERVERS: [&[u8]; 7] = [
    b"trusted.lma",
    b"trusted.link",
    b"trusted.som",
    b"trusted.hsm",
    b"trusted.dmv",
    b"trusted.fid",
    b"trusted.version",
];
/// Of these, what kernel clients do not list.
const UNLISTED: &[u8] = b"trusted.som";
/// Not supported, as on kernel clients without SELinux: `ls -l` then asks for no other file. A
/// kernel with SELinux does not ask the file system.
const SELINUX: &[u8] = b"security.selinux";

/// Whether an attribute belongs to the servers: who changes it is told that this was done, as by
/// kernel clients, and nothing is changed. Programs that copy files with all their attributes would
/// fail otherwise.
fn is_of_servers(name: &[u8]) -> bool {
    LAYOUT.contains(&name) || OF_SERVERS.contains(&name)
}

/// Whether a value looks like a layout.
fn is_layout(value: &[u8]) -> bool {
    const HEADER: usize = 32;
    const KINDS: [u32; 6] =
        [magic::V1, magic::V3, magic::SPECIFIC, magic::COMPOSITE, magic::FOREIGN, magic::EXTENDING];
    let first = value.first_chunk().map(|word| u32::from_le_bytes(*word));
    value.len() >= HEADER && first.is_some_and(|first| KINDS.contains(&first))
}

impl Server {
    /// Whether the mount knows extended attributes of this name.
    fn knows(&self, name: &[u8]) -> Result<(), Errno> {
        match !self.user_xattr && name.starts_with(USER) || name == SELINUX {
            true => Err(Errno::EOPNOTSUPP),
            false => Ok(()),
        }
    }

    /// Answers with the status of the mount. It takes no place among the operations, because all of
    /// those may wait for servers.
    pub(crate) fn answer_status(
        &self,
        request: &Request,
        target: Option<String>,
        room: u32,
        reply: ReplyXattr,
    ) {
        let uid = request.uid();
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            return reply.error(Errno::EPERM);
        }
        let source = self.source.clone();
        self.shared.post(move |client, turn| {
            let status = match &target {
                None => Status::of(client, turn.now),
                Some(name) => Status::of_target(client, turn.now, name),
            };
            let value = MountStatus::new(source, status).to_json();
            match room {
                0 => reply.size(value.len() as u32),
                room if value.len() > room as usize => reply.error(Errno::ERANGE),
                _ => reply.data(&value),
            }
        });
    }

    /// Changes a setting, for root and the user who mounted.
    pub(crate) fn change_setting(&self, request: &Request, value: &[u8], reply: ReplyEmpty) {
        let uid = request.uid();
        if uid != 0 && uid != rustix::process::geteuid().as_raw() {
            return reply.error(Errno::EPERM);
        }
        let setting = core::str::from_utf8(value).ok().and_then(|text| settings::parsed(text).ok());
        let Some(settings) = setting else { return reply.error(Errno::EINVAL) };
        self.shared.post(move |client, turn| {
            client.set_rpc_settings(turn, settings);
            reply.ok();
        });
    }

    pub(crate) fn get_xattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        let mut name = name.as_bytes().to_vec();
        let node = match self.knows(&name).and_then(|()| self.shared.node(number.0)) {
            Ok(node) => node,
            Err(error) => return reply.error(error),
        };
        let reply = self.shared.getxattr_at_once((node.fid, &name), room, reply);
        let Some(reply) = reply else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let asked = Asked::of_file(&self.shared, request, reply);
        let is_layout = LAYOUT.contains(&&name[..]);
        if is_layout {
            // Servers know it by this name.
            name = LAYOUT[0].to_vec();
        }
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, value: Vec<u8>| {
                match is_layout && value.is_empty() {
                    true => asked.fail(Errno::NO_XATTR),
                    false => asked.value(&value, room),
                }
            });
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
        let asked = Asked::of_file(&self.shared, request, reply);
        let Some((asked, node)) = asked.with(self.shared.node(number.0)) else { return };
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let user_xattr = self.user_xattr;
        let privileged = caller.capabilities & 1 << CAP_SYS_ADMIN != 0;
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, names: Vec<Vec<u8>>| {
                let mut list = Vec::new();
                for name in names {
                    let hidden = name.starts_with(USER) && !user_xattr
                        || name == UNLISTED
                        || name == SELINUX
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
        let asked = Asked::of_file(&self.shared, request, reply);
        let name = name.as_bytes().to_vec();
        let node = self.knows(&name).and_then(|()| self.shared.node(number.0));
        let Some((asked, node)) = asked.with(node) else { return };
        if is_of_servers(&name) {
            return match LAYOUT.contains(&&name[..]) && !is_layout(value) {
                true => asked.fail(Errno::ERANGE),
                false => asked.ok(),
            };
        }
        let caller = self.shared.requester(request).caller(&[node.gid]);
        let held = self.shared.held.take(value.len() as u64);
        let value = value.to_vec();
        let flags = XattrFlags::from_bits_truncate(flags as u32);
        self.shared.post(move |client, turn| {
            client.setxattr(turn, caller, node.fid, &name, &value, flags, asked.finish());
            drop(held);
        });
    }

    pub(crate) fn remove_xattr(
        &self,
        request: &Request,
        number: INodeNo,
        name: &OsStr,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::of_file(&self.shared, request, reply);
        let name = name.as_bytes().to_vec();
        let node = self.knows(&name).and_then(|()| self.shared.node(number.0));
        let Some((asked, node)) = asked.with(node) else { return };
        if is_of_servers(&name) {
            return asked.ok();
        }
        let caller = self.shared.requester(request).caller(&[node.gid]);
        self.shared.post(move |client, turn| {
            client.removexattr(turn, caller, node.fid, &name, asked.finish());
        });
    }

    /// Answers access(2), and chdir(2), by the permissions and the access control list that the
    /// server shows now.
    pub(crate) fn check_access(
        &self,
        request: &Request,
        number: INodeNo,
        mask: AccessFlags,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::of_file(&self.shared, request, reply);
        let Some((asked, node)) = asked.with(self.shared.node(number.0)) else { return };
        let requester = self.shared.requester(request);
        let caller = requester.caller(&[node.gid]);
        let asks = mask.bits() as u32 & 7;
        self.shared.post(move |client, turn| {
            let done = asked.done(move |asked, _, _, (attr, acl): Seen| {
                asked.shared.nodes().seen(&attr);
                match requester.may(&attr, &acl, asks) {
                    true => asked.ok(),
                    false => asked.fail(Errno::EACCES),
                }
            });
            client.getattr_with_acl(turn, caller, node.fid, done);
        });
    }
}

/// The bit of CAP_SYS_ADMIN.
const CAP_SYS_ADMIN: u32 = 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_begins_with_the_number_of_its_kind() {
        let value = |first: u32, len: usize| [&first.to_le_bytes()[..], &vec![0; len - 4]].concat();
        assert!(is_layout(&value(magic::V1, 32)) && is_layout(&value(magic::COMPOSITE, 200)));
        assert!(!is_layout(&value(magic::V1, 31)) && !is_layout(&value(magic::LMV, 200)));
        assert!(!is_layout(b"") && !is_layout(b"junk"));
    }
}
