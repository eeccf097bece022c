//! A sorted queue.

use std::collections::VecDeque;

/// A set whose values mostly come in their order and go in their order, as xids and deadlines do:
/// then both cost little. In any other order a value costs as much as others have to move.
#[derive(Clone, Debug)]
pub(crate) struct SortedQueue<T>(VecDeque<T>);

impl<T> Default for SortedQueue<T> {
    fn default() -> SortedQueue<T> {
        SortedQueue(VecDeque::new())
    }
}

impl<T: Ord> SortedQueue<T> {
    pub(crate) fn insert(&mut self, value: T) {
        if self.0.back().is_none_or(|last| *last < value) {
            return self.0.push_back(value);
        }
        if let Err(at) = self.0.binary_search(&value) {
            self.0.insert(at, value);
        }
    }

    pub(crate) fn remove(&mut self, value: &T) {
        if self.0.front() == Some(value) {
            self.0.pop_front();
        } else if let Ok(at) = self.0.binary_search(value) {
            self.0.remove(at);
        }
    }

    /// The smallest value.
    pub(crate) fn first(&self) -> Option<&T> {
        self.0.front()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It does what a tree does.
        #[test]
        fn it_is_a_set(changes in prop::collection::vec((0u8..40, any::<bool>()), 0..200)) {
            let (mut queue, mut model) = (SortedQueue::default(), BTreeSet::new());
            for (value, comes) in changes {
                if comes {
                    queue.insert(value);
                    model.insert(value);
                } else {
                    queue.remove(&value);
                    model.remove(&value);
                }
                prop_assert_eq!(queue.first(), model.first());
                prop_assert!(queue.0.iter().eq(&model));
            }
            queue.clear();
            prop_assert!(queue.first().is_none());
        }
    }
}
