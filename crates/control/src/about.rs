//! What a node says of itself when a connection begins.

use lustrine_wire::nid::Nid;
use serde::{Deserialize, Serialize};

/// Which node it is. A field that a node does not send is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAbout {
    /// Its primary NID.
    #[serde(default)]
    pub nid: Option<Nid>,
    /// How it dials its peers: `node` or `userland`.
    #[serde(default)]
    pub identity: String,
    /// Its network namespace, if the system shows it.
    #[serde(default)]
    pub netns: Option<NetNamespace>,
}

/// A network namespace: the file `/proc/self/ns/net` of the processes in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetNamespace {
    /// The device number of the file.
    pub device: u64,
    /// The inode number of the file.
    pub inode: u64,
}

impl NodeAbout {
    /// Whether the node is known to be in another network namespace than a process in `here`.
    pub fn is_elsewhere(&self, here: Option<NetNamespace>) -> bool {
        self.netns.zip(here).is_some_and(|(there, here)| there != here)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == NodeAbout::default()
    }
}
