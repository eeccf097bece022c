//! Loads of data: sequential reads and writes, and random reads, of files that exist.

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use lustrine_client::{Client, ClientError, Done, FileLayout, FileOwner, OpenArgs, OpenFile};
use lustrine_fs::{Attr, Fid, FileSystem};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use serde_json::Value;

use super::load::{self, Bound, LoadArgs, Operation};
use super::{CALLER, ask, mixed};

/// Files, one on each object target.
const FILES: u64 = 2;
/// Each page begins with the place that it has in its file.
const PAGE: u64 = 4096;
/// Bytes of a write while files are prepared.
const PIECE: u64 = 1 << 20;
/// Errno of Linux: what was read is not what was written.
const EIO: i32 = 5;

/// What is done with the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    RandomRead,
    Write,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::RandomRead => "random-read",
            Access::Write => "write",
        }
    }
}

/// A load of data.
pub(crate) struct DataArgs<'a> {
    pub(crate) access: Access,
    /// Bytes of an operation: a multiple of 4096, of which a file has a whole number.
    pub(crate) size: u32,
    /// Bytes of each file, in MiB.
    pub(crate) mib: u64,
    pub(crate) load: &'a LoadArgs<'a>,
}

/// A file that is open.
#[derive(Clone)]
struct DataFile {
    fid: Fid,
    owner: FileOwner,
    layout: FileLayout,
}

/// Makes the files, and runs the load on them.
pub(crate) fn run(files: &FileSystem, args: &DataArgs<'_>) -> Result<Value, Box<dyn Error>> {
    let len = args.mib << 20;
    let root = files.walk("")?;
    let mut open = Vec::new();
    for number in 0..FILES {
        open.push(create(files, &root, format!("data{number}"))?);
    }
    let data: Arc<[DataFile]> = open
        .iter()
        .map(|file| DataFile {
            fid: file.attr.fid,
            owner: file.attr.owner(),
            layout: file.layout.clone(),
        })
        .collect();
    let pieces = FILES * len / PIECE;
    let (bound, size) = (Bound::Count { warm_up: 1, total: pieces }, PIECE);
    let filling =
        LoadArgs { name: "fill", size, slots: args.load.slots.min(8), bound, ..*args.load };
    load::run(files, &filling, fill(Arc::clone(&data), len))?;
    let size = args.size;
    let operation: Operation = match args.access {
        Access::Write => write(data, (len, size)),
        Access::Read => read(data, size, move |number| place(number, len, size.into())),
        Access::RandomRead => read(data, size, move |number| {
            place(mixed(number) % (FILES * len / u64::from(size)), len, size.into())
        }),
    };
    let name = args.access.name();
    let measured =
        load::run(files, &LoadArgs { name, size: size.into(), ..*args.load }, operation)?;
    for file in open {
        ask(files, move |client, turn, done| client.close(turn, CALLER, file, None, done))?;
    }
    Ok(measured)
}

fn create(files: &FileSystem, root: &Attr, name: String) -> Result<OpenFile, Box<dyn Error>> {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREAT;
    let (args, dir) = (OpenArgs { flags, mode: 0o644, umask: 0 }, root.fid);
    ask(files, move |client, turn, done| {
        client.create(turn, CALLER, dir, name.as_bytes(), args, done);
    })
}

/// The file and the offset of an operation, when files are read or written from their start to
/// their end again and again, side by side.
fn place(number: u64, len: u64, size: u64) -> (usize, u64) {
    ((number % FILES) as usize, number / FILES * size % len)
}

fn stamped(offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0x5a; len as usize];
    for (page, at) in bytes.chunks_mut(PAGE as usize).zip((offset..).step_by(PAGE as usize)) {
        page[..8].copy_from_slice(&at.to_le_bytes());
    }
    bytes
}

fn fill(data: Arc<[DataFile]>, len: u64) -> Operation {
    Box::new(move |client, turn, number, done| {
        let (index, offset) = place(number, len, PIECE);
        let DataFile { fid, owner, layout } = &data[index];
        let bytes = stamped(offset, PIECE);
        client.write(turn, CALLER, (*fid, *owner), layout, (offset, bytes.into()), done);
    })
}

fn write(data: Arc<[DataFile]>, (len, size): (u64, u32)) -> Operation {
    let bytes = Bytes::from(stamped(0, size.into()));
    Box::new(move |client, turn, number, done| {
        let (index, offset) = place(number, len, bytes.len() as u64);
        let DataFile { fid, owner, layout } = &data[index];
        client.write(turn, CALLER, (*fid, *owner), layout, (offset, bytes.clone()), done);
    })
}

fn read(
    data: Arc<[DataFile]>,
    size: u32,
    place: impl Fn(u64) -> (usize, u64) + Send + Sync + 'static,
) -> Operation {
    Box::new(move |client, turn, number, done| {
        let (index, offset) = place(number);
        let DataFile { fid, layout, .. } = &data[index];
        let done: Done<Bytes> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, read: Result<Bytes, ClientError>| {
                let checked = read.and_then(|bytes| match is_from(&bytes, offset, size) {
                    true => Ok(()),
                    false => Err(ClientError::Errno(EIO)),
                });
                done(client, turn, checked);
            },
        );
        client.read(turn, CALLER, *fid, layout, (offset, size), done);
    })
}

/// Whether the first and the last page are those of the place.
fn is_from(bytes: &[u8], offset: u64, size: u32) -> bool {
    let last = size as usize - PAGE as usize;
    let begins = |at: usize| bytes[at..at + 8] == (offset + at as u64).to_le_bytes();
    bytes.len() == size as usize && begins(0) && begins(last)
}
