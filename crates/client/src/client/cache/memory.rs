//! Which data are in memory, and which of them go first.

use core::ops::Range;
use std::collections::btree_map::Entry;

use super::object::{ObjectData, Used};
use super::{Cache, ObjectKey};
use crate::pages::chunks_of;

impl Cache {
    /// The chunks of a range are used now. Ones that are not in memory are forgotten.
    pub(super) fn touch(&mut self, key: ObjectKey, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Some(object) = self.objects.get_mut(&key) else { return };
        let ObjectData { pages, used, .. } = &mut *object.data;
        for number in pages.chunks_within(chunks_of(range)) {
            self.last_use += 1;
            let last = self.last_use;
            match used.entry(number) {
                Entry::Occupied(mut used) => used.get_mut().last = last,
                Entry::Vacant(new) => {
                    new.insert(Used { place: last, last });
                    self.chunks.insert(last, (key, number));
                }
            }
        }
    }

    /// Bytes of an object are not in memory any more: its chunks that are gone are not counted.
    pub(super) fn forget(&mut self, key: ObjectKey, range: Range<u64>) {
        let Some(object) = self.objects.get_mut(&key) else { return };
        self.counts.cached -= object.data.pages.forget(range);
        for place in object.drop_unused_chunks() {
            self.chunks.remove(&place);
        }
    }

    /// Gives memory back until there is not more than the settings allow. What is dirty, or on its
    /// way, stays.
    pub(super) fn trim(&mut self) {
        let mut from = 0;
        while self.counts.cached > self.tunables.max_cached {
            let Some((place, (key, number))) =
                self.chunks.range(from..).next().map(|(place, chunk)| (*place, *chunk))
            else {
                return;
            };
            from = place + 1;
            let Some(object) = self.objects.get_mut(&key) else { continue };
            if let Some(used) = object.data.used.get_mut(&number).filter(|used| used.last != place)
            {
                used.place = used.last;
                self.chunks.insert(used.place, (key, number));
                self.chunks.remove(&place);
            } else if let Some(given) = object.evict(number) {
                self.counts.cached -= given;
                self.chunks.remove(&place);
                self.tidy(key);
            }
        }
    }

    /// Gives memory back that an object does not need, and forgets one of which there is nothing.
    pub(super) fn tidy(&mut self, key: ObjectKey) {
        let Some(object) = self.objects.get_mut(&key) else { return };
        // Only what was written has a file, which is forgotten with the rest.
        let file = object.data.fid;
        let is_over = object.tidy();
        if let Some(fid) = file
            && (is_over || !object.has_unwritten())
            && let Entry::Occupied(mut keys) = self.unwritten.entry(fid)
        {
            keys.get_mut().remove(&key);
            if keys.get().is_empty() {
                keys.remove();
            }
        }
        if is_over {
            self.objects.remove(&key);
        }
    }
}
