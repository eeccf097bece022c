//! Wait queues: first come, first served, with removal from any place in constant time.
//!
//! The links of all queues of a shard are in one map beside the elements, so that adding and
//! removing an element touch its neighbours only, however long the queue is. A peer that makes
//! thousands of messages wait and then closes its connection must not cost a search for each.

use slotmap::{Key, SecondaryMap};

/// One queue. Its links are in the [`WaitQueues`] that its elements were added through.
#[derive(Debug)]
pub(crate) struct WaitQueue<K> {
    first: K,
    last: K,
    len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Links<K> {
    before: K,
    behind: K,
}

/// The links of all queues; a key is in at most one of them.
#[derive(Debug)]
pub(crate) struct WaitQueues<K: Key> {
    links: SecondaryMap<K, Links<K>>,
    /// Links read or written, for tests of the effort.
    #[cfg(test)]
    pub(crate) touched: core::cell::Cell<u64>,
}

impl<K: Key> Default for WaitQueue<K> {
    fn default() -> WaitQueue<K> {
        WaitQueue { first: K::null(), last: K::null(), len: 0 }
    }
}

impl<K: Key> WaitQueue<K> {
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first element.
    pub(crate) fn first(&self) -> Option<K> {
        (self.len > 0).then_some(self.first)
    }
}

impl<K: Key> WaitQueues<K> {
    pub(crate) fn new() -> WaitQueues<K> {
        WaitQueues {
            links: SecondaryMap::new(),
            #[cfg(test)]
            touched: Default::default(),
        }
    }

    fn touch(&self) {
        #[cfg(test)]
        self.touched.set(self.touched.get() + 1);
    }

    /// Whether nothing waits in any of them.
    #[inline]
    pub(crate) fn are_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// Adds a key at the end of a queue.
    ///
    /// # Panics
    /// When it is in a queue already.
    pub(crate) fn push_back(&mut self, line: &mut WaitQueue<K>, key: K) {
        self.touch();
        let alone = self.links.insert(key, Links { before: line.last, behind: K::null() });
        assert!(alone.is_none(), "{key:?} waits twice");
        self.link(line.last, line, |links| links.behind = key, |line| line.first = key);
        line.last = key;
        line.len += 1;
    }

    /// Removes the first key of a queue.
    #[inline]
    pub(crate) fn pop_front(&mut self, line: &mut WaitQueue<K>) -> Option<K> {
        let first = line.first()?;
        self.remove(line, first);
        Some(first)
    }

    /// Removes a key from its queue; `false` when it is in none.
    pub(crate) fn remove(&mut self, line: &mut WaitQueue<K>, key: K) -> bool {
        self.touch();
        let Some(Links { before, behind }) = self.links.remove(key) else { return false };
        self.link(before, line, |links| links.behind = behind, |line| line.first = behind);
        self.link(behind, line, |links| links.before = before, |line| line.last = before);
        line.len -= 1;
        true
    }

    /// The key behind this one.
    pub(crate) fn after(&self, key: K) -> Option<K> {
        self.touch();
        self.links.get(key).map(|links| links.behind).filter(|key| !key.is_null())
    }

    /// Changes the links of a neighbour or, where there is none, an end of the queue.
    fn link(
        &mut self,
        neighbour: K,
        line: &mut WaitQueue<K>,
        links: impl FnOnce(&mut Links<K>),
        end: impl FnOnce(&mut WaitQueue<K>),
    ) {
        self.touch();
        match self.links.get_mut(neighbour) {
            Some(neighbour) => links(neighbour),
            None => end(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use slotmap::{DefaultKey, SlotMap};

    use super::*;

    proptest! {
        /// Two queues against two lists.
        #[test]
        fn as_lists_are(steps in proptest::collection::vec((any::<u8>(), 0usize..2), 0..300)) {
            let mut keys: SlotMap<DefaultKey, ()> = SlotMap::new();
            let mut lines = WaitQueues::new();
            let mut pair = [WaitQueue::default(), WaitQueue::default()];
            let mut model = [VecDeque::new(), VecDeque::new()];
            for (step, which) in steps {
                let (line, list) = (&mut pair[which], &mut model[which]);
                match step % 4 {
                    0 | 1 => {
                        let key = keys.insert(());
                        lines.push_back(line, key);
                        list.push_back(key);
                    }
                    2 => {
                        let first = list.pop_front();
                        prop_assert_eq!(lines.pop_front(line), first);
                        keys.remove(first.unwrap_or_default());
                    }
                    _ if !list.is_empty() => {
                        let key = list.remove(usize::from(step / 4) % list.len()).unwrap();
                        prop_assert!(lines.remove(line, key));
                        prop_assert!(!lines.remove(line, key));
                    }
                    _ => {}
                }
                let walk: Vec<_> =
                    core::iter::successors(line.first(), |key| lines.after(*key)).collect();
                prop_assert_eq!(&walk, &Vec::from(list.clone()));
                prop_assert_eq!(line.len(), list.len());
                prop_assert_eq!(line.is_empty(), list.is_empty());
            }
        }
    }

    #[test]
    #[should_panic(expected = "waits twice")]
    fn a_key_is_in_one_queue_at_most() {
        let mut keys: SlotMap<DefaultKey, ()> = SlotMap::new();
        let (mut lines, mut line, key) = (WaitQueues::new(), WaitQueue::default(), keys.insert(()));
        lines.push_back(&mut line, key);
        lines.push_back(&mut line, key);
    }
}
