//! What the manual says of `lctl` beyond its table.

use super::LCTL;
use crate::manual::Manual;

/// The manual of `lctl`.
pub static MANUAL: Manual = Manual {
    description: &[
        "lctl has the networking part of Lustre's lctl, as far as the lustrine node that runs on \
         this machine can answer. Commands that change a node are known and refused.",
    ],
    statuses: &[
        ("0", "Done."),
        ("4", "Wrong use: usage was printed. 255 with the habits of 2.15."),
        ("255", "An unknown command, or no reachable NID."),
        ("100", "There is no node to ask; other statuses are error numbers too."),
    ],
    environment: &[
        ("LUSTRINE_COMPAT", "Whose habits lctl has: 2.15 or 2.16."),
        ("LUSTRINE_CONTROL", "The control socket of the node."),
    ],
    ..Manual::for_tool(&LCTL)
};
