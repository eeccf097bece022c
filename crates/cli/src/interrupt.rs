//! SIGINT, SIGTERM and SIGHUP during a run: it ends early and cleans up. Without the last one, a
//! run would go on sending load after its terminal is gone; `nohup` keeps it running.

use std::cell::Cell;
use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use lustrine_sys::{Pending, Signals};

use crate::output::{Failure, print_error};

/// Remembers whether a signal asked the program to stop.
pub(crate) struct Interrupt {
    signals: Signals,
    /// When the first one was seen.
    came: Cell<Option<Instant>>,
    came_again: Cell<bool>,
}

/// A signal this soon after another one belongs to it: shells, terminals and
/// timeout(1) send several at once.
const SAME_REQUEST: Duration = Duration::from_secs(1);

impl Interrupt {
    /// Installs the handler; from now on these signals do not end the process.
    ///
    /// # Errors
    /// When the handler cannot be installed.
    pub(crate) fn catch() -> Result<Interrupt, Failure> {
        let signals =
            Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
        Ok(Interrupt { signals, came: Cell::new(None), came_again: Cell::new(false) })
    }

    /// Set once a signal has arrived, until [`check`](Interrupt::check) has returned it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.signals.terminate_flag()
    }

    /// # Errors
    /// [`Failure::Interrupted`] once a signal has arrived.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let pending = self.signals.take();
        match self.came.get() {
            None if pending.terminate || pending.hangup => self.came.set(Some(Instant::now())),
            // SIGHUP says that the terminal is gone, not that the user presses Ctrl-C again.
            Some(first) if pending.terminate && first.elapsed() >= SAME_REQUEST => {
                self.came_again.set(true);
            }
            _ => {}
        }
        if self.came.get().is_some() { Err(Failure::Interrupted) } else { Ok(()) }
    }

    /// # Errors
    /// [`Failure::Interrupted`] once another signal than SIGHUP has arrived a second after the
    /// first one was seen.
    pub(crate) fn check_again(&self) -> Result<(), Failure> {
        // It takes in what has arrived.
        let _ = self.check();
        if self.came_again.get() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// How long the work may take to clean up after a signal.
const GRACE: Duration = Duration::from_secs(10);
/// How long the thread waits at a time.
const LONG: Duration = Duration::from_secs(3600);
/// The exit status that the first signal asks for; 0 before it.
static ASKED: AtomicU8 = AtomicU8::new(0);

/// From now on the work ends at a signal by itself, as it calls [`asked`], and removes what is not
/// complete. Another signal, a second later, ends the process at once, and so does the end of ten
/// seconds; `left` says what may be left then.
///
/// # Errors
/// When the handler cannot be installed.
pub(crate) fn clean_up_first(left: &'static str) -> Result<(), Failure> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        let failed = |error| format!("cannot catch signals: {error}");
        let signals = Signals::install().map_err(failed)?;
        let thread = thread::Builder::new().name("signals".to_owned());
        thread.spawn(move || wait_for_signals(&signals, left)).map(drop).map_err(failed)
    });
    started.clone().map_err(Failure::Failed)
}

/// From now on a signal ends the process after `cleanup`; another one, a second later, ends it at
/// once.
///
/// # Errors
/// When the handler cannot be installed.
pub(crate) fn end_after(cleanup: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let failed = |error| Failure::Failed(format!("cannot catch signals: {error}"));
    let signals = Signals::install().map_err(failed)?;
    let thread = thread::Builder::new().name("signals".to_owned());
    let wait = move || {
        let status = next_status(&signals);
        let first = Instant::now();
        let cleaning = thread::Builder::new().name("cleanup".to_owned()).spawn(move || {
            // What fails because of the cleanup is not reported.
            let _quiet = io::stderr().lock();
            cleanup();
            process::exit(status.into());
        });
        if cleaning.is_err() {
            process::exit(status.into());
        }
        loop {
            let again = next_status(&signals);
            if first.elapsed() >= SAME_REQUEST {
                process::exit(again.into());
            }
        }
    };
    thread.spawn(wait).map(drop).map_err(failed)
}

/// Waits for a signal: the exit status that it asks for.
fn next_status(signals: &Signals) -> u8 {
    loop {
        signals.wait(LONG);
        if let Some(status) = status_of(signals.take()) {
            return status;
        }
    }
}

/// The exit status by which shells know a signal.
fn status_of(pending: Pending) -> Option<u8> {
    match pending {
        Pending { interrupt: true, .. } => Some(130),
        Pending { terminate: true, .. } => Some(143),
        Pending { hangup: true, .. } => Some(129),
        _ => None,
    }
}

/// # Errors
/// [`Failure::Interrupted`] once a signal has arrived.
pub(crate) fn asked() -> Result<(), Failure> {
    match ASKED.load(Ordering::SeqCst) {
        0 => Ok(()),
        _ => Err(Failure::Interrupted),
    }
}

/// What is to be reported at the end of work that a signal has ended: shells know the signal by the
/// exit status.
pub(crate) fn ended(failure: Failure) -> Failure {
    match (failure, ASKED.load(Ordering::SeqCst)) {
        (Failure::Interrupted, status @ 1..) => {
            print_error("interrupted");
            Failure::Reported(status)
        }
        (failure, _) => failure,
    }
}

fn wait_for_signals(signals: &Signals, left: &str) {
    let mut first: Option<Instant> = None;
    loop {
        let end = first.map(|first| first + GRACE);
        signals.wait(end.map_or(LONG, |end| end.saturating_duration_since(Instant::now())));
        match (status_of(signals.take()), first) {
            (Some(status), None) => {
                ASKED.store(status, Ordering::SeqCst);
                first = Some(Instant::now());
            }
            (Some(_), Some(first)) if first.elapsed() >= SAME_REQUEST => break,
            (_, Some(first)) if first.elapsed() >= GRACE => break,
            _ => {}
        }
    }
    print_error(&format!("interrupted; {left}"));
    process::exit(ASKED.load(Ordering::SeqCst).into());
}
