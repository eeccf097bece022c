//! Loads of metadata in one directory: files are made, looked at, and removed.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use lustrine_client::{Client, ClientError, Done, OpenArgs, OpenFile};
use lustrine_fs::{Attr, Fid, FileSystem};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use serde_json::Value;

use super::load::{self, Bound, LoadArgs, Operation};
use super::{CALLER, mixed};

const TYPE_REGULAR: u32 = 0o100_000;

/// The directory of the files.
pub(crate) const DIR: &str = "names";
/// How files are made.
pub(crate) const CREATE: OpenArgs = OpenArgs {
    flags: OpenFlags::READ.union(OpenFlags::WRITE).union(OpenFlags::CREAT).union(OpenFlags::EXCL),
    mode: 0o644,
    umask: 0,
};

/// The name of a file.
pub(crate) fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

/// Makes a directory, runs one load after the other in it, each with `files` files.
pub(crate) fn run(
    fs: &FileSystem,
    files: u64,
    load: &LoadArgs<'_>,
) -> Result<Vec<Value>, Box<dyn Error>> {
    let dir = make_dir(fs)?;
    let bound = Bound::Count { warm_up: files / 10, total: files };
    let steps: [(&str, Operation); 6] = [
        ("create", create(dir)),
        (
            "lookup",
            Box::new(move |client, turn, number, done| {
                client.lookup(turn, CALLER, dir, &name(mixed(number) % files), ended(done));
            }),
        ),
        ("stat", stat(dir, files)),
        ("unlink", unlink(dir)),
        (
            "mknod",
            Box::new(move |client, turn, number, done| {
                let mode = (TYPE_REGULAR | 0o644, 0);
                client.mknod(turn, CALLER, dir, &name(number), mode, 0, ended(done));
            }),
        ),
        ("unlink-empty", unlink(dir)),
    ];
    let step = |(name, operation)| load::run(fs, &LoadArgs { name, bound, ..*load }, operation);
    steps.into_iter().map(step).collect()
}

/// Makes the directory.
fn make_dir(fs: &FileSystem) -> Result<Fid, Box<dyn Error>> {
    Ok(fs.mkdir(&fs.walk("")?, DIR.as_bytes(), 0o755)?.fid)
}

/// Makes files and leaves them.
pub(crate) fn make(
    fs: &FileSystem,
    files: u64,
    load: &LoadArgs<'_>,
) -> Result<Vec<Value>, Box<dyn Error>> {
    let bound = Bound::Count { warm_up: 1, total: files };
    let made = load::run(fs, &LoadArgs { name: "create", bound, ..*load }, create(make_dir(fs)?))?;
    Ok(vec![made])
}

/// Looks so many files up, and returns them in the order of their names.
pub(crate) fn looked_up(
    fs: &FileSystem,
    load: &LoadArgs<'_>,
    dir: Fid,
    files: u64,
) -> Result<Vec<Attr>, Box<dyn Error>> {
    let found: Arc<Mutex<BTreeMap<u64, Attr>>> = Arc::default();
    let collected = Arc::clone(&found);
    let bound = Bound::Count { warm_up: 1, total: files };
    let operation: Operation = Box::new(move |client, turn, number, done| {
        let collected = Arc::clone(&collected);
        let then: Done<Attr> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, attr: Result<Attr, ClientError>| {
                let kept = attr.map(|attr| {
                    let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                    collected.insert(number, attr);
                });
                done(client, turn, kept);
            },
        );
        client.lookup(turn, CALLER, dir, &name(number), then);
    });
    load::run(fs, &LoadArgs { name: "lookup", bound, ..*load }, operation)?;
    let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(found.into_values().collect())
}

/// Makes files, and opens and closes them on the way, as programs do.
pub(crate) fn create(dir: Fid) -> Operation {
    Box::new(move |client, turn, number, done| {
        let opened: Done<OpenFile> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, open: Result<OpenFile, ClientError>| {
                match open {
                    Ok(open) => client.close(turn, CALLER, open, None, done),
                    Err(error) => done(client, turn, Err(error)),
                }
            },
        );
        client.create(turn, CALLER, dir, &name(number), CREATE, opened);
    })
}

/// Looks names up, and asks for the sizes of the files.
fn stat(dir: Fid, files: u64) -> Operation {
    Box::new(move |client, turn, number, done| {
        let found: Done<Attr> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, attr: Result<Attr, ClientError>| {
                match attr {
                    Ok(attr) => client.complete(turn, CALLER, attr, ended(done)),
                    Err(error) => done(client, turn, Err(error)),
                }
            },
        );
        client.lookup(turn, CALLER, dir, &name(mixed(number) % files), found);
    })
}

fn unlink(dir: Fid) -> Operation {
    Box::new(move |client, turn, number, done| {
        client.unlink(turn, CALLER, dir, &name(number), false, done);
    })
}

/// An operation whose value does not matter.
pub(crate) fn ended<T: 'static>(done: Done<()>) -> Done<T> {
    Box::new(move |client, turn, outcome| done(client, turn, outcome.map(drop)))
}
