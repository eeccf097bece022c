//! What a target has stored.

use lustrine_fswire::opcode::Target;
use lustrine_wire::nid::Nid;

use crate::clients::Clients;
use crate::journal::{CommitTunables, Journal};
use crate::mgs::{Filesystem, FsTarget, MgsStore};
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
    /// What clients did against the protocol; no part of a real disk.
    violations: Vec<String>,
}

/// So many violations are kept.
const VIOLATIONS_MAX: usize = 8;

/// A new file system with one metadata target, all of whose targets are on one node.
#[derive(Clone, Debug)]
pub struct FilesystemArgs {
    /// Its name, 1 to 8 characters.
    pub name: String,
    /// The NID of the node.
    pub nid: Nid,
    /// Object targets.
    pub osts: u32,
    /// Bytes of each object target.
    pub capacity: u64,
    /// Stripes of a file for which nothing else is asked; at least 1.
    pub stripe_count: u16,
    /// Bytes of a stripe: a multiple of 65536.
    pub stripe_size: u32,
    /// When the root is made, in seconds since 1970.
    pub created: i64,
}

impl Disk {
    /// The disks of a new file system: of its management server, its metadata target, and its
    /// object targets.
    ///
    /// # Panics
    /// As [`Disk::format`].
    pub fn format_filesystem(args: FilesystemArgs) -> Vec<Disk> {
        let FilesystemArgs { name, nid, osts, capacity, stripe_count, stripe_size, created } = args;
        let target = |kind, index| FsTarget { kind, index, nids: vec![nid] };
        let mut targets = vec![target(Target::Mdt, 0)];
        targets.extend((0..osts).map(|index| target(Target::Ost, index)));
        let mut kinds = vec![
            DiskKind::Mgs(vec![Filesystem { name: name.clone(), targets }]),
            DiskKind::Mdt(MdtArgs {
                fsname: name.clone(),
                index: 0,
                osts: (0..osts).collect(),
                stripe_count,
                stripe_size,
                created,
            }),
        ];
        let ost = |index| DiskKind::Ost(OstArgs { fsname: name.clone(), index, capacity });
        kinds.extend((0..osts).map(ost));
        kinds.into_iter().map(Disk::format).collect()
    }

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
        Disk { name, store, clients: Clients::default(), journal, lives: 0, violations: Vec::new() }
    }

    /// The name of the target.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Notes what a client did against the protocol.
    pub(crate) fn violated(&mut self, what: impl FnOnce() -> String) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(what());
        }
    }

    /// The first few violations of the protocol.
    pub(crate) fn violations(&self) -> &[String] {
        &self.violations
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
