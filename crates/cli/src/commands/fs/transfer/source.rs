//! Files that are read, piece by piece.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;
use indicatif::ProgressBar;
use lustrine_fs::File;
use rustix::fs::OFlags;

use super::holes::{pieces_here, pieces_there};
use super::input::Input;
use super::pieces::read_here;
use crate::commands::fs::sha256::Sha256Sum;
use crate::interrupt;
use crate::output::Failure;

/// Pieces that are read and not written yet.
const PIECES: usize = 2;

/// A file that is read.
pub(super) struct Source<'a> {
    /// For its errors.
    pub(super) path: String,
    pub(super) size: u64,
    /// Times of access and change when it was opened, in seconds since 1970.
    pub(super) times: (i64, i64),
    pub(super) file: SourceFile<'a>,
}

pub(super) enum SourceFile<'a> {
    Here(fs::File),
    There(Box<File<'a>>),
    Input(Input),
}

/// A piece of a file, or why there is none.
pub(super) type Piece = Result<lustrine_fs::Piece, Failure>;

impl Source<'_> {
    /// Reads the file from an offset on in another thread, while `write` writes its pieces.
    pub(super) fn pump(
        &self,
        start: u64,
        bar: &ProgressBar,
        write: impl FnOnce(&Receiver<Piece>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (sender, pieces) = sync_channel(PIECES);
        thread::scope(|scope| {
            scope.spawn(move || {
                let grows = matches!(self.file, SourceFile::Input(_));
                let sent = self.pieces(start, |piece| {
                    let len = match &piece {
                        lustrine_fs::Piece::Data(data) => data.len() as u64,
                        lustrine_fs::Piece::Hole(len) => *len,
                    };
                    if grows {
                        bar.inc_length(len);
                    }
                    bar.inc(len);
                    // A writer that failed has left.
                    sender.send(Ok(piece)).map_err(|_| Failure::Interrupted)
                });
                if let Err(failure) = sent {
                    leave(&sender, failure);
                }
            });
            let written = write(&pieces);
            drop(pieces);
            if let SourceFile::Input(input) = &self.file {
                input.leave();
            }
            written
        })
    }

    /// Reads the file from an offset on, with its holes as such.
    fn pieces(
        &self,
        start: u64,
        mut take: impl FnMut(lustrine_fs::Piece) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut take = |piece| interrupt::asked().and_then(|()| take(piece));
        let read = match &self.file {
            SourceFile::Input(input) => input.read(|data| take(lustrine_fs::Piece::Data(data))),
            SourceFile::There(file) => pieces_there(file, start, &mut take),
            SourceFile::Here(file) => pieces_here(file, start, &mut take)
                .map_err(|error| Failure::Failed(error.to_string()))
                .and_then(|ended| ended),
        };
        read.map_err(|failure| of_file(&self.path, failure))
    }

    /// Reads the file from an offset on, all of its bytes.
    pub(super) fn read(
        &self,
        start: u64,
        mut take: impl FnMut(Bytes) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut take = |data| interrupt::asked().and_then(|()| take(data));
        let read = match &self.file {
            SourceFile::Input(input) => input.read(take),
            SourceFile::There(file) => file.read_from(start, take),
            SourceFile::Here(file) => {
                let mut file = file;
                let sought = file.seek(SeekFrom::Start(start));
                let read = sought.and_then(|_| read_here(&mut file, &mut take));
                read.map_err(|error| Failure::Failed(error.to_string())).and_then(|ended| ended)
            }
        };
        read.map_err(|failure| of_file(&self.path, failure))
    }

    pub(super) fn close(self) -> Result<(), Failure> {
        match self.file {
            SourceFile::There(file) => Ok(file.close().map_err(|error| error.at(&self.path))?),
            SourceFile::Here(_) | SourceFile::Input(_) => Ok(()),
        }
    }

    /// The checksum of all of it; of standard input, of what was read.
    pub(super) fn sum(&self) -> Result<String, Failure> {
        match &self.file {
            SourceFile::Input(input) => Ok(input.sum().unwrap_or_default()),
            _ => sum_of(|take| self.read(0, take)),
        }
    }
}

/// Hands on why the reading has ended.
fn leave(sender: &SyncSender<Piece>, failure: Failure) {
    // The writer may have left first.
    let _ = sender.send(Err(failure));
}

/// Opens a file or directory of this machine to read it, which must be the one that was found
/// before: its owner may have put a symbolic link, a FIFO or another file in its place.
pub(super) fn open_found(path: &Path, found: &fs::Metadata) -> io::Result<fs::File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = fs::OpenOptions::new();
    let file = file.read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let meta = file.metadata()?;
    let same = (meta.dev(), meta.ino()) == (found.dev(), found.ino())
        && meta.file_type() == found.file_type();
    if same { Ok(file) } else { Err(io::Error::other("was replaced while it was copied")) }
}

/// What is in a directory of this machine, in the order of names. All of it is in the directory
/// that was found before, whatever its path leads to in the meantime.
#[allow(clippy::type_complexity, reason = "names and what they lead to")]
pub(super) fn children_here(
    path: &Path,
    found: &fs::Metadata,
) -> io::Result<Vec<(OsString, io::Result<fs::Metadata>)>> {
    let open = open_found(path, found)?;
    // The path names the open directory as long as it is open.
    let dir = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
    let mut names = Vec::new();
    for entry in fs::read_dir(&dir)? {
        names.push(entry?.file_name());
    }
    names.sort();
    let of = |name: OsString| {
        let meta = fs::symlink_metadata(dir.join(&name));
        (name, meta)
    };
    Ok(names.into_iter().map(of).collect())
}

/// The checksum of what a reader hands out.
pub(super) fn sum_of(
    read: impl FnOnce(&mut dyn FnMut(Bytes) -> Result<(), Failure>) -> Result<(), Failure>,
) -> Result<String, Failure> {
    let mut sum = Sha256Sum::default();
    read(&mut |data| {
        sum.add(&data);
        interrupt::asked()
    })?;
    Ok(sum.text())
}

/// Adds the path of the file to an error that has none, as those of a server.
pub(super) fn of_file(path: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(error) if !error.starts_with(&format!("{path}: ")) => {
            Failure::Failed(format!("{path}: {error}"))
        }
        other => other,
    }
}
