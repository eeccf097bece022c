//! What a target has stored.

use crate::clients::Clients;
use crate::journal::{CommitTunables, Journal};
use crate::mgs::Filesystem;
use crate::mgs::MgsStore;
use crate::store::{MdtArgs, MdtStore, ObjectStore, OstArgs};

/// What a target is.
#[derive(Clone, Debug)]
pub enum DiskKind {
    /// The management server, with the file systems that it configures.
    Mgs(Vec<Filesystem>),
    /// A metadata target of a file system.
    Mdt(MdtArgs),
    /// An object target of a file system.
    Ost(OstArgs),
}

/// What a kind of target has stored.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Mgs(MgsStore),
    Mdt(Box<MdtStore>),
    Ost(ObjectStore),
}

/// The disk of a target. It outlives its server: after a crash it has what was committed.
#[derive(Clone, Debug)]
pub struct Disk {
    /// The name of the target, such as `lustre-OST0000`.
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) clients: Clients,
    pub(crate) journal: Journal,
    /// How often the target was started.
    pub(crate) lives: u64,
}

impl Disk {
    /// A new target.
    ///
    /// # Panics
    /// If the stripes of an [`MdtArgs`] are such that no file can have them.
    pub fn format(kind: DiskKind) -> Disk {
        let (name, store) = match kind {
            DiskKind::Mgs(filesystems) => {
                ("MGS".to_owned(), Store::Mgs(MgsStore::new(&filesystems)))
            }
            DiskKind::Mdt(args) => {
                let name = format!("{}-MDT{:04x}", args.fsname, args.index);
                (name, Store::Mdt(Box::new(MdtStore::new(&args))))
            }
            DiskKind::Ost(args) => {
                let name = format!("{}-OST{:04x}", args.fsname, args.index);
                (name, Store::Ost(ObjectStore::new(args.index, args.capacity)))
            }
        };
        let journal = Journal::new(CommitTunables::default());
        Disk { name, store, clients: Clients::default(), journal, lives: 0 }
    }

    /// The name of the target.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Everything up to a change is stored.
    pub(crate) fn commit(&mut self, upto: u64) {
        self.clients.commit(upto);
        match &mut self.store {
            Store::Mgs(_) => {}
            Store::Mdt(store) => store.commit(upto),
            Store::Ost(store) => store.commit(upto),
        }
    }

    /// The server is gone: what is not committed is lost.
    pub(crate) fn crash(&mut self) {
        self.clients.roll_back();
        match &mut self.store {
            Store::Mgs(_) => {}
            Store::Mdt(store) => store.roll_back(),
            Store::Ost(store) => store.roll_back(),
        }
    }

    /// A server starts on it.
    pub(crate) fn start(&mut self, tunables: CommitTunables) {
        self.lives += 1;
        self.journal.restart(tunables);
    }
}
