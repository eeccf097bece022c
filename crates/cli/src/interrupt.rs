//! SIGINT and SIGTERM during a run: it ends early and cleans up.

use std::cell::Cell;

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

    /// # Errors
    /// [`Failure::Interrupted`] once a signal has arrived.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.signals.take().terminate {
            self.came.set(true);
        }
        if self.came.get() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}
