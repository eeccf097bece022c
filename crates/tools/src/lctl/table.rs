//! The commands of `lctl` that are about networking (cli-habits 4).

use crate::table::{Arity, CommandSyntax, OptionSyntax, PositionalSyntax, Tool, ValueKind};

/// `lctl`.
pub static LCTL: Tool = Tool {
    name: "lctl",
    about: "shows a node's NIDs, peers and connections; pings others",
    commands: COMMANDS,
};

const fn plain(name: &'static str, about: &'static str) -> CommandSyntax {
    CommandSyntax { name, about, usage: name, options: &[], positionals: &[], subcommands: &[] }
}

const fn word(name: &'static str, kind: ValueKind, arity: Arity) -> PositionalSyntax {
    PositionalSyntax { name, kind, arity, default: None }
}

/// What a command took that is refused anyway.
const ANY: &[PositionalSyntax] = &[word("WORD", ValueKind::Text("WORD"), Arity::ZeroOrMore)];

const RULE: &[OptionSyntax] = &[
    OptionSyntax::value("source", 's', ValueKind::Text("NID"), "from these"),
    OptionSyntax::value("dest", 'd', ValueKind::Text("NID"), "to these"),
    OptionSyntax::value("rate", 'r', ValueKind::Text("N"), "one of N"),
    OptionSyntax::value("interval", 'i', ValueKind::Text("N"), "seconds"),
    OptionSyntax::value("latency", 'l', ValueKind::Text("N"), "seconds"),
    OptionSyntax::value("portal", 'p', ValueKind::Text("N"), "on this portal"),
    OptionSyntax::value("message", 'm', ValueKind::Text("TYPE"), "of this type"),
    OptionSyntax::value("health_error", 'e', ValueKind::Text("ERROR"), "with this error"),
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
        ..plain("--net", "carries a command out with this network selected")
    },
    CommandSyntax {
        usage: "network NET|up|down",
        positionals: &[word("NET", ValueKind::Text("NET"), Arity::One)],
        ..plain("network", "selects a network")
    },
    CommandSyntax {
        usage: "list_nids [all]",
        positionals: &[word("WHICH", ValueKind::OneOf(&["all"]), Arity::Optional)],
        ..plain("list_nids", "lists the node's NIDs, with all also its loopback")
    },
    CommandSyntax {
        usage: "which_nid NID...",
        positionals: &[word("NID", ValueKind::Nids, Arity::OneOrMore)],
        ..plain("which_nid", "the nearest of some NIDs")
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
        ..plain("ping", "asks a node who it is")
    },
    plain("interface_list", "lists interfaces: lnetctl net show does"),
    plain("peer_list", "lists peers of the selected network"),
    plain("conn_list", "lists connections of the selected network"),
    plain("show_route", "shows routes: nodes have none"),
    plain("route_list", "the same"),
    CommandSyntax { positionals: ANY, ..plain("add_route", "adds a route") },
    CommandSyntax { positionals: ANY, ..plain("del_route", "removes a route") },
    rule("net_drop_add", "adds a rule that drops messages"),
    rule("net_drop_del", "removes such rules"),
    plain("net_drop_list", "lists them: there are none"),
    plain("net_drop_reset", "sets their counters to 0"),
    rule("net_delay_add", "adds a rule that delays messages"),
    rule("net_delay_del", "removes such rules"),
    plain("net_delay_list", "lists them: there are none"),
    plain("net_delay_reset", "sets their counters to 0"),
];
