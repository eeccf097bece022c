//! The layout of a file, as reads and writes use it.

use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::{
    CompositeFlags, Ea, EntryFlags, Layout, Pattern, PlainLayout, Striping,
};

use crate::error::ClientError;

/// Where the data of a file are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileLayout {
    /// The components of the mirror that is read, in order. A file without objects has none.
    pub components: Vec<FileComponent>,
    /// The generation, which changes with every change of the layout.
    pub generation: u32,
    /// The other mirrors; none if there is only the one that is read.
    pub mirrors: Option<Mirrors>,
}

/// The mirrors of a file beside the one that is read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors {
    /// Whether the metadata server has prepared the file to be written to.
    writable: bool,
    /// Ranges that have current data there: the first byte, and that behind the last one.
    current: Vec<(u64, u64)>,
}

/// A range of a file, and the objects that hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileComponent {
    /// The first byte.
    pub start: u64,
    /// Behind the last byte; 2^64 - 1 for the end of the file.
    pub end: u64,
    /// Where its data are.
    pub place: Place,
}

/// Where the data of a component are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: nothing was written there.
    None,
    /// On the metadata server of the file.
    Mdt,
    /// On object servers.
    Objects {
        /// How the data are spread over the objects.
        striping: Striping,
        /// An object for each stripe.
        objects: Vec<ObjectPlace>,
    },
}

/// An object, and the target that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectPlace {
    /// The object's id.
    pub oi: Fid,
    /// The index of the target.
    pub ost: u32,
}

/// A piece of a file that one object holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The component.
    pub component: usize,
    /// The stripe in it; 0 for data on the metadata server.
    pub stripe: u16,
    /// Offset in the file.
    pub offset: u64,
    /// Offset in the object.
    pub object_offset: u64,
    /// Bytes.
    pub len: u64,
}

impl FileLayout {
    /// Reads a layout attribute. A file that has none has no data.
    ///
    /// # Errors
    /// When the layout is malformed, or of a kind that cannot be read.
    pub fn parse(ea: &[u8]) -> Result<FileLayout, ClientError> {
        let bad = |error: &dyn core::fmt::Display| ClientError::Layout(error.to_string());
        let Some(layout) = Ea(ea).layout().map_err(|error| bad(&error))? else {
            return Ok(FileLayout::default());
        };
        layout.validate().map_err(|fault| bad(&fault))?;
        let generation = layout.generation().unwrap_or_default();
        let mut mirrors = None;
        let components = match layout {
            Layout::Plain(plain) => {
                let place = place_of(&plain, true)?;
                vec![FileComponent { start: 0, end: u64::MAX, place }]
            }
            Layout::Composite(composite) => {
                let mut components = Vec::new();
                // Of mirrors the first one without a stale component is read.
                let of_mirror = |mirror| {
                    composite
                        .components()
                        .filter(move |component| component.entry.mirror() == mirror)
                };
                let is_stale = |mirror| {
                    of_mirror(mirror)
                        .any(|component| component.entry.flags.contains(EntryFlags::STALE))
                };
                let mirror = composite
                    .components()
                    .map(|component| component.entry.mirror())
                    .find(|mirror| !is_stale(*mirror))
                    .ok_or_else(|| bad(&"all mirrors are stale"))?;
                for component in composite.components() {
                    let entry = component.entry;
                    if entry.mirror() != mirror {
                        let others = mirrors.get_or_insert_with(Mirrors::default);
                        others.writable = composite.header.flags == CompositeFlags::WRITE_PENDING;
                        if !entry.flags.contains(EntryFlags::STALE) {
                            others.current.push((entry.start, entry.end));
                        }
                        continue;
                    }
                    let before = components.last().map_or(0, |last: &FileComponent| last.end);
                    if entry.start < before || entry.end <= entry.start {
                        return Err(bad(&"its components overlap"));
                    }
                    // What extends itself has no objects before it is written to.
                    let made = entry.flags.contains(EntryFlags::INIT)
                        && !entry.flags.contains(EntryFlags::EXTENSION);
                    let place = match &component.layout {
                        Some(plain) => place_of(plain, made)?,
                        None => {
                            return Err(bad(&"a component is foreign: its data are not in Lustre"));
                        }
                    };
                    components.push(FileComponent { start: entry.start, end: entry.end, place });
                }
                components
            }
            _ => return Err(bad(&"it is that of a directory")),
        };
        Ok(FileLayout { components, generation, mirrors })
    }

    /// Cuts a range of the file into pieces, each within one stripe of one object. Bytes outside
    /// of all components are in no piece.
    pub fn pieces(&self, offset: u64, len: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let end = offset.saturating_add(len);
        for (index, component) in self.components.iter().enumerate() {
            let (from, to) = (offset.max(component.start), end.min(component.end));
            let mut at = from;
            while at < to {
                let piece = match &component.place {
                    Place::None => break,
                    Place::Mdt => Piece {
                        component: index,
                        stripe: 0,
                        offset: at,
                        object_offset: at,
                        len: to - at,
                    },
                    Place::Objects { striping, .. } => Piece {
                        component: index,
                        stripe: striping.stripe_of(at),
                        offset: at,
                        object_offset: striping.object_offset(at),
                        len: striping.left_in_stripe(at).min(to - at),
                    },
                };
                at += piece.len;
                pieces.push(piece);
            }
        }
        pieces
    }

    /// Whether every byte of a range has a place, so that it can be written.
    pub fn covers(&self, offset: u64, len: u64) -> bool {
        let end = offset.saturating_add(len);
        let held = self.components.iter().filter(|component| component.place != Place::None);
        // Components do not overlap.
        let within = held
            .map(|component| component.end.min(end).saturating_sub(component.start.max(offset)));
        within.sum::<u64>() == end - offset
    }

    /// Whether every component has a place. Otherwise any client can have some of them made, and
    /// write there.
    pub fn is_complete(&self) -> bool {
        self.components.iter().all(|component| component.place != Place::None)
    }

    /// Whether a range can be changed now. Otherwise the metadata server has to prepare that: it
    /// makes objects, or makes other mirrors stale [LAYOUT-12].
    pub fn may_write(&self, offset: u64, len: u64) -> bool {
        self.covers(offset, len) && self.may_change((offset, offset.saturating_add(len)))
    }

    /// Whether no other mirror has data of a range that a change of it would make old.
    pub(crate) fn may_change(&self, (start, end): (u64, u64)) -> bool {
        self.mirrors.as_ref().is_none_or(|others| {
            let changes = |&(from, to): &(u64, u64)| from < end && start < to;
            others.writable && !others.current.iter().any(changes)
        })
    }

    /// The generation that a change names, so that an object of a later layout refuses it; none
    /// for a file without mirrors.
    pub(crate) fn version(&self) -> Option<u32> {
        self.mirrors.as_ref().map(|_| self.generation)
    }

    /// The object of a stripe; none if the data are on the metadata server or nowhere.
    pub fn object(&self, component: usize, stripe: u16) -> Option<ObjectPlace> {
        match &self.components.get(component)?.place {
            Place::Objects { objects, .. } => objects.get(usize::from(stripe)).copied(),
            Place::None | Place::Mdt => None,
        }
    }

    /// All objects, with component and stripe.
    pub fn objects(&self) -> impl Iterator<Item = (usize, u16, ObjectPlace)> + '_ {
        self.components.iter().enumerate().flat_map(|(index, component)| {
            let objects = match &component.place {
                Place::Objects { objects, .. } => objects.as_slice(),
                Place::None | Place::Mdt => &[],
            };
            let numbered = objects.iter().zip(0u16..);
            numbered.map(move |(object, stripe)| (index, stripe, *object))
        })
    }

    /// The component whose data are on the metadata server, if there is one.
    pub fn component_on_mdt(&self) -> Option<usize> {
        self.components.iter().position(|component| component.place == Place::Mdt)
    }

    /// The size that each object has when the file ends at `size`, for the objects that may have to
    /// change: those of the component that holds the last byte, and of all behind it [LAYOUT-10].
    /// Data on the metadata server are stripe 0 of their component.
    pub fn object_sizes(&self, size: u64) -> Vec<(usize, u16, u64)> {
        let mut sizes = Vec::new();
        for (index, component) in self.components.iter().enumerate() {
            // The object at the end of its component shows the size if the file ends there.
            if component.end < size {
                continue;
            }
            let behind = component.start >= size;
            match &component.place {
                Place::None => {}
                Place::Mdt => sizes.push((index, 0, size)),
                Place::Objects { striping, objects } => {
                    let stripes = (0u16..).zip(objects);
                    let end = |stripe| match behind {
                        true => 0,
                        false => striping.object_offset_from(stripe, size),
                    };
                    sizes.extend(stripes.map(|(stripe, _)| (index, stripe, end(stripe))));
                }
            }
        }
        sizes
    }

    /// The parts of objects that hold a range of the file: component and stripe, the first byte in
    /// the object, and that behind the last one.
    pub(crate) fn object_ranges(&self, start: u64, end: u64) -> Vec<((usize, u16), u64, u64)> {
        let mut ranges = Vec::new();
        for (index, component) in self.components.iter().enumerate() {
            let (from, to) = (start.max(component.start), end.min(component.end));
            let Place::Objects { striping, objects } = &component.place else { continue };
            if from >= to {
                continue;
            }
            for (stripe, _) in (0u16..).zip(objects) {
                let from = striping.object_offset_from(stripe, from);
                let to = striping.object_offset_from(stripe, to);
                if from < to {
                    ranges.push(((index, stripe), from, to));
                }
            }
        }
        ranges
    }

    /// The byte of the file that a byte of one of its objects is; none if it is behind the end of
    /// the component.
    pub(crate) fn file_offset(&self, component: usize, stripe: u16, at: u64) -> Option<u64> {
        let component = self.components.get(component)?;
        let Place::Objects { striping, .. } = &component.place else { return None };
        let offset = striping.file_size(stripe, at.checked_add(1)?)? - 1;
        (offset < component.end).then_some(offset)
    }

    /// Whether there is a place for the last byte of a file of this size.
    pub fn reaches(&self, size: u64) -> bool {
        size == 0 || self.covers(size - 1, 1)
    }

    /// The size of the file by the size of one of its objects.
    pub fn file_size(&self, component: usize, stripe: u16, object_size: u64) -> u64 {
        let Some(component) = self.components.get(component) else { return 0 };
        let size = match &component.place {
            Place::None => 0,
            Place::Mdt => object_size,
            Place::Objects { striping, .. } => {
                striping.file_size(stripe, object_size).unwrap_or(u64::MAX)
            }
        };
        // An object of a later component has a hole where the file is held by earlier ones.
        size.min(component.end)
    }
}

fn place_of(plain: &PlainLayout<'_>, made: bool) -> Result<Place, ClientError> {
    let bad = |text: &str| ClientError::Layout(text.to_owned());
    if plain.header.pattern.kind() == Pattern::MDT {
        return Ok(Place::Mdt);
    }
    if !made {
        return Ok(Place::None);
    }
    let striping = plain.striping().ok_or_else(|| bad("it has no stripes"))?;
    let objects = plain.objects.iter().take(usize::from(plain.header.stripe_count));
    let objects = objects.map(|object| ObjectPlace { oi: object.oi, ost: object.index }).collect();
    Ok(Place::Objects { striping, objects })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn striped(start: u64, end: u64, size: u32, count: u16) -> FileComponent {
        let striping = Striping::new(size, count).expect("stripes");
        let object = |stripe| ObjectPlace { oi: Fid::new(1 << 33, stripe), ost: stripe };
        let objects = (0..u32::from(count)).map(object).collect();
        FileComponent { start, end, place: Place::Objects { striping, objects } }
    }

    fn layout(components: Vec<FileComponent>) -> FileLayout {
        FileLayout { components, generation: 1, mirrors: None }
    }

    #[test]
    fn a_range_is_cut_at_stripes_and_components() {
        let file = layout(vec![
            FileComponent { start: 0, end: 100, place: Place::Mdt },
            striped(100, 1000, 64, 2),
            FileComponent { start: 1000, end: u64::MAX, place: Place::None },
        ]);
        let pieces = file.pieces(90, 50);
        let of = |piece: &Piece| (piece.component, piece.stripe, piece.object_offset, piece.len);
        // Stripes are counted from the start of the file: 100 lies in the second one.
        assert_eq!(
            pieces.iter().map(of).collect::<Vec<_>>(),
            [(0, 0, 90, 10), (1, 1, 36, 28), (1, 0, 64, 12)]
        );
        assert!(file.covers(0, 1000));
        assert!(!file.covers(999, 2));
        assert!(FileLayout::default().pieces(0, 10).is_empty());
        // As large as a file can be, without a look at each piece.
        let large = layout(vec![striped(0, u64::MAX, 64, 3)]);
        assert!(large.covers(0, i64::MAX as u64) && large.covers(5, u64::MAX - 5));
        assert_eq!(large.object_ranges(0, 1 << 62).len(), 3);
    }

    #[test]
    fn a_file_ends_where_its_last_object_does() {
        let file = layout(vec![striped(0, u64::MAX, 64, 2)]);
        assert_eq!(file.file_size(0, 1, 10), 74);
        assert_eq!(file.file_size(0, 0, 65), 129);
        assert_eq!(file.file_size(0, 0, 0), 0);
        let bounded = layout(vec![striped(0, 100, 64, 1)]);
        assert_eq!(bounded.file_size(0, 0, 500), 100);
    }

    #[test]
    fn a_cut_file_ends_where_it_shall() {
        let file = layout(vec![
            FileComponent { start: 0, end: 100, place: Place::Mdt },
            striped(100, 1000, 64, 2),
            striped(1000, u64::MAX, 64, 3),
        ]);
        assert_eq!(
            file.object_sizes(100),
            [(0, 0, 100), (1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 1, 0), (2, 2, 0)]
        );
        // Byte 200 is byte 8 of the second row of the second object.
        assert_eq!(file.object_sizes(200)[..2], [(1, 0, 128), (1, 1, 72)]);
        for size in 0..3000 {
            let sizes = file.object_sizes(size).into_iter();
            let ends = sizes.map(|(component, stripe, end)| file.file_size(component, stripe, end));
            assert_eq!(ends.max(), Some(size));
        }
    }

    /// [LAYOUT-6].
    #[test]
    fn ranges_of_objects_are_those_of_their_bytes() {
        let file = layout(vec![
            striped(0, 128, 64, 1),
            striped(128, 1000, 64, 2),
            FileComponent { start: 1000, end: u64::MAX, place: Place::None },
        ]);
        for (start, end) in [(0, 1000), (0, 1), (100, 300), (191, 193), (990, 2000)] {
            let ranges = file.object_ranges(start, end);
            let mut held: Vec<u64> = Vec::new();
            for ((component, stripe), from, to) in ranges {
                held.extend((from..to).filter_map(|at| file.file_offset(component, stripe, at)));
            }
            held.sort_unstable();
            // Objects of the second component count from the start of the file.
            held.retain(|offset| *offset >= start);
            assert_eq!(held, (start..end.min(1000)).collect::<Vec<_>>());
        }
    }

    /// [LAYOUT-12].
    #[test]
    fn a_range_is_changed_if_no_other_mirror_has_it() {
        let mut file = layout(vec![striped(0, u64::MAX, 64, 1)]);
        assert!(file.may_write(0, 10) && file.version().is_none());
        file.mirrors = Some(Mirrors { writable: false, current: vec![] });
        assert!(!file.may_write(0, 10));
        file.mirrors = Some(Mirrors { writable: true, current: vec![(100, 200)] });
        assert!(file.may_write(0, 100) && file.may_write(200, 5));
        assert!(!file.may_write(99, 2) && !file.may_write(150, 1));
        assert_eq!(file.version(), Some(1));
    }

    #[test]
    fn a_hole_at_the_end_has_no_object() {
        let mut parts = vec![striped(0, 128, 64, 1), striped(128, 1000, 64, 1)];
        parts[1].place = Place::None;
        let file = layout(parts);
        assert!(file.reaches(0) && file.reaches(128));
        assert!(!file.reaches(129) && !file.reaches(2000));
        assert_eq!(file.object_sizes(129), []);
    }

    #[test]
    fn layouts_that_cannot_be_read_are_refused() {
        assert_eq!(FileLayout::parse(&[]), Ok(FileLayout::default()));
        assert_eq!(FileLayout::parse(&[0; 64]), Ok(FileLayout::default()));
        assert!(FileLayout::parse(&[1, 2, 3]).is_err());
        assert!(FileLayout::parse(b"not a layout at all").is_err());
    }
}
