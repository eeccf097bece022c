//! The commands of `lctl` that are about networking (cli-habits 4).

use crate::table::{Count, OptionSyntax, Syntax, Takes, Tool, WordSyntax};

/// `lctl`.
pub static LCTL: Tool = Tool {
    name: "lctl",
    about: "shows a node's NIDs, peers and connections; pings others",
    commands: COMMANDS,
};

const fn plain(name: &'static str, about: &'static str) -> Syntax {
    Syntax { name, about, usage: name, options: &[], words: &[], under: &[] }
}

const fn word(name: &'static str, takes: Takes, count: Count) -> WordSyntax {
    WordSyntax { name, takes, count, default: None }
}

/// What a command took that is refused anyway.
const ANY: &[WordSyntax] = &[word("WORD", Takes::Text("WORD"), Count::Any)];

const RULE: &[OptionSyntax] = &[
    OptionSyntax::value("source", 's', Takes::Text("NID"), "from these"),
    OptionSyntax::value("dest", 'd', Takes::Text("NID"), "to these"),
    OptionSyntax::value("rate", 'r', Takes::Text("N"), "one of N"),
    OptionSyntax::value("interval", 'i', Takes::Text("N"), "seconds"),
    OptionSyntax::value("latency", 'l', Takes::Text("N"), "seconds"),
    OptionSyntax::value("portal", 'p', Takes::Text("N"), "on this portal"),
    OptionSyntax::value("message", 'm', Takes::Text("TYPE"), "of this type"),
    OptionSyntax::value("health_error", 'e', Takes::Text("ERROR"), "with this error"),
    OptionSyntax::switch("all", 'a', "all rules"),
];

const fn rule(name: &'static str, about: &'static str) -> Syntax {
    Syntax { options: RULE, ..plain(name, about) }
}

static COMMANDS: &[Syntax] = &[
    Syntax {
        usage: "--net NET COMMAND [WORD]...",
        words: &[
            word("NET", Takes::Text("NET"), Count::One),
            word("COMMAND", Takes::Text("COMMAND"), Count::Many),
        ],
        ..plain("--net", "carries a command out with this network selected")
    },
    Syntax {
        usage: "network NET|up|down",
        words: &[word("NET", Takes::Text("NET"), Count::One)],
        ..plain("network", "selects a network")
    },
    Syntax {
        usage: "list_nids [all]",
        words: &[word("WHICH", Takes::OneOf(&["all"]), Count::Optional)],
        ..plain("list_nids", "lists the node's NIDs, with all also its loopback")
    },
    Syntax {
        usage: "which_nid NID...",
        words: &[word("NID", Takes::Nids, Count::Many)],
        ..plain("which_nid", "the nearest of some NIDs")
    },
    Syntax {
        usage: "ping NID [SECONDS]",
        words: &[
            word("NID", Takes::Nids, Count::One),
            WordSyntax {
                default: Some("1"),
                ..word(
                    "SECONDS",
                    Takes::Number { what: "timeout", min: 1, max: 120 },
                    Count::Optional,
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
    Syntax { words: ANY, ..plain("add_route", "adds a route") },
    Syntax { words: ANY, ..plain("del_route", "removes a route") },
    rule("net_drop_add", "adds a rule that drops messages"),
    rule("net_drop_del", "removes such rules"),
    plain("net_drop_list", "lists them: there are none"),
    plain("net_drop_reset", "sets their counters to 0"),
    rule("net_delay_add", "adds a rule that delays messages"),
    rule("net_delay_del", "removes such rules"),
    plain("net_delay_list", "lists them: there are none"),
    plain("net_delay_reset", "sets their counters to 0"),
];
