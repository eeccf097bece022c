//! The tools that administrators of Lustre know: their grammar and the layouts of their output.
//!
//! Text in, text and an exit status out. What a tool needs of its environment, such as the console
//! that holds a session of `lst`, is a trait, so that tests run whole sessions without processes.
//!
//! | module | content |
//! |---|---|
//! | [`table`] | commands, options and arguments as data, for parsing, help and more |
//! | [`parse`] | parses arguments by such a table, as getopt_long does |
//! | [`complete`] | candidates for an argument, and scripts for shells |
//! | [`manual`] | manual pages, from the table |
//! | [`help`] | usage, help and lists of commands, from the table |
//! | [`shell`] | what all tools have in common: one command, a script, a prompt |
//! | [`nids`] | expressions for many nodes |
//! | [`errno`] | the texts of error numbers |
//! | [`lst`] | LNet selftest |
//! | [`node`] | what the tools below need of a running node |
//! | [`lnetctl`] | shows and changes a running node |
//! | [`lctl`] | the network commands of lctl |
//! | [`routerstat`] | rates from a node's counters |
#![forbid(unsafe_code)]

pub mod complete;
mod diff;
pub mod errno;
pub mod help;
pub mod lctl;
pub mod lnetctl;
pub mod lst;
pub mod manual;
pub mod nids;
pub mod node;
pub mod parse;
pub mod routerstat;
pub mod shell;
pub mod table;
mod yaml;

/// All tools with their manuals; completion, manual pages and tests use this list.
pub static ALL: &[&manual::Manual] = &[&lst::MANUAL, &lnetctl::MANUAL, &lctl::MANUAL];

/// The tool of this name.
pub fn tool(name: &str) -> Option<&'static table::Tool> {
    ALL.iter().map(|manual| manual.tool).find(|tool| tool.name == name)
}
