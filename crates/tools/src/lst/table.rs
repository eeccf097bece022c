//! The commands of `lst` [TOOL-4] to [TOOL-9].

use crate::table::{Arity, CommandSyntax, OptionSyntax, PositionalSyntax, Tool, ValueKind};

/// `lst`.
pub static LST: Tool = Tool {
    name: "lst",
    about: "LNet selftest: makes nodes exchange messages and bulk data, and shows their rates",
    commands: COMMANDS,
};

const fn seconds(what: &'static str) -> ValueKind {
    ValueKind::Number { what, min: 0, max: u32::MAX as i64 }
}

const fn at_least_one(what: &'static str) -> ValueKind {
    ValueKind::Number { what, min: 1, max: u32::MAX as i64 }
}

const TIMEOUT: OptionSyntax =
    OptionSyntax::value("timeout", 't', seconds("timeout"), "seconds to wait for nodes, 3 to 30")
        .or("5");

const GROUP: PositionalSyntax = word("NAME", ValueKind::Name("group"));

const BATCH: PositionalSyntax =
    PositionalSyntax { arity: Arity::Optional, default: Some("batch"), ..word("NAME", BATCH_NAME) };

const BATCH_NAME: ValueKind = ValueKind::Name("batch");

const TARGETS: PositionalSyntax =
    PositionalSyntax { arity: Arity::OneOrMore, ..word("TARGET", ValueKind::Name("group")) };

/// The states that `update_group --clean` accepts.
pub(super) const STATUSES: [&str; 5] = ["active", "busy", "down", "unknown", "invalid"];

/// Largest number of concurrent RPCs.
const CONCURRENCY_MAX: i64 = lustrine_wire::srpc::CONCURRENCY_MAX as i64;

const fn word(name: &'static str, kind: ValueKind) -> PositionalSyntax {
    PositionalSyntax { name, kind, arity: Arity::One, default: None }
}

/// A command without options and arguments, as a base for others.
const fn plain(name: &'static str, about: &'static str) -> CommandSyntax {
    CommandSyntax { name, about, usage: name, options: &[], positionals: &[], subcommands: &[] }
}

static COMMANDS: &[CommandSyntax] = &[
    CommandSyntax {
        usage: "new_session [--timeout TIME] [--force] [NAME]",
        options: &[
            OptionSyntax::value(
                "timeout",
                't',
                seconds("timeout"),
                "seconds without a command after which the session ends; 0: never",
            )
            .or("300"),
            OptionSyntax::switch(
                "force",
                'f',
                "ends an existing session and takes over busy nodes; a Lustrine node permits that \
                 only if its selftest_consoles lists this console; a kernel node whose test is \
                 running may hang until it is rebooted",
            ),
        ],
        positionals: &[PositionalSyntax {
            arity: Arity::Optional,
            ..word("NAME", ValueKind::Text("NAME"))
        }],
        ..plain("new_session", "starts a session; its key is in LST_SESSION")
    },
    plain("end_session", "stops what is running, and ends the session on all its nodes"),
    plain("show_session", "shows the session"),
    CommandSyntax {
        usage: "ping  [--group NAME] [--batch NAME] [--session]  [--nodes IDS]",
        options: &[
            OptionSyntax::switch("session", 's', "all nodes of the session"),
            OptionSyntax::value("group", 'g', ValueKind::Name("group"), "the nodes of a group"),
            OptionSyntax::value("batch", 'b', BATCH_NAME, "the clients of a batch"),
            OptionSyntax::switch("server", 'v', "with --batch: its servers instead"),
            OptionSyntax::value(
                "nodes",
                'n',
                ValueKind::Nids,
                "these nodes, whether in the session or not",
            ),
            TIMEOUT,
        ],
        ..plain("ping", "shows whether nodes answer, and their sessions")
    },
    CommandSyntax {
        usage: "group NAME IDs [IDs]...",
        positionals: &[
            word("NAME", ValueKind::Text("NAME")),
            PositionalSyntax { arity: Arity::OneOrMore, ..word("IDs", ValueKind::Nids) },
        ],
        ..plain("add_group", "creates a group of nodes and adds them to the session")
    },
    CommandSyntax {
        usage: "del_group NAME",
        positionals: &[GROUP],
        ..plain("del_group", "removes a group; its nodes leave the session")
    },
    CommandSyntax {
        usage: "update_group NAME [--clean STATUS] [--remove IDs] [--refresh]",
        options: &[
            OptionSyntax::switch(
                "refresh",
                'f',
                "adds nodes of the group that are not in the session yet",
            ),
            OptionSyntax::value(
                "clean",
                'c',
                ValueKind::OneOf(&STATUSES),
                "removes nodes in this state; invalid: all that are not active",
            ),
            OptionSyntax::value("remove", 'r', ValueKind::Nids, "removes nodes"),
        ],
        positionals: &[GROUP],
        ..plain("update_group", "changes the nodes of a group; one option at a time")
    },
    CommandSyntax {
        usage: "list_group [--active] [--busy] [--down] [--unknown] [--all] [NAME]...",
        options: &[
            OptionSyntax::switch("active", 'a', "lists nodes in the session"),
            OptionSyntax::switch("busy", 'b', "lists nodes in another session"),
            OptionSyntax::switch("down", 'd', "lists nodes that do not answer"),
            OptionSyntax::switch("unknown", 'u', "lists nodes in no session"),
            OptionSyntax::switch("all", 'l', "lists all nodes"),
        ],
        positionals: &[PositionalSyntax { arity: Arity::ZeroOrMore, ..GROUP }],
        ..plain("list_group", "lists the groups, or the nodes of groups")
    },
    CommandSyntax {
        usage: "stat [--bw] [--rate] [--read] [--write] [--max] [--min] [--avg] [--mbs] \
                [--timeout #] [--delay #] [--count #] GROUP|IDs...",
        options: &[
            OptionSyntax { short: Some('t'), ..TIMEOUT },
            OptionSyntax::value("delay", 'd', at_least_one("delay"), "seconds between two polls")
                .or("5"),
            OptionSyntax::value(
                "count",
                ' ',
                at_least_one("count"),
                "number of polls; \
                without it, until interrupted",
            )
            .only_long(),
            OptionSyntax::switch("lnet", 'l', "rates of LNet (the default)"),
            OptionSyntax::switch("rpc", 'c', "rates of RPCs: not available"),
            OptionSyntax::switch("bw", 'b', "bandwidth only"),
            OptionSyntax::switch("rate", 'a', "rates only"),
            OptionSyntax::switch("read", 'r', "only the rows [W], as in Lustre's lst"),
            OptionSyntax::switch("write", 'w', "only the rows [R], as in Lustre's lst"),
            OptionSyntax::switch("avg", 'g', "average over the nodes"),
            OptionSyntax::switch("min", 'n', "minimum over the nodes"),
            OptionSyntax::switch("max", 'x', "maximum over the nodes"),
            OptionSyntax::switch("mbs", 'm', "bandwidth in MB/s instead of MiB/s"),
        ],
        positionals: &[TARGETS],
        ..plain("stat", "shows message rates and bandwidth of groups or nodes")
    },
    CommandSyntax {
        usage: "show_error [--session] GROUP|IDs...",
        options: &[OptionSyntax::switch("session", 's', "without the counters of RPCs")],
        positionals: &[TARGETS],
        ..plain("show_error", "shows the nodes that have counted errors")
    },
    CommandSyntax {
        usage: "add_batch NAME",
        positionals: &[word("NAME", ValueKind::Text("NAME"))],
        ..plain("add_batch", "creates an empty batch")
    },
    CommandSyntax {
        usage: "run [--timeout TIME] [NAME]",
        options: &[OptionSyntax::value(
            "timeout",
            't',
            seconds("timeout"),
            "seconds after which nodes stop the batch; kernel nodes ignore it",
        )
        .or("0")],
        positionals: &[BATCH],
        ..plain("run", "starts a batch")
    },
    CommandSyntax {
        usage: "stop [--force] [NAME]",
        options: &[OptionSyntax::switch("force", 'f', "aborts RPCs in flight")],
        positionals: &[BATCH],
        ..plain("stop", "stops a batch and waits until it has stopped")
    },
    CommandSyntax {
        usage: "list_batch NAME [--test ID] [--server]",
        options: &[
            OptionSyntax::value(
                "test",
                't',
                at_least_one("test id"),
                "only this test; numbers begin at 1",
            ),
            OptionSyntax::switch("active", 'a', "lists nodes in the session"),
            OptionSyntax::switch("invalid", 'i', "lists nodes that are not in it"),
            OptionSyntax::switch("all", 'l', "lists all nodes"),
            OptionSyntax::switch("server", 's', "lists servers, not clients"),
        ],
        positionals: &[PositionalSyntax { default: None, ..BATCH }],
        ..plain("list_batch", "lists the batches, or shows one")
    },
    CommandSyntax {
        usage: "query [--test ID] [--server] [--timeout TIME] [--loop #] [--delay #] [--active] \
                [--idle] [--error] [--all] [NAME]",
        options: &[
            OptionSyntax::value(
                "test",
                't',
                seconds("test id"),
                "number of a test, from 1; 0: all",
            )
            .or("0"),
            OptionSyntax::switch("server", 's', "no effect: only clients know the state"),
            OptionSyntax {
                short: Some('o'),
                about: "seconds to wait for nodes, at least 3",
                ..TIMEOUT
            },
            OptionSyntax::value("delay", 'd', seconds("delay"), "seconds between two queries")
                .or("5"),
            OptionSyntax::value("loop", 'c', at_least_one("loop"), "number of queries").or("1"),
            OptionSyntax::switch("active", 'a', "lists nodes that run it"),
            OptionSyntax::switch("idle", 'i', "lists nodes that do not"),
            OptionSyntax::switch("error", 'e', "lists nodes whose state is unknown"),
            OptionSyntax::switch("all", 'l', "lists all nodes"),
        ],
        positionals: &[BATCH],
        ..plain("query", "shows whether a batch is running on its clients")
    },
    CommandSyntax {
        usage: "add_test [--batch BATCH] [--loop #] [--concurrency #] [--distribute #:#] \
                --from GROUP --to GROUP TEST...",
        options: &[
            OptionSyntax::value("batch", 'b', BATCH_NAME, "the batch to add it to").or("batch"),
            OptionSyntax::value(
                "loop",
                'l',
                ValueKind::Number { what: "loop number", min: -1, max: i32::MAX as i64 },
                "iterations per concurrent RPC slot, for each server; -1 repeats until stopped",
            )
            .or("-1"),
            OptionSyntax::value(
                "concurrency",
                'c',
                ValueKind::Number { what: "concurrency of test", min: 1, max: CONCURRENCY_MAX },
                "RPCs in flight from a client to each server",
            )
            .or("1"),
            OptionSyntax::value(
                "distribute",
                'd',
                ValueKind::Text("C:S"),
                "assigns S servers to each batch of C clients",
            )
            .or("1:1"),
            OptionSyntax::value("from", 'f', ValueKind::Name("group"), "the clients"),
            OptionSyntax::value("to", 't', ValueKind::Name("group"), "the servers"),
        ],
        positionals: &[
            word("TEST", ValueKind::Suggested(&["ping", "brw"])),
            PositionalSyntax {
                arity: Arity::ZeroOrMore,
                ..word("PARAMETER", ValueKind::Suggested(&PARAMETERS))
            },
        ],
        ..plain(
            "add_test",
            "adds a test to a batch: ping, or brw [read|write] [size=#[K|M]] \
            [check=simple|full] [off=#]",
        )
    },
];

/// The parameters of `brw`.
const PARAMETERS: [&str; 6] = ["read", "write", "size=", "check=simple", "check=full", "off="];

#[cfg(test)]
mod tests;
