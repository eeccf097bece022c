//! Changes of names and attributes.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::Ea;
use lustrine_fswire::mdt::{
    AttrFlags, CreateRecord, MdValid, MdtBody, NameRecord, Reint, ReintOp, SetattrRecord,
};
use lustrine_fswire::rpc::{Request, mds};
use lustrine_fswire::text::Text;
use lustrine_lnet::service::Turn;

use super::metadata::{LINK_ROOM, check_name};
use super::{CallArgs, Caller, Client, Done};
use crate::attr::{Attr, TYPE_DIRECTORY, TYPE_MASK, TYPE_SYMLINK};
use crate::error::{ClientError, errno};
use crate::reply::reply_of;

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
        self.make(turn, caller, parent, name, (mode, umask), Vec::new(), done);
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
        self.make(turn, caller, parent, name, (TYPE_SYMLINK | 0o777, 0), target, done);
    }

    #[allow(clippy::too_many_arguments, reason = "each is a field of the record")]
    fn make(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        parent: Fid,
        name: &[u8],
        (mode, umask): (u32, u32),
        ea: Vec<u8>,
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
                mode,
                umask,
                ..CreateRecord::default()
            });
            let request = mds::ReintCreate {
                record: Reint::Create(record),
                name: Text::new(&name),
                ea: Ea(&ea),
                ..mds::ReintCreate::default()
            };
            let call = CallArgs::change(Request::ReintCreate(request), &caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let made = answer.and_then(|answer| {
                    let reply = reply_of!(&answer.reply, ReintCreate)?;
                    Ok(Attr::of(&reply.body, Ea::NONE))
                });
                done(client, turn, made);
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
            client.call(turn, import, call, move |client, turn, answer| {
                let removed = answer.and_then(|answer| {
                    reply_of!(&answer.reply, ReintUnlink)?;
                    Ok(())
                });
                done(client, turn, removed);
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
            client.call(turn, import, call, move |client, turn, answer| {
                let renamed = answer.and_then(|answer| {
                    reply_of!(&answer.reply, ReintRename)?;
                    Ok(())
                });
                done(client, turn, renamed);
            });
        });
    }

    /// Has the metadata server commit what it has done to a file, and all that came before it.
    pub fn sync(&mut self, turn: &mut Turn<'_>, caller: Caller, fid: Fid, done: Done<()>) {
        self.at_mdt_of(turn, fid, done, move |client, turn, import, done| {
            let body = caller.body(MdtBody { fid1: fid, valid: MdValid::ID, ..MdtBody::default() });
            let mut call = CallArgs::from(Request::MdsSync(mds::Getattr { body }));
            call.caller = Some(caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let synced = answer.and_then(|answer| {
                    reply_of!(&answer.reply, MdsSync)?;
                    Ok(())
                });
                done(client, turn, synced);
            });
        });
    }

    /// Sets attributes. Fields without a bit in `valid` have no effect.
    pub fn setattr(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        record: SetattrRecord,
        done: Done<Attr>,
    ) {
        self.at_mdt_of(turn, record.fid, done, move |client, turn, import, done| {
            let now = client.wall(turn);
            let record = caller.setattr_record(SetattrRecord {
                op: ReintOp::SETATTR,
                ctime: now,
                valid: record.valid | AttrFlags::CTIME | AttrFlags::CTIME_SET,
                ..record
            });
            let request =
                mds::ReintSetattr { record: Reint::Setattr(record), ..Default::default() };
            let call = CallArgs::change(Request::ReintSetattr(request), &caller);
            client.call(turn, import, call, move |client, turn, answer| {
                let set = answer.and_then(|answer| {
                    let reply = reply_of!(&answer.reply, ReintSetattr)?;
                    Ok(Attr::of(&reply.body, reply.ea))
                });
                done(client, turn, set);
            });
        });
    }
}
