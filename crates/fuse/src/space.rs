//! Space of open files: fallocate(2), and where data and holes are.

use fuser::{Errno, FileHandle, ReplyEmpty, ReplyLseek, Request};
use lustrine_client::{Allocate, Client, FileLayout, Outcome, Seek};
use lustrine_lnet::service::Turn;

use crate::reply::Asked;
use crate::server::Server;

/// Flags of fallocate(2) in Linux.
const FALLOC_FL_KEEP_SIZE: i32 = 1;
const FALLOC_FL_PUNCH_HOLE: i32 = 2;
/// Places that lseek(2) seeks.
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

impl Server {
    /// Reserves space for a range of a file, or gives it back.
    pub(crate) fn allocate_file(
        &self,
        request: &Request,
        handle: FileHandle,
        (offset, len): (u64, u64),
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, file)) = asked.with(self.shared.file(handle.0)) else { return };
        let Some((asked, what)) = asked.with(allocation(mode)) else { return };
        self.shared.post(move |client, turn| {
            asked.shared.nodes().set_mtime(file.fid, None);
            let owner = (file.fid, file.state().open.attr.owner());
            let layout = file.state().layout.clone();
            let caller = file.caller;
            let now = client.wall(turn);
            let adds = what == Allocate::Reserve;
            let then = asked.done(move |asked, _: &mut Client, _: &mut Turn<'_>, ()| {
                if adds {
                    asked.shared.nodes().written(file.fid, (offset, len));
                }
                let mut state = file.state();
                state.written = state.written.max(Some(now));
                drop(state);
                asked.ok();
            });
            client.allocate(turn, caller, owner, &layout, what, (offset, len), then);
        });
    }

    /// Seeks data or a hole.
    pub(crate) fn seek_file(
        &self,
        request: &Request,
        handle: FileHandle,
        (offset, whence): (i64, i32),
        reply: ReplyLseek,
    ) {
        let asked = Asked::new(&self.shared, request, reply);
        let Some((asked, file)) = asked.with(self.shared.file(handle.0)) else { return };
        let Some((asked, (from, what))) = asked.with(sought(offset, whence)) else { return };
        self.shared.post(move |client, turn| {
            let caller = file.caller;
            let fid = file.fid;
            // Another client may have written where there were no objects.
            let sought = asked.done(move |asked, client, turn, layout: FileLayout| {
                // All of what may be in a mapping counts as data: the kernel does not say.
                if asked.shared.has_mapped_writes(fid) {
                    let sized =
                        asked.done(move |asked, _, _, (size, _): (u64, u64)| match sought_in_data(
                            from, size, what,
                        ) {
                            Some(at) => asked.found_at(at),
                            None => asked.fail(Errno::ENXIO),
                        });
                    return client.size(turn, caller, fid, &layout, sized);
                }
                let then = move |_: &mut Client, _: &mut Turn<'_>, at: Outcome<u64>| match at {
                    Ok(at) => asked.found_at(at),
                    Err(error) => asked.fail_with(&error),
                };
                client.seek(turn, caller, fid, &layout, (from, what), Box::new(then));
            });
            client.layout_of(turn, caller, fid, sought);
        });
    }
}

/// What fallocate(2) asks for; servers know three of its modes.
fn allocation(mode: i32) -> Result<Allocate, Errno> {
    const PUNCH: i32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    match mode {
        0 => Ok(Allocate::Reserve),
        FALLOC_FL_KEEP_SIZE => Ok(Allocate::KeepSize),
        PUNCH => Ok(Allocate::PunchHole),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Where lseek(2) starts, and what it seeks.
fn sought(offset: i64, whence: i32) -> Result<(u64, Seek), Errno> {
    let from = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
    match whence {
        SEEK_DATA => Ok((from, Seek::Data)),
        SEEK_HOLE => Ok((from, Seek::Hole)),
        _ => Err(Errno::EINVAL),
    }
}

/// What is found from an offset on in a file of this size without holes; none from its end on.
fn sought_in_data(from: u64, size: u64, what: Seek) -> Option<u64> {
    let found = match what {
        Seek::Data => from,
        Seek::Hole => size,
    };
    (from < size).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_that_servers_know_are_accepted() {
        assert_eq!(allocation(0), Ok(Allocate::Reserve));
        assert_eq!(allocation(1), Ok(Allocate::KeepSize));
        assert_eq!(allocation(3), Ok(Allocate::PunchHole));
        // Zeroed, collapsed, inserted; and a hole without KEEP_SIZE.
        for mode in [0x10, 0x11, 8, 0x20, 2] {
            assert_eq!(allocation(mode), Err(Errno::EOPNOTSUPP), "{mode:#x}");
        }
    }

    #[test]
    fn a_file_without_holes_has_one_at_its_end() {
        assert_eq!(sought_in_data(0, 9, Seek::Data), Some(0));
        assert_eq!(sought_in_data(8, 9, Seek::Hole), Some(9));
        assert_eq!(sought_in_data(9, 9, Seek::Data).or(sought_in_data(9, 9, Seek::Hole)), None);
    }

    #[test]
    fn data_and_holes_are_sought_from_the_start_of_the_file() {
        assert_eq!(sought(5, SEEK_DATA), Ok((5, Seek::Data)));
        assert_eq!(sought(5, SEEK_HOLE), Ok((5, Seek::Hole)));
        assert_eq!(sought(-1, SEEK_HOLE), Err(Errno::ENXIO));
        assert_eq!(sought(0, 0), Err(Errno::EINVAL));
    }
}
