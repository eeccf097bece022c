//! A file's contents, checked in memory.
//!
//! redb trusts its files: for some damage it ends the thread by an assertion. So the check has a
//! thread of its own, on a copy, and what it meets there is an error here.

use std::panic;
use std::sync::{Mutex, PoisonError};
use std::thread;

use redb::backends::InMemoryBackend;
use redb::{Builder, Database, StorageBackend};

use crate::contents::Contents;
use crate::error::Wrong;

/// The first bytes of every database of redb.
const MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

/// Checks all of a file: `bytes` are its contents.
pub(crate) fn check(bytes: Vec<u8>) -> Result<Contents, Wrong> {
    checked(bytes, |database| {
        let mut contents = Contents::read(database)?;
        contents.read_states(database)?;
        Ok(contents)
    })
}

/// The same without the detectors, which a report does not need.
pub(crate) fn check_history(bytes: Vec<u8>) -> Result<Contents, Wrong> {
    checked(bytes, Contents::read)
}

fn checked(
    bytes: Vec<u8>,
    read: fn(&Database) -> Result<Contents, Wrong>,
) -> Result<Contents, Wrong> {
    if bytes.is_empty() {
        return Err(Wrong::Foreign("it is empty".to_owned()));
    }
    if !bytes.starts_with(&MAGIC) {
        return Err(Wrong::Foreign("it does not begin as a database of redb does".to_owned()));
    }
    let outcome = quietly(move || {
        let mut database = in_memory(&bytes)?;
        drop(bytes);
        // A file that was not closed was checked when it was opened, which mends it.
        database.check_integrity().map_err(|error| error.to_string())?;
        Ok(read(&database))
    });
    match outcome {
        Some(Ok(contents)) => contents,
        Some(Err(why)) => Err(Wrong::Damaged(why)),
        None => Err(Wrong::Damaged("its pages contradict each other".to_owned())),
    }
}

fn in_memory(bytes: &[u8]) -> Result<Database, String> {
    let backend = InMemoryBackend::new();
    backend.set_len(bytes.len() as u64).map_err(|error| error.to_string())?;
    backend.write(0, bytes).map_err(|error| error.to_string())?;
    Builder::new()
        .set_cache_size(CACHE)
        .create_with_backend(backend)
        .map_err(|error| error.to_string())
}

/// Bytes of pages that redb keeps in memory.
pub(crate) const CACHE: usize = 4 << 20;

/// Runs something in a thread; `None` if it panics, of which nothing is printed.
fn quietly<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    /// The hook is the process's.
    static HOOK: Mutex<()> = Mutex::new(());
    const NAME: &str = "lustrine-check";
    let _held = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::sync::Arc::new(panic::take_hook());
    let others = std::sync::Arc::clone(&before);
    panic::set_hook(Box::new(move |panicked| {
        if thread::current().name() != Some(NAME) {
            others(panicked);
        }
    }));
    let started = thread::Builder::new().name(NAME.to_owned()).spawn(run);
    let outcome = started.ok().and_then(|thread| thread.join().ok());
    drop(panic::take_hook());
    if let Some(before) = std::sync::Arc::into_inner(before) {
        panic::set_hook(before);
    }
    outcome
}
