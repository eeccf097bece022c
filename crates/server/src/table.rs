//! Tables whose last changes can be undone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;

/// Where the rows of a table are, by their keys.
pub(crate) trait Rows: Default {
    type Key: Clone;
    type Value;

    /// Sets a row, and returns what it was.
    fn insert(&mut self, key: Self::Key, value: Self::Value) -> Option<Self::Value>;
    /// Removes a row, and returns what it was.
    fn remove(&mut self, key: &Self::Key) -> Option<Self::Value>;
}

/// A table by keys that have an order.
pub(crate) type OrderedTable<K, V> = Table<BTreeMap<K, V>>;

impl<K: Ord + Clone, V> Rows for BTreeMap<K, V> {
    type Key = K;
    type Value = V;

    fn insert(&mut self, key: K, value: V) -> Option<V> {
        BTreeMap::insert(self, key, value)
    }

    fn remove(&mut self, key: &K) -> Option<V> {
        BTreeMap::remove(self, key)
    }
}

/// What a row was before a change.
#[derive(Clone, Debug)]
struct Undo<K, V> {
    step: u64,
    key: K,
    before: Option<V>,
}

/// Rows by their keys, and how to undo the changes that are not committed.
#[derive(Clone, Debug)]
pub(crate) struct Table<R: Rows> {
    rows: R,
    undo: VecDeque<Undo<R::Key, R::Value>>,
}

impl<R: Rows> Default for Table<R> {
    fn default() -> Table<R> {
        Table { rows: R::default(), undo: VecDeque::new() }
    }
}

impl<R: Rows> Table<R> {
    /// The rows, to look at.
    pub(crate) fn rows(&self) -> &R {
        &self.rows
    }

    /// Sets a row, or removes it. `step` is the number of the change; it never falls.
    pub(crate) fn set(&mut self, step: u64, key: R::Key, value: Option<R::Value>) {
        let before = match value {
            Some(value) => self.rows.insert(key.clone(), value),
            None => match self.rows.remove(&key) {
                None => return,
                before => before,
            },
        };
        self.undo.push_back(Undo { step, key, before });
    }

    /// Removes a row for good: what removes it is not undone. What was set before may be.
    pub(crate) fn forget(&mut self, key: &R::Key) {
        self.rows.remove(key);
    }

    /// The changes up to a step cannot be undone any more.
    pub(crate) fn commit(&mut self, upto: u64) {
        while self.undo.front().is_some_and(|undo| undo.step <= upto) {
            self.undo.pop_front();
        }
    }

    /// Undoes all changes that are not committed.
    pub(crate) fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop_back() {
            match undo.before {
                Some(value) => self.rows.insert(undo.key, value),
                None => self.rows.remove(&undo.key),
            };
        }
    }
}

impl<K: Ord + Clone, V> OrderedTable<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    /// Changes a row, if it is there. What `change` returns.
    pub(crate) fn change<T>(
        &mut self,
        step: u64,
        key: K,
        change: impl FnOnce(&mut V) -> T,
    ) -> Option<T>
    where
        V: Clone,
    {
        let row = self.rows.get_mut(&key)?;
        let before = Some(row.clone());
        let result = change(row);
        self.undo.push_back(Undo { step, key, before });
        Some(result)
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> impl Iterator<Item = (&K, &V)> {
        self.rows.range(range)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// After a crash a table has what it had at the last commit.
        #[test]
        fn what_is_not_committed_is_undone(
            changes in prop::collection::vec((0u8..8, any::<Option<u16>>()), 0..60),
            committed in 0usize..60,
        ) {
            let mut table = OrderedTable::default();
            let mut expected = BTreeMap::new();
            for (step, (key, value)) in changes.iter().enumerate() {
                table.set(step as u64 + 1, *key, *value);
                if step < committed {
                    match value {
                        Some(value) => expected.insert(*key, *value),
                        None => expected.remove(key),
                    };
                }
            }
            table.commit(committed as u64);
            table.roll_back();
            prop_assert_eq!(table.rows, expected);
        }
    }
}
