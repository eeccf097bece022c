//! Files that are open.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use lustrine_client::{
    Attr, Changes, Done, FileLayout, Glimpse, OpenArgs, OpenFile, Seek, Written,
};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::mdt::OpenFlags;

use crate::error::FsError;
use crate::mount::{FileSystem, Pending};
use crate::room::Permit;
use crate::walk::umask;

/// A file that is open. It is closed by [`File::close`]; the servers close what a client that has
/// gone leaves open.
#[derive(Debug)]
pub struct File<'a> {
    files: &'a FileSystem,
    open: OpenFile,
    size: u64,
    written: bool,
    /// Bytes of the holes that were left in what was written.
    holes: u64,
}

/// What is written next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes; none are the end.
    Data(Bytes),
    /// Nothing: so many bytes are left out, and are zeros when they are read.
    Hole(u64),
}

/// Bytes of a read or a write.
const STEP: u64 = 4 << 20;
/// Reads or writes in flight at once.
const DEPTH: usize = 8;

/// Bytes of a file that an interrupted [`File::write_all`] may have written behind a gap.
pub const WRITE_AHEAD: u64 = STEP * DEPTH as u64;

impl FileSystem {
    /// Opens a file to read it.
    ///
    /// # Errors
    /// When the server refuses, or the layout cannot be used.
    pub fn open(&self, attr: &Attr) -> Result<File<'_>, FsError> {
        let args = OpenArgs { flags: OpenFlags::READ, mode: 0, umask: 0 };
        self.open_with(attr.fid, args)
    }

    fn open_with(&self, fid: Fid, args: OpenArgs) -> Result<File<'_>, FsError> {
        let caller = self.caller;
        let mut open = self.ask(move |client, turn, done| {
            client.open(turn, caller, fid, args, done);
        })?;
        let size = match self.glimpse(fid, &open.attr.layout) {
            Ok(glimpse) => {
                open.attr.add_objects(glimpse);
                glimpse.size
            }
            Err(error) => {
                self.leave(open);
                return Err(error);
            }
        };
        Ok(File { files: self, open, size, written: false, holes: 0 })
    }

    /// Makes a file and opens it to write it. `exclusive` refuses a file that is there; otherwise
    /// such a file is opened, and keeps its data until they are overwritten.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn create(
        &self,
        parent: &Attr,
        name: &[u8],
        mode: u32,
        exclusive: bool,
    ) -> Result<File<'_>, FsError> {
        let (caller, fid, name) = (self.caller, parent.fid, name.to_vec());
        let mut flags = OpenFlags::WRITE | OpenFlags::CREAT;
        flags.set(OpenFlags::EXCL, exclusive);
        let args = OpenArgs { flags, mode, umask: umask() };
        let open = self.ask(move |client, turn, done| {
            client.create(turn, caller, fid, &name, args, done);
        })?;
        Ok(File { files: self, open, size: 0, written: false, holes: 0 })
    }

    /// Opens a file to write it, with its data. [`File::write_from`] says where.
    ///
    /// # Errors
    /// When the server refuses, or the layout cannot be used.
    pub fn open_to_write(&self, attr: &Attr) -> Result<File<'_>, FsError> {
        let args = OpenArgs { flags: OpenFlags::WRITE, mode: 0, umask: 0 };
        self.open_with(attr.fid, args)
    }

    /// What the objects of a file say of it.
    fn glimpse(&self, fid: Fid, layout: &[u8]) -> Result<Glimpse, FsError> {
        let layout = FileLayout::parse(layout)?;
        let caller = self.caller;
        self.ask(move |client, turn, done| client.glimpse(turn, caller, fid, &layout, done))
    }

    /// Closes a file without waiting.
    fn leave(&self, open: OpenFile) {
        let caller = self.caller;
        let _ = self.start(move |client, turn, done| {
            client.close(turn, caller, open, None, done);
        });
    }
}

impl File<'_> {
    /// Its attributes when it was opened, with the size and the times of its objects.
    pub fn attr(&self) -> &Attr {
        &self.open.attr
    }

    /// Has [`File::write_all`] go on from here, which is the size then unless more is written.
    pub fn write_from(&mut self, offset: u64) {
        self.size = offset;
    }

    /// Its size in bytes when it was opened, or what was written since.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Reads all of it, in order: `take` gets one piece after the other. Several reads are in
    /// flight at once.
    ///
    /// # Errors
    /// When a server refuses; or the error of `take`, which ends the reading.
    pub fn read_all<E: From<FsError>>(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read_from(0, |data| take(&data))
    }

    /// As [`File::read_all`], from an offset on; pieces have 4 MiB at most. A piece, and each slice
    /// of it, keeps memory of the node until it is dropped.
    ///
    /// # Errors
    /// As [`File::read_all`].
    pub fn read_from<E: From<FsError>>(
        &self,
        offset: u64,
        take: impl FnMut(Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        self.read_range((offset, self.size), take)
    }

    /// As [`File::read_from`], up to an offset behind the last byte.
    ///
    /// # Errors
    /// As [`File::read_all`].
    pub fn read_range<E: From<FsError>>(
        &self,
        (offset, end): (u64, u64),
        mut take: impl FnMut(Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = end.min(self.size);
        let mut in_flight: VecDeque<(Pending<Bytes>, Permit)> = VecDeque::new();
        let mut next = offset;
        loop {
            while next < end && in_flight.len() < DEPTH {
                // Who has something in flight goes on with it, so that all get their turns.
                let permit = match in_flight.is_empty() {
                    true => self.files.place(&self.files.reads)?,
                    false => match self.files.reads.take(Duration::ZERO) {
                        Some(permit) => permit,
                        None => break,
                    },
                };
                let len = STEP.min(end - next);
                in_flight.push_back((self.start_read(next, len as u32)?, permit));
                next += len;
            }
            let Some((first, permit)) = in_flight.pop_front() else { return Ok(()) };
            take(self.files.wait(&first)?)?;
            drop(permit);
        }
    }

    /// The first bytes from an offset on that are no hole, as the offsets of their start and of the
    /// next hole; none if there are none. What a server cannot say counts as data.
    ///
    /// # Errors
    /// When a server refuses.
    pub fn data_from(&self, offset: u64) -> Result<Option<(u64, u64)>, FsError> {
        let start = match self.seek(offset, Seek::Data) {
            Ok(start) => start,
            Err(error) if error.errno() == ENXIO => return Ok(None),
            Err(error) => return Err(error),
        };
        if start >= self.size {
            return Ok(None);
        }
        match self.seek(start, Seek::Hole) {
            Ok(end) => Ok(Some((start, end.min(self.size)))),
            // It was cut meanwhile.
            Err(error) if error.errno() == ENXIO => Ok(Some((start, self.size))),
            Err(error) => Err(error),
        }
    }

    fn seek(&self, offset: u64, what: Seek) -> Result<u64, FsError> {
        let (caller, fid) = (self.files.caller, self.open.attr.fid);
        let layout = self.open.layout.clone();
        self.files.ask(move |client, turn, done| {
            client.seek(turn, caller, fid, &layout, (offset, what), done);
        })
    }

    fn start_read(&self, offset: u64, len: u32) -> Result<Pending<Bytes>, FsError> {
        let (caller, fid) = (self.files.caller, self.open.attr.fid);
        let layout = self.open.layout.clone();
        self.files.start(move |client, turn, done| {
            client.read(turn, caller, fid, &layout, (offset, len), done);
        })
    }

    /// Writes what `give` gives, piece by piece, from the start of the file or where
    /// [`File::write_from`] says, until it gives none. At most [`WRITE_AHEAD`] bytes are written
    /// before all bytes in front of them are.
    /// Several writes are in flight at once. When this returns, all data are on stable storage;
    /// [`File::close`] sees to the file itself.
    ///
    /// # Errors
    /// When a server refuses; or the error of `give`, which ends the writing.
    pub fn write_all<E: From<FsError>>(
        &mut self,
        mut give: impl FnMut(usize) -> Result<Bytes, E>,
    ) -> Result<(), E> {
        self.write_pieces(|| give(STEP as usize).map(Piece::Data))
    }

    /// As [`File::write_all`], with holes, until it gives data without a byte. A hole at the end is
    /// one when this returns: the size is behind it.
    ///
    /// # Errors
    /// As [`File::write_all`].
    pub fn write_pieces<E: From<FsError>>(
        &mut self,
        mut give: impl FnMut() -> Result<Piece, E>,
    ) -> Result<(), E> {
        // With the offsets of their starts.
        let mut in_flight: VecDeque<(u64, Pending<()>)> = VecDeque::new();
        let mut ends_in_hole = false;
        loop {
            let data = match give()? {
                Piece::Data(data) if data.is_empty() => break,
                Piece::Data(data) => data,
                Piece::Hole(len) => {
                    self.size += len;
                    self.holes += len;
                    ends_in_hole |= len > 0;
                    continue;
                }
            };
            ends_in_hole = false;
            let (offset, len) = (self.size, data.len() as u64);
            let end = offset.saturating_add(len);
            while let Some((from, first)) = in_flight.front()
                && (in_flight.len() >= DEPTH || end - from > WRITE_AHEAD)
            {
                self.files.wait(first)?;
                in_flight.pop_front();
            }
            if !self.open.layout.may_write(offset, len) {
                let (caller, fid) = (self.files.caller, self.open.attr.fid);
                self.open.layout = self.files.ask(move |client, turn, done| {
                    client.instantiate(turn, caller, fid, (offset, end), done);
                })?;
            }
            in_flight.push_back((offset, self.start_write(offset, data)?));
            self.size = end;
            self.written = true;
        }
        for (_, pending) in &in_flight {
            self.files.wait(pending)?;
        }
        if ends_in_hole {
            let changes = Changes { size: Some(self.size), ..Changes::default() };
            self.files.set_attributes(self.open.attr.fid, changes)?;
            self.written = true;
        }
        Ok(())
    }

    fn start_write(&self, offset: u64, data: Bytes) -> Result<Pending<()>, FsError> {
        let caller = self.files.caller;
        let file = (self.open.attr.fid, self.open.attr.owner());
        let layout = self.open.layout.clone();
        // The place is free again when the servers have answered, whatever its file waits for.
        let permit = self.files.place(&self.files.writes)?;
        self.files.start(move |client, turn, done| {
            let done: Done<()> = Box::new(move |client, turn, outcome| {
                drop(permit);
                done(client, turn, outcome);
            });
            client.write(turn, caller, file, &layout, (offset, data), done);
        })
    }

    /// Closes it. A file that was made or written is on stable storage afterwards.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn close(self) -> Result<(), FsError> {
        let File { files, open, size, written, holes } = self;
        let caller = files.caller;
        let blocks = size.saturating_sub(holes).div_ceil(512);
        let written = written.then_some(Written { size, blocks, mtime: None });
        let (fid, lasting) = (open.attr.fid, open.created || written.is_some());
        files.ask(move |client, turn, done| client.close(turn, caller, open, written, done))?;
        if lasting {
            files.ask(move |client, turn, done| client.sync(turn, caller, fid, done))?;
        }
        Ok(())
    }

    /// Closes it without an account of what was written: it is to be removed.
    pub fn abandon(self) {
        self.files.leave(self.open);
    }
}

/// What an offset behind the last data is.
const ENXIO: i32 = 6;
