//! Keys of peers, which the table of peers and memory descriptors both hold.

use slotmap::new_key_type;

new_key_type! {
    /// A node, in the table of peers.
    pub(crate) struct PeerKey;
    /// One NID of a node, in the table of peers.
    pub(crate) struct PeerNiKey;
}
