//! The parts of `lctl`'s manual page that do not come from its table.

use super::LCTL;
use crate::manual::Manual;

/// The manual of `lctl`.
pub static MANUAL: Manual = Manual {
    description: &[
        "lctl has the network commands of Lustre's lctl, for the lustrine node that runs on this \
         machine. Commands that change a node are refused with the reason.",
    ],
    statuses: &[
        ("0", "Success."),
        ("4", "Usage error; the usage was printed. 255 with --compat 2.15."),
        ("255", "The command is unknown, or no NID is reachable."),
        ("100", "No node is running. Other statuses are error numbers too."),
    ],
    environment: &[
        ("LUSTRINE_COMPAT", "Release whose output to follow: 2.15 or 2.16."),
        ("LUSTRINE_CONTROL", "The control socket of the node."),
    ],
    ..Manual::for_tool(&LCTL)
};
