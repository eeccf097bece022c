//! What a metadata target has stored: files, names, and which objects it has given away.

use std::collections::BTreeMap;
use std::sync::Arc;

use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::{LovObject, Pattern};
use lustrine_fswire::mdt::{FileFlags, MdValid, MdtBody};

use crate::layout::{Defaults, FileLayout};
use crate::store::names::{Names, hash};
use crate::store::objects::ObjectStore;
use crate::table::{OrderedTable, Table};

/// A new metadata target.
#[derive(Clone, Debug)]
pub struct MdtArgs {
    /// The name of the file system.
    pub fsname: String,
    /// Its index; files are made on index 0 only, which has the root.
    pub index: u32,
    /// The indexes of the object targets that files are striped over.
    pub osts: Vec<u32>,
    /// Stripes of a file for which nothing else is asked; at least 1.
    pub stripe_count: u16,
    /// Bytes of a stripe: a multiple of 65536.
    pub stripe_size: u32,
    /// When the root is made, in seconds since 1970.
    pub created: i64,
}

/// The type bits of a mode.
pub(crate) const TYPE_MASK: u32 = 0o170_000;
pub(crate) const TYPE_DIRECTORY: u32 = 0o040_000;
pub(crate) const TYPE_REGULAR: u32 = 0o100_000;
pub(crate) const TYPE_SYMLINK: u32 = 0o120_000;

/// A file or a directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) projid: u32,
    /// Names; of a directory its own one, and those of directories in it.
    pub(crate) nlink: u32,
    /// Bytes, as far as the target knows them.
    pub(crate) size: u64,
    /// Units of 512 bytes, as far as the target knows them.
    pub(crate) blocks: u64,
    pub(crate) atime: i64,
    pub(crate) mtime: i64,
    pub(crate) ctime: i64,
    pub(crate) btime: i64,
    pub(crate) rdev: u32,
    pub(crate) flags: FileFlags,
    /// Where a directory is.
    pub(crate) parent: Fid,
    /// The target of a symbolic link.
    pub(crate) link: Arc<[u8]>,
    pub(crate) layout: Option<Arc<FileLayout>>,
    /// What a client has set as the layout of new files in a directory.
    pub(crate) default_layout: Arc<[u8]>,
    pub(crate) xattrs: Arc<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Inode {
    pub(crate) fn is(&self, kind: u32) -> bool {
        self.mode & TYPE_MASK == kind
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.is(TYPE_DIRECTORY)
    }

    pub(crate) fn is_file(&self) -> bool {
        self.is(TYPE_REGULAR)
    }

    /// The attributes as replies have them.
    pub(crate) fn body(&self, fid: Fid) -> MdtBody {
        use MdValid as V;
        let mut valid = V::ID
            | V::ATIME
            | V::MTIME
            | V::CTIME
            | V::MODE
            | V::TYPE
            | V::UID
            | V::GID
            | V::FLAGS
            | V::NLINK
            | V::RDEV
            | V::PROJID
            | V::BTIME;
        // The objects of a file know its size.
        valid |= match self.is_file() && self.layout.is_some() {
            true => V::LAZYSIZE | V::LAZYBLOCKS,
            false => V::SIZE | V::BLOCKS,
        };
        MdtBody {
            fid1: fid,
            valid,
            size: self.size,
            mtime: self.mtime,
            atime: self.atime,
            ctime: self.ctime,
            blocks: self.blocks,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            flags: self.flags,
            rdev: self.rdev,
            nlink: self.nlink,
            layout_gen: self.layout.as_ref().map_or(0, |layout| layout.generation()),
            projid: self.projid,
            btime: self.btime,
            ..MdtBody::default()
        }
    }
}

/// What a metadata target has stored.
#[derive(Clone, Debug)]
pub(crate) struct MdtStore {
    index: u32,
    defaults: Defaults,
    /// In boxes, so that what a search passes is small.
    inodes: OrderedTable<Fid, Box<Inode>>,
    names: Table<Names>,
    /// Files without a name that were open when it was taken away.
    orphans: OrderedTable<Fid, ()>,
    /// Objects that no file has any more, with their targets and the change that took them away:
    /// they are to be destroyed when it is on the disk.
    dead: OrderedTable<Fid, (u32, u64)>,
    /// Data of files that are on this target.
    pub(crate) data: ObjectStore,
    /// What was given away is never given again, also after a crash.
    next_sequence: u64,
    next_object: BTreeMap<u32, u32>,
    next_ost: usize,
}

/// The first sequence of the objects of an object target.
fn object_sequence(ost: u32) -> u64 {
    0x2_4000_0400 + (u64::from(ost) << 30)
}

/// Sequences for clients: those of objects begin behind them.
const SEQUENCES_END: u64 = 0x2_4000_0000;

impl MdtStore {
    pub(crate) fn new(args: &MdtArgs) -> MdtStore {
        assert!(
            args.stripe_count > 0 && args.stripe_size > 0 && args.stripe_size.is_multiple_of(65536),
            "stripes of {} bytes over {} targets",
            args.stripe_size,
            args.stripe_count
        );
        let defaults = Defaults {
            stripe_count: args.stripe_count,
            stripe_size: args.stripe_size,
            osts: args.osts.clone(),
        };
        let mut store = MdtStore {
            index: args.index,
            defaults,
            inodes: OrderedTable::default(),
            names: Table::default(),
            orphans: OrderedTable::default(),
            dead: OrderedTable::default(),
            data: ObjectStore::new(args.index, u64::MAX),
            next_sequence: Fid::SEQ_NORMAL,
            next_object: BTreeMap::new(),
            next_ost: 0,
        };
        let root = Inode {
            mode: TYPE_DIRECTORY | 0o755,
            nlink: 2,
            size: 4096,
            blocks: 8,
            atime: args.created,
            mtime: args.created,
            ctime: args.created,
            btime: args.created,
            parent: Fid::ROOT,
            ..Inode::default()
        };
        store.inodes.set(0, Fid::ROOT, Some(Box::new(root)));
        store.inodes.commit(0);
        store
    }

    /// New files can have objects on one more object target.
    pub(crate) fn add_ost(&mut self, index: u32) {
        if !self.defaults.osts.contains(&index) {
            self.defaults.osts.push(index);
        }
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    pub(crate) fn files(&self) -> u64 {
        self.inodes.len() as u64
    }

    pub(crate) fn get(&self, fid: Fid) -> Option<&Inode> {
        self.inodes.get(&fid).map(Box::as_ref)
    }

    pub(crate) fn put(&mut self, step: u64, fid: Fid, inode: Inode) {
        self.inodes.set(step, fid, Some(Box::new(inode)));
    }

    /// Changes a file, if it is there. What `change` returns.
    pub(crate) fn change<T>(
        &mut self,
        step: u64,
        fid: Fid,
        change: impl FnOnce(&mut Inode) -> T,
    ) -> Option<T> {
        self.inodes.change(step, fid, |inode| change(inode))
    }

    pub(crate) fn remove(&mut self, step: u64, fid: Fid) {
        self.inodes.set(step, fid, None);
        self.orphans.set(step, fid, None);
    }

    pub(crate) fn lookup(&self, dir: Fid, name: &[u8]) -> Option<Fid> {
        self.names.rows().get(dir, name)
    }

    pub(crate) fn link(&mut self, step: u64, dir: Fid, name: &[u8], fid: Fid) {
        self.names.set(step, (dir, hash(name), name.into()), Some(fid));
    }

    pub(crate) fn unlink(&mut self, step: u64, dir: Fid, name: &[u8]) {
        self.names.set(step, (dir, hash(name), name.into()), None);
    }

    /// Whether a directory has no names.
    pub(crate) fn is_empty_dir(&self, dir: Fid) -> bool {
        self.names.rows().is_empty_dir(dir)
    }

    /// The names of a directory from a hash on, in the order of hashes.
    pub(crate) fn names_from(
        &self,
        dir: Fid,
        from: u64,
    ) -> impl Iterator<Item = (u64, &[u8], Fid)> {
        self.names.rows().from(dir, from)
    }

    /// A file has no name any more, and is open.
    pub(crate) fn orphan(&mut self, step: u64, fid: Fid) {
        self.orphans.set(step, fid, Some(()));
    }

    pub(crate) fn orphans(&self) -> impl Iterator<Item = Fid> {
        self.orphans.iter().map(|(fid, ())| *fid)
    }

    /// A file is gone: its objects are to be destroyed.
    pub(crate) fn bury(&mut self, step: u64, fid: Fid) {
        let layout = self.get(fid).and_then(|inode| inode.layout.clone());
        for object in layout.iter().flat_map(|layout| layout.objects()) {
            self.dead.set(step, object.oi, Some((object.index, step)));
        }
        if layout.is_some_and(|layout| layout.on_mdt().is_some()) {
            self.data.destroy(step, fid);
        }
        self.remove(step, fid);
    }

    /// Objects that are to be destroyed, with their targets: those that were taken away by a change
    /// up to `committed`.
    pub(crate) fn dead(&self, committed: u64) -> impl Iterator<Item = (Fid, u32)> {
        let gone = self.dead.iter().filter(move |(_, (_, step))| *step <= committed);
        gone.map(|(fid, (ost, _))| (*fid, *ost))
    }

    /// Whether an object is one of these.
    pub(crate) fn is_dead(&self, oi: Fid, committed: u64) -> bool {
        self.dead.get(&oi).is_some_and(|(_, step)| *step <= committed)
    }

    /// An object was destroyed.
    pub(crate) fn destroyed(&mut self, step: u64, oi: Fid) {
        self.dead.set(step, oi, None);
    }

    /// A sequence for a client; none if there is none left.
    pub(crate) fn take_sequence(&mut self) -> Option<u64> {
        (self.next_sequence < SEQUENCES_END).then(|| {
            self.next_sequence += 1;
            self.next_sequence - 1
        })
    }

    /// Objects for the stripes of a component: new ones, over the targets in turn.
    pub(crate) fn take_objects(&mut self, count: u16, pattern: Pattern) -> Vec<LovObject> {
        let osts = &self.defaults.osts;
        let most = match pattern {
            Pattern::OVERSTRIPED => usize::from(count),
            _ => osts.len(),
        };
        let count = usize::from(count.max(1)).min(most);
        let mut objects = Vec::new();
        for _ in 0..count {
            let Some(ost) = osts.get(self.next_ost % osts.len().max(1)).copied() else { break };
            self.next_ost = self.next_ost.wrapping_add(1);
            let next = self.next_object.entry(ost).or_insert(1);
            objects.push(LovObject {
                oi: Fid::new(object_sequence(ost), *next),
                generation: 0,
                index: ost,
            });
            *next = next.saturating_add(1);
        }
        objects
    }

    /// Gives a layout the objects of a range.
    pub(crate) fn make_objects(&mut self, layout: &mut FileLayout, (start, end): (u64, u64)) {
        layout.make(start, end, |count, pattern| self.take_objects(count, pattern));
    }

    pub(crate) fn commit(&mut self, upto: u64) {
        self.inodes.commit(upto);
        self.names.commit(upto);
        self.orphans.commit(upto);
        self.dead.commit(upto);
        self.data.commit(upto);
    }

    pub(crate) fn roll_back(&mut self) {
        self.inodes.roll_back();
        self.names.roll_back();
        self.orphans.roll_back();
        self.dead.roll_back();
        self.data.roll_back();
    }
}
