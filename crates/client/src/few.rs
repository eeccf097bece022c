//! A map of few entries, nearly always one, in little memory: a tree has room for eleven.

use smallvec::SmallVec;

/// Values by their keys, in the order of the keys.
#[derive(Debug)]
pub(crate) struct FewMap<K, V>(SmallVec<[(K, V); 1]>);

impl<K, V> Default for FewMap<K, V> {
    fn default() -> FewMap<K, V> {
        FewMap(SmallVec::new())
    }
}

impl<K: Ord, V> FewMap<K, V> {
    fn find(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key))
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.0[at].1)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.0[at].1)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// Sets a value, and returns the one before.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => Some(core::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.find(key).ok().map(|at| self.0.remove(at).1);
        if self.0.len() <= 1 {
            self.0.shrink_to_fit();
        }
        value
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
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
        fn it_is_a_map(changes in prop::collection::vec((0u8..6, any::<Option<u16>>()), 0..40)) {
            let (mut few, mut model) = (FewMap::default(), BTreeMap::new());
            for (key, value) in changes {
                let before = match value {
                    Some(value) => (few.insert(key, value), model.insert(key, value)),
                    None => (few.remove(&key), model.remove(&key)),
                };
                prop_assert_eq!(before.0, before.1);
                prop_assert_eq!(few.get(&key), model.get(&key));
                prop_assert_eq!(few.get_mut(&key).is_some(), few.contains_key(&key));
                prop_assert!(few.iter().eq(model.iter()) && few.is_empty() == model.is_empty());
                prop_assert!(few.keys().eq(model.keys()) && few.values().eq(model.values()));
            }
        }
    }
}
