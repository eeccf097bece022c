//! Commands that change a node, and those of which our nodes have nothing: these are in the table
//! so that help knows them and scripts get an error that says what to do.

use super::{NET, NID, VERBOSE, family, number, plain, value, word};
use crate::table::{Arity, CommandSyntax, OptionSyntax, PositionalSyntax, ValueKind};

const HEALTH: OptionSyntax = value("health", number("health", 1000), "its health value");

const ALL: OptionSyntax = value("all", ValueKind::None, "all there are");

const PRIMARY: OptionSyntax = value("prim_nid", ValueKind::Text("NID"), "its primary NID");

const NIDS: OptionSyntax = value("nid", ValueKind::Nids, "its NIDs");

const CONNECTIONS: OptionSyntax =
    value("conns-per-peer", number("conns-per-peer", 127), "bulk connections per peer");

pub(super) const NET_ADD: CommandSyntax = CommandSyntax {
    options: &[
        NET,
        value("if", ValueKind::Text("IF"), "interfaces, parted by commas"),
        NID,
        value("ip2net", ValueKind::Text("PATTERN"), "networks by addresses"),
        value("peer-timeout", number("peer-timeout", i32::MAX as i64), "seconds"),
        value("peer-credits", number("peer-credits", 65_535), "messages at once to a peer"),
        value("peer-buffer-credits", number("peer-buffer-credits", 65_535), "of routers"),
        value("credits", number("credits", 65_535), "messages at once"),
        value("cpt", ValueKind::Text("LIST"), "CPU partitions, such as [0,1]"),
        CONNECTIONS,
        value("skip-mr-route-setup", ValueKind::None, "leaves Linux routing alone"),
        value("auth-key", ValueKind::Text("KEY"), "of kfi"),
        value("traffic-class", ValueKind::Text("CLASS"), "of kfi"),
        value("tos", ValueKind::Text("N"), "IP type of service"),
    ],
    ..plain("add", "net add --net NET --if IF[,IF...] [OPTIONS]", "adds interfaces")
};

pub(super) const NET_DEL: CommandSyntax = CommandSyntax {
    options: &[NET, value("if", ValueKind::Text("IF"), "an interface"), NID],
    ..plain("del", "net del --net NET [--if IF] | --nid NID", "removes interfaces")
};

pub(super) const NET_SET: CommandSyntax = CommandSyntax {
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

pub(super) const PEER_ADD: CommandSyntax = CommandSyntax {
    options: &[
        PRIMARY,
        NIDS,
        value("non_mr", ValueKind::None, "not multi-rail"),
        value("lock_prim", ValueKind::None, "its primary NID stays"),
    ],
    ..plain("add", "peer add --prim_nid NID [--nid NID[,NID...]]", "adds a peer")
};

pub(super) const PEER_DEL: CommandSyntax = CommandSyntax {
    options: &[PRIMARY, NIDS, value("force", ValueKind::None, "also a locked one")],
    ..plain("del", "peer del --prim_nid NID [--nid NID[,NID...]]", "removes a peer")
};

pub(super) const PEER_SET: CommandSyntax = CommandSyntax {
    options: &[NID, ALL, HEALTH, value("state", number("state", i64::MAX), "its state")],
    ..plain("set", "peer set --nid NID | --all OPTIONS", "changes peers")
};

pub(super) const STATS_RESET: CommandSyntax =
    plain("reset", "stats reset", "sets the counters to 0");

const ROUTE_OPTIONS: [OptionSyntax; 4] = [
    NET,
    value("gateway", ValueKind::Text("NID"), "the router"),
    value("hop", ValueKind::Number { what: "hop", min: -1, max: 255 }, "how many routers"),
    value("priority", number("priority", i32::MAX as i64), "0 is the first choice"),
];

pub(super) const ROUTE: &[CommandSyntax] = &[
    CommandSyntax {
        options: &{
            let [net, gateway, hop, priority] = ROUTE_OPTIONS;
            let health = value("health_sensitivity", number("health_sensitivity", 1000), "of 2.16");
            [net, gateway, hop, priority, health]
        },
        ..plain("add", "route add --net NET --gateway NID [OPTIONS]", "adds a route")
    },
    CommandSyntax {
        options: &[NET, value("gateway", ValueKind::Text("NID"), "the router")],
        ..plain("del", "route del --net NET --gateway NID", "removes a route")
    },
    CommandSyntax {
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

pub(super) const ROUTING: &[CommandSyntax] =
    &[plain("show", "routing show", "shows buffers for routing: there are none")];

pub(super) const LNET: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            value("all", ValueKind::None, "with the networks of module parameters"),
            value("large", ValueKind::None, "with IPv6"),
        ],
        ..plain("configure", "lnet configure [--all] [--large]", "starts LNet")
    },
    plain("unconfigure", "lnet unconfigure", "ends LNet"),
];

pub(super) const IMPORT_OPTIONS: &[OptionSyntax] = &[
    value("add", ValueKind::None, "adds what the file has"),
    value("del", ValueKind::None, "removes it"),
    value("exact", ValueKind::None, "makes the node what the file says: all else goes"),
    value("show", ValueKind::None, "not on our nodes: see net show, --dry-run, --diff"),
    value("exec", ValueKind::None, "not on our nodes: see ping, discover"),
    value("old-api", ValueKind::None, "without effect: the interface before netlink"),
    value("dry-run", ValueKind::None, "tells what would change, and changes nothing"),
    value("diff", ValueKind::None, "shows how the settings would differ, and changes nothing"),
    value("lenient", ValueKind::None, "leaves out, with a warning, what is unknown or cannot be"),
];

const VALUE: &[PositionalSyntax] = &[word("VALUE", ValueKind::Text("VALUE"), Arity::One)];

const fn key(name: &'static str, usage: &'static str, about: &'static str) -> CommandSyntax {
    CommandSyntax { positionals: VALUE, ..plain(name, usage, about) }
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

/// Keys that count when a node starts.
const AT_START: &str = "it counts when a node starts: write it into the node's configuration file, \
                        under lustrine: tunables:, or start the node with --set NAME=VALUE";

const STARTS: &str = "Counts when a node starts: `lustrine node --set NAME=VALUE`.";

const fn at_start(name: &'static str, usage: &'static str) -> CommandSyntax {
    key(name, usage, STARTS)
}

/// Why a key of `set` is refused, if it is.
pub(in crate::lnetctl) fn refused(key: &str) -> Option<&'static str> {
    let not_here = NOT_HERE.iter().find(|(other, _)| *other == key).map(|(_, why)| *why);
    let starts = SET.iter().any(|syntax| syntax.name == key && syntax.about == STARTS);
    not_here.or(starts.then_some(AT_START))
}

pub(in crate::lnetctl) const SET: &[CommandSyntax] = &[
    key("tiny_buffers", "set tiny_buffers VALUE", "Not on nodes of this release."),
    key("small_buffers", "set small_buffers VALUE", "Not on nodes of this release."),
    key("large_buffers", "set large_buffers VALUE", "Not on nodes of this release."),
    key("routing", "set routing VALUE", "Not on nodes of this release."),
    key("numa_range", "set numa_range VALUE", "Not on nodes of this release."),
    key(
        "max_interfaces",
        "set max_interfaces VALUE",
        "Most NIDs accepted in a peer's ping information. 16 to 4096, 200 by default",
    ),
    key(
        "discovery",
        "set discovery VALUE",
        "Whether peers are discovered and told about this node (a userland node never \
         is). 0 to 1, 1 by default",
    ),
    key("drop_asym_route", "set drop_asym_route VALUE", "Not on nodes of this release."),
    key(
        "retry_count",
        "set retry_count VALUE",
        "Divides transaction_timeout into shares for the driver; messages are not resent yet. 0 to \
         255, 2 by default",
    ),
    key(
        "transaction_timeout",
        "set transaction_timeout VALUE",
        "How long a GET, or a PUT that wants an ACK, waits for its answer. 1 to 100000 s, \
         150 by default",
    ),
    key("health_sensitivity", "set health_sensitivity VALUE", "Not on nodes of this release."),
    key("recovery_interval", "set recovery_interval VALUE", "Not on nodes of this release."),
    key("router_sensitivity", "set router_sensitivity VALUE", "Not on nodes of this release."),
    key("response_tracking", "set response_tracking VALUE", "Not on nodes of this release."),
    key("recovery_limit", "set recovery_limit VALUE", "Not on nodes of this release."),
    key(
        "max_recovery_ping_interval",
        "set max_recovery_ping_interval VALUE",
        "Not on nodes of this release.",
    ),
    // Not of LNet's own tool: what else a node can change while it runs.
    key(
        "lock_prim_nid",
        "set lock_prim_nid VALUE",
        "Whether a primary NID that a file system asked for stays; none is built on this \
         node yet. 0 to 1, 1 by default",
    ),
    key(
        "sock_timeout",
        "set sock_timeout VALUE",
        "No progress on a connection for this long closes it. 1 to 100000 s, 50 by \
         default",
    ),
    key(
        "accept_timeout",
        "set accept_timeout VALUE",
        "How long a new connection may take for its request and HELLO. 1 to 3600 s, 5 by \
         default",
    ),
    key(
        "min_bulk",
        "set min_bulk VALUE",
        "From this message size on BULK connections are preferred. 0 to 1048576 bytes, \
         1024 by default",
    ),
    key(
        "min_reconnectms",
        "set min_reconnectms VALUE",
        "Shortest wait before a peer is dialled again. 1 to 3600000 ms, 1000 by default",
    ),
    key(
        "max_reconnectms",
        "set max_reconnectms VALUE",
        "Longest wait before a peer is dialled again. 1 to 3600000 ms, 60000 by default",
    ),
    key(
        "keepalive",
        "set keepalive VALUE",
        "Silence after which a keepalive is sent to a connected peer; 0 never. 0 to \
         100000 s, 30 by default",
    ),
    key(
        "keepalive_idle",
        "set keepalive_idle VALUE",
        "TCP keepalive: idle time; 0 leaves TCP's off. 0 to 100000 s, 30 by default",
    ),
    key(
        "keepalive_intvl",
        "set keepalive_intvl VALUE",
        "TCP keepalive: interval. 1 to 100000 s, 5 by default",
    ),
    key(
        "keepalive_count",
        "set keepalive_count VALUE",
        "TCP keepalive: probes; with TCP_USER_TIMEOUT, Linux goes by sock_timeout \
         instead. 1 to 100, 5 by default",
    ),
    key(
        "zc_min_payload",
        "set zc_min_payload VALUE",
        "Payload from which MSG_ZEROCOPY is used, where zero_copy is on. 2048 to 1048576 \
         bytes, 16384 by default",
    ),
    key(
        "zero_copy",
        "set zero_copy VALUE",
        "Send large payloads with MSG_ZEROCOPY and ask for zero-copy acknowledgements. 0 \
         to 1, 0 by default",
    ),
    key(
        "connections_max",
        "set connections_max VALUE",
        "Most TCP connections of a node, those in their HELLO included. 16 to 1048576, \
         16384 by default",
    ),
    key(
        "handshakes_max",
        "set handshakes_max VALUE",
        "Most incoming connections that have not finished their HELLO. 1 to 1048576, 1024 \
         by default",
    ),
    key(
        "spin_us",
        "set spin_us VALUE",
        "How long a loop polls before it sleeps; 0 sleeps at once, -1 never sleeps. -1 to \
         1000000 us, 200 by default",
    ),
    // And what counts when a node starts.
    at_start("peers_max", "set peers_max VALUE"),
    at_start("credits", "set credits VALUE"),
    at_start("peer_credits", "set peer_credits VALUE"),
    at_start("accept_backlog", "set accept_backlog VALUE"),
    at_start("accept_port", "set accept_port VALUE"),
    at_start("accept_port_bulk", "set accept_port_bulk VALUE"),
    at_start("conns_per_peer", "set conns_per_peer VALUE"),
    at_start("enable_csum", "set enable_csum VALUE"),
    at_start("protocol", "set protocol VALUE"),
    at_start("tx_buffer_size", "set tx_buffer_size VALUE"),
    at_start("rx_buffer_size", "set rx_buffer_size VALUE"),
    at_start("tos", "set tos VALUE"),
    at_start("rpc_timeout", "set rpc_timeout VALUE"),
    at_start("session_timeout", "set session_timeout VALUE"),
    at_start("selftest_memory", "set selftest_memory VALUE"),
    at_start("selftest_client_stats", "set selftest_client_stats VALUE"),
    at_start("cpu_npartitions", "set cpu_npartitions VALUE"),
    at_start("latency_peers", "set latency_peers VALUE"),
];

pub(super) const DEBUG: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            OptionSyntax::switch("local", 'l', "of this node"),
            OptionSyntax::switch("peer", 'p', "of peers"),
        ],
        ..plain("recovery", "debug recovery --local | --peer", "NIDs in recovery")
    },
    CommandSyntax { options: &[NID], ..plain("peer", "debug peer --nid NID", "logs a peer") },
    CommandSyntax {
        positionals: &[word("LIST", ValueKind::Nids, Arity::OneOrMore)],
        ..plain("nidlist", "debug nidlist LIST [NID]", "reads a list of NIDs")
    },
];

const INDEX: OptionSyntax = value("idx", number("idx", i32::MAX as i64), "the policy's number");

pub(super) const UDSP: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            value("src", ValueKind::Text("NIDS"), "from here"),
            value("dst", ValueKind::Text("NIDS"), "to there"),
            value("rte", ValueKind::Text("NIDS"), "over these routers"),
            value("priority", number("priority", i32::MAX as i64), "0 is the first choice"),
            INDEX,
        ],
        ..plain("add", "udsp add [--src NIDS] [--dst NIDS] [OPTIONS]", "adds a policy")
    },
    CommandSyntax {
        options: &[INDEX, ALL],
        ..plain("del", "udsp del --idx N | --all", "removes policies")
    },
    CommandSyntax {
        options: &[INDEX],
        ..plain("show", "udsp show [--idx N]", "shows them: there are none")
    },
];

pub(super) const FAULT: &[CommandSyntax] = &[
    family("drop", "fault drop {add | del | show | reset}", "lost messages", RULES),
    family("delay", "fault delay {add | del | show | reset}", "late messages", RULES),
];

const RULES: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            OptionSyntax::value("source", 's', ValueKind::Text("NID"), "from these"),
            OptionSyntax::value("dest", 'd', ValueKind::Text("NID"), "to these"),
            OptionSyntax::value("rate", 'r', number("rate", i32::MAX as i64), "one of N"),
            OptionSyntax::value("interval", 'i', number("interval", i32::MAX as i64), "seconds"),
            OptionSyntax::value("latency", 'l', number("latency", i32::MAX as i64), "seconds"),
            OptionSyntax::value("portal", 'p', number("portal", 63), "on this portal"),
            OptionSyntax::value("message", 'm', ValueKind::Text("TYPE"), "of this type"),
            OptionSyntax::value("health_error", 'e', ValueKind::Text("ERROR"), "with this error"),
            OptionSyntax::value("local_nid", 'o', ValueKind::Text("NID"), "on this interface"),
            OptionSyntax::switch("random", 'n', "at random"),
            OptionSyntax::switch("drop_all", 'x', "all"),
        ],
        ..plain("add", "fault drop|delay add -s NID -d NID (-r N | -i N) [OPTIONS]", "adds a rule")
    },
    CommandSyntax {
        options: &[
            OptionSyntax::switch("all", 'a', "all rules"),
            OptionSyntax::value("source", 's', ValueKind::Text("NID"), "from these"),
            OptionSyntax::value("dest", 'd', ValueKind::Text("NID"), "to these"),
        ],
        ..plain("del", "fault drop|delay del -a | -s NID -d NID", "removes rules")
    },
    plain("show", "fault drop|delay show", "shows them"),
    plain("reset", "fault drop|delay reset", "sets their counters to 0"),
];
