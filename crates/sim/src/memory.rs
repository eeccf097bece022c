//! A node's memory, made of ropes.

mod digest;
mod pattern;
mod region;
mod rope;

use std::collections::VecDeque;

use lustrine_lnet::memory::{Memory, Span, Words};

use region::Region;
pub(crate) use rope::Digests;
pub use rope::Rope;

/// Region numbers are reused only after this many frees, so that the use of a freed span is
/// detected.
const QUARANTINE: usize = 256;

/// The memory that a node has in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Allocated spans.
    pub spans: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The largest number of bytes allocated at once.
    pub bytes_max: u64,
}

/// A region of memory that has come or gone. A driver that needs registered memory registers it,
/// or forgets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegionChange {
    /// There is a new region.
    Added {
        /// Its number.
        region: u32,
        /// Its length in bytes.
        len: u32,
    },
    /// A region is gone; another one may get its number.
    Removed {
        /// Its number.
        region: u32,
    },
}

/// Memory that records its contents in compact form: the data of a selftest takes no room, whatever
/// its length. It has a limit, and is exact to the byte.
#[derive(Debug)]
pub struct RopeMemory {
    regions: Vec<Option<Region>>,
    freed: VecDeque<u32>,
    usage: Usage,
    limit: u64,
    /// What was not taken yet, for a driver that registers memory.
    changes: Option<VecDeque<RegionChange>>,
}

impl RopeMemory {
    /// Memory of `limit` bytes.
    pub fn new(limit: u64) -> RopeMemory {
        RopeMemory {
            regions: Vec::new(),
            freed: VecDeque::new(),
            usage: Usage::default(),
            limit,
            changes: None,
        }
    }

    /// Has the memory report its regions from now on. Before the first one is allocated.
    pub(crate) fn track_regions(&mut self) {
        assert!(self.regions.is_empty(), "there are regions that were not reported");
        self.changes = Some(VecDeque::new());
    }

    /// The next region that has come or gone.
    pub(crate) fn next_region_change(&mut self) -> Option<RegionChange> {
        self.changes.as_mut()?.pop_front()
    }

    /// The memory in use.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// A copy of the contents of a span.
    ///
    /// # Panics
    /// When the span is not allocated.
    pub fn rope(&self, span: Span) -> Rope {
        self.region(span).take(span.offset, span.len)
    }

    /// Stores a rope at the start of a span.
    ///
    /// # Panics
    /// When the span is not allocated, or shorter than the rope.
    pub fn put(&mut self, span: Span, rope: &Rope) {
        assert!(rope.len() <= u64::from(span.len), "{} bytes into {span:?}", rope.len());
        self.region_mut(span).put(span.offset, rope);
    }

    /// Whether a span begins with these bytes.
    ///
    /// # Panics
    /// When the span is not allocated, or shorter than the rope.
    pub fn holds(&self, span: Span, rope: &Rope) -> bool {
        assert!(rope.len() <= u64::from(span.len), "{} bytes of {span:?}", rope.len());
        self.region(span).holds(span.offset, rope)
    }

    /// The [digest](Rope::digest) of the contents of a span; `None` if it was freed.
    pub fn digest(&self, span: Span) -> Option<u64> {
        let region = self.regions.get(span.region as usize)?.as_ref()?;
        let within = u64::from(span.offset) + u64::from(span.len) <= u64::from(region.len());
        within.then(|| region.digest(span.offset, span.len))
    }

    fn region(&self, span: Span) -> &Region {
        let region = self.regions[span.region as usize].as_ref().expect("an allocated span");
        inside(region, span);
        region
    }

    fn region_mut(&mut self, span: Span) -> &mut Region {
        let region = self.regions[span.region as usize].as_mut().expect("an allocated span");
        inside(region, span);
        region
    }
}

fn inside(region: &Region, span: Span) {
    let end = u64::from(span.offset) + u64::from(span.len);
    assert!(end <= u64::from(region.len()), "{span:?} is not inside a region of {}", region.len());
}

impl Memory for RopeMemory {
    fn alloc(&mut self, len: u32) -> Option<Span> {
        if self.usage.bytes + u64::from(len) > self.limit {
            return None;
        }
        let region = match self.freed.len() {
            rested if rested > QUARANTINE => self.freed.pop_front().expect("some are freed"),
            _ => {
                self.regions.push(None);
                self.regions.len() as u32 - 1
            }
        };
        self.regions[region as usize] = Some(Region::new(len));
        if let Some(changes) = &mut self.changes {
            changes.push_back(RegionChange::Added { region, len });
        }
        self.usage.spans += 1;
        self.usage.bytes += u64::from(len);
        self.usage.bytes_max = self.usage.bytes_max.max(self.usage.bytes);
        Some(Span { region, offset: 0, len })
    }

    fn free(&mut self, span: Span) {
        let region = self.regions[span.region as usize].take();
        let region = region.unwrap_or_else(|| panic!("freed twice: {span:?}"));
        assert_eq!((span.offset, span.len), (0, region.len()), "only whole spans are freed");
        self.usage.spans -= 1;
        self.usage.bytes -= u64::from(span.len);
        if let Some(changes) = &mut self.changes {
            changes.push_back(RegionChange::Removed { region: span.region });
        }
        self.freed.push_back(span.region);
    }

    fn write(&mut self, span: Span, bytes: &[u8]) {
        assert!(bytes.len() <= span.len as usize, "{} bytes into {span:?}", bytes.len());
        self.region_mut(span).write(span.offset, bytes);
    }

    fn read(&self, span: Span, out: &mut [u8]) {
        assert!(out.len() <= span.len as usize, "{} bytes of {span:?}", out.len());
        self.region(span).read(span.offset, out);
    }

    fn copy(&mut self, from: Span, to: Span) {
        assert_eq!(from.len, to.len, "copies are as long as what they are copies of");
        let rope = self.rope(from);
        self.put(to, &rope);
    }

    fn fill_words(&mut self, span: Span, word: [u8; 8], which: Words) {
        assert_eq!(span.len % 8, 0, "{span:?} is not made of words");
        let region = self.region_mut(span);
        match which {
            Words::All => region.fill(span.offset, span.len, word),
            Words::BlockEnds { block } => region.fill_ends(span.offset, span.len, word, block),
        }
    }

    fn compare_words(&self, span: Span, word: [u8; 8], which: Words) -> Result<(), u32> {
        assert_eq!(span.len % 8, 0, "{span:?} is not made of words");
        let region = self.region(span);
        let wrong = match which {
            Words::All => region.differs(span.offset, span.len, word),
            Words::BlockEnds { block } => region.ends_differ(span.offset, span.len, word, block),
        };
        wrong.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests;
