//! What the manual page of `lst` says beside its table.

use super::table::LST;
use crate::manual::Manual;

/// The manual page of `lst`.
pub static MANUAL: Manual = Manual {
    description: &[
        "lst is LNet selftest. A session is begun with new_session; groups name the nodes that \
         take part, add_test adds tests to a batch, each from the nodes of a group to those of \
         another; run starts a batch, stat shows what it does to the nodes, stop stops it, and \
         end_session lets the nodes go.",
        "Nodes are NIDs or names of hosts; the network is tcp unless named. 10.7.0.[4-9,12]@tcp \
         stands for several nodes: brackets hold numbers, ranges lo-hi and ranges with a step \
         lo-hi/step.",
    ],
    statuses: &[
        ("0", "Done."),
        ("4", "Wrong use: usage was printed. 255 with the habits of 2.15."),
        ("253", "A node answered with an error."),
        ("254", "A node did not answer: some RPC failed."),
        ("255", "Anything else: refused by the console, no session, an unknown command."),
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
            "What nodes of the session must know, a mask in hex. 1 unless set; 0 is \
          for nodes that know no sizes in bytes.",
        ),
        ("LUSTRINE_COMPAT", "Whose habits lst has: 2.15 or 2.16."),
        (
            "LUSTRINE_CONTROL",
            "The control socket of the node whose console is used; without one, \
          a session has a process of its own.",
        ),
        ("LUSTRINE_LST_DIR", "Where consoles in processes of their own have their sockets."),
    ],
    ..Manual::for_tool(&LST)
};
