//! Layouts of files as a metadata target has them: components, their objects, and the forms in
//! which clients ask for them.

use lustrine_fswire::codec::{Array, Writer};
use lustrine_fswire::fid::Fid;
use lustrine_fswire::layout::{
    COMPONENTS_MAX, ComponentEntry, CompositeFlags, CompositeHeader, CompositeLayout, Ea,
    EntryFlags, Layout, LovHeader, LovObject, Pattern, PlainLayout, STRIPE_SIZE_STEP, STRIPES_MAX,
    magic,
};
use lustrine_fswire::text::FixedText;

use crate::errno;

/// The layout of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileLayout {
    /// Whether it is written as a composite one.
    composite: bool,
    generation: u32,
    pub(crate) components: Vec<Component>,
}

/// A component of a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Component {
    pub(crate) start: u64,
    /// Behind the last byte.
    pub(crate) end: u64,
    /// Whether it has its objects.
    pub(crate) made: bool,
    pub(crate) pattern: Pattern,
    pub(crate) stripe_size: u32,
    /// How many objects it has, or will have.
    pub(crate) stripe_count: u16,
    pool: Option<FixedText<16>>,
    pub(crate) objects: Vec<LovObject>,
}

/// What files get unless something else is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) stripe_count: u16,
    pub(crate) stripe_size: u32,
    /// The indexes of the object targets.
    pub(crate) osts: Vec<u32>,
}

/// Stripe count of a request: all targets.
const ALL_TARGETS: u16 = u16::MAX;

impl Component {
    /// Whether its data are on the metadata server.
    pub(crate) fn on_mdt(&self) -> bool {
        self.pattern.kind() == Pattern::MDT
    }

    fn plain(defaults: &Defaults) -> Component {
        Component {
            start: 0,
            end: u64::MAX,
            made: false,
            pattern: Pattern::RAID0,
            stripe_size: defaults.stripe_size,
            stripe_count: defaults.stripe_count,
            pool: None,
            objects: Vec::new(),
        }
    }

    /// A component as a client asks for it.
    fn requested(plain: &PlainLayout<'_>, defaults: &Defaults) -> Result<Component, i32> {
        let header = &plain.header;
        let pattern = match header.pattern.kind() {
            Pattern::DEFAULT => Pattern::RAID0,
            known @ (Pattern::RAID0 | Pattern::MDT) => known,
            Pattern::OVERSTRIPED => Pattern::OVERSTRIPED,
            _ => return Err(errno::EINVAL),
        };
        let stripe_size = match header.stripe_size {
            0 => defaults.stripe_size,
            size if size.is_multiple_of(STRIPE_SIZE_STEP) => size,
            _ => return Err(errno::EINVAL),
        };
        let all = u16::try_from(defaults.osts.len()).unwrap_or(u16::MAX).max(1);
        let most = match pattern {
            Pattern::OVERSTRIPED => STRIPES_MAX as u16,
            _ => all,
        };
        let stripe_count = match (pattern, header.stripe_count) {
            (Pattern::MDT, _) => 0,
            (_, 0) => defaults.stripe_count.min(all),
            (_, ALL_TARGETS) => all,
            (_, count) => count.min(most),
        };
        let pool = plain.pool.filter(|pool| !pool.as_bytes().is_empty());
        Ok(Component {
            pattern,
            stripe_size,
            stripe_count,
            pool,
            made: pattern == Pattern::MDT,
            ..Component::plain(defaults)
        })
    }

    /// A component as a server wrote it.
    fn stored(plain: &PlainLayout<'_>, made: bool) -> Component {
        let header = &plain.header;
        let objects = plain.objects.iter().filter(|_| made);
        let count = usize::from(header.stripe_count);
        Component {
            start: 0,
            end: u64::MAX,
            made,
            pattern: header.pattern.kind(),
            stripe_size: header.stripe_size,
            stripe_count: header.stripe_count,
            pool: plain.pool,
            objects: objects.take(count).collect(),
        }
    }
}

impl FileLayout {
    /// The layout of a file for which nothing is asked.
    pub(crate) fn plain(defaults: &Defaults) -> FileLayout {
        let mut component = Component::plain(defaults);
        let all = u16::try_from(defaults.osts.len()).unwrap_or(u16::MAX).max(1);
        component.stripe_count = component.stripe_count.clamp(1, all);
        FileLayout { composite: false, generation: 0, components: vec![component] }
    }

    /// A layout that a client asks for; none if it asks for nothing.
    ///
    /// # Errors
    /// The errno of Linux of the reply, positive.
    pub(crate) fn requested(ea: Ea<'_>, defaults: &Defaults) -> Result<Option<FileLayout>, i32> {
        let Some(layout) = ea.layout().map_err(|_| errno::EINVAL)? else { return Ok(None) };
        match layout {
            Layout::Plain(plain) => {
                let component = Component::requested(&plain, defaults)?;
                if component.on_mdt() {
                    return Err(errno::EINVAL);
                }
                let components = vec![component];
                Ok(Some(FileLayout { composite: false, generation: 0, components }))
            }
            Layout::Composite(composite) => {
                let mut components: Vec<Component> = Vec::new();
                for part in composite.components() {
                    let (entry, plain) = (part.entry, part.layout.ok_or(errno::EINVAL)?);
                    let component = Component::requested(&plain, defaults)?;
                    let (start, end) = (entry.start, entry.end);
                    let before = components.last().map_or(0, |last| last.end);
                    // Mirrors and components that extend themselves are not made here.
                    let strange = entry.flags.contains(EntryFlags::EXTENSION)
                        || (component.on_mdt() && start != 0);
                    if start != before || end <= start || strange {
                        return Err(errno::EINVAL);
                    }
                    components.push(Component { start, end, ..component });
                }
                if components.is_empty() || components.len() > COMPONENTS_MAX {
                    return Err(errno::EINVAL);
                }
                Ok(Some(FileLayout { composite: true, generation: 1, components }))
            }
            _ => Err(errno::EINVAL),
        }
    }

    /// The layout that a server gave, with its objects: what a client replays an open with.
    pub(crate) fn given(ea: Ea<'_>) -> Option<FileLayout> {
        match ea.layout().ok()?? {
            Layout::Plain(plain) if plain.header.pattern.kind() != Pattern::DEFAULT => {
                let component = Component::stored(&plain, true);
                let whole = component.objects.len() == usize::from(component.stripe_count);
                let components = vec![component];
                whole.then_some(FileLayout { composite: false, generation: 0, components })
            }
            Layout::Composite(composite) => FileLayout::given_composite(&composite),
            _ => None,
        }
    }

    fn given_composite(composite: &CompositeLayout<'_>) -> Option<FileLayout> {
        let mut components = Vec::new();
        for part in composite.components() {
            let made = part.entry.flags.contains(EntryFlags::INIT);
            let component = Component::stored(&part.layout?, made);
            let objects = usize::from(component.stripe_count);
            if made && !component.on_mdt() && component.objects.len() != objects {
                return None;
            }
            let (start, end) = (part.entry.start, part.entry.end);
            components.push(Component { start, end, ..component });
        }
        let generation = composite.header.generation;
        Some(FileLayout { composite: true, generation, components })
    }

    /// Whether components that a range touches have no objects yet.
    pub(crate) fn lacks(&self, start: u64, end: u64) -> bool {
        let touched = |component: &&Component| component.start < end && start < component.end;
        self.components.iter().filter(touched).any(|component| !component.made)
    }

    /// Gives components that a range touches their objects, as `make` chooses them: so many.
    pub(crate) fn make(
        &mut self,
        start: u64,
        end: u64,
        mut make: impl FnMut(u16, Pattern) -> Vec<LovObject>,
    ) {
        // The layout that a file begins with is no change.
        let begins = self.components.iter().all(|component| component.objects.is_empty());
        let mut changed = false;
        for component in &mut self.components {
            if component.start < end && start < component.end && !component.made {
                component.objects = make(component.stripe_count, component.pattern);
                component.stripe_count = component.objects.len() as u16;
                component.made = true;
                changed = true;
            }
        }
        if changed && !begins {
            self.generation += 1;
        }
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &LovObject> {
        self.components.iter().flat_map(|component| &component.objects)
    }

    /// The part of the file that is on the metadata server.
    pub(crate) fn on_mdt(&self) -> Option<&Component> {
        self.components.iter().find(|component| component.on_mdt())
    }

    /// The generation.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// The layout as an attribute of a file.
    pub(crate) fn encode(&self, fid: Fid) -> Vec<u8> {
        let placeholder = [LovObject { index: LovObject::NO_INDEX, ..LovObject::default() }];
        let part = |component: &Component| {
            let header = LovHeader {
                magic: if component.pool.is_some() { magic::V3 } else { magic::V1 },
                pattern: component.pattern,
                oid: u64::from(fid.oid) | u64::from(fid.ver) << 32,
                seq: fid.seq,
                stripe_size: component.stripe_size,
                stripe_count: component.stripe_count,
                generation: if self.composite { 0 } else { self.generation as u16 },
            };
            (header, component.pool)
        };
        if !self.composite {
            let Some(component) = self.components.first() else { return Vec::new() };
            let (header, pool) = part(component);
            let objects = Array::from(component.objects.as_slice());
            let layout = PlainLayout { header, pool, objects, rest: &[] };
            let mut out = Vec::with_capacity(layout.len());
            layout.write(&mut Writer::new(&mut out));
            return out;
        }
        let mut parts = Vec::new();
        for (index, component) in self.components.iter().enumerate() {
            let mut flags = EntryFlags::empty();
            flags.set(EntryFlags::INIT, component.made);
            let entry = ComponentEntry {
                id: index as u32 + 1,
                flags,
                start: component.start,
                end: component.end,
                ..ComponentEntry::default()
            };
            let (header, pool) = part(component);
            let objects: Array<'_, LovObject> = match (component.on_mdt(), component.made) {
                (true, _) => Array::EMPTY,
                (false, true) => component.objects.as_slice().into(),
                (false, false) => placeholder.as_slice().into(),
            };
            parts.push((entry, PlainLayout { header, pool, objects, rest: &[] }));
        }
        let header = CompositeHeader {
            magic: magic::COMPOSITE,
            generation: self.generation,
            flags: CompositeFlags::NONE,
            ..CompositeHeader::default()
        };
        let mut out = Vec::new();
        CompositeLayout::build(&header, &parts, &mut Writer::new(&mut out));
        out
    }
}
