//! What waits for closes of files that are in flight.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_client::{Client, ClientError};
use lustrine_fswire::fid::Fid;
use lustrine_lnet::service::Turn;

use crate::closes::Awaits;
use crate::shared::{OpenedFile, Shared};

/// How often what waits is looked at.
const INTERVAL: Duration = Duration::from_millis(50);

/// A close that is under way, until this is dropped.
pub(crate) struct Close {
    shared: Arc<Shared>,
    key: (Fid, u64),
}

impl Close {
    /// The close of an open file begins. `is_locked` says whether the kernel knows of locks that
    /// end with it.
    pub(crate) fn begin(
        shared: &Arc<Shared>,
        handle: u64,
        file: &OpenedFile,
        is_locked: bool,
    ) -> Close {
        let key = (file.fid, handle);
        let has_locks = is_locked || shared.locks.are_through(file.fid, handle);
        let is_written = file.state().written.is_some();
        shared.closes.begun(key, Instant::now(), (has_locks, is_written));
        Close { shared: Arc::clone(shared), key }
    }
}

impl Drop for Close {
    fn drop(&mut self) {
        let acts = self.shared.closes.ended(self.key);
        acts.into_iter().for_each(|act| self.shared.post(act));
    }
}

/// A modification time that a program sets. Closes that are sent meanwhile repeat it; if it is
/// dropped before it is done, they repeat again what was set before.
pub(crate) struct SettingMtime {
    shared: Arc<Shared>,
    fid: Fid,
    mtime: i64,
    before: Option<i64>,
    is_done: bool,
}

impl SettingMtime {
    pub(crate) fn begin(shared: &Arc<Shared>, fid: Fid, mtime: i64) -> SettingMtime {
        let before = {
            let mut nodes = shared.nodes();
            let before = nodes.mtime_set(fid);
            nodes.set_mtime(fid, Some(mtime));
            before
        };
        SettingMtime { shared: Arc::clone(shared), fid, mtime, before, is_done: false }
    }

    /// It is set.
    pub(crate) fn finish(mut self) {
        self.shared.nodes().set_mtime(self.fid, Some(self.mtime));
        self.is_done = true;
    }
}

impl Drop for SettingMtime {
    fn drop(&mut self) {
        let mut nodes = self.shared.nodes();
        if !self.is_done && nodes.mtime_set(self.fid) == Some(self.mtime) {
            nodes.set_mtime(self.fid, self.before);
        }
    }
}

impl Shared {
    /// Has the event loop of the client start an operation after the closes of a file for which it
    /// is to wait.
    pub(crate) fn post_after_closes(
        self: &Arc<Shared>,
        fid: Fid,
        what: Awaits,
        act: impl FnOnce(&mut Client, &mut Turn<'_>) + Send + 'static,
    ) {
        let (ready, is_first) = self.closes.wait(fid, what, Instant::now(), Box::new(act));
        ready.into_iter().for_each(|act| self.post(act));
        if is_first {
            self.watch_closes();
        }
    }

    /// Whether something that has failed may succeed after a close. `awaited` says whether there
    /// was one when it began.
    pub(crate) fn may_succeed(
        &self,
        fid: Fid,
        what: Awaits,
        awaited: bool,
        error: &ClientError,
    ) -> bool {
        const EAGAIN: i32 = 11;
        const ETXTBSY: i32 = 26;
        let of_close = match what {
            Awaits::Locks => error.errno() == EAGAIN,
            Awaits::Opens => error.errno() == ETXTBSY,
            Awaits::Times => false,
        };
        of_close && (awaited || self.closes.are_awaited(fid, what, Instant::now()))
    }

    /// Looks after what waits, until nothing does.
    fn watch_closes(self: &Arc<Shared>) {
        let shared: Weak<Shared> = Arc::downgrade(self);
        let watch = move || {
            while let Some(shared) = shared.upgrade() {
                let Some(acts) = shared.closes.expired(Instant::now()) else { return };
                acts.into_iter().for_each(|act| shared.post(act));
                drop(shared);
                thread::sleep(INTERVAL);
            }
        };
        let started = thread::Builder::new().name("fuse-closes".to_owned()).spawn(watch);
        if started.is_err() {
            self.closes.unwatched().into_iter().for_each(|act| self.post(act));
        }
    }
}
