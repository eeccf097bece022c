//! What the kernel asks for after a write that has failed: that the file is cut.
//!
//! A write through libaio or io_uring with O_DIRECT that fails, and that would have made the file
//! larger, makes Linux set the size that it knows. That size can be older than what another client
//! has written behind it, and the request looks like that of ftruncate(2).

use std::time::{Duration, Instant};

use fuser::{Errno, ReplyAttr};
use lustrine_client::{Attr, Caller, Changes, Done};
use lustrine_fswire::fid::Fid;

use crate::reply::Asked;
use crate::server::Server;

/// How long after the answer to a write the kernel's request may come. It follows at once, unless
/// the machine has no time for the thread.
const SOON: Duration = Duration::from_secs(10);

/// When a write with O_DIRECT through an open file has failed last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FailedWrite(Option<Instant>);

impl FailedWrite {
    /// A write is about to be answered with an error.
    pub(crate) fn note(&mut self, now: Instant) {
        self.0 = Some(now);
    }

    /// Whether a request that sets the size may be the kernel's own. There is one for each write at
    /// most, so the next one is that of a program.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.0.take().is_some_and(|failed| now.saturating_duration_since(failed) < SOON)
    }
}

/// The size of a file up to which this mount knows who has written it: what the kernel was told,
/// and what programs have added to that through this mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownSize(u64);

impl KnownSize {
    /// The kernel is told that the file has this size.
    pub(crate) fn told(&mut self, size: u64) {
        self.0 = size;
    }

    /// A range was written through this mount. Behind a gap it does not count: another client may
    /// have filled that.
    pub(crate) fn written(&mut self, start: u64, end: u64) {
        if start <= self.0 {
            self.0 = self.0.max(end);
        }
    }

    /// Whether a file of this size now may get a size that the kernel has asked for: not if others
    /// have made it longer since, nor if they have cut it and this would undo that.
    fn allows(self, now: u64, wanted: u64) -> bool {
        let is_cut_by_others = now < wanted && wanted <= self.0;
        now <= self.0 && !is_cut_by_others
    }
}

impl Server {
    /// Sets the size of a file after a write to it has failed, unless other clients have changed
    /// the size: they would lose what they have written. The kernel ignores the error that it gets
    /// then. A program whose ftruncate(2) was taken for the kernel's request can repeat it.
    ///
    /// What another client writes between the question and the cut is lost all the same.
    pub(crate) fn cut_after_failure(
        &self,
        asked: Asked<ReplyAttr>,
        (caller, fid): (Caller, Fid),
        (size, changes): (u64, Changes),
        done: impl FnOnce(Asked<ReplyAttr>) -> Done<Attr> + Send + 'static,
    ) {
        self.shared.post(move |client, turn| {
            if asked.is_interrupted() {
                return;
            }
            let then = asked.done(move |asked, client, turn, attr: Attr| {
                let whole = asked.done(move |asked, client, turn, attr: Attr| {
                    let known = asked.shared.nodes().known_size(fid).unwrap_or_default();
                    match known.allows(attr.size.unwrap_or(0), size) {
                        true => client.set_attributes(turn, caller, fid, changes, done(asked)),
                        false => asked.fail(Errno::EINTR),
                    }
                });
                client.complete(turn, caller, attr, whole);
            });
            client.getattr(turn, caller, fid, then);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_explains_one_request_that_comes_soon() {
        let mut failed = FailedWrite::default();
        let now = Instant::now();
        assert!(!failed.take(now));
        failed.note(now);
        assert!(failed.take(now + SOON / 2));
        assert!(!failed.take(now + SOON / 2), "the next one is that of a program");
        failed.note(now);
        assert!(!failed.take(now + SOON));
    }

    #[test]
    fn what_others_have_written_is_not_cut() {
        let mut known = KnownSize::default();
        known.told(100);
        assert!(known.allows(100, 100));
        assert!(!known.allows(101, 100), "another client has appended");
        known.written(100, 150);
        known.written(120, 130);
        assert!(known.allows(150, 100), "the rest of a write that failed");
        known.written(180, 200);
        assert!(!known.allows(200, 100), "others may have written in the gap");
        known.told(200);
        assert!(known.allows(200, 0), "a program knows what it cuts");
    }

    #[test]
    fn what_others_have_cut_is_not_made_longer() {
        let mut known = KnownSize::default();
        known.told(100);
        assert!(!known.allows(50, 100));
        // A program makes it longer than it ever was.
        assert!(known.allows(50, 101));
    }
}
