//! The parts of `lst`'s manual page that do not come from its table.

use super::table::LST;
use crate::manual::Manual;

/// The manual page of `lst`.
pub static MANUAL: Manual = Manual {
    description: &[
        "lst runs LNet selftest on many nodes. new_session begins a session. Groups name the \
         nodes that take part. add_test adds a test to a batch; a test runs from the nodes of one \
         group to those of another. run starts a batch, stat shows the rates of nodes, stop stops \
         the batch, and end_session releases the nodes.",
        "Nodes are NIDs or host names; the network is tcp unless another is named. \
         10.7.0.[4-9,12]@tcp stands for several nodes: brackets contain numbers, ranges lo-hi, and \
         ranges with a step lo-hi/step.",
    ],
    statuses: &[
        ("0", "Success."),
        ("4", "Usage error; the usage was printed. 255 with --compat 2.15."),
        ("253", "A node answered with an error."),
        ("254", "A node did not answer an RPC."),
        ("255", "Any other failure: refused by the console, no session, unknown command."),
        ("130", "Interrupted."),
    ],
    environment: &[
        (
            "LST_SESSION",
            "The key of the session, a number above 0. All commands but show_session \
          need it: export LST_SESSION=$$",
        ),
        (
            "LST_FEATURES",
            "Features of the session, a mask in hex. The default is 1; 0 is for nodes \
          that do not support sizes in bytes.",
        ),
        ("LUSTRINE_COMPAT", "Release whose output to follow: 2.15 or 2.16."),
        (
            "LUSTRINE_CONTROL",
            "The control socket of the node whose console is used; without a node, \
          a session has a daemon of its own.",
        ),
        ("LUSTRINE_LST_DIR", "The directory for the sockets and logs of console daemons."),
    ],
    ..Manual::for_tool(&LST)
};
