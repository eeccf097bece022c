//! Keys of connections and peers, which name each other.

use lustrine_lnet::lnd::RxId;
use slotmap::{Key, KeyData, new_key_type};

new_key_type! {
    /// A connection of this driver.
    pub(crate) struct ConnKey;
    /// A peer of this driver.
    pub(crate) struct PeerKey;
}

impl ConnKey {
    /// The key that the core gets when a message of this connection is parked: slot and generation,
    /// so that a resume which comes too late finds nothing.
    pub(crate) fn rx_id(self) -> RxId {
        RxId(self.data().as_ffi())
    }

    pub(crate) fn of_rx_id(rx: RxId) -> ConnKey {
        ConnKey::from(KeyData::from_ffi(rx.0))
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn marks_are_the_same_after_the_core() {
        let mut conns: SlotMap<ConnKey, ()> = SlotMap::with_key();
        let first = conns.insert(());
        conns.remove(first);
        let second = conns.insert(());
        assert_ne!(first.rx_id(), second.rx_id());
        assert_eq!(ConnKey::of_rx_id(second.rx_id()), second);
        assert!(!conns.contains_key(ConnKey::of_rx_id(first.rx_id())));
        assert!(!conns.contains_key(ConnKey::of_rx_id(RxId(0))));
    }
}
