//! Operations on what the client keeps: they ask no server.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use lustrine_client::{Client, ClientError, Done, FileLayout, OpenFile};
use lustrine_fs::{Attr, Fid, FileSystem};
use lustrine_lnet::service::Turn;
use serde_json::{Value, json};

use super::load::{self, Bound, LoadArgs, Operation, Start};
use super::names::{CREATE, ended, looked_up, name};
use super::{CALLER, PATIENCE, mixed};

/// Bytes of each file, and of a read.
const PAGE: u32 = 4096;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptArgs {
    /// Files that are kept.
    pub(crate) files: u64,
    /// Operations in one call into the event loop.
    pub(crate) batch: u64,
    /// How often that is repeated.
    pub(crate) batches: u32,
}

/// A file that is kept.
struct Kept {
    fid: Fid,
    layout: FileLayout,
}

/// Makes files with one page each, has the client keep them, and measures operations on them.
pub(crate) fn run(
    files: &FileSystem,
    args: KeptArgs,
    load: &LoadArgs<'_>,
) -> Result<Vec<Value>, Box<dyn Error>> {
    let count = args.files;
    let dir = files.mkdir(&files.walk("")?, b"kept", 0o755)?;
    let once = LoadArgs { bound: Bound::Count { warm_up: 1, total: count }, ..*load };
    load::run(files, &once, with_a_page(dir.fid))?;
    let kept = looked_up(files, &once, dir.fid, count)?;
    let kept: Arc<[Kept]> = kept
        .into_iter()
        .map(|attr| Ok(Kept { fid: attr.fid, layout: FileLayout::parse(&attr.layout)? }))
        .collect::<Result<_, ClientError>>()?;
    load::run(files, &once, read(Arc::clone(&kept), |number| number))?;
    let (fids, stats, dir_fid) = (Arc::clone(&kept), Arc::clone(&kept), dir.fid);
    let rows: [(&str, Operation); 4] = [
        (
            "kept-getattr",
            Box::new(move |client, turn, number, done| {
                let fid = fids[(mixed(number) % count) as usize].fid;
                client.getattr(turn, CALLER, fid, ended(done));
            }),
        ),
        (
            "kept-lookup",
            Box::new(move |client, turn, number, done| {
                let name = name(mixed(number) % count);
                client.lookup(turn, CALLER, dir_fid, &name, ended(done));
            }),
        ),
        (
            "kept-stat",
            Box::new(move |client, turn, number, done| {
                let fid = stats[(mixed(number) % count) as usize].fid;
                client.stat(turn, CALLER, fid, ended(done));
            }),
        ),
        ("kept-read", read(kept, mixed)),
    ];
    let mut results = Vec::new();
    for (name, operation) in rows {
        results.push(timed(files, name, &args, Arc::from(operation))?);
    }
    results.push(blocking(files, &dir, &args)?);
    Ok(results)
}

/// Makes files and writes a page to each.
fn with_a_page(dir: Fid) -> Operation {
    Box::new(move |client, turn, number, done| {
        let opened: Done<OpenFile> = Box::new(
            move |client: &mut Client, turn: &mut Turn<'_>, open: Result<OpenFile, ClientError>| {
                let open = match open {
                    Ok(open) => open,
                    Err(error) => return done(client, turn, Err(error)),
                };
                let (file, layout) = ((open.attr.fid, open.attr.owner()), open.layout.clone());
                let written: Done<()> = Box::new(
                    move |client: &mut Client, turn: &mut Turn<'_>, written| match written {
                        Ok(()) => client.close(turn, CALLER, open, None, done),
                        Err(error) => done(client, turn, Err(error)),
                    },
                );
                let page = vec![0x5a; PAGE as usize].into();
                client.write(turn, CALLER, file, &layout, (0, page), written);
            },
        );
        client.create(turn, CALLER, dir, &name(number), CREATE, opened);
    })
}

/// Reads the page of a file; `which` says whose, for the number of an operation.
fn read(kept: Arc<[Kept]>, which: fn(u64) -> u64) -> Operation {
    Box::new(move |client, turn, number, done| {
        let Kept { fid, layout } = &kept[(which(number) % kept.len() as u64) as usize];
        client.read(turn, CALLER, *fid, layout, (0, PAGE), ended(done));
    })
}

/// Times operations in the event loop. Each has to be over when it was started.
fn timed(
    files: &FileSystem,
    name: &str,
    args: &KeptArgs,
    operation: Arc<Start>,
) -> Result<Value, Box<dyn Error>> {
    let batch = args.batch;
    let mut times = Vec::new();
    for number in 0..u64::from(args.batches) {
        let (operation, first) = (Arc::clone(&operation), number * batch);
        let (sender, receiver) = mpsc::channel();
        files.post(move |client, turn| {
            let over = Arc::new(AtomicU64::new(0));
            let begin = Instant::now();
            for number in first..first + batch {
                let over = Arc::clone(&over);
                let done: Done<()> = Box::new(move |_, _, outcome| {
                    over.fetch_add(u64::from(outcome.is_ok()), Ordering::Relaxed);
                });
                operation(client, turn, number, done);
            }
            let took = begin.elapsed();
            // The measuring thread may have given up.
            let _ = sender.send((took, over.load(Ordering::Relaxed)));
        })?;
        let (took, over): (Duration, u64) = receiver.recv_timeout(PATIENCE)?;
        if over != batch {
            return Err(format!("{name}: {} of {batch} were not kept", batch - over).into());
        }
        times.push(took.as_secs_f64() * 1e6 / batch as f64);
    }
    times.sort_by(f64::total_cmp);
    Ok(json!({
        "test": name,
        "ops": batch * u64::from(args.batches),
        "us_per_op": times[times.len() / 2],
        "us_min": times[0],
        "us_max": times[times.len() - 1],
    }))
}

/// Times look-ups of a thread that waits for each of them.
fn blocking(files: &FileSystem, dir: &Attr, args: &KeptArgs) -> Result<Value, Box<dyn Error>> {
    let begin = Instant::now();
    for number in 0..args.batch {
        files.look(dir, &name(mixed(number) % args.files))?;
    }
    let each = begin.elapsed().as_secs_f64() * 1e6 / args.batch as f64;
    Ok(json!({"test": "kept-lookup-blocking", "ops": args.batch, "us_per_op": each}))
}
