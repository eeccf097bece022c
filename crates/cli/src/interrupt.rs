//! SIGINT, SIGTERM and SIGHUP during a run: it ends early and cleans up. Without the last one, a
//! run would go on sending load after its terminal is gone; `nohup` keeps it running.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lustrine_sys::Signals;

use crate::output::Failure;

/// Remembers whether a signal asked the program to stop.
pub(crate) struct Interrupt {
    signals: Signals,
    came: Cell<bool>,
}

impl Interrupt {
    /// Installs the handler; from now on these signals do not end the process.
    ///
    /// # Errors
    /// When the handler cannot be installed.
    pub(crate) fn catch() -> Result<Interrupt, Failure> {
        let signals =
            Signals::install().map_err(|error| format!("cannot catch signals: {error}"))?;
        Ok(Interrupt { signals, came: Cell::new(false) })
    }

    /// Set once a signal has arrived, until [`check`](Interrupt::check) has returned it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.signals.terminate_flag()
    }

    /// # Errors
    /// [`Failure::Interrupted`] once a signal has arrived.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let pending = self.signals.take();
        if pending.terminate || pending.reload {
            self.came.set(true);
        }
        if self.came.get() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}
