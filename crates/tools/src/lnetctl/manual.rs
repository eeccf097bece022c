//! The parts of `lnetctl`'s manual page that do not come from its table.

use super::LNETCTL;
use crate::manual::Manual;

/// The manual of `lnetctl`.
pub static MANUAL: Manual = Manual {
    description: &[
        "lnetctl shows and changes the lustrine node that runs on this machine, in the YAML of \
         Lustre's lnetctl.",
        "Changes last until the node ends. export --backup prints the settings, for import and \
         for lustrine node --config. A change is made completely or not at all, and simultaneous \
         changes are made one after the other. Commands about what this release does not have, \
         such as routes, are refused with the reason.",
    ],
    statuses: &[
        ("0", "Success."),
        ("4", "Usage error; the usage was printed. 255 with --compat 2.15."),
        ("234", "Refused or invalid. 255 with --compat 2.15."),
        ("255", "A peer did not answer, or the command is unknown."),
    ],
    environment: &[
        ("LUSTRINE_COMPAT", "Release whose output to follow: 2.15 or 2.16."),
        ("LUSTRINE_CONTROL", "The control socket of the node."),
    ],
    ..Manual::for_tool(&LNETCTL)
};
