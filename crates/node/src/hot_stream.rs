//! Which stream is read so often without a report that the poller need not watch it.
//!
//! Each message that arrives at a watched stream costs its sender a call into the poller's queues,
//! some 0.15 us on the loopback. A loop that polls one stream by reading it has no use for these
//! reports. So that none is missed, the stream is watched again before the loop sleeps, and at each
//! look that finds that it was not read since the look before.

use lustrine_socklnd::io::SockId;

/// The poller stops watching a stream at this score: reads that found something without a report,
/// less [`REPORTED`] for each report that was needed.
const ENOUGH: u32 = 64;
const REPORTED: u32 = 4;

/// The stream that brought something last, and how it became known.
#[derive(Debug, Default)]
pub(crate) struct HotStream {
    sock: Option<SockId>,
    score: u32,
    /// It was reported at the last look.
    reported: bool,
    /// Since the last look, or since the poller stopped watching it.
    read: bool,
    unwatched: bool,
    /// Reports are needed for more than what it brings.
    needed: bool,
}

impl HotStream {
    /// A stream was read; `found` says whether anything came. Returns whether the poller should
    /// stop watching it: [`HotStream::unwatched`] says that this was done.
    #[inline]
    pub(crate) fn on_read(&mut self, sock: SockId, found: bool) -> bool {
        if self.sock != Some(sock) {
            if found && !self.unwatched {
                *self = HotStream { sock: Some(sock), ..HotStream::default() };
            }
            return false;
        }
        self.read = true;
        if !found || self.reported || self.unwatched {
            return false;
        }
        self.score += 1;
        self.score >= ENOUGH
    }

    /// A stream was reported readable.
    #[inline]
    pub(crate) fn on_report(&mut self, sock: SockId) {
        if self.sock == Some(sock) {
            self.reported = true;
            self.score = self.score.saturating_sub(REPORTED);
        }
    }

    /// The poller does not watch the stream any more.
    pub(crate) fn unwatched(&mut self) {
        self.unwatched = true;
    }

    /// Whether the poller does not watch this stream.
    #[inline]
    pub(crate) fn is_unwatched(&self, sock: SockId) -> bool {
        self.unwatched && self.sock == Some(sock)
    }

    /// The reports of a stream are needed: it waits for room to write, or for the end of a
    /// zero-copy write.
    #[cold]
    pub(crate) fn needs_reports(&mut self, sock: SockId) {
        self.needed |= self.is_unwatched(sock);
    }

    /// The poller is about to be asked. Returns the stream that it must watch again first.
    #[inline]
    pub(crate) fn on_look(&mut self, sleeps: bool) -> Option<SockId> {
        self.reported = false;
        let read = std::mem::replace(&mut self.read, false);
        if self.unwatched && (sleeps || !read || self.needed) { self.take() } else { None }
    }

    /// Forgets the stream. Returns it if the poller does not watch it.
    pub(crate) fn take(&mut self) -> Option<SockId> {
        let HotStream { sock, unwatched, .. } = std::mem::take(self);
        sock.filter(|_| unwatched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SockId = SockId(1);
    const OTHER: SockId = SockId(2);

    /// A stream that is read without reports for as long as it takes.
    fn unwatched() -> HotStream {
        let mut hot = HotStream::default();
        let reads = (1..1000).find(|_| {
            assert_eq!(hot.on_look(false), None);
            hot.on_read(ONE, true)
        });
        // The first read only says which stream it is.
        assert_eq!(reads, Some(ENOUGH + 1));
        hot.unwatched();
        hot
    }

    #[test]
    fn a_stream_that_is_always_found_by_reading_is_not_watched() {
        let mut hot = unwatched();
        assert!(hot.is_unwatched(ONE) && !hot.is_unwatched(OTHER));
        for _ in 0..1000 {
            assert!(!hot.on_read(ONE, true));
            assert_eq!(hot.on_look(false), None);
        }
    }

    #[test]
    fn a_stream_that_was_not_read_since_the_last_look_is_watched_again() {
        let mut hot = unwatched();
        let _ = hot.on_read(ONE, false);
        assert_eq!(hot.on_look(false), None);
        let _ = hot.on_read(OTHER, true);
        assert_eq!(hot.on_look(false), Some(ONE));
        assert!(!hot.is_unwatched(ONE));
        assert_eq!(hot.on_look(true), None);
    }

    #[test]
    fn a_loop_that_sleeps_watches_all() {
        let mut hot = unwatched();
        let _ = hot.on_read(ONE, true);
        assert_eq!(hot.on_look(true), Some(ONE));
    }

    #[test]
    fn a_stream_that_waits_for_room_to_write_is_watched_again() {
        let mut hot = unwatched();
        hot.needs_reports(OTHER);
        let _ = hot.on_read(ONE, true);
        assert_eq!(hot.on_look(false), None);
        hot.needs_reports(ONE);
        let _ = hot.on_read(ONE, true);
        assert_eq!(hot.on_look(false), Some(ONE));
    }

    #[test]
    fn a_stream_that_is_mostly_reported_stays_watched() {
        let mut hot = HotStream::default();
        for _ in 0..1000 {
            // Two reads by themselves, then a report and what it leads to.
            assert!(!hot.on_read(ONE, true) && !hot.on_read(ONE, true));
            assert_eq!(hot.on_look(false), None);
            hot.on_report(ONE);
            assert!(!hot.on_read(ONE, true) && !hot.on_read(ONE, true));
            assert_eq!(hot.on_look(false), None);
        }
    }

    #[test]
    fn streams_that_take_turns_stay_watched() {
        let mut hot = HotStream::default();
        for _ in 0..1000 {
            assert!(!hot.on_read(ONE, true) && !hot.on_read(OTHER, true));
            assert!(!hot.on_read(ONE, false));
        }
    }
}
