//! One file per command.

pub(crate) mod completion;
pub(crate) mod discover;
pub(crate) mod doctor;
pub(crate) mod fs;
pub(crate) mod lab;
pub(crate) mod lctl;
pub(crate) mod lnetctl;
pub(crate) mod lst;
pub(crate) mod man;
pub(crate) mod mount;
pub(crate) mod node;
pub(crate) mod pcap;
pub(crate) mod ping;
pub(crate) mod plan_node;
pub(crate) mod raw_tcp;
pub(crate) mod report;
pub(crate) mod routerstat;
pub(crate) mod selftest;
pub(crate) mod show;
pub(crate) mod sim;
pub(crate) mod tool;
pub(crate) mod top;
pub(crate) mod tune;
pub(crate) mod watch;
