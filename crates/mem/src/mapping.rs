//! Pages from the operating system.

use std::ptr::NonNull;

/// Zeroed, readable and writable memory that this value owns; it is unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages belong to this value alone (no other value has the address) and to no thread.
unsafe impl Send for Mapping {}
// SAFETY: no safe method touches the bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// `len` bytes from `offset`, for reading, without a claim to the rest of the mapping. `None`
    /// if they are not inside the mapping.
    ///
    /// # Safety
    /// For as long as `'a`, the caller keeps the mapping alive, and these bytes are not written.
    pub(crate) unsafe fn part<'a>(&self, offset: usize, len: usize) -> Option<&'a [u8]> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: the range was just checked against the mapping, whose bytes are initialised; the
        // caller excludes writers and vouches for the lifetime.
        inside.then(|| unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) })
    }

    /// `len` bytes from `offset`, for writing, without a claim to the rest of the mapping, so that
    /// several disjoint parts can be held at once. `None` if they are not inside the mapping.
    ///
    /// # Safety
    /// For as long as `'a`, the caller keeps the mapping alive, and no other slice covers any of
    /// these bytes.
    pub(crate) unsafe fn part_mut<'a>(&self, offset: usize, len: usize) -> Option<&'a mut [u8]> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: the range was just checked against the mapping; the caller excludes aliases and
        // vouches for the lifetime.
        inside
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), len) })
    }
}

#[cfg(not(miri))]
mod pages {
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    use super::Mapping;

    impl Mapping {
        /// Maps `len` bytes, aligned to `align` (a power of two, both multiples of the page size)
        /// so that the kernel can use huge pages. `None` if the kernel has no more.
        pub(crate) fn new(len: usize, align: usize) -> Option<Mapping> {
            // Asking for more than needed and cutting both ends is the portable way to an
            // alignment.
            let wide = len.checked_add(align)?;
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a fresh private mapping at an address of the kernel's choice touches
            // nothing that exists.
            let start =
                unsafe { mmap_anonymous(null_mut(), wide, prot, MapFlags::PRIVATE) }.ok()?;
            let front = start.align_offset(align);
            let back = wide - front - len;
            // SAFETY: `front + len + back` is exactly what was mapped above, and no other value has
            // its address yet.
            let base = unsafe {
                let base = start.byte_add(front);
                if front > 0 {
                    unmap(start.cast(), front);
                }
                if back > 0 {
                    unmap(base.byte_add(len).cast(), back);
                }
                base
            };
            // SAFETY: `base` starts `len` mapped bytes. This is only advice: a kernel without
            // transparent huge pages returns EINVAL, and small pages serve as well.
            let _ = unsafe { madvise(base, len, Advice::LinuxHugepage) };
            Some(Mapping { base: NonNull::new(base.cast())?, len })
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours alone, and no slice of it outlives `self`: that is what
            // the callers of `part` and `part_mut` promise.
            unsafe { unmap(self.base.as_ptr(), self.len) }
        }
    }

    /// # Safety
    /// The range is mapped and not in use any more.
    unsafe fn unmap(start: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        let result = unsafe { munmap(start.cast(), len) };
        // Fails for a bad range (our mistake), or when the process has too many mappings to split
        // one; then the pages stay mapped, which is a leak but not a danger.
        debug_assert!(result.is_ok(), "munmap: {result:?}");
    }
}

/// Miri has no huge pages and cannot unmap half of a mapping; the heap is used instead.
#[cfg(miri)]
mod heap {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::Mapping;

    const ALIGN: usize = 4096;

    impl Mapping {
        pub(crate) fn new(len: usize, _align: usize) -> Option<Mapping> {
            assert!(len > 0);
            // SAFETY: the layout is not empty.
            let base = unsafe { alloc_zeroed(Layout::from_size_align(len, ALIGN).ok()?) };
            Some(Mapping { base: NonNull::new(base)?, len })
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: allocated in `new` with the same layout, which was valid there.
            unsafe {
                let layout = Layout::from_size_align_unchecked(self.len, ALIGN);
                dealloc(self.base.as_ptr(), layout);
            }
        }
    }
}
