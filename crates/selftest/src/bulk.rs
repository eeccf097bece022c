//! Memory for bulk data: one source for everything sent, a budget for everything received.

use lustrine_lnet::memory::{Memory, Span};
use lustrine_wire::srpc::BULK_MAX;

use crate::limits::PAGE;
use crate::pattern;

/// The one buffer all bulk data are sent from. The pattern is constant and satisfies every check,
/// so nothing is written per RPC.
#[derive(Debug, Default)]
pub(crate) struct Source {
    span: Option<Span>,
}

impl Source {
    /// `len` bytes of pattern that begin at `offset` of a page; filled at the first use. `None`
    /// when memory is used up.
    ///
    /// # Panics
    /// When `len` is over 1 MiB or `offset` is not within a page.
    pub(crate) fn part(&mut self, memory: &mut impl Memory, offset: u32, len: u32) -> Option<Span> {
        assert!(len <= BULK_MAX && offset < PAGE, "{offset}+{len}");
        if self.span.is_none() {
            let span = memory.alloc(BULK_MAX + PAGE)?;
            pattern::fill(memory, span);
            self.span = Some(span);
        }
        self.span.map(|span| span.part(offset, len))
    }

    /// Whether it was used and not released.
    pub(crate) fn holds_memory(&self) -> bool {
        self.span.is_some()
    }

    pub(crate) fn release(&mut self, memory: &mut impl Memory) {
        if let Some(span) = self.span.take() {
            memory.free(span);
        }
    }
}

/// What is left of `selftest_memory`.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: u64,
    used: u64,
    /// Part of `used` that stays taken for the length of a test.
    held: u64,
}

/// For how long memory is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    /// Until an RPC is answered.
    Rpc,
    /// Until a test ends. At most half of the budget goes this way, so that requests of others
    /// are always answered.
    Test,
}

/// Memory taken from a budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) span: Span,
    term: Term,
}

/// The least a partition needs to answer one RPC and run one unit of the largest size, whose data
/// may begin anywhere in a page: the half that units may hold is enough for one.
const BUDGET_MIN: u64 = 2 * charge(BULK_MAX + PAGE);

/// Shortest block of the memory that data are taken from, in bytes.
const BLOCK_MIN: u32 = 64;

/// Up to here a block is a power of two long, above a multiple of [`BLOCK_GRANULE`].
const BLOCK_POWER_MAX: u32 = 1 << 20;

/// See [`BLOCK_POWER_MAX`].
const BLOCK_GRANULE: u32 = 2 << 20;

impl Budget {
    /// One of `cpts` equal shares of `mebibytes`.
    pub(crate) fn new(mebibytes: i64, cpts: u16) -> Budget {
        let bytes = (mebibytes.max(0) as u64) << 20;
        Budget { limit: (bytes / u64::from(cpts.max(1))).max(BUDGET_MIN), used: 0, held: 0 }
    }

    /// All there is, in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether `size` more bytes for RPCs leave half of what tests have not taken.
    pub(crate) fn leaves_half(&self, size: u64) -> bool {
        self.used - self.held + size <= (self.limit - self.held) / 2
    }

    /// Takes memory, or `None` when it has to wait.
    pub(crate) fn take(&mut self, memory: &mut impl Memory, len: u32, term: Term) -> Option<Grant> {
        let size = charge(len);
        let too_long = term == Term::Test && self.held + size > self.limit / 2;
        if self.used + size > self.limit || too_long {
            return None;
        }
        let span = memory.alloc(len)?;
        self.used += size;
        if term == Term::Test {
            self.held += size;
        }
        Some(Grant { span, term })
    }

    /// Gives memory back.
    pub(crate) fn give(&mut self, memory: &mut impl Memory, grant: Grant) {
        let size = charge(grant.span.len);
        self.used -= size;
        if grant.term == Term::Test {
            self.held -= size;
        }
        memory.free(grant.span);
    }
}

/// What `len` bytes cost: the whole block they are in. A length just over a block costs twice.
///
/// # Panics
/// When `len` is over 4 GiB less one granule, far more than one RPC moves.
pub(crate) const fn charge(len: u32) -> u64 {
    if len > BLOCK_POWER_MAX {
        return len.next_multiple_of(BLOCK_GRANULE) as u64;
    }
    let block = len.next_power_of_two();
    if block < BLOCK_MIN { BLOCK_MIN as u64 } else { block as u64 }
}

#[cfg(test)]
mod tests;
