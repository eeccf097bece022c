//! Which data are in memory, and which of them go first.

use core::ops::Range;
use std::collections::btree_map::Entry;

use super::object::{ObjectData, Used};
use super::{Cache, ObjectKey};
use crate::pages::{Pages, chunks_of};

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

    /// Changes the bytes of an object that is there, and counts their memory.
    pub(super) fn change_pages(&mut self, key: ObjectKey, change: impl FnOnce(&mut Pages)) {
        let Some(object) = self.objects.get_mut(&key) else { return };
        let pages = &mut object.data.pages;
        let before = pages.memory();
        change(pages);
        let after = pages.memory();
        self.counts.cached = self.counts.cached - before + after;
    }

    /// Bytes of an object are not in memory any more: its chunks that are gone are not counted.
    pub(super) fn forget(&mut self, key: ObjectKey, range: Range<u64>) {
        self.change_pages(key, |pages| pages.forget(range));
        let Some(object) = self.objects.get_mut(&key) else { return };
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
                continue;
            }
            // What came with it goes too, unless it was used in the later half of the time since.
            let since = place + (self.last_use - place) / 2;
            let before = object.data.pages.memory();
            let places = object.evict(number, since);
            self.counts.cached -= before - object.data.pages.memory();
            for place in &places {
                self.chunks.remove(place);
            }
            if !places.is_empty() {
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lustrine_fswire::fid::{Fid, Handle};
    use lustrine_ptlrpc::ImportKey;
    use slotmap::SlotMap;

    use super::super::CacheTunables;
    use super::super::object::{Held, Mode};
    use super::*;
    use crate::pages::CHUNK_LEN;

    /// A cache, and an object in it that is not forgotten, since there is a lock on it.
    fn cache(max_cached: u64) -> (Cache, ObjectKey) {
        let mut imports: SlotMap<ImportKey, ()> = SlotMap::with_key();
        let key = ObjectKey { import: imports.insert(()), oi: Fid { seq: 1, oid: 1, ver: 0 } };
        let mut cache = Cache::new(CacheTunables::of(max_cached));
        let held = Held::new(Mode::Read, 0..u64::MAX, false);
        cache.object(key).locks.insert(Handle(1), held);
        (cache, key)
    }

    /// An answer with so many MiB comes.
    fn fill(cache: &mut Cache, key: ObjectKey, from: u64, mebibytes: u64) -> u64 {
        let range = from..from + (mebibytes << 20);
        let bytes = Bytes::from(vec![7; (mebibytes << 20) as usize]);
        cache.change_pages(key, |pages| pages.fill(&range, &bytes, &range));
        cache.touch(key, &range);
        cache.trim();
        let pages = &cache.objects[&key].data.pages;
        assert_eq!(cache.counts.cached, pages.memory());
        assert_eq!(cache.chunks.len(), pages.chunks_within(0..u64::MAX).count());
        assert!(cache.counts.cached <= cache.tunables.max_cached);
        range.end
    }

    /// What goes does so as it came, and the rest is not copied.
    #[test]
    fn a_stream_through_a_full_cache_copies_nothing() {
        let (mut cache, key) = cache(8 << 20);
        let mut end = 0;
        for mebibytes in [4, 4, 4, 4, 1, 1, 1, 4, 1, 4] {
            end = fill(&mut cache, key, end, mebibytes);
            let pages = &cache.objects[&key].data.pages;
            assert!(pages.chunks_within(0..u64::MAX).all(|chunk| pages.piece_of(chunk).is_some()));
            let least = end.saturating_sub(4 << 20);
            assert!(pages.gaps(&(least..end)).is_empty());
        }
    }

    /// It does not keep the memory of all that came with it.
    #[test]
    fn a_chunk_that_is_in_use_stays_when_what_came_with_it_goes() {
        let (mut cache, key) = cache(16 << 20);
        let used = [0, 4, 8].map(|mebibytes: u64| mebibytes << 20..(mebibytes << 20) + 4096);
        let mut end = 0;
        for _ in 0..20 {
            end = fill(&mut cache, key, end, 4);
            for range in used.iter().filter(|range| range.end <= end) {
                cache.touch(key, range);
            }
        }
        let pages = &cache.objects[&key].data.pages;
        for range in &used {
            assert!(pages.gaps(range).is_empty());
        }
        let read_last = end - (12 << 20)..end;
        assert!(pages.gaps(&read_last).is_empty());
    }

    /// What was read ahead is read here and there, for long: what goes is about as much as comes.
    #[test]
    fn data_that_are_used_in_another_order_do_not_all_go_at_once() {
        let (mut cache, key) = cache(32 << 20);
        let mut end = 0;
        while end < 32 << 20 {
            end = fill(&mut cache, key, end, 4);
        }
        let mut chunk = 1_u64;
        for _ in 0..4096 {
            chunk = chunk * 181 % 509;
            cache.touch(key, &(chunk * CHUNK_LEN..(chunk + 1) * CHUNK_LEN));
        }
        let before = cache.chunks.len();
        fill(&mut cache, key, end, 1);
        let gone = before + 16 - cache.chunks.len();
        assert!(gone <= 2 * 64, "{gone} chunks of {before} are gone");
    }
}
