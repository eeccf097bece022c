//! The network commands of `lctl` [TOOL-17].

use crate::table::{Arity, CommandSyntax, OptionSyntax, PositionalSyntax, Tool, ValueKind};

/// `lctl`.
pub static LCTL: Tool = Tool {
    name: "lctl",
    about: "shows NIDs, peers and connections of a node; pings peers",
    commands: COMMANDS,
};

const fn plain(name: &'static str, about: &'static str) -> CommandSyntax {
    CommandSyntax { name, about, usage: name, options: &[], positionals: &[], subcommands: &[] }
}

const fn word(name: &'static str, kind: ValueKind, arity: Arity) -> PositionalSyntax {
    PositionalSyntax { name, kind, arity, default: None }
}

/// The arguments of a command that is refused anyway.
const ANY: &[PositionalSyntax] = &[word("WORD", ValueKind::Text("WORD"), Arity::ZeroOrMore)];

const RULE: &[OptionSyntax] = &[
    OptionSyntax::value("source", 's', ValueKind::Text("NID"), "source"),
    OptionSyntax::value("dest", 'd', ValueKind::Text("NID"), "destination"),
    OptionSyntax::value("rate", 'r', ValueKind::Text("N"), "one message in N"),
    OptionSyntax::value("interval", 'i', ValueKind::Text("N"), "seconds"),
    OptionSyntax::value("latency", 'l', ValueKind::Text("N"), "seconds"),
    OptionSyntax::value("portal", 'p', ValueKind::Text("N"), "portal"),
    OptionSyntax::value("message", 'm', ValueKind::Text("TYPE"), "message type"),
    OptionSyntax::value("health_error", 'e', ValueKind::Text("ERROR"), "health error"),
    OptionSyntax::switch("all", 'a', "all rules"),
];

const fn rule(name: &'static str, about: &'static str) -> CommandSyntax {
    CommandSyntax { options: RULE, ..plain(name, about) }
}

static COMMANDS: &[CommandSyntax] = &[
    CommandSyntax {
        usage: "--net NET COMMAND [WORD]...",
        positionals: &[
            word("NET", ValueKind::Text("NET"), Arity::One),
            word("COMMAND", ValueKind::Text("COMMAND"), Arity::OneOrMore),
        ],
        ..plain("--net", "runs a command with this network selected")
    },
    CommandSyntax {
        usage: "network NET|up|down",
        positionals: &[word("NET", ValueKind::Text("NET"), Arity::One)],
        ..plain("network", "selects a network")
    },
    CommandSyntax {
        usage: "list_nids [all]",
        positionals: &[word("WHICH", ValueKind::OneOf(&["all"]), Arity::Optional)],
        ..plain("list_nids", "lists the NIDs of the node; all: also the loopback")
    },
    CommandSyntax {
        usage: "which_nid NID...",
        positionals: &[word("NID", ValueKind::Nids, Arity::OneOrMore)],
        ..plain("which_nid", "prints the nearest of several NIDs")
    },
    CommandSyntax {
        usage: "ping NID [SECONDS]",
        positionals: &[
            word("NID", ValueKind::Nids, Arity::One),
            PositionalSyntax {
                default: Some("1"),
                ..word(
                    "SECONDS",
                    ValueKind::Number { what: "timeout", min: 1, max: 120 },
                    Arity::Optional,
                )
            },
        ],
        ..plain("ping", "pings a node and shows its NIDs")
    },
    plain("interface_list", "not supported: see lnetctl net show"),
    plain("peer_list", "lists peers of the selected network"),
    plain("conn_list", "lists connections of the selected network"),
    plain("show_route", "shows routes: always none"),
    plain("route_list", "shows routes: always none"),
    CommandSyntax { positionals: ANY, ..plain("add_route", "adds a route") },
    CommandSyntax { positionals: ANY, ..plain("del_route", "removes a route") },
    rule("net_drop_add", "adds a rule that drops messages"),
    rule("net_drop_del", "removes rules"),
    plain("net_drop_list", "lists the rules: always none"),
    plain("net_drop_reset", "sets the counters of the rules to 0"),
    rule("net_delay_add", "adds a rule that delays messages"),
    rule("net_delay_del", "removes rules"),
    plain("net_delay_list", "lists the rules: always none"),
    plain("net_delay_reset", "sets the counters of the rules to 0"),
];
