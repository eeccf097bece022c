//! The page that all callers share, and the thread that collects it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lustrine_sys::Clock;

use super::super::collect::ServerStats;

/// A page is good for so long: the event loops are not asked more often.
const FRESH: Duration = Duration::from_millis(250);
/// How long a caller waits for a page.
const PAGE_TIME: Duration = Duration::from_secs(10);

/// Asks the node for everything; or why that failed.
pub(super) type Collect = dyn Fn(ServerStats) -> Result<String, String> + Send + Sync;

/// Where callers wait for the page. Only one thread collects it, however many do.
pub(super) struct ConnectionPool {
    collect: Box<Collect>,
    started: f64,
    pub(super) answered: AtomicU64,
    pub(super) dropped: AtomicU64,
    state: Mutex<State>,
    /// A page is wanted, or none ever will be.
    waiting: Condvar,
    /// There is another page, or somebody is to go.
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// The last page, or why there was none, and when that was.
    latest: Option<(Instant, Result<Arc<str>, String>)>,
    /// Pages so far.
    number: u64,
    /// Somebody waits for the next one; it may be being collected.
    wanted: bool,
    closed: bool,
}

/// Somebody who is served.
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

    /// A page that is not old; whoever comes while one is collected gets that one.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn page(&self, client: &Client) -> Result<Arc<str>, String> {
        let deadline = Instant::now() + PAGE_TIME;
        let mut state = self.state();
        let before = state.number;
        loop {
            if client.gave_way.load(Ordering::Relaxed) {
                return Err("gave way to another caller".to_owned());
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

    /// Collects pages while they are wanted, until the pool is closed.
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

    /// A client does not wait any longer.
    pub(super) fn show_out(&self, client: &Client) {
        // Under the lock: it sees this before it waits, or is waiting.
        let _state = self.state();
        client.gave_way.store(true, Ordering::Relaxed);
        self.news.notify_all();
    }

    /// No more pages.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.waiting.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
