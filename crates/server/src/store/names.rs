//! The names of all directories of a metadata target.

use std::collections::{BTreeMap, btree_map};

use lustrine_fswire::dir::HASH_END;
use lustrine_fswire::fid::Fid;
use smallvec::SmallVec;

use crate::table::Rows;

/// The bytes of a name, inline if there are few.
type Bytes = SmallVec<[u8; 24]>;
/// A name in a directory: the directory, the hash of the name, the name.
pub(crate) type Name = (Fid, u64, Bytes);

/// Hashes below this are those of `.` and `..`.
pub(crate) const HASH_FIRST: u64 = 16;

/// The hash of a name: FNV-1a of 64 bits, in the range that names have.
pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in name {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    // Positions of listings are signed numbers at clients.
    HASH_FIRST + (hash >> 1) % (HASH_END / 2 - HASH_FIRST)
}

/// A name, and what it stands for.
#[derive(Clone, Debug)]
struct Entry {
    name: Bytes,
    fid: Fid,
}

/// The names of a directory with one hash, in their order: nearly always one.
type Bucket = SmallVec<[Entry; 1]>;

/// The names of each directory by their hashes, which is the order of listings. A directory without
/// names is not there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    dirs: BTreeMap<Fid, BTreeMap<u64, Bucket>>,
}

/// The position of a name in a bucket, or where it belongs.
fn position(bucket: &Bucket, name: &[u8]) -> Result<usize, usize> {
    bucket.binary_search_by(|entry| (*entry.name).cmp(name))
}

impl Names {
    /// What a name of a directory stands for.
    pub(crate) fn get(&self, dir: Fid, name: &[u8]) -> Option<Fid> {
        let bucket = self.dirs.get(&dir)?.get(&hash(name))?;
        Some(bucket[position(bucket, name).ok()?].fid)
    }

    pub(crate) fn is_empty_dir(&self, dir: Fid) -> bool {
        !self.dirs.contains_key(&dir)
    }

    /// The names of a directory from a hash on.
    pub(crate) fn from(&self, dir: Fid, from: u64) -> impl Iterator<Item = (u64, &[u8], Fid)> {
        let buckets = self.dirs.get(&dir).into_iter().flat_map(move |names| names.range(from..));
        buckets.flat_map(|(hash, bucket)| {
            bucket.iter().map(move |entry| (*hash, &*entry.name, entry.fid))
        })
    }
}

impl Rows for Names {
    type Key = Name;
    type Value = Fid;

    fn insert(&mut self, (dir, hash, name): Name, fid: Fid) -> Option<Fid> {
        let bucket = self.dirs.entry(dir).or_default().entry(hash).or_default();
        match position(bucket, &name) {
            Ok(at) => Some(std::mem::replace(&mut bucket[at].fid, fid)),
            Err(at) => {
                bucket.insert(at, Entry { name, fid });
                None
            }
        }
    }

    fn remove(&mut self, (dir, hash, name): &Name) -> Option<Fid> {
        let names = self.dirs.get_mut(dir)?;
        let btree_map::Entry::Occupied(mut place) = names.entry(*hash) else { return None };
        let bucket = place.get_mut();
        let removed = bucket.remove(position(bucket, name).ok()?);
        if bucket.is_empty() {
            place.remove();
            if names.is_empty() {
                self.dirs.remove(dir);
            }
        }
        Some(removed.fid)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Names are what a table by directory, hash and name has, also where hashes are the same.
        #[test]
        fn names_are_kept_in_the_order_of_their_hashes(
            changes in
                prop::collection::vec((0u32..2, 0u64..3, 0u8..4, any::<Option<u32>>()), 0..60),
            from in 0u64..4,
        ) {
            let (mut names, mut model) = (Names::default(), BTreeMap::new());
            for (dir, hash, name, value) in changes {
                let key: Name = (Fid::new(1, dir), hash, Bytes::from_slice(&[name]));
                let value = value.map(|oid| Fid::new(2, oid));
                match value {
                    Some(fid) => {
                        prop_assert_eq!(names.insert(key.clone(), fid), model.insert(key, fid));
                    }
                    None => prop_assert_eq!(names.remove(&key), model.remove(&key)),
                }
            }
            for dir in [Fid::new(1, 0), Fid::new(1, 1)] {
                let listed = names.from(dir, from);
                let listed = listed.map(|(hash, name, fid)| (hash, name.to_vec(), fid));
                let of_model = |((of, hash, name), fid): (&Name, &Fid)| {
                    (*of == dir && *hash >= from).then(|| (*hash, name.to_vec(), *fid))
                };
                let expected: Vec<_> = model.iter().filter_map(of_model).collect();
                prop_assert_eq!(listed.collect::<Vec<_>>(), expected);
                prop_assert_eq!(names.is_empty_dir(dir), !model.keys().any(|key| key.0 == dir));
            }
        }

        #[test]
        fn a_name_is_found_by_its_bytes(all in prop::collection::btree_set("[a-c]{1,3}", 1..20)) {
            let (dir, mut names) = (Fid::new(1, 1), Names::default());
            for (number, name) in all.iter().enumerate() {
                let fid = Fid::new(2, number as u32);
                names.insert((dir, hash(name.as_bytes()), name.as_bytes().into()), fid);
            }
            for (number, name) in all.iter().enumerate() {
                prop_assert_eq!(names.get(dir, name.as_bytes()), Some(Fid::new(2, number as u32)));
            }
            prop_assert_eq!(names.get(dir, b"d"), None);
            prop_assert_eq!(names.get(Fid::new(1, 2), b"a"), None);
        }
    }
}
