//! Nodes in network namespaces of their own: links that a machine's loopback does not have.

mod addresses;
mod links;
mod netns;
