//! A table of fixed places: an index finds its entry, a freed place is used again first.

/// Entries by index; never more than the limit it was made with.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
    limit: u32,
}

impl<T> Slab<T> {
    pub(crate) fn new(limit: u32) -> Slab<T> {
        Slab { places: Vec::new(), free: Vec::new(), limit }
    }

    /// Entries in use.
    pub(crate) fn len(&self) -> u32 {
        (self.places.len() - self.free.len()) as u32
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.limit
    }

    /// Stores an entry and returns its index.
    ///
    /// # Errors
    /// Gives the entry back when the table is full.
    pub(crate) fn insert(&mut self, entry: T) -> Result<u32, T> {
        if let Some(index) = self.free.pop() {
            self.places[index as usize] = Some(entry);
            return Ok(index);
        }
        let index = self.places.len() as u32;
        if index == self.limit {
            return Err(entry);
        }
        self.places.push(Some(entry));
        Ok(index)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.places.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(entry)
    }

    /// Frees a place without moving its entry out; `false` when it was free.
    pub(crate) fn free(&mut self, index: u32) -> bool {
        match self.places.get_mut(index as usize) {
            Some(place @ Some(_)) => {
                *place = None;
                self.free.push(index);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(index, place)| place.as_ref().map(|entry| (index as u32, entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reused_and_limited() {
        let mut slots = Slab::new(2);
        assert_eq!((slots.insert('a'), slots.insert('b')), (Ok(0), Ok(1)));
        assert_eq!(slots.insert('c'), Err('c'));
        assert!(slots.is_full());
        assert_eq!(slots.remove(0), Some('a'));
        assert_eq!(slots.remove(0), None);
        assert_eq!((slots.get(0), slots.get(1), slots.get(9)), (None, Some(&'b'), None));
        assert_eq!(slots.insert('d'), Ok(0));
        assert_eq!(slots.iter().collect::<Vec<_>>(), [(0, &'d'), (1, &'b')]);
        assert_eq!(slots.len(), 2);
        assert_eq!((slots.free(1), slots.free(1), slots.len()), (true, false, 1));
    }
}
