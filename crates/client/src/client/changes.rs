//! Changes of names.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::Ea;
use lustrine_fswire::mdt::{CreateRecord, NameRecord, Reint, ReintOp};
use lustrine_fswire::rpc::{Request, mds};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;

use super::metadata::{LINK_ROOM, check_name};
use super::{CallArgs, Caller, Client, Done};
use crate::attr::{
    Attr, TYPE_BLOCK, TYPE_CHARACTER, TYPE_DIRECTORY, TYPE_FIFO, TYPE_MASK, TYPE_REGULAR,
    TYPE_SOCKET, TYPE_SYMLINK,
};
use crate::error::{ClientError, errno};
use crate::reply::reply_of;

/// A file that is to be made.
#[derive(Debug, Default)]
struct New {
    /// Type and permissions.
    mode: u32,
    /// Permissions that are taken away.
    umask: u32,
    /// The number of a device.
    rdev: u64,
    /// The target of a symbolic link with its zero byte.
    ea: Vec<u8>,
}

impl Client {
    /// Makes a directory.
    pub fn mkdir(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        (mode, umask): (u32, u32),
        done: Done<Attr>,
    ) {
        let mode = TYPE_DIRECTORY | mode & !TYPE_MASK;
        let new = New { mode, umask, ..New::default() };
        self.make(turn, caller, parent, name, new, done);
    }

    /// Makes a file that is not opened: a FIFO, a socket, a device or a regular file, by the type
    /// bits of `mode`. A regular file gets its objects when it is first opened to be written.
    ///
    /// `rdev` is the number of a device: the major number in bits 8 to 15, the minor one in bits 0
    /// to 7. It is 0 for all other files. Servers know no larger numbers.
    #[allow(clippy::too_many_arguments, reason = "the arguments of mknod(2), and whom to answer")]
    pub fn mknod(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        (mode, umask): (u32, u32),
        rdev: u32,
        done: Done<Attr>,
    ) {
        let is_device = matches!(mode & TYPE_MASK, TYPE_CHARACTER | TYPE_BLOCK);
        let known = is_device
            || matches!(mode & TYPE_MASK, TYPE_FIFO | TYPE_SOCKET | TYPE_REGULAR) && rdev == 0;
        if !known || rdev > 0xffff {
            return done(self, turn, Err(ClientError::Errno(errno::EINVAL)));
        }
        let new = New { mode, umask, rdev: u64::from(rdev), ..New::default() };
        self.make(turn, caller, parent, name, new, done);
    }

    /// Makes a symbolic link.
    pub fn symlink(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        target: &[u8],
        done: Done<Attr>,
    ) {
        if target.is_empty() || target.len() >= LINK_ROOM as usize || target.contains(&0) {
            return done(self, turn, Err(ClientError::Errno(errno::EINVAL)));
        }
        let mut target = target.to_vec();
        target.push(0);
        let new = New { mode: TYPE_SYMLINK | 0o777, ea: target, ..New::default() };
        self.make(turn, caller, parent, name, new, done);
    }

    fn make(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        new: New,
        done: Done<Attr>,
    ) {
        if let Err(error) = check_name(name) {
            return done(self, turn, Err(error));
        }
        let name = name.to_vec();
        self.with_new_fid(turn, parent, done, move |client, turn, import, fid, done| {
            let record = caller.create_record(CreateRecord {
                op: ReintOp::CREATE,
                parent,
                fid,
                time: client.wall(turn),
                mode: new.mode,
                umask: new.umask,
                rdev: new.rdev,
                ..CreateRecord::default()
            });
            let request = mds::ReintCreate {
                record: Reint::Create(record),
                name: Text::new(&name),
                ea: Ea(&new.ea),
                ..mds::ReintCreate::default()
            };
            let call = CallArgs::change(Request::ReintCreate(request), &caller);
            client.call_for(turn, import, call, done, |answer| {
                let reply = reply_of!(&answer.reply, ReintCreate)?;
                Ok(Attr::of(&reply.body, Ea::NONE))
            });
        });
    }

    /// Adds a name for a file that is no directory.
    pub fn link(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        parent: Fid,
        name: &[u8],
        done: Done<()>,
    ) {
        if let Err(error) = check_name(name) {
            return done(self, turn, Err(error));
        }
        let name = name.to_vec();
        self.at_mdt_of(turn, parent, done, move |client, turn, import, done| {
            let record = caller.name_record(NameRecord {
                op: ReintOp::LINK,
                fid1: fid,
                fid2: parent,
                time: client.wall(turn),
                ..NameRecord::default()
            });
            let request = mds::ReintLink {
                record: Reint::Name(record),
                name: Text::new(&name),
                ..mds::ReintLink::default()
            };
            let call = CallArgs::change(Request::ReintLink(request), &caller);
            client.call_for(turn, import, call, done, |answer| {
                reply_of!(&answer.reply, ReintLink).map(drop)
            });
        });
    }

    /// Removes a name: of an empty directory if `dir`, of anything else if not.
    pub fn unlink(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        dir: bool,
        done: Done<()>,
    ) {
        if let Err(error) = check_name(name) {
            return done(self, turn, Err(error));
        }
        let name = name.to_vec();
        self.at_mdt_of(turn, parent, done, move |client, turn, import, done| {
            let record = caller.name_record(NameRecord {
                op: ReintOp::UNLINK,
                fid1: parent,
                time: client.wall(turn),
                mode: if dir { TYPE_DIRECTORY } else { 0 },
                ..NameRecord::default()
            });
            let request = mds::ReintUnlink {
                record: Reint::Name(record),
                name: Text::new(&name),
                ..mds::ReintUnlink::default()
            };
            let call = CallArgs::change(Request::ReintUnlink(request), &caller);
            client.call_for(turn, import, call, done, |answer| {
                reply_of!(&answer.reply, ReintUnlink).map(drop)
            });
        });
    }

    /// Changes a name. `mode` is that of the object; its type matters.
    #[allow(clippy::too_many_arguments, reason = "two names, and what has the first one")]
    pub fn rename(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (parent, name): (Fid, &[u8]),
        (new_parent, new_name): (Fid, &[u8]),
        mode: u32,
        done: Done<()>,
    ) {
        if let Err(error) = check_name(name).and_then(|()| check_name(new_name)) {
            return done(self, turn, Err(error));
        }
        let (name, new_name) = (name.to_vec(), new_name.to_vec());
        self.at_mdt_of(turn, new_parent, done, move |client, turn, import, done| {
            let record = caller.name_record(NameRecord {
                op: ReintOp::RENAME,
                fid1: parent,
                fid2: new_parent,
                time: client.wall(turn),
                mode,
                ..NameRecord::default()
            });
            let request = mds::ReintRename {
                record: Reint::Name(record),
                name: Text::new(&name),
                target: Text::new(&new_name),
                ..mds::ReintRename::default()
            };
            let call = CallArgs::change(Request::ReintRename(request), &caller);
            client.call_for(turn, import, call, done, |answer| {
                reply_of!(&answer.reply, ReintRename).map(drop)
            });
        });
    }
}
