//! Where a file has data, and where holes.

use lustrine_fswire::connect::ConnectFlags2;
use lustrine_fswire::fid::Fid;
use lustrine_fswire::ost::Obdo;
use lustrine_fswire::rpc::{Request, ost};
use lustrine_lnet::service::Turn;

use super::io::{Io, IoKey, Work};
use super::transfer::OBJECT;
use super::{CallArgs, Caller, Client, Done};
use crate::error::{ClientError, Outcome, errno, malformed};
use crate::layout::{FileLayout, Place};
use crate::reply::reply_of;

/// What lseek(2) looks for in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// Bytes that are held somewhere.
    Data,
    /// Bytes that are nowhere; the end of the file counts as one.
    Hole,
}

impl Seek {
    /// The number of it [OST-16].
    fn mode(self) -> u32 {
        match self {
            Seek::Data => 3,
            Seek::Hole => 4,
        }
    }
}

/// "Nothing more", as the offset in a reply.
const NOTHING: u64 = (errno::ENXIO as u64).wrapping_neg();

impl Client {
    /// The first byte from an offset on that has data, or that has none, as SEEK_DATA and SEEK_HOLE
    /// of lseek(2). Clients that have unwritten data write them first. What a server cannot say
    /// counts as data.
    ///
    /// # Errors
    /// The outcome is ENXIO if there is none before the end of the file.
    #[allow(clippy::too_many_arguments, reason = "the file, the place, and whom to answer")]
    pub fn seek(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        fid: Fid,
        layout: &FileLayout,
        (offset, what): (u64, Seek),
        done: Done<u64>,
    ) {
        let file = layout.clone();
        let then: Done<(u64, u64)> = Box::new(move |client, turn, sized| match sized {
            Ok((size, _)) if offset < size => {
                client.seek_before(turn, caller, (fid, file), (offset, size), what, done);
            }
            Ok(_) => done(client, turn, Err(ClientError::Errno(errno::ENXIO))),
            Err(error) => done(client, turn, Err(error)),
        });
        if !self.caches(layout) {
            return self.size(turn, caller, fid, layout, then);
        }
        // With a cache the size is known without that.
        let file = layout.clone();
        let then: Done<()> = Box::new(move |client, turn, written| match written {
            Ok(()) => client.size(turn, caller, fid, &file, then),
            Err(error) => then(client, turn, Err(error)),
        });
        self.write_back(turn, caller, (fid, layout), then);
    }

    fn seek_before(
        &mut self,
        turn: &mut Turn<'_>,
        caller: Caller,
        (fid, layout): (Fid, FileLayout),
        (offset, size): (u64, u64),
        what: Seek,
        done: Done<u64>,
    ) {
        let then: Done<Option<u64>> = Box::new(move |client, turn, found| {
            let found = found.and_then(|found| match (found.filter(|at| *at < size), what) {
                (Some(at), _) => Ok(at),
                (None, Seek::Hole) => Ok(size),
                (None, Seek::Data) => Err(ClientError::Errno(errno::ENXIO)),
            });
            done(client, turn, found);
        });
        let ranges = layout.object_ranges(offset, size);
        // What needs no request.
        let found = without_objects(&layout, (offset, size), what);
        let work = Work::Seek { found, done: then };
        let Some(io) = self.start_io(turn, ranges.len(), work) else { return };
        for (place, from, _) in ranges {
            let target = match self.target_of(fid, &layout, place) {
                Ok(target) => target,
                Err(error) => {
                    self.io_failed(turn, io, error);
                    continue;
                }
            };
            let granted = self.rpc.import(target.import).map(|import| import.granted().flags2);
            if !granted.is_some_and(|flags| flags.contains(ConnectFlags2::LSEEK)) {
                let at = (what == Seek::Data).then_some(from);
                self.object_sought(turn, io, (&layout, offset), place, Ok(at));
                continue;
            }
            let body = Obdo {
                valid: OBJECT,
                oi: target.oi,
                size: from,
                mode: what.mode(),
                ..Obdo::default()
            };
            let layout = layout.clone();
            let mut call = CallArgs::from(Request::OstSeek(ost::ObjectOnly { body }));
            call.caller = Some(caller);
            self.call(turn, target.import, call, move |client, turn, answer| {
                let at = answer.and_then(|answer| {
                    let at = reply_of!(&answer.reply, OstSeek)?.body.size;
                    found_at(at, from, what)
                });
                client.object_sought(turn, io, (&layout, offset), place, at);
            });
        }
    }

    /// The first such byte of an object is known, or that there is none.
    fn object_sought(
        &mut self,
        turn: &mut Turn<'_>,
        io: IoKey,
        (layout, offset): (&FileLayout, u64),
        (component, stripe): (usize, u16),
        at: Outcome<Option<u64>>,
    ) {
        let at = match at {
            Ok(at) => at,
            Err(error) => return self.io_failed(turn, io, error),
        };
        let at = at.and_then(|at| layout.file_offset(component, stripe, at));
        if let Some(Io { work: Work::Seek { found, .. }, .. }) = self.ios.get_mut(io)
            && let Some(at) = at
        {
            let at = at.max(offset);
            *found = Some(found.map_or(at, |found| found.min(at)));
        }
        self.io_answered(turn, io);
    }
}

/// What the reply about an object says: an offset in it, or that there is nothing more.
fn found_at(at: u64, from: u64, what: Seek) -> Outcome<Option<u64>> {
    match at {
        // The object ends before: the file has a hole there.
        NOTHING => Ok((what == Seek::Hole).then_some(from)),
        at if at >= from && i64::try_from(at).is_ok() => Ok(Some(at)),
        _ => Err(malformed("an offset that was not asked for")),
    }
}

/// The first byte of a range in a component without objects. What is on the metadata server counts
/// as data.
fn without_objects(layout: &FileLayout, (offset, size): (u64, u64), what: Seek) -> Option<u64> {
    let within = layout.components.iter().filter(|component| {
        let wanted = match component.place {
            Place::Mdt => what == Seek::Data,
            Place::None => what == Seek::Hole,
            Place::Objects { .. } => false,
        };
        wanted && component.start < size && offset < component.end
    });
    within.map(|component| component.start.max(offset)).min()
}
