//! Files that are open.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use lustrine_client::{Attr, Done, FileLayout, Glimpse, OpenArgs, OpenFile, Written};
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
}

/// Bytes of a read or a write.
const STEP: u64 = 4 << 20;
/// Reads or writes under way at once.
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
        Ok(File { files: self, open, size, written: false })
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
        Ok(File { files: self, open, size: 0, written: false })
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

    /// Reads all of it, in order: `take` gets one piece after the other. Several reads are under
    /// way at once.
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
        mut take: impl FnMut(Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut under_way: VecDeque<(Pending<Bytes>, Permit)> = VecDeque::new();
        let mut next = offset;
        loop {
            while next < self.size && under_way.len() < DEPTH {
                // Who has something under way goes on with it, so that all get their turns.
                let permit = match under_way.is_empty() {
                    true => self.files.place(&self.files.reads)?,
                    false => match self.files.reads.take(Duration::ZERO) {
                        Some(permit) => permit,
                        None => break,
                    },
                };
                let len = STEP.min(self.size - next);
                under_way.push_back((self.start_read(next, len as u32)?, permit));
                next += len;
            }
            let Some((first, permit)) = under_way.pop_front() else { return Ok(()) };
            take(self.files.wait(&first)?)?;
            drop(permit);
        }
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
    /// Several writes are under way at once. When this returns, all data are on stable storage;
    /// [`File::close`] sees to the file itself.
    ///
    /// # Errors
    /// When a server refuses; or the error of `give`, which ends the writing.
    pub fn write_all<E: From<FsError>>(
        &mut self,
        mut give: impl FnMut(usize) -> Result<Bytes, E>,
    ) -> Result<(), E> {
        let mut under_way: VecDeque<Pending<()>> = VecDeque::new();
        let mut last = false;
        loop {
            while !last && under_way.len() < DEPTH {
                let data = give(STEP as usize)?;
                if data.is_empty() {
                    last = true;
                    break;
                }
                let (offset, len) = (self.size, data.len() as u64);
                if !self.open.layout.may_write(offset, len) {
                    let (caller, fid) = (self.files.caller, self.open.attr.fid);
                    let range = (offset, offset.saturating_add(len));
                    self.open.layout = self.files.ask(move |client, turn, done| {
                        client.instantiate(turn, caller, fid, range, done);
                    })?;
                }
                under_way.push_back(self.start_write(offset, data)?);
                self.size += len;
                self.written = true;
            }
            let Some(first) = under_way.pop_front() else { return Ok(()) };
            self.files.wait(&first)?;
        }
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
        let File { files, open, size, written } = self;
        let caller = files.caller;
        let written = written.then_some(Written { size, blocks: size.div_ceil(512), mtime: None });
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
