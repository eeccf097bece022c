//! What the manual says of `lnetctl` beyond its table.

use super::LNETCTL;
use crate::manual::Manual;

/// The manual of `lnetctl`.
pub static MANUAL: Manual = Manual {
    description: &[
        "lnetctl tells about the lustrine node that runs on this machine, and about its peers, in \
         the YAML that scripts know.",
        "What it changes holds until the node ends: export --backup writes it down, for import \
         and for lustrine node --config. A change is made whole or not at all; two at once have an \
         order. What nodes of this release do not have, routes for one, is known and refused.",
    ],
    statuses: &[
        ("0", "Done."),
        ("4", "Wrong use: usage was printed. 255 with the habits of 2.15."),
        ("234", "Refused, or not understood. 255 with the habits of 2.15."),
        ("255", "A peer did not answer, or an unknown command."),
    ],
    environment: &[
        ("LUSTRINE_COMPAT", "Whose habits lnetctl has: 2.15 or 2.16."),
        ("LUSTRINE_CONTROL", "The control socket of the node."),
    ],
    ..Manual::for_tool(&LNETCTL)
};
