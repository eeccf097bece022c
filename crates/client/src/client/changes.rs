//! Changes of names.

use lustrine_fswire::fid::{Fid, Handle};
use lustrine_fswire::layout::Ea;
use lustrine_fswire::mdt::{CreateRecord, NameRecord, Reint, ReintOp};
use lustrine_fswire::rpc::{Request, mds};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;
use lustrine_lnet::time::Time;
use lustrine_ptlrpc::Reply;

use super::attr_locks::early;
use super::metadata::{LINK_ROOM, check_name};
use super::striped::NameUse;
use super::{CallArgs, Caller, Client, Done};
use crate::attr::{
    Attr, TYPE_BLOCK, TYPE_CHARACTER, TYPE_DIRECTORY, TYPE_FIFO, TYPE_MASK, TYPE_REGULAR,
    TYPE_SOCKET, TYPE_SYMLINK,
};
use crate::error::{ClientError, Outcome, errno};
use crate::reply::{elsewhere, reply_of};

/// A file that is to be made.
#[derive(Clone, Debug, Default)]
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
        let made = name.to_vec();
        self.at_name(turn, (parent, name), NameUse::Make, done, move |client, turn, dir, done| {
            client.make_in(turn, caller, dir, (made, new), done);
        });
    }

    /// Makes a name in a directory or a stripe.
    fn make_in(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        (name, new): (Vec<u8>, New),
        done: Done<Attr>,
    ) {
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
            let locks = client.early_cancels_of_dirs(import, [parent]);
            let request = mds::ReintCreate {
                record: Reint::Create(record),
                name: Text::new(&name),
                ea: Ea(&new.ea),
                locks: early(&locks),
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
        let made = name.to_vec();
        self.at_name(turn, (parent, name), NameUse::Make, done, move |client, turn, dir, done| {
            let record = NameRecord {
                op: ReintOp::LINK,
                fid1: fid,
                fid2: dir,
                time: client.wall(turn),
                ..NameRecord::default()
            };
            let change = NameChange { record, name: made, new_name: Vec::new() };
            client.change_name(turn, caller, dir, change, done);
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
        let removed = name.to_vec();
        self.at_name(turn, (parent, name), NameUse::Find, done, move |client, turn, from, done| {
            let record = NameRecord {
                op: ReintOp::UNLINK,
                fid1: from,
                time: client.wall(turn),
                mode: if dir { TYPE_DIRECTORY } else { 0 },
                ..NameRecord::default()
            };
            let change = NameChange { record, name: removed, new_name: Vec::new() };
            client.change_name(turn, caller, from, change, done);
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
        let names = (name.to_vec(), new_name.to_vec());
        let target = (new_parent, new_name);
        self.at_name(turn, target, NameUse::Make, done, move |client, turn, to, done| {
            let (name, new_name) = names;
            let source = (parent, &name.clone()[..]);
            client.at_name(turn, source, NameUse::Find, done, move |client, turn, from, done| {
                let record = NameRecord {
                    op: ReintOp::RENAME,
                    fid1: from,
                    fid2: to,
                    time: client.wall(turn),
                    mode,
                    ..NameRecord::default()
                };
                let change = NameChange { record, name, new_name };
                client.change_name(turn, caller, to, change, done);
            });
        });
    }

    /// Has the metadata target of a file change a name. If it says that the file which the name has
    /// is on another target, that one is asked, once [MDT-26].
    fn change_name(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        at: Fid,
        change: NameChange,
        done: Done<()>,
    ) {
        self.at_mdt_of(turn, at, done, move |client, turn, import, done| {
            let sent = change.clone();
            let files: Vec<Fid> = sent.files(client, turn.now).collect();
            if sent.record.op == ReintOp::RENAME {
                client.give_names_back(import, &files);
            }
            let mut locks = client.early_cancels(import, files);
            locks.extend(client.early_cancels_of_dirs(import, sent.dirs()));
            let call = CallArgs::change(sent.request(&caller, &locks), &caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let answer = match answer {
                    Ok(answer) => answer,
                    Err(error) => return done(client, turn, Err(error)),
                };
                match elsewhere(&answer.reply) {
                    Some(fid) => client.change_name_at(turn, caller, fid, change, done),
                    None => done(client, turn, outcome_of(&answer.reply, change.record.op)),
                }
            });
        });
    }

    /// Has the metadata target change a name that has the file which the name has.
    fn change_name_at(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        victim: Fid,
        mut change: NameChange,
        done: Done<()>,
    ) {
        if change.record.op == ReintOp::UNLINK {
            change.record.fid2 = victim;
        }
        self.at_mdt_of(turn, victim, done, move |client, turn, import, done| {
            // Otherwise this target would call the lock of the file back, and wait until the kernel
            // does not use its name any more.
            let locks = client.early_cancels(import, [victim]);
            let call = CallArgs::change(change.request(&caller, &locks), &caller);
            let op = change.record.op;
            client.call_for(turn, import, call, done, move |answer| outcome_of(&answer.reply, op));
        });
    }
}

/// A link, an unlink or a rename.
#[derive(Clone, Debug)]
struct NameChange {
    record: NameRecord,
    name: Vec<u8>,
    /// Of a rename.
    new_name: Vec<u8>,
}

impl NameChange {
    /// The request, with locks that the client gives back.
    fn request<'a>(&'a self, caller: &Caller, locks: &'a [Handle]) -> Request<'a> {
        let record = Reint::Name(caller.name_record(self.record));
        let (name, locks) = (Text::new(&self.name), early(locks));
        match self.record.op {
            ReintOp::LINK => {
                Request::ReintLink(mds::ReintLink { record, name, locks, ..Default::default() })
            }
            ReintOp::RENAME => {
                let target = Text::new(&self.new_name);
                Request::ReintRename(mds::ReintRename {
                    record,
                    name,
                    target,
                    locks,
                    ..Default::default()
                })
            }
            _ => {
                Request::ReintUnlink(mds::ReintUnlink { record, name, locks, ..Default::default() })
            }
        }
    }

    /// The directories in which it changes names.
    fn dirs(&self) -> impl Iterator<Item = Fid> {
        let NameRecord { fid1, fid2, .. } = self.record;
        let dirs = match self.record.op {
            ReintOp::LINK => [Some(fid2), None],
            ReintOp::RENAME => [Some(fid1), Some(fid2)],
            _ => [Some(fid1), None],
        };
        dirs.into_iter().flatten()
    }

    /// The files whose names it changes, as far as the client knows them.
    fn files(&self, client: &Client, now: Time) -> impl Iterator<Item = Fid> + use<> {
        let NameRecord { fid1, fid2, .. } = self.record;
        let files = match self.record.op {
            ReintOp::LINK => [Some(fid1), None],
            ReintOp::RENAME => {
                let moved = client.known_name(now, fid1, &self.name);
                [moved, client.known_name(now, fid2, &self.new_name)]
            }
            _ => [client.known_name(now, fid1, &self.name), None],
        };
        files.into_iter().flatten()
    }
}

/// What became of a change of a name.
fn outcome_of(reply: &Reply, op: ReintOp) -> Outcome<()> {
    match op {
        ReintOp::LINK => reply_of!(reply, ReintLink).map(drop),
        ReintOp::RENAME => reply_of!(reply, ReintRename).map(drop),
        _ => reply_of!(reply, ReintUnlink).map(drop),
    }
}
