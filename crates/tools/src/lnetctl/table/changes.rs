//! Commands that change a node, and those of which our nodes have nothing: these are in the table
//! so that help knows them and scripts get an error that says what to do.

use super::{NET, NID, VERBOSE, family, number, plain, value, word};
use crate::table::{Count, OptionSyntax, Syntax, Takes, WordSyntax};

const HEALTH: OptionSyntax = value("health", number("health", 1000), "its health value");

const ALL: OptionSyntax = value("all", Takes::Nothing, "all there are");

const PRIMARY: OptionSyntax = value("prim_nid", Takes::Text("NID"), "its primary NID");

const NIDS: OptionSyntax = value("nid", Takes::Nids, "its NIDs");

const CONNECTIONS: OptionSyntax =
    value("conns-per-peer", number("conns-per-peer", 127), "bulk connections per peer");

pub(super) const NET_ADD: Syntax = Syntax {
    options: &[
        NET,
        value("if", Takes::Text("IF"), "interfaces, parted by commas"),
        NID,
        value("ip2net", Takes::Text("PATTERN"), "networks by addresses"),
        value("peer-timeout", number("peer-timeout", i32::MAX as i64), "seconds"),
        value("peer-credits", number("peer-credits", 65_535), "messages at once to a peer"),
        value("peer-buffer-credits", number("peer-buffer-credits", 65_535), "of routers"),
        value("credits", number("credits", 65_535), "messages at once"),
        value("cpt", Takes::Text("LIST"), "CPU partitions, such as [0,1]"),
        CONNECTIONS,
        value("skip-mr-route-setup", Takes::Nothing, "leaves Linux routing alone"),
        value("auth-key", Takes::Text("KEY"), "of kfi"),
        value("traffic-class", Takes::Text("CLASS"), "of kfi"),
        value("tos", Takes::Text("N"), "IP type of service"),
    ],
    ..plain("add", "net add --net NET --if IF[,IF...] [OPTIONS]", "adds interfaces")
};

pub(super) const NET_DEL: Syntax = Syntax {
    options: &[NET, value("if", Takes::Text("IF"), "an interface"), NID],
    ..plain("del", "net del --net NET [--if IF] | --nid NID", "removes interfaces")
};

pub(super) const NET_SET: Syntax = Syntax {
    options: &[
        NET,
        NID,
        ALL,
        HEALTH,
        CONNECTIONS,
        value("lnd-timeout", number("lnd-timeout", i32::MAX as i64), "seconds"),
    ],
    ..plain("set", "net set --nid NID | --all | --net NET OPTIONS", "changes interfaces")
};

pub(super) const PEER_ADD: Syntax = Syntax {
    options: &[
        PRIMARY,
        NIDS,
        value("non_mr", Takes::Nothing, "not multi-rail"),
        value("lock_prim", Takes::Nothing, "its primary NID stays"),
    ],
    ..plain("add", "peer add --prim_nid NID [--nid NID[,NID...]]", "adds a peer")
};

pub(super) const PEER_DEL: Syntax = Syntax {
    options: &[PRIMARY, NIDS, value("force", Takes::Nothing, "also a locked one")],
    ..plain("del", "peer del --prim_nid NID [--nid NID[,NID...]]", "removes a peer")
};

pub(super) const PEER_SET: Syntax = Syntax {
    options: &[NID, ALL, HEALTH, value("state", number("state", i64::MAX), "its state")],
    ..plain("set", "peer set --nid NID | --all OPTIONS", "changes peers")
};

pub(super) const STATS_RESET: Syntax = plain("reset", "stats reset", "sets the counters to 0");

const ROUTE_OPTIONS: [OptionSyntax; 4] = [
    NET,
    value("gateway", Takes::Text("NID"), "the router"),
    value("hop", Takes::Number { what: "hop", min: -1, max: 255 }, "how many routers"),
    value("priority", number("priority", i32::MAX as i64), "0 is the first choice"),
];

pub(super) const ROUTE: &[Syntax] = &[
    Syntax {
        options: &{
            let [net, gateway, hop, priority] = ROUTE_OPTIONS;
            let health = value("health_sensitivity", number("health_sensitivity", 1000), "of 2.16");
            [net, gateway, hop, priority, health]
        },
        ..plain("add", "route add --net NET --gateway NID [OPTIONS]", "adds a route")
    },
    Syntax {
        options: &[NET, value("gateway", Takes::Text("NID"), "the router")],
        ..plain("del", "route del --net NET --gateway NID", "removes a route")
    },
    Syntax {
        options: &{
            let [net, gateway, hop, priority] = ROUTE_OPTIONS;
            [net, gateway, hop, priority, VERBOSE]
        },
        ..plain(
            "show",
            "route show [--net NET] [--gateway NID] [-v]",
            "shows routes: there are none",
        )
    },
];

pub(super) const ROUTING: &[Syntax] =
    &[plain("show", "routing show", "shows buffers for routing: there are none")];

pub(super) const LNET: &[Syntax] = &[
    Syntax {
        options: &[
            value("all", Takes::Nothing, "with the networks of module parameters"),
            value("large", Takes::Nothing, "with IPv6"),
        ],
        ..plain("configure", "lnet configure [--all] [--large]", "starts LNet")
    },
    plain("unconfigure", "lnet unconfigure", "ends LNet"),
];

pub(super) const IMPORT_OPTIONS: &[OptionSyntax] = &[
    value("add", Takes::Nothing, "adds what the file has"),
    value("del", Takes::Nothing, "removes it"),
    value("show", Takes::Nothing, "not on our nodes: see net show, --dry-run, --diff"),
    value("exec", Takes::Nothing, "not on our nodes: see ping, discover"),
    value("old-api", Takes::Nothing, "without effect: the interface before netlink"),
    value("dry-run", Takes::Nothing, "tells what would change, and changes nothing"),
    value("diff", Takes::Nothing, "shows how the settings would differ, and changes nothing"),
    value("lenient", Takes::Nothing, "leaves out, with a warning, what is unknown or cannot be"),
];

const VALUE: &[WordSyntax] =
    &[word("VALUE", Takes::Number { what: "value", min: i64::MIN, max: i64::MAX }, Count::One)];

const fn key(name: &'static str, usage: &'static str) -> Syntax {
    Syntax { words: VALUE, ..plain(name, usage, "sets it") }
}

const ROUTERS: &str = "nodes of this release do not route";

const HEALTH_KEYS: &str = "interfaces and peers have no health values on nodes of this release: \
                           all that are there are used, as with health_sensitivity 0 on a kernel";

/// Keys of `set` that nodes do not have, and why.
pub(super) const NOT_HERE: [(&str, &str); 12] = [
    ("tiny_buffers", ROUTERS),
    ("small_buffers", ROUTERS),
    ("large_buffers", ROUTERS),
    ("routing", ROUTERS),
    ("drop_asym_route", ROUTERS),
    ("router_sensitivity", ROUTERS),
    ("numa_range", "nodes of this release choose paths without regard to NUMA distance"),
    ("health_sensitivity", HEALTH_KEYS),
    ("recovery_interval", HEALTH_KEYS),
    ("recovery_limit", HEALTH_KEYS),
    ("max_recovery_ping_interval", HEALTH_KEYS),
    (
        "response_tracking",
        "nodes of this release track every PUT that wants an ACK and every GET, as with 3",
    ),
];

pub(super) const SET: &[Syntax] = &[
    key("tiny_buffers", "set tiny_buffers VALUE"),
    key("small_buffers", "set small_buffers VALUE"),
    key("large_buffers", "set large_buffers VALUE"),
    key("routing", "set routing VALUE"),
    key("numa_range", "set numa_range VALUE"),
    key("max_interfaces", "set max_interfaces VALUE"),
    key("discovery", "set discovery VALUE"),
    key("drop_asym_route", "set drop_asym_route VALUE"),
    key("retry_count", "set retry_count VALUE"),
    key("transaction_timeout", "set transaction_timeout VALUE"),
    key("health_sensitivity", "set health_sensitivity VALUE"),
    key("recovery_interval", "set recovery_interval VALUE"),
    key("router_sensitivity", "set router_sensitivity VALUE"),
    key("response_tracking", "set response_tracking VALUE"),
    key("recovery_limit", "set recovery_limit VALUE"),
    key("max_recovery_ping_interval", "set max_recovery_ping_interval VALUE"),
    // Not of LNet's own tool: what else a node can change while it runs.
    key("lock_prim_nid", "set lock_prim_nid VALUE"),
    key("sock_timeout", "set sock_timeout VALUE"),
    key("accept_timeout", "set accept_timeout VALUE"),
    key("min_bulk", "set min_bulk VALUE"),
    key("min_reconnectms", "set min_reconnectms VALUE"),
    key("max_reconnectms", "set max_reconnectms VALUE"),
    key("keepalive", "set keepalive VALUE"),
    key("keepalive_idle", "set keepalive_idle VALUE"),
    key("keepalive_intvl", "set keepalive_intvl VALUE"),
    key("keepalive_count", "set keepalive_count VALUE"),
    key("zc_min_payload", "set zc_min_payload VALUE"),
    key("zero_copy", "set zero_copy VALUE"),
    key("connections_max", "set connections_max VALUE"),
    key("handshakes_max", "set handshakes_max VALUE"),
    key("spin_us", "set spin_us VALUE"),
];

pub(super) const DEBUG: &[Syntax] = &[
    Syntax {
        options: &[
            OptionSyntax::switch("local", 'l', "of this node"),
            OptionSyntax::switch("peer", 'p', "of peers"),
        ],
        ..plain("recovery", "debug recovery --local | --peer", "NIDs in recovery")
    },
    Syntax { options: &[NID], ..plain("peer", "debug peer --nid NID", "logs a peer") },
    Syntax {
        words: &[word("LIST", Takes::Nids, Count::Many)],
        ..plain("nidlist", "debug nidlist LIST [NID]", "reads a list of NIDs")
    },
];

const INDEX: OptionSyntax = value("idx", number("idx", i32::MAX as i64), "the policy's number");

pub(super) const UDSP: &[Syntax] = &[
    Syntax {
        options: &[
            value("src", Takes::Text("NIDS"), "from here"),
            value("dst", Takes::Text("NIDS"), "to there"),
            value("rte", Takes::Text("NIDS"), "over these routers"),
            value("priority", number("priority", i32::MAX as i64), "0 is the first choice"),
            INDEX,
        ],
        ..plain("add", "udsp add [--src NIDS] [--dst NIDS] [OPTIONS]", "adds a policy")
    },
    Syntax {
        options: &[INDEX, ALL],
        ..plain("del", "udsp del --idx N | --all", "removes policies")
    },
    Syntax {
        options: &[INDEX],
        ..plain("show", "udsp show [--idx N]", "shows them: there are none")
    },
];

pub(super) const FAULT: &[Syntax] = &[
    family("drop", "fault drop {add | del | show | reset}", "lost messages", RULES),
    family("delay", "fault delay {add | del | show | reset}", "late messages", RULES),
];

const RULES: &[Syntax] = &[
    Syntax {
        options: &[
            OptionSyntax::value("source", 's', Takes::Text("NID"), "from these"),
            OptionSyntax::value("dest", 'd', Takes::Text("NID"), "to these"),
            OptionSyntax::value("rate", 'r', number("rate", i32::MAX as i64), "one of N"),
            OptionSyntax::value("interval", 'i', number("interval", i32::MAX as i64), "seconds"),
            OptionSyntax::value("latency", 'l', number("latency", i32::MAX as i64), "seconds"),
            OptionSyntax::value("portal", 'p', number("portal", 63), "on this portal"),
            OptionSyntax::value("message", 'm', Takes::Text("TYPE"), "of this type"),
            OptionSyntax::value("health_error", 'e', Takes::Text("ERROR"), "with this error"),
            OptionSyntax::value("local_nid", 'o', Takes::Text("NID"), "on this interface"),
            OptionSyntax::switch("random", 'n', "at random"),
            OptionSyntax::switch("drop_all", 'x', "all"),
        ],
        ..plain("add", "fault drop|delay add -s NID -d NID (-r N | -i N) [OPTIONS]", "adds a rule")
    },
    Syntax {
        options: &[
            OptionSyntax::switch("all", 'a', "all rules"),
            OptionSyntax::value("source", 's', Takes::Text("NID"), "from these"),
            OptionSyntax::value("dest", 'd', Takes::Text("NID"), "to these"),
        ],
        ..plain("del", "fault drop|delay del -a | -s NID -d NID", "removes rules")
    },
    plain("show", "fault drop|delay show", "shows them"),
    plain("reset", "fault drop|delay reset", "sets their counters to 0"),
];
