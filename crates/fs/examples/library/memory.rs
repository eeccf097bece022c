//! The memory of inodes that are kept with their locks, and of files that are open.

use std::error::Error;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};

use lustrine_client::{Client, ClientError, Done, FileLayout, OpenArgs, OpenFile};
use lustrine_fs::{Attr, Fid, FileSystem};
use lustrine_fswire::mdt::OpenFlags;
use lustrine_lnet::service::Turn;
use serde_json::{Value, json};

use super::load::{self, Bound, LoadArgs, Operation};
use super::names::{DIR, ended, name};
use super::{CALLER, ask};

/// How files are opened.
const READ: OpenArgs = OpenArgs { flags: OpenFlags::READ, mode: 0, umask: 0 };
/// Bytes of a read.
const PAGE: u32 = 4096;

/// The memory of this process in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kib = line.trim().trim_end_matches("kB").trim().parse::<u64>()?;
    Ok(kib << 10)
}

/// Does something with so many files, one after the other, and reports by how much memory has grown
/// for each. The first tenth is not counted: by then buffers have their size.
fn grown(
    files: &FileSystem,
    (test, count): (&str, u64),
    load: &LoadArgs<'_>,
    operation: &dyn Fn(u64) -> Operation,
) -> Result<Value, Box<dyn Error>> {
    let first = (count / 10).max(1);
    let args = |total| LoadArgs { bound: Bound::Count { warm_up: 1, total }, ..*load };
    load::run(files, &args(first), operation(0))?;
    let before = resident()?;
    load::run(files, &args(count - first), operation(first))?;
    let bytes = resident()?.saturating_sub(before);
    Ok(json!({
        "test": test,
        "files": count,
        "mib": bytes as f64 / f64::from(1 << 20),
        "bytes_each": bytes as f64 / (count - first) as f64,
    }))
}

/// Has a client keep empty files that another process has made: first their names and attributes,
/// each with a lock, then the lock on the object of each as well.
pub(crate) fn kept(
    files: &FileSystem,
    count: u64,
    load: &LoadArgs<'_>,
) -> Result<Vec<Value>, Box<dyn Error>> {
    let dir = files.walk(DIR)?.fid;
    let inodes = grown(files, ("kept-inode", count), load, &|from| look_up(dir, from))?;
    let objects = grown(files, ("kept-object", count), load, &|from| read(dir, from))?;
    let counts = ask(files, |client, turn, done| {
        let counts = (client.attr_counts().entries, client.cache_counts().objects);
        done(client, turn, Ok(counts));
    })?;
    let all = count as usize;
    // The directory is kept as well.
    if counts.0 < all || counts.1 < all {
        return Err(
            format!("of {all} files, {} are kept, {} with objects", counts.0, counts.1).into()
        );
    }
    Ok(vec![inodes, objects])
}

fn look_up(dir: Fid, from: u64) -> Operation {
    Box::new(move |client, turn, number, done| {
        client.lookup(turn, CALLER, dir, &name(from + number), ended(done));
    })
}

fn read(dir: Fid, from: u64) -> Operation {
    Box::new(move |client, turn, number, done| {
        let found: Done<Attr> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, found: Result<Attr, ClientError>| {
                let layout =
                    found.and_then(|attr| Ok((attr.fid, FileLayout::parse(&attr.layout)?)));
                match layout {
                    Ok((fid, layout)) => {
                        client.read(turn, CALLER, fid, &layout, (0, PAGE), ended(done));
                    }
                    Err(error) => done(client, turn, Err(error)),
                }
            },
        );
        client.lookup(turn, CALLER, dir, &name(from + number), found);
    })
}

/// Opens so many files, has all of them open at once, and closes them.
pub(crate) fn open(
    files: &FileSystem,
    count: u64,
    load: &LoadArgs<'_>,
) -> Result<Vec<Value>, Box<dyn Error>> {
    let dir = files.walk(DIR)?.fid;
    let open: Arc<Mutex<Vec<OpenFile>>> = Arc::default();
    let row = grown(files, ("open-file", count), load, &|from| open_one(dir, from, &open))?;
    let in_use = || {
        ask(files, |client: &mut Client, turn, done| {
            let (open, _) = client.in_use();
            done(client, turn, Ok(open as u64));
        })
    };
    let at_once = in_use()?;
    if at_once != count {
        return Err(format!("{at_once} of {count} files are open").into());
    }
    let closing = LoadArgs { bound: Bound::Count { warm_up: 1, total: count }, ..*load };
    let closed = load::run(files, &LoadArgs { name: "close", ..closing }, close(open))?;
    // Servers commit closes later; the client then forgets the opens.
    Ok(vec![row, closed])
}

fn open_one(dir: Fid, from: u64, open: &Arc<Mutex<Vec<OpenFile>>>) -> Operation {
    let open = Arc::clone(open);
    Box::new(move |client, turn, number, done| {
        let open = Arc::clone(&open);
        let opened: Done<OpenFile> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, file: Result<OpenFile, ClientError>| {
                let file = file.map(|file| {
                    open.lock().unwrap_or_else(PoisonError::into_inner).push(file);
                });
                done(client, turn, file);
            },
        );
        let found: Done<Attr> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, found: Result<Attr, ClientError>| {
                match found {
                    Ok(attr) => client.open(turn, CALLER, attr.fid, READ, opened),
                    Err(error) => opened(client, turn, Err(error)),
                }
            },
        );
        client.lookup(turn, CALLER, dir, &name(from + number), found);
    })
}

fn close(open: Arc<Mutex<Vec<OpenFile>>>) -> Operation {
    Box::new(move |client, turn, _, done| {
        match open.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            Some(file) => client.close(turn, CALLER, file, None, done),
            None => done(client, turn, Ok(())),
        }
    })
}
