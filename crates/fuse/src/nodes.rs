//! The files that the kernel knows: node numbers, and how often each was looked up.

use std::collections::BTreeMap;

use lustrine_client::Attr;
use lustrine_fswire::fid::Fid;

use crate::failed_writes::KnownSize;

/// The node number of the root, which the kernel defines.
pub(crate) const ROOT: u64 = 1;

/// What is known of a file that the kernel knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its FID.
    pub(crate) fid: Fid,
    /// Its group when its attributes were last seen.
    pub(crate) gid: u32,
    /// Its type and permissions at that time.
    pub(crate) mode: u32,
    /// The modification time that a program has set since the last write, in seconds since 1970.
    pub(crate) set_mtime: Option<i64>,
    /// Whether the kernel has read pages of it for a mapping.
    is_mapped: bool,
    /// Up to where this mount knows who has written it.
    size: KnownSize,
    /// References of the kernel, which it gives back with FORGET.
    lookups: u64,
}

impl Node {
    /// Notes the attributes.
    fn see(&mut self, attr: &Attr) {
        (self.gid, self.mode) = (attr.gid, attr.mode);
    }

    /// The same, if the kernel gets them.
    fn tell(&mut self, attr: &Attr) {
        self.see(attr);
        self.size.replied(attr.size.unwrap_or(0));
    }
}

/// The files that the kernel knows. The kernel bounds it: it forgets what it needs no more.
#[derive(Debug)]
pub(crate) struct Nodes {
    by_number: BTreeMap<u64, Node>,
    by_fid: BTreeMap<Fid, u64>,
}

impl Nodes {
    /// The root alone.
    pub(crate) fn new(root: Fid) -> Nodes {
        let node = Node {
            fid: root,
            gid: 0,
            mode: 0o040_755,
            set_mtime: None,
            is_mapped: false,
            size: KnownSize::default(),
            lookups: 1,
        };
        Nodes { by_number: BTreeMap::from([(ROOT, node)]), by_fid: BTreeMap::from([(root, ROOT)]) }
    }

    /// A file by its number.
    pub(crate) fn get(&self, number: u64) -> Option<Node> {
        self.by_number.get(&number).copied()
    }

    /// The number of a file that the kernel gets a reference to.
    ///
    /// It is the inode number that kernel clients of Lustre show. Two FIDs can have the same one:
    /// the second file then gets another number as long as the first one is known.
    pub(crate) fn look_up(&mut self, attr: &Attr) -> u64 {
        let number = match self.by_fid.get(&attr.fid) {
            Some(number) => *number,
            None => self.free_number(attr.fid.inode()),
        };
        self.by_fid.insert(attr.fid, number);
        let node = self.by_number.entry(number).or_insert(Node {
            fid: attr.fid,
            gid: attr.gid,
            mode: attr.mode,
            set_mtime: None,
            is_mapped: false,
            size: KnownSize::default(),
            lookups: 0,
        });
        node.lookups = node.lookups.saturating_add(1);
        node.tell(attr);
        number
    }

    /// A number that no file has, the wanted one if possible. 0 is no number in FUSE.
    fn free_number(&self, wanted: u64) -> u64 {
        let mut number = wanted;
        while number <= ROOT || self.by_number.contains_key(&number) {
            // An odd step visits all numbers.
            number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        }
        number
    }

    /// What is known of a file, if the kernel knows it.
    fn of(&mut self, fid: Fid) -> Option<&mut Node> {
        let number = self.by_fid.get(&fid)?;
        self.by_number.get_mut(number)
    }

    /// Notes the attributes of a file, if the kernel knows it.
    pub(crate) fn seen(&mut self, attr: &Attr) {
        if let Some(node) = self.of(attr.fid) {
            node.see(attr);
        }
    }

    /// The same for attributes that the kernel gets, the size among them.
    pub(crate) fn replied(&mut self, attr: &Attr) {
        if let Some(node) = self.of(attr.fid) {
            node.tell(attr);
        }
    }

    /// Notes that a range of a file was written through this mount.
    pub(crate) fn written(&mut self, fid: Fid, (start, len): (u64, u64)) {
        if let Some(node) = self.of(fid) {
            node.size.written(start, start.saturating_add(len));
        }
    }

    /// Up to where this mount knows who has written a file, if the kernel knows it.
    pub(crate) fn known_size(&self, fid: Fid) -> Option<KnownSize> {
        self.number_of(fid).and_then(|number| self.get(number)).map(|node| node.size)
    }

    /// Notes the modification time that a program has set, or, with none, that the file is
    /// written.
    pub(crate) fn set_mtime(&mut self, fid: Fid, mtime: Option<i64>) {
        if let Some(node) = self.of(fid) {
            node.set_mtime = mtime;
        }
    }

    /// Notes whether the kernel can hold pages of a file that is mapped.
    pub(crate) fn set_mapped(&mut self, fid: Fid, is_mapped: bool) {
        if let Some(node) = self.of(fid) {
            node.is_mapped = is_mapped;
        }
    }

    /// Whether the kernel can hold pages of a file that is mapped.
    pub(crate) fn is_mapped(&self, fid: Fid) -> bool {
        self.number_of(fid).and_then(|number| self.get(number)).is_some_and(|node| node.is_mapped)
    }

    /// The number by which the kernel knows a file, if it does.
    pub(crate) fn number_of(&self, fid: Fid) -> Option<u64> {
        self.by_fid.get(&fid).copied()
    }

    /// The inode number that programs see in attributes: the number of the node, but for the root,
    /// whose node number FUSE defines.
    pub(crate) fn shown_number(&self, fid: Fid) -> u64 {
        self.number_of(fid).filter(|number| *number != ROOT).unwrap_or(fid.inode())
    }

    /// The modification time that a program has set since the last write.
    pub(crate) fn mtime_set(&self, fid: Fid) -> Option<i64> {
        self.by_fid.get(&fid).and_then(|number| self.get(*number)).and_then(|node| node.set_mtime)
    }

    /// The kernel gives references back. A file without references is forgotten; the root never.
    /// The outcome is one that has references left: the kernel had forgotten it, and has looked it
    /// up again before that was known here.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) -> Option<Fid> {
        if number == ROOT {
            return None;
        }
        let node = self.by_number.get_mut(&number)?;
        node.lookups = node.lookups.saturating_sub(lookups);
        let fid = node.fid;
        if node.lookups > 0 {
            return Some(fid);
        }
        self.by_number.remove(&number);
        self.by_fid.remove(&fid);
        None
    }

    /// How many files the kernel knows.
    #[cfg(test)]
    fn len(&self) -> usize {
        assert_eq!(self.by_number.len(), self.by_fid.len());
        self.by_number.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(fid: Fid) -> Attr {
        Attr { fid, gid: 7, mode: 0o100_644, ..Attr::default() }
    }

    #[test]
    fn a_file_has_the_number_that_kernel_clients_show_until_it_is_forgotten() {
        let mut nodes = Nodes::new(Fid::ROOT);
        let fid = Fid::new(0x2_0000_0401, 5);
        let number = nodes.look_up(&attr(fid));
        assert_eq!(number, fid.inode());
        assert_eq!(nodes.look_up(&attr(fid)), number);
        assert_eq!(nodes.get(number).map(|node| (node.fid, node.gid)), Some((fid, 7)));
        assert_eq!(nodes.forget(number, 1), Some(fid));
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes.forget(number, 1), None);
        assert_eq!((nodes.len(), nodes.get(number)), (1, None));
        // What is not known is forgotten without harm.
        assert_eq!((nodes.forget(number, 1), nodes.forget(ROOT, u64::MAX)), (None, None));
        assert_eq!(nodes.get(ROOT).map(|node| node.fid), Some(Fid::ROOT));
    }

    #[test]
    fn files_with_the_same_inode_number_are_two_nodes() {
        let mut nodes = Nodes::new(Fid::ROOT);
        // IGIF: the inode number is the sequence, whatever the object id.
        let (first, second) = (Fid::new(12, 1), Fid::new(12, 2));
        let (one, two) = (nodes.look_up(&attr(first)), nodes.look_up(&attr(second)));
        assert_eq!((one, nodes.get(two).map(|node| node.fid)), (12, Some(second)));
        assert_ne!(one, two);
        assert_eq!((nodes.shown_number(first), nodes.shown_number(second)), (one, two));
        nodes.forget(one, 1);
        assert_eq!(nodes.look_up(&attr(second)), two);
    }

    #[test]
    fn no_file_has_the_number_of_the_root_or_none() {
        let mut nodes = Nodes::new(Fid::ROOT);
        for bad in [0, ROOT] {
            assert!(nodes.free_number(bad) > ROOT);
        }
        assert_eq!(nodes.look_up(&attr(Fid::ROOT)), ROOT);
        assert_eq!(nodes.shown_number(Fid::ROOT), Fid::ROOT.inode());
    }

    #[test]
    fn a_time_that_was_set_is_void_after_a_write() {
        let mut nodes = Nodes::new(Fid::ROOT);
        let fid = Fid::new(0x2_0000_0401, 5);
        nodes.look_up(&attr(fid));
        nodes.set_mtime(fid, Some(9));
        assert_eq!(nodes.mtime_set(fid), Some(9));
        nodes.set_mtime(fid, None);
        assert_eq!(nodes.mtime_set(fid), None);
    }
}
