//! Layouts of files and directories: which objects hold which bytes, which stripes which names
//! [LAYOUT-1].

mod composite;
mod lmv;
mod name_hash;
mod plain;
mod stripes;
#[cfg(test)]
mod tests;

use crate::codec::{Wire, Writer};
use crate::describe::{Describe, Value};

pub use composite::ComponentEntry;
pub use composite::{Component, CompositeFlags, CompositeHeader, CompositeLayout, EntryFlags};
pub use lmv::{HashFlags, HashKind, HashWord, LmvHeader, LmvLayout, LmvUser, LmvUserLayout};
pub use plain::{LovHeader, LovObject, Pattern, PlainLayout};
pub use stripes::Striping;

/// The first word of a layout [LAYOUT-2].
pub mod magic {
    /// A file without a pool.
    pub const V1: u32 = 0x0bd1_0bd0;
    /// A file with a pool.
    pub const V3: u32 = 0x0bd3_0bd0;
    /// As V3, with a list of object servers; only in requests.
    pub const SPECIFIC: u32 = 0x0bd5_0bd0;
    /// Several components.
    pub const COMPOSITE: u32 = 0x0bd6_0bd0;
    /// Data that Lustre does not hold.
    pub const FOREIGN: u32 = 0x0bd7_0bd0;
    /// Several components, some of which extend themselves.
    pub const EXTENDING: u32 = 0x0bd8_0bd0;
    /// A striped directory.
    pub const LMV: u32 = 0x0cd2_0cd0;
    /// The layout that a user asks for a directory, or its default.
    pub const LMV_USER: u32 = 0x0cd3_0cd0;
    /// A stripe of a directory.
    pub const LMV_STRIPE: u32 = 0x0cd4_0cd0;
    /// A directory that Lustre does not hold.
    pub const LMV_FOREIGN: u32 = 0x0cd5_0cd0;
}

/// The most stripes of a component.
pub const STRIPES_MAX: usize = 2000;
/// The most components of a layout.
pub const COMPONENTS_MAX: usize = 512;
/// Stripe sizes are multiples of this many bytes.
pub const STRIPE_SIZE_STEP: u32 = 65536;

/// Why bytes are not a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// They end too early.
    #[error(transparent)]
    Short(#[from] crate::codec::Short),
    /// The first word is none of the known ones.
    #[error("{0:#010x} is not the magic number of a layout")]
    BadMagic(u32),
    /// A composite layout is longer than the bytes.
    #[error("a layout of {wanted} bytes in {have}")]
    BadSize {
        /// What the header says.
        wanted: u32,
        /// What is there.
        have: usize,
    },
    /// A composite layout has no components, or too many.
    #[error("{0} components: 1 to 512 are allowed")]
    BadCount(u16),
    /// The part of a component is outside of the layout, or overlaps the entries.
    #[error("component {0} is outside of the layout")]
    ComponentOutside(usize),
    /// The part of a component is not a plain layout.
    #[error("component {index}: {magic:#010x} is not the magic number of a component")]
    ComponentMagic {
        /// The component.
        index: usize,
        /// Its first word.
        magic: u32,
    },
}

/// Why a layout cannot be used, though it can be read [LAYOUT-7].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LayoutFault {
    /// The stripe size is 0, or no multiple of 65536.
    #[error("a stripe size of {0} bytes: it is a multiple of 65536")]
    StripeSize(u32),
    /// No stripes, or too many.
    #[error("{0} stripes: 1 to 2000 are allowed")]
    StripeCount(u16),
    /// Fewer objects than stripes.
    #[error("{objects} objects of {stripes} stripes")]
    Objects {
        /// What is there.
        objects: usize,
        /// What is announced.
        stripes: u16,
    },
    /// The data are not striped over objects in a known way.
    #[error("pattern {0} cannot be read")]
    Pattern(Pattern),
    /// The data are in an archive.
    #[error("the data are in an archive")]
    Released,
    /// The data are not Lustre's.
    #[error("the data are held elsewhere")]
    Foreign,
    /// A component ends before it starts.
    #[error("component {0} is empty")]
    EmptyComponent(usize),
    /// Two components of a mirror overlap, or are not in order.
    #[error("component {0} does not follow the one before it")]
    Order(usize),
}

/// A layout, decoded as far as it is used: a view of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout<'a> {
    /// A file: V1, V3, or a requested layout with a list of servers.
    Plain(PlainLayout<'a>),
    /// A file of several components.
    Composite(CompositeLayout<'a>),
    /// A file or directory whose data are held elsewhere: all bytes.
    Foreign(&'a [u8]),
    /// A striped directory, or a stripe.
    Lmv(LmvLayout<'a>),
    /// The layout that a user asks for a directory.
    LmvUser(LmvUserLayout<'a>),
}

impl<'a> Layout<'a> {
    /// Reads a layout. Buffers of requests may be larger than the layout in them; what
    /// follows a composite layout is left out.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn parse(bytes: &'a [u8]) -> Result<Layout<'a>, LayoutError> {
        let word = u32::parse(bytes)?;
        Ok(match word {
            magic::V1 | magic::V3 | magic::SPECIFIC => Layout::Plain(PlainLayout::parse(bytes)?),
            magic::COMPOSITE | magic::EXTENDING => {
                Layout::Composite(CompositeLayout::parse(bytes)?)
            }
            magic::FOREIGN | magic::LMV_FOREIGN => Layout::Foreign(bytes),
            magic::LMV | magic::LMV_STRIPE => Layout::Lmv(LmvLayout::parse(bytes)?),
            magic::LMV_USER => Layout::LmvUser(LmvUserLayout::parse(bytes)?),
            other => return Err(LayoutError::BadMagic(other)),
        })
    }

    /// Appends the layout.
    pub fn write(&self, to: &mut Writer<'_>) {
        match self {
            Layout::Plain(plain) => plain.write(to),
            Layout::Composite(composite) => composite.write(to),
            Layout::Foreign(bytes) => to.bytes(bytes),
            Layout::Lmv(lmv) => lmv.write(to),
            Layout::LmvUser(user) => user.write(to),
        }
    }

    /// Checks that data can be read and written by it: what a client must know before it computes
    /// with stripes [LAYOUT-7]. Directories have no data; they are always fit.
    ///
    /// # Errors
    /// [`LayoutFault`].
    pub fn validate(&self) -> Result<(), LayoutFault> {
        match self {
            Layout::Plain(plain) => plain.validate(true),
            Layout::Composite(composite) => composite.validate(),
            Layout::Foreign(_) => Err(LayoutFault::Foreign),
            Layout::Lmv(_) | Layout::LmvUser(_) => Ok(()),
        }
    }

    /// The generation, which changes with every change of the layout of a file.
    pub const fn generation(&self) -> Option<u32> {
        match self {
            Layout::Plain(plain) => Some(plain.header.generation as u32),
            Layout::Composite(composite) => Some(composite.header.generation),
            _ => None,
        }
    }
}

impl Describe for Layout<'_> {
    fn describe(&self) -> Value {
        match self {
            Layout::Plain(plain) => plain.describe(),
            Layout::Composite(composite) => composite.describe(),
            Layout::Foreign(bytes) => bytes.describe(),
            Layout::Lmv(lmv) => lmv.describe(),
            Layout::LmvUser(user) => user.describe(),
        }
    }
}

/// A buffer with a layout, a requested one, or room for one that was not used: zeros [LAYOUT-8].
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Ea<'a>(pub &'a [u8]);

impl<'a> Ea<'a> {
    /// No layout: a buffer of length 0.
    pub const NONE: Ea<'static> = Ea(&[]);

    /// Whether there is nothing but zeros.
    pub fn is_unused(&self) -> bool {
        self.0.iter().all(|&byte| byte == 0)
    }

    /// The layout; none if the buffer is empty or holds zeros only.
    ///
    /// # Errors
    /// [`LayoutError`].
    pub fn layout(&self) -> Result<Option<Layout<'a>>, LayoutError> {
        match self.is_unused() {
            true => Ok(None),
            false => Layout::parse(self.0).map(Some),
        }
    }
}

impl core::fmt::Debug for Ea<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Ea({} bytes)", self.0.len())
    }
}

impl Describe for Ea<'_> {
    /// The layout. A symbolic link has its target in such a buffer.
    fn describe(&self) -> Value {
        match self.layout() {
            Ok(None) => Value::Fields(vec![("zeros", Value::Number(self.0.len() as u64))]),
            Ok(Some(layout)) => layout.describe(),
            Err(_) => Value::text(crate::text::Text::parse(self.0)),
        }
    }
}
