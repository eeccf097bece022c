//! Commands that change a node, and commands for features that Lustrine nodes do not have: these
//! are in the table so that help lists them and scripts get an error that says what to do.

use super::{NET, NID, VERBOSE, family, number, plain, value, word};
use crate::table::{Arity, CommandSyntax, OptionSyntax, PositionalSyntax, ValueKind};

const HEALTH: OptionSyntax = value("health", number("health", 1000), "its health value");

const ALL: OptionSyntax = value("all", ValueKind::None, "all of them");

const PRIMARY: OptionSyntax = value("prim_nid", ValueKind::Text("NID"), "its primary NID");

const NIDS: OptionSyntax = value("nid", ValueKind::Nids, "its NIDs");

const CONNECTIONS: OptionSyntax =
    value("conns-per-peer", number("conns-per-peer", 127), "bulk connections per peer");

pub(super) const NET_ADD: CommandSyntax = CommandSyntax {
    options: &[
        NET,
        value("if", ValueKind::Text("IF"), "interfaces, separated by commas"),
        NID,
        value("ip2net", ValueKind::Text("PATTERN"), "network by address pattern"),
        value("peer-timeout", number("peer-timeout", i32::MAX as i64), "seconds"),
        value("peer-credits", number("peer-credits", 65_535), "messages in flight to one peer"),
        value("peer-buffer-credits", number("peer-buffer-credits", 65_535), "router credits"),
        value("credits", number("credits", 65_535), "messages in flight"),
        value("cpt", ValueKind::Text("LIST"), "CPU partitions, such as [0,1]"),
        CONNECTIONS,
        value("skip-mr-route-setup", ValueKind::None, "does not change Linux routes"),
        value("auth-key", ValueKind::Text("KEY"), "for kfilnd"),
        value("traffic-class", ValueKind::Text("CLASS"), "for kfilnd"),
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
        value("lock_prim", ValueKind::None, "locks its primary NID"),
    ],
    ..plain("add", "peer add --prim_nid NID [--nid NID[,NID...]]", "adds a peer")
};

pub(super) const PEER_DEL: CommandSyntax = CommandSyntax {
    options: &[PRIMARY, NIDS, value("force", ValueKind::None, "also if its primary NID is locked")],
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
    value("hop", ValueKind::Number { what: "hop", min: -1, max: 255 }, "number of routers"),
    value("priority", number("priority", i32::MAX as i64), "0 is preferred"),
];

pub(super) const ROUTE: &[CommandSyntax] = &[
    CommandSyntax {
        options: &{
            let [net, gateway, hop, priority] = ROUTE_OPTIONS;
            let health = value(
                "health_sensitivity",
                number("health_sensitivity", 1000),
                "health sensitivity (2.16)",
            );
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
        ..plain("show", "route show [--net NET] [--gateway NID] [-v]", "shows routes: always none")
    },
];

pub(super) const ROUTING: &[CommandSyntax] =
    &[plain("show", "routing show", "shows routing buffers: always none")];

pub(super) const LNET: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            value("all", ValueKind::None, "with the networks of the module parameters"),
            value("large", ValueKind::None, "with IPv6"),
        ],
        ..plain("configure", "lnet configure [--all] [--large]", "starts LNet")
    },
    plain("unconfigure", "lnet unconfigure", "stops LNet"),
];

pub(super) const IMPORT_OPTIONS: &[OptionSyntax] = &[
    value("add", ValueKind::None, "adds the contents of the file (default)"),
    value("del", ValueKind::None, "removes the contents of the file"),
    value("exact", ValueKind::None, "makes the configuration equal to the file"),
    value("show", ValueKind::None, "not supported: see net show, --dry-run, --diff"),
    value("exec", ValueKind::None, "not supported: see ping, discover"),
    value("old-api", ValueKind::None, "no effect"),
    value("dry-run", ValueKind::None, "prints the changes without making them"),
    value("diff", ValueKind::None, "prints the changes as a diff without making them"),
    value("lenient", ValueKind::None, "ignores, with a warning, what is unknown or not supported"),
];

const VALUE: &[PositionalSyntax] = &[word("VALUE", ValueKind::Text("VALUE"), Arity::One)];

const fn key(name: &'static str, usage: &'static str, about: &'static str) -> CommandSyntax {
    CommandSyntax { positionals: VALUE, ..plain(name, usage, about) }
}

const ROUTERS: &str = "routing is not supported in this release";

const HEALTH_KEYS: &str = "interfaces and peers have no health values in this release: all of them \
                           are used, as with health_sensitivity 0 on a kernel node";

/// Keys of `set` that nodes do not have, and why.
pub(super) const NOT_HERE: [(&str, &str); 12] = [
    ("tiny_buffers", ROUTERS),
    ("small_buffers", ROUTERS),
    ("large_buffers", ROUTERS),
    ("routing", ROUTERS),
    ("drop_asym_route", ROUTERS),
    ("router_sensitivity", ROUTERS),
    ("numa_range", "paths are chosen without regard to NUMA distance in this release"),
    ("health_sensitivity", HEALTH_KEYS),
    ("recovery_interval", HEALTH_KEYS),
    ("recovery_limit", HEALTH_KEYS),
    ("max_recovery_ping_interval", HEALTH_KEYS),
    ("response_tracking", "every PUT that wants an ACK and every GET is tracked, as with 3"),
];

/// Keys that take effect when a node starts.
const AT_START: &str = "it takes effect when a node starts: set it in the configuration file, \
                        under lustrine: tunables:, or start the node with --set NAME=VALUE";

const STARTS: &str = "Takes effect when a node starts: `lustrine node --set NAME=VALUE`.";

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
    key("tiny_buffers", "set tiny_buffers VALUE", "Not supported in this release."),
    key("small_buffers", "set small_buffers VALUE", "Not supported in this release."),
    key("large_buffers", "set large_buffers VALUE", "Not supported in this release."),
    key("routing", "set routing VALUE", "Not supported in this release."),
    key("numa_range", "set numa_range VALUE", "Not supported in this release."),
    key(
        "max_interfaces",
        "set max_interfaces VALUE",
        "Most NIDs accepted in a peer's ping information. 16 to 4096, 200 by default",
    ),
    key(
        "discovery",
        "set discovery VALUE",
        "Whether this node and its peers discover each other; a userland node is never \
         discovered. 0 to 1, 1 by default",
    ),
    key("drop_asym_route", "set drop_asym_route VALUE", "Not supported in this release."),
    key(
        "retry_count",
        "set retry_count VALUE",
        "LND timeout: (transaction_timeout - 1) / (retry_count + 1), at least 1 s; no \
         resends yet. 0 to 255, 2 by default",
    ),
    key(
        "transaction_timeout",
        "set transaction_timeout VALUE",
        "How long a GET, or a PUT that wants an ACK, waits for its answer. 1 to 100000 s, \
         150 by default",
    ),
    key("health_sensitivity", "set health_sensitivity VALUE", "Not supported in this release."),
    key("recovery_interval", "set recovery_interval VALUE", "Not supported in this release."),
    key("router_sensitivity", "set router_sensitivity VALUE", "Not supported in this release."),
    key("response_tracking", "set response_tracking VALUE", "Not supported in this release."),
    key("recovery_limit", "set recovery_limit VALUE", "Not supported in this release."),
    key(
        "max_recovery_ping_interval",
        "set max_recovery_ping_interval VALUE",
        "Not supported in this release.",
    ),
    // Not in LNet's own tool: other tunables that a running node can change.
    key(
        "lock_prim_nid",
        "set lock_prim_nid VALUE",
        "No effect yet: would keep the primary NID that a file system asked for. 0 to 1, \
         1 by default",
    ),
    key(
        "sock_timeout",
        "set sock_timeout VALUE",
        "A connection without progress for this long is closed. 1 to 100000 s, 50 by \
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
        "Messages of at least this size prefer BULK connections. 0 to 1048576 bytes, \
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
        "TCP keepalive: idle time; 0 disables TCP keepalive. 0 to 32767 s, 30 by default",
    ),
    key(
        "keepalive_intvl",
        "set keepalive_intvl VALUE",
        "TCP keepalive: interval. 1 to 32767 s, 5 by default",
    ),
    key(
        "keepalive_count",
        "set keepalive_count VALUE",
        "TCP keepalive: probes. Linux ignores it while TCP_USER_TIMEOUT is set: see \
         sock_timeout. 1 to 100, 5 by default",
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
        "Maximum TCP connections; an eighth, or handshakes_max if less, is for handshakes. \
         16 to 1048576, 16384 by default",
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
    key(
        "strict_source",
        "set strict_source VALUE",
        "Refuse a HELLO whose NID is not its address; breaks multi-homed peers and NAT. 0 \
         to 1, 0 by default",
    ),
    // Tunables that take effect when a node starts.
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
    at_start("tcp_pacing", "set tcp_pacing VALUE"),
    at_start("tos", "set tos VALUE"),
    at_start("rpc_timeout", "set rpc_timeout VALUE"),
    at_start("session_timeout", "set session_timeout VALUE"),
    at_start("selftest_memory", "set selftest_memory VALUE"),
    at_start("kept_memory", "set kept_memory VALUE"),
    at_start("selftest_auto", "set selftest_auto VALUE"),
    at_start("selftest_client_stats", "set selftest_client_stats VALUE"),
    at_start("cpu_npartitions", "set cpu_npartitions VALUE"),
    at_start("latency_peers", "set latency_peers VALUE"),
];

pub(super) const DEBUG: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            OptionSyntax::switch("local", 'l', "NIDs of this node"),
            OptionSyntax::switch("peer", 'p', "NIDs of peers"),
        ],
        ..plain("recovery", "debug recovery --local | --peer", "lists NIDs in recovery")
    },
    CommandSyntax {
        options: &[NID],
        ..plain("peer", "debug peer --nid NID", "writes the state of a peer to the log")
    },
    CommandSyntax {
        positionals: &[word("LIST", ValueKind::Nids, Arity::OneOrMore)],
        ..plain("nidlist", "debug nidlist LIST [NID]", "parses a list of NIDs")
    },
];

const INDEX: OptionSyntax = value("idx", number("idx", i32::MAX as i64), "index of the policy");

pub(super) const UDSP: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            value("src", ValueKind::Text("NIDS"), "source NIDs"),
            value("dst", ValueKind::Text("NIDS"), "destination NIDs"),
            value("rte", ValueKind::Text("NIDS"), "routers"),
            value("priority", number("priority", i32::MAX as i64), "0 is preferred"),
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
        ..plain("show", "udsp show [--idx N]", "shows policies: always none")
    },
];

pub(super) const FAULT: &[CommandSyntax] = &[
    family("drop", "fault drop {add | del | show | reset}", "dropped messages", RULES),
    family("delay", "fault delay {add | del | show | reset}", "delayed messages", RULES),
];

const RULES: &[CommandSyntax] = &[
    CommandSyntax {
        options: &[
            OptionSyntax::value("source", 's', ValueKind::Text("NID"), "source"),
            OptionSyntax::value("dest", 'd', ValueKind::Text("NID"), "destination"),
            OptionSyntax::value("rate", 'r', number("rate", i32::MAX as i64), "one message in N"),
            OptionSyntax::value("interval", 'i', number("interval", i32::MAX as i64), "seconds"),
            OptionSyntax::value("latency", 'l', number("latency", i32::MAX as i64), "seconds"),
            OptionSyntax::value("portal", 'p', number("portal", 63), "portal"),
            OptionSyntax::value("message", 'm', ValueKind::Text("TYPE"), "message type"),
            OptionSyntax::value("health_error", 'e', ValueKind::Text("ERROR"), "health error"),
            OptionSyntax::value("local_nid", 'o', ValueKind::Text("NID"), "local interface"),
            OptionSyntax::switch("random", 'n', "at random"),
            OptionSyntax::switch("drop_all", 'x', "all"),
        ],
        ..plain("add", "fault drop|delay add -s NID -d NID (-r N | -i N) [OPTIONS]", "adds a rule")
    },
    CommandSyntax {
        options: &[
            OptionSyntax::switch("all", 'a', "all rules"),
            OptionSyntax::value("source", 's', ValueKind::Text("NID"), "source"),
            OptionSyntax::value("dest", 'd', ValueKind::Text("NID"), "destination"),
        ],
        ..plain("del", "fault drop|delay del -a | -s NID -d NID", "removes rules")
    },
    plain("show", "fault drop|delay show", "shows the fault rules"),
    plain("reset", "fault drop|delay reset", "sets their counters to 0"),
];
