//! Sizes and times of files: what their objects know of them.

use lustrine_fswire::connect::ConnectFlags2;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::ldlm::{Ibits, LockMode};
use lustrine_fswire::mdt::MdValid;
use lustrine_fswire::ost::{Obdo, ObdoFlags};
use lustrine_fswire::rpc::{Request, dlm, ost};
use lustrine_lnet::service::Turn;

use super::cache::ObjectKey;
use super::data_attr::{DataAttr, Times};
use super::io::{Io, IoKey, Work};
use super::open::intent_lock;
use super::{CallArgs, Caller, Client, Done};
use crate::attr::Glimpse;
use crate::error::{ClientError, Outcome, malformed};
use crate::layout::FileLayout;
use crate::reply::reply_of;

impl Client {
    /// Asks the objects of a file for its size in bytes, and for its blocks of 512 bytes. Clients
    /// that have unwritten data write them first, or say how much it is.
    pub fn size(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        done: Done<(u64, u64)>,
    ) {
        let then: Done<DataAttr> = Box::new(move |client, turn, found| {
            done(client, turn, found.map(|found| (found.size, found.blocks)));
        });
        self.data_attributes(turn, caller, fid, layout, then);
    }

    /// The same with the times of the objects.
    pub fn glimpse(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        done: Done<Glimpse>,
    ) {
        let then: Done<DataAttr> = Box::new(move |client, turn, found| {
            let glimpse = found.map(|DataAttr { size, blocks, times }| {
                let times = times.unwrap_or(Times { atime: 0, mtime: 0, ctime: 0 });
                let Times { atime, mtime, ctime } = times;
                Glimpse { size, blocks, atime, mtime, ctime }
            });
            done(client, turn, glimpse);
        });
        self.data_attributes(turn, caller, fid, layout, then);
    }

    /// Asks the objects of a file for all that they know of it.
    pub(super) fn data_attributes(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        done: Done<DataAttr>,
    ) {
        let on_mdt = layout.component_on_mdt();
        let places: Vec<_> =
            layout.objects().map(|(component, stripe, _)| (component, stripe)).collect();
        let requests = places.len() + usize::from(on_mdt.is_some());
        let work = Work::Size { found: DataAttr::default(), done };
        let Some(io) = self.start_io(turn, requests, work) else { return };
        if let Some(component) = on_mdt {
            self.glimpse_mdt(turn, fid, layout.clone(), component, io);
        }
        for (component, stripe) in places {
            let target = match self.target_of(fid, layout, (component, stripe)) {
                Ok(target) => target,
                Err(error) => {
                    self.io_failed(turn, io, error);
                    continue;
                }
            };
            if self.caches(layout) {
                let key = ObjectKey { import: target.import, oi: target.oi };
                let layout = layout.clone();
                let then: Done<DataAttr> = Box::new(move |client, turn, found| {
                    client.object_sized(turn, io, &layout, (component, stripe), found);
                });
                self.glimpse_object(turn, key, caller, then);
                continue;
            }
            let mut body = caller.obdo(target.oi);
            body.valid |= MdValid::FLAGS;
            body.flags = ObdoFlags::SRVLOCK;
            let layout = layout.clone();
            let mut call = CallArgs::from(Request::OstGetattr(ost::Object { body }));
            call.caller = Some(caller);
            self.call(turn, target.import, call, move |client, turn, answer| {
                let found = answer.and_then(|answer| {
                    let body = reply_of!(&answer.reply, OstGetattr)?.body;
                    match body.valid.contains(MdValid::SIZE) {
                        true => Ok(object_attr(&body)),
                        false => Err(malformed("an object without a size")),
                    }
                });
                client.object_sized(turn, io, &layout, (component, stripe), found);
            });
        }
    }

    /// Asks the metadata server for the size of the data that it has of a file. A lock that comes
    /// with the answer is cancelled.
    fn glimpse_mdt(
        &mut self,
        turn: &mut Turn<'_>,
        fid: Fid,
        layout: FileLayout,
        component: usize,
        io: IoKey,
    ) {
        let target = match self.target_of(fid, &layout, (component, 0)) {
            Ok(target) => target,
            Err(error) => return self.io_failed(turn, io, error),
        };
        // Without DOM_LVB a server of 2.17 panics [LOCK-13].
        let granted = self.rpc.import(target.import).map(|import| import.granted().flags2);
        if !granted.is_some_and(|flags| flags.contains(ConnectFlags2::DOM_LVB)) {
            let text = "the server gives no sizes of data on metadata targets".to_owned();
            return self.io_failed(turn, io, ClientError::Layout(text));
        }
        let handles = [self.next_handle()];
        let lock = intent_lock(fid, LockMode::PR, Ibits::DOM, &handles);
        let import = target.import;
        self.lock_asked(import, &lock);
        let [handle] = handles;
        self.call(
            turn,
            import,
            Request::Enqueue(dlm::Lock { lock }),
            move |client, turn, answer| {
                let found = answer.and_then(|answer| {
                    let reply = reply_of!(&answer.reply, Enqueue)?;
                    Ok((reply.reply, reply.lvb.and_then(|lvb| lvb.object())))
                });
                let reply = found.as_ref().ok().map(|(reply, _)| reply);
                client.give_back(import, handle, reply);
                let lvb = found
                    .and_then(|(_, lvb)| lvb.ok_or_else(|| malformed("a glimpse without a size")));
                let found = lvb.and_then(|lvb| match lvb.error() {
                    Some(error) => Err(ClientError::Errno(error.saturating_neg())),
                    None => {
                        let times = Times { atime: lvb.atime, mtime: lvb.mtime, ctime: lvb.ctime };
                        let (size, blocks) = (lvb.size, lvb.blocks);
                        Ok(DataAttr { size, blocks, times: Some(times) })
                    }
                });
                client.object_sized(turn, io, &layout, (component, 0), found);
            },
        );
    }

    /// The size and the blocks of one object of a file are known, or cannot be.
    fn object_sized(
        &mut self,
        turn: &mut Turn<'_>,
        io: IoKey,
        layout: &FileLayout,
        (component, stripe): (usize, u16),
        found: Outcome<DataAttr>,
    ) {
        let object = match found {
            Ok(found) => found,
            Err(error) => return self.io_failed(turn, io, error),
        };
        let held = layout.file_size(component, stripe, object.size);
        if let Some(Io { work: Work::Size { found, .. }, .. }) = self.ios.get_mut(io) {
            found.add(held, &object);
        }
        self.io_answered(turn, io);
    }
}

/// What the reply about an object says. Times that it lacks are those of 1970.
fn object_attr(body: &Obdo) -> DataAttr {
    let valid = |flag, time| if body.valid.contains(flag) { time } else { 0 };
    let times = Times {
        atime: valid(MdValid::ATIME, body.atime),
        mtime: valid(MdValid::MTIME, body.mtime),
        ctime: valid(MdValid::CTIME, body.ctime),
    };
    DataAttr { size: body.size, blocks: body.blocks, times: Some(times) }
}
