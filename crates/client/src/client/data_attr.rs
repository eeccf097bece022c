//! What the objects of a file know of its size, space and times.

use crate::attr::Attr;

/// What the objects of a file know of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DataAttr {
    /// Bytes.
    pub(super) size: u64,
    /// Units of 512 bytes.
    pub(super) blocks: u64,
    /// The latest ones of all objects, in seconds since 1970; none without objects.
    pub(super) times: Option<Times>,
}

/// Times in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) atime: i64,
    pub(super) mtime: i64,
    pub(super) ctime: i64,
}

impl DataAttr {
    /// Adds it to what the metadata server knows of the file.
    pub(super) fn complete(&self, attr: &mut Attr) {
        (attr.size, attr.blocks) = (Some(self.size), Some(self.blocks));
        if let Some(times) = self.times {
            attr.atime = attr.atime.max(times.atime);
            attr.mtime = attr.mtime.max(times.mtime);
            attr.ctime = attr.ctime.max(times.ctime);
        }
    }

    /// Takes what one more object knows, which holds the file up to `size`.
    pub(super) fn add(&mut self, size: u64, object: &DataAttr) {
        self.size = self.size.max(size);
        self.blocks = self.blocks.saturating_add(object.blocks);
        self.times = match (self.times, object.times) {
            (Some(a), Some(b)) => Some(Times {
                atime: a.atime.max(b.atime),
                mtime: a.mtime.max(b.mtime),
                ctime: a.ctime.max(b.ctime),
            }),
            (a, b) => a.or(b),
        };
    }
}
