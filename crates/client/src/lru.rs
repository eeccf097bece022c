//! Values in the order of their last use.
//!
//! A list within a slot map: to note a use costs a few writes, and a value takes 32 bytes beside
//! itself.

use lustrine_lnet::time::Time;
use slotmap::{Key as _, SlotMap, new_key_type};

new_key_type! {
    /// A value of an [`Lru`].
    pub(crate) struct LruKey;
}

/// Values in the order of their last use.
pub(crate) struct Lru<V> {
    nodes: SlotMap<LruKey, Node<V>>,
    /// The ends of the list; null if it is empty.
    oldest: LruKey,
    newest: LruKey,
}

struct Node<V> {
    value: V,
    /// When it was last used.
    used: Time,
    /// Its neighbours in the list; null at its ends.
    older: LruKey,
    newer: LruKey,
}

impl<V> Default for Lru<V> {
    fn default() -> Lru<V> {
        Lru { nodes: SlotMap::with_key(), oldest: LruKey::null(), newest: LruKey::null() }
    }
}

impl<V> Lru<V> {
    /// Adds a value that is used now.
    pub(crate) fn insert(&mut self, value: V, now: Time) -> LruKey {
        let (older, newer) = (self.newest, LruKey::null());
        let key = self.nodes.insert(Node { value, used: now, older, newer });
        self.link(older, key);
        self.newest = key;
        key
    }

    /// A value is used now.
    pub(crate) fn touch(&mut self, key: LruKey, now: Time) {
        let Some(node) = self.nodes.get_mut(key) else { return };
        node.used = now;
        if self.newest == key {
            return;
        }
        let (older, newer) = (node.older, node.newer);
        (node.older, node.newer) = (self.newest, LruKey::null());
        self.unlink(older, newer);
        self.link(self.newest, key);
        self.newest = key;
    }

    pub(crate) fn remove(&mut self, key: LruKey) -> Option<V> {
        let node = self.nodes.remove(key)?;
        self.unlink(node.older, node.newer);
        Some(node.value)
    }

    /// `newer` follows `older`.
    fn link(&mut self, older: LruKey, newer: LruKey) {
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// The value between these two has left its place.
    fn unlink(&mut self, older: LruKey, newer: LruKey) {
        self.link(older, newer);
        match self.nodes.get_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
    }

    pub(crate) fn get(&self, key: LruKey) -> Option<&V> {
        self.nodes.get(key).map(|node| &node.value)
    }

    pub(crate) fn get_mut(&mut self, key: LruKey) -> Option<&mut V> {
        self.nodes.get_mut(key).map(|node| &mut node.value)
    }

    /// The least recently used value, and when that was.
    pub(crate) fn oldest(&self) -> Option<(&V, Time)> {
        self.nodes.get(self.oldest).map(|node| (&node.value, node.used))
    }

    /// Removes the least recently used value.
    pub(crate) fn remove_oldest(&mut self) -> Option<V> {
        self.remove(self.oldest)
    }

    /// All values, in no order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.nodes.values().map(|node| &node.value)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_takes_32_bytes_beside_itself() {
        // A slot of a slot map has the version of its key as well.
        assert!(size_of::<Node<u64>>() + size_of::<u64>() <= 8 + 32);
    }

    proptest! {
        /// It does what a list does, to whose end a value moves when it is used.
        #[test]
        fn it_is_a_list(changes in prop::collection::vec((0usize..8, 0..3), 0..60)) {
            let (mut lru, mut model) = (Lru::default(), Vec::new());
            for (now, (at, change)) in changes.into_iter().enumerate() {
                let now = Time(now as u64);
                match (model.get(at).copied(), change) {
                    (Some((key, _, _)), 1) => {
                        lru.touch(key, now);
                        let (key, value, _) = model.remove(at);
                        model.push((key, value, now));
                    }
                    (Some((key, value, _)), 2) => {
                        model.remove(at);
                        prop_assert_eq!(lru.remove(key), Some(value));
                        prop_assert_eq!(lru.remove(key), None);
                        lru.touch(key, now);
                        prop_assert!(lru.get(key).is_none());
                    }
                    _ => model.push((lru.insert(now.0, now), now.0, now)),
                }
                let oldest = model.first().map(|(_, value, used)| (value, *used));
                prop_assert_eq!(lru.oldest(), oldest);
                prop_assert_eq!(lru.len(), model.len());
                prop_assert_eq!(lru.values().count(), model.len());
                for (key, value, _) in &model {
                    prop_assert_eq!(lru.get(*key), Some(value));
                    prop_assert_eq!(lru.get_mut(*key).copied(), Some(*value));
                }
            }
            // The whole order.
            for (_, value, used) in model {
                prop_assert_eq!(lru.oldest(), Some((&value, used)));
                prop_assert_eq!(lru.remove_oldest(), Some(value));
            }
            prop_assert!(lru.oldest().is_none());
        }
    }
}
