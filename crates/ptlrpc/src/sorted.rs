//! Sorted queues.

use std::cmp::Ordering;
use std::collections::VecDeque;

/// A map whose keys mostly come in their order and go in their order, as xids and deadlines do:
/// then both cost little. In any other order a key costs as much as others have to move.
#[derive(Clone, Debug)]
pub struct SortedMap<K, V>(VecDeque<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> SortedMap<K, V> {
        SortedMap(VecDeque::new())
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// Where a key is, or where it belongs.
    fn find(&self, key: &K) -> Result<usize, usize> {
        let (Some((first, _)), Some((last, _))) = (self.0.front(), self.0.back()) else {
            return Err(0);
        };
        match (key.cmp(first), key.cmp(last)) {
            (Ordering::Less, _) => Err(0),
            (Ordering::Equal, _) => Ok(0),
            (_, Ordering::Greater) => Err(self.0.len()),
            _ => self.0.binary_search_by(|(other, _)| other.cmp(key)),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    /// Sets a value, and returns the one before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(core::mem::replace(&mut self.0[at].1, value)),
            Err(at) if at == self.0.len() => {
                self.0.push_back((key, value));
                None
            }
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes a key, and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = match self.find(key).ok()? {
            0 => self.0.pop_front(),
            at => self.0.remove(at),
        };
        removed.map(|(_, value)| value)
    }

    /// Removes the smallest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        self.0.pop_front()
    }

    /// The smallest key.
    pub fn first(&self) -> Option<(&K, &V)> {
        self.0.front().map(|(key, value)| (key, value))
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Those after a key, which need not be there.
    pub fn after(&self, key: &K) -> impl Iterator<Item = (&K, &V)> {
        let from = self.find(key).map_or_else(|at| at, |at| at + 1);
        self.0.range(from..).map(|(key, value)| (key, value))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// The same without values.
#[derive(Clone, Debug)]
pub(crate) struct SortedQueue<T>(SortedMap<T, ()>);

impl<T> Default for SortedQueue<T> {
    fn default() -> SortedQueue<T> {
        SortedQueue(SortedMap::default())
    }
}

impl<T: Ord> SortedQueue<T> {
    pub(crate) fn insert(&mut self, value: T) {
        self.0.insert(value, ());
    }

    pub(crate) fn remove(&mut self, value: &T) {
        self.0.remove(value);
    }

    /// The smallest value.
    pub(crate) fn first(&self) -> Option<&T> {
        self.0.first().map(|(value, ())| value)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It does what a tree does.
        #[test]
        fn it_is_a_map(changes in prop::collection::vec((0u8..40, any::<Option<u8>>()), 0..200)) {
            let (mut map, mut model) = (SortedMap::default(), BTreeMap::new());
            let mut queue = SortedQueue::default();
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        queue.insert(key);
                        prop_assert_eq!(map.insert(key, value), model.insert(key, value));
                    }
                    None => {
                        queue.remove(&key);
                        prop_assert_eq!(map.remove(&key), model.remove(&key));
                    }
                }
                prop_assert_eq!(map.get(&key), model.get(&key));
                prop_assert!(map.iter().eq(&model));
                prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
                prop_assert!(map.after(&key).eq(model.range(key + 1..)));
                prop_assert_eq!(map.first(), model.first_key_value());
                prop_assert_eq!(queue.first(), model.keys().next());
            }
            prop_assert_eq!(map.pop_first(), model.pop_first());
            prop_assert!(map.iter().eq(&model));
            map.clear();
            queue.clear();
            prop_assert!(map.is_empty() && queue.first().is_none());
        }
    }
}
