//! Slots of modifying metadata requests [IMP-4].

/// Which slot a request needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotKind {
    /// None: it modifies nothing, or its target has no slots.
    #[default]
    None,
    /// One of the slots that the server granted.
    Modify,
    /// One of these, or the one that is kept for MDS_CLOSE.
    Close,
}

/// The slots of an import: at most one unanswered request has each tag.
#[derive(Debug)]
pub(crate) struct Slots {
    /// By tag, less 1; the last is that of MDS_CLOSE.
    used: Vec<bool>,
    /// Whether the server has granted some. One that grants none remembers one change and one close
    /// [IMP-4]: no more of each are in flight, and their requests name no slot.
    granted: bool,
}

impl Slots {
    /// `granted` slots and the one for MDS_CLOSE.
    pub(crate) fn new(granted: u16) -> Slots {
        Slots { used: vec![false; usize::from(granted.max(1)) + 1], granted: granted != 0 }
    }

    /// Changes the number of slots. Tags above the new number stay in use until they are given
    /// back.
    pub(crate) fn resize(&mut self, granted: u16) {
        self.granted = granted != 0;
        let wanted = usize::from(granted.max(1)) + 1;
        let in_use = self.used.iter().rposition(|used| *used).map_or(0, |last| last + 1);
        self.used.resize(wanted.max(in_use), false);
    }

    /// Takes a slot; 0 for a request that needs none. `None` if all are taken.
    ///
    /// `limit` is the largest number of slots to use, from `max_mod_rpcs_in_flight`.
    pub(crate) fn take(&mut self, kind: SlotKind, limit: u16) -> Option<u16> {
        let common = (self.used.len() - 1).min(usize::from(limit).max(1));
        let any = || self.used[..common].iter().position(|used| !used);
        let of_close = || (!self.used[self.used.len() - 1]).then(|| self.used.len() - 1);
        let free = match kind {
            SlotKind::None => return Some(0),
            SlotKind::Modify => any(),
            SlotKind::Close if self.granted => any().or_else(of_close),
            SlotKind::Close => of_close(),
        }?;
        self.used[free] = true;
        u16::try_from(free + 1).ok()
    }

    /// Gives a slot back; 0 is no slot.
    pub(crate) fn give(&mut self, tag: u16) {
        if let Some(used) = usize::from(tag).checked_sub(1).and_then(|at| self.used.get_mut(at)) {
            *used = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_gets_the_slot_that_is_kept_for_it() {
        let mut slots = Slots::new(2);
        assert_eq!(slots.take(SlotKind::None, 2), Some(0));
        assert_eq!(slots.take(SlotKind::Modify, 2), Some(1));
        assert_eq!(slots.take(SlotKind::Modify, 2), Some(2));
        assert_eq!(slots.take(SlotKind::Modify, 2), None);
        assert_eq!(slots.take(SlotKind::Close, 2), Some(3));
        assert_eq!(slots.take(SlotKind::Close, 2), None);
        slots.give(1);
        assert_eq!(slots.take(SlotKind::Close, 2), Some(1));
        slots.give(0);
        assert_eq!(slots.take(SlotKind::Modify, 2), None);
    }

    #[test]
    fn without_slots_there_is_one_change_and_one_close_at_a_time() {
        let mut slots = Slots::new(0);
        assert_eq!(slots.take(SlotKind::Close, 8), Some(2));
        assert_eq!(slots.take(SlotKind::Close, 8), None);
        assert_eq!(slots.take(SlotKind::Modify, 8), Some(1));
        assert_eq!(slots.take(SlotKind::Modify, 8), None);
    }

    #[test]
    fn a_smaller_limit_leaves_slots_unused() {
        let mut slots = Slots::new(8);
        assert_eq!(slots.take(SlotKind::Modify, 1), Some(1));
        assert_eq!(slots.take(SlotKind::Modify, 1), None);
        assert_eq!(slots.take(SlotKind::Close, 1), Some(9));
    }
}
