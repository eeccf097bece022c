//! SIGINT and SIGTERM during a run: it ends early, and in good order.

use std::cell::Cell;

use lustrine_sys::Signals;

use crate::common::Failure;

/// Why a run, or a row of it, ended without a result.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// It failed.
    Failed(Failure),
    /// A signal told us to stop.
    Interrupted,
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Broken {
        Broken::Failed(failure)
    }
}

/// Remembers whether a signal told us to stop.
pub(super) struct Interrupt {
    signals: Signals,
    came: Cell<bool>,
}

impl Interrupt {
    /// From now on signals do not end the process.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn catch() -> Result<Interrupt, Failure> {
        let signals = Signals::catch().map_err(|error| format!("cannot catch signals: {error}"))?;
        Ok(Interrupt { signals, came: Cell::new(false) })
    }

    /// # Errors
    /// [`Broken::Interrupted`] once a signal has come.
    pub(super) fn check(&self) -> Result<(), Broken> {
        if self.signals.take().terminate {
            self.came.set(true);
        }
        if self.came.get() { Err(Broken::Interrupted) } else { Ok(()) }
    }
}
