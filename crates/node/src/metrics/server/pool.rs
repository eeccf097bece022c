//! The page that all callers share, and the thread that collects it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lustrine_sys::Clock;

use super::super::collect::ServerStats;

/// How long a page is valid: the event loops are not queried more often.
const FRESH: Duration = Duration::from_millis(250);
/// How long a caller waits for a page.
const PAGE_TIME: Duration = Duration::from_secs(10);

/// Collects a page from the node, or returns why that failed.
pub(super) type Collect = dyn Fn(ServerStats) -> Result<String, String> + Send + Sync;

/// Callers wait here for the page. Only one thread collects it for all of them.
pub(super) struct ConnectionPool {
    collect: Box<Collect>,
    started: f64,
    pub(super) answered: AtomicU64,
    pub(super) dropped: AtomicU64,
    state: Mutex<State>,
    /// A page is requested, or no more will be.
    waiting: Condvar,
    /// There is a new page, or a caller must leave.
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// The last page, or why there was none, and its time.
    latest: Option<(Instant, Result<Arc<str>, String>)>,
    /// Number of pages so far.
    number: u64,
    /// Callers wait for the next one, which may be in progress.
    wanted: bool,
    closed: bool,
}

/// A caller that is being served.
#[derive(Default)]
pub(super) struct Client {
    gave_way: AtomicBool,
}

impl ConnectionPool {
    pub(super) fn new(collect: Box<Collect>) -> ConnectionPool {
        ConnectionPool {
            collect,
            started: Clock::Wall.now() as f64 / 1e9,
            answered: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            state: Mutex::default(),
            waiting: Condvar::new(),
            news: Condvar::new(),
        }
    }

    /// A recent page; a caller that arrives during a collection gets its result.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn page(&self, client: &Client) -> Result<Arc<str>, String> {
        let deadline = Instant::now() + PAGE_TIME;
        let mut state = self.state();
        let before = state.number;
        loop {
            if client.gave_way.load(Ordering::Relaxed) {
                return Err("evicted for another caller".to_owned());
            }
            if let Some((collected, page)) = &state.latest
                && (state.number != before || collected.elapsed() < FRESH)
            {
                return page.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(format!("the node has not answered for {} s", PAGE_TIME.as_secs()));
            }
            state.wanted = true;
            self.waiting.notify_one();
            let woken = self.news.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Collects pages on request, until the pool is closed.
    pub(super) fn collect_pages(&self) {
        let mut state = self.state();
        loop {
            if state.closed {
                return;
            }
            if !state.wanted {
                state = self.waiting.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(state);
            let page = (self.collect)(ServerStats {
                started: self.started,
                answered: self.answered.load(Ordering::Relaxed),
                dropped: self.dropped.load(Ordering::Relaxed),
            });
            state = self.state();
            state.latest = Some((Instant::now(), page.map(Into::into)));
            state.number += 1;
            state.wanted = false;
            self.news.notify_all();
        }
    }

    /// A caller does not wait any longer.
    pub(super) fn show_out(&self, client: &Client) {
        // Under the lock: the caller sees this before it waits, or is waiting.
        let _state = self.state();
        client.gave_way.store(true, Ordering::Relaxed);
        self.news.notify_all();
    }

    /// No more pages will be collected.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.waiting.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
