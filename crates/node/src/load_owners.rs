//! Which selftest load each event loop of a node has.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which load each event loop has. An event loop replaces a load that is finished, so that the
/// owner of the old one must no longer reach it.
#[derive(Default)]
pub(crate) struct LoadOwners(Mutex<OwnersState>);

#[derive(Default)]
pub(crate) struct OwnersState {
    /// Number of loads so far.
    pub(crate) count: u64,
    /// The number of the latest load of each loop.
    pub(crate) latest: HashMap<usize, u64>,
}

impl LoadOwners {
    pub(crate) fn lock(&self) -> MutexGuard<'_, OwnersState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
