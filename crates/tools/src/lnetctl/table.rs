//! The commands of `lnetctl` [TOOL-12].

#[cfg(test)]
mod tests;

mod changes;

use crate::table::{Arity, CommandSyntax, OptionSyntax, PositionalSyntax, Tool, ValueKind};

/// `lnetctl`.
pub static LNETCTL: Tool = Tool {
    name: "lnetctl",
    about: "shows and changes networks, peers and settings of a node; pings and discovers peers",
    commands: COMMANDS,
};

/// A command without options and arguments, as a base for others.
const fn plain(name: &'static str, usage: &'static str, about: &'static str) -> CommandSyntax {
    CommandSyntax { name, about, usage, options: &[], positionals: &[], subcommands: &[] }
}

/// A command with subcommands.
const fn family(
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    under: &'static [CommandSyntax],
) -> CommandSyntax {
    CommandSyntax { subcommands: under, ..plain(name, usage, about) }
}

/// An option with a value and without a letter.
const fn value(long: &'static str, kind: ValueKind, about: &'static str) -> OptionSyntax {
    OptionSyntax { long, short: None, kind, default: None, about }
}

/// A number that is never negative.
const fn number(what: &'static str, max: i64) -> ValueKind {
    ValueKind::Number { what, min: 0, max }
}

const fn word(name: &'static str, kind: ValueKind, arity: Arity) -> PositionalSyntax {
    PositionalSyntax { name, kind, arity, default: None }
}

const NET: OptionSyntax = value("net", ValueKind::Text("NET"), "a network, such as tcp1");

const NID: OptionSyntax = value("nid", ValueKind::Text("NID"), "a NID, such as 10.0.0.1@tcp");

const FILE: PositionalSyntax = word("FILE", ValueKind::Text("FILE"), Arity::Optional);

const LEVEL: ValueKind =
    ValueKind::OptionalNumber { what: "verbosity", min: 0, max: 255, bare: "1" };

const VERBOSE: OptionSyntax =
    OptionSyntax::value("verbose", 'v', LEVEL, "more detail: level 1, or N");

pub(super) use changes::{SET, refused};

static COMMANDS: &[CommandSyntax] = &[
    family("lnet", "lnet {configure | unconfigure}", "starts and stops LNet", changes::LNET),
    family("route", "route {add | del | show}", "routes: not supported", changes::ROUTE),
    family(
        "net",
        "net {add | del | show | set}",
        "the node's networks and interfaces",
        &[
            changes::NET_ADD,
            changes::NET_DEL,
            CommandSyntax {
                options: &[NET, VERBOSE],
                ..plain("show", "net show [--net NET] [-v [LEVEL]]", "shows interfaces")
            },
            changes::NET_SET,
        ],
    ),
    family("routing", "routing {show}", "routing: not supported", changes::ROUTING),
    family("set", "set {KEY VALUE}", "settings of the node", changes::SET),
    CommandSyntax {
        options: changes::IMPORT_OPTIONS,
        positionals: &[FILE],
        ..plain(
            "import",
            "import [--add | --del | --exact] [--dry-run] [--diff] [--lenient] [FILE]",
            "applies a file, or standard input, to the node; all of it or nothing",
        )
    },
    CommandSyntax {
        options: &[OptionSyntax::switch(
            "backup",
            'b',
            "only settings, for import and `lustrine node --config`",
        )],
        positionals: &[FILE],
        ..plain("export", "export [--backup] [FILE]", "prints the state and settings of the node")
    },
    family(
        "stats",
        "stats {show | reset}",
        "counters of the node",
        &[plain("show", "stats show", "shows the node's counters"), changes::STATS_RESET],
    ),
    family("debug", "debug {recovery | peer | nidlist}", "internal state", changes::DEBUG),
    family(
        "global",
        "global {show}",
        "settings of the node",
        &[plain("show", "global show", "shows the node's global settings")],
    ),
    family(
        "peer",
        "peer {add | del | show | list | set}",
        "known peers",
        &[
            changes::PEER_ADD,
            changes::PEER_DEL,
            CommandSyntax {
                options: &[NID, VERBOSE],
                ..plain("show", "peer show [--nid NID] [-v [LEVEL]]", "shows peers")
            },
            plain("list", "peer list", "lists the primary NIDs of peers"),
            changes::PEER_SET,
        ],
    ),
    CommandSyntax {
        options: &[
            value("source", ValueKind::Text("NID"), "the interface to ping from: not supported"),
            value(
                "timeout",
                ValueKind::Number { what: "timeout", min: 1, max: 3600 },
                "seconds to wait for each answer",
            )
            .or("1"),
        ],
        positionals: &[word("NID", ValueKind::Nids, Arity::OneOrMore)],
        ..plain(
            "ping",
            "ping [--timeout SECONDS] NID[,NID...]...",
            "pings nodes and shows their NIDs",
        )
    },
    CommandSyntax {
        options: &[OptionSyntax::switch(
            "force",
            'f',
            "no effect: discovery always queries the node",
        )],
        positionals: &[word("NID", ValueKind::Nids, Arity::OneOrMore)],
        ..plain(
            "discover",
            "discover [--force] NID[,NID...]...",
            "discovers the NIDs of nodes again",
        )
    },
    plain("service-id", "service-id", "service id of InfiniBand's connection manager"),
    family("udsp", "udsp {add | del | show}", "selection policies", changes::UDSP),
    family("fault", "fault {drop | delay}", "injected faults", changes::FAULT),
    plain("setup-mrrouting", "setup-mrrouting", "Linux routes for several interfaces"),
    plain("setup-sysctl", "setup-sysctl", "system settings for many nodes"),
    CommandSyntax {
        positionals: &[word("NID", ValueKind::Nids, Arity::OneOrMore)],
        ..plain("cpt-of-nid", "cpt-of-nid NID...", "CPU partitions of NIDs")
    },
];
