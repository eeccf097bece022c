//! Which selftest load each event loop of a node has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which load each event loop has. An event loop replaces a load that is finished, so that the
/// owner of the old one must no longer reach it.
#[derive(Default)]
pub(crate) struct LoadOwners(Mutex<OwnersState>);

#[derive(Default)]
struct OwnersState {
    /// Number of loads so far.
    count: u64,
    /// The number of the latest load of each loop.
    latest: HashMap<usize, u64>,
}

impl LoadOwners {
    fn lock(&self) -> MutexGuard<'_, OwnersState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells the loads of one event loop apart. The event loop decides which load it has: its requests
/// carry this value, and those of a load that has been replaced have no effect.
#[derive(Clone)]
pub(crate) struct LoadOwner {
    owners: Arc<LoadOwners>,
    /// The index of the event loop.
    index: usize,
    /// The number among the loads of the node.
    number: u64,
}

impl LoadOwner {
    /// The owner of the next load, on the event loop with this index.
    pub(crate) fn new(owners: &Arc<LoadOwners>, index: usize) -> LoadOwner {
        let mut state = owners.lock();
        state.count += 1;
        LoadOwner { owners: Arc::clone(owners), index, number: state.count }
    }

    /// Makes this the latest load; for the event loop, when it has started the load.
    pub(crate) fn set_latest(&self) {
        self.owners.lock().latest.insert(self.index, self.number);
    }

    /// Whether no other load has taken its place.
    pub(crate) fn is_latest(&self) -> bool {
        self.owners.lock().latest.get(&self.index) == Some(&self.number)
    }
}
