//! Test support: processes, addresses and directories, users, nodes.

mod node;
mod process;
mod scratch;
mod usage;
mod user;

pub(crate) use node::Node;
pub(crate) use process::{
    Finished, LIMIT, Running, clean, eventually, eventually_equal, finish, logged, lustrine,
};
pub(crate) use scratch::{Scratch, free_port, loopback};
pub(crate) use usage::Usage;
pub(crate) use user::{copy_of_program, may_be_node, own_identity, unprivileged};
