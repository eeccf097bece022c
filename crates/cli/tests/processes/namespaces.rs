//! Nodes in separate network namespaces: links that a machine's loopback does not have.

mod addresses;
mod apply;
mod doctor;
mod lab;
mod links;
mod netns;
mod started;
mod tune;
mod watch;
