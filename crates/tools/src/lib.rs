//! The tools that administrators of Lustre know: their grammar and the layouts of what they print.
//!
//! Text in, text and an exit status out. What a tool needs of the world beyond, the console that
//! holds `lst`'s session for one, is a trait, so that tests play whole sessions without any.
//! "cli-habits 2" in a comment is section 2 of the description of how the tools behave.
//!
//! | module | what is in it |
//! |---|---|
//! | [`table`] | what commands, options and words there are: data, for parsing, help and more |
//! | [`parse`] | arguments read by such a table, as getopt_long does |
//! | [`complete`] | what may stand at a place of a command line, and scripts for shells |
//! | [`manual`] | manual pages, from the table |
//! | [`help`] | usage, help and lists of commands, from the table |
//! | [`shell`] | what all tools have: one command, a script, a prompt |
//! | [`nids`] | expressions for many nodes |
//! | [`errno`] | the texts of error numbers |
//! | [`lst`] | LNet selftest |
//! | [`node`] | what the tools below need of a node that runs |
//! | [`lnetctl`] | what a node knows, ping, discovery |
//! | [`lctl`] | the same in the old words |
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

/// Every tool there is, with what its manual says; all that has to know them goes by this list.
pub static ALL: &[&manual::Manual] = &[&lst::MANUAL, &lnetctl::MANUAL, &lctl::MANUAL];

/// A tool by its name.
pub fn tool(name: &str) -> Option<&'static table::Tool> {
    ALL.iter().map(|manual| manual.tool).find(|tool| tool.name == name)
}
