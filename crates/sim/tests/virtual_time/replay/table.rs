//! Which captures are replayed, in which node's place, and what may differ.

use lustrine_sim::StopKind;
use lustrine_socklnd::Accept;

use crate::golden::Command::{BadPing, Discover, Ping, Restart};
use crate::golden::{Allow, Replay};

pub(crate) struct Row {
    pub(crate) folder: &'static str,
    pub(crate) name: &'static str,
    pub(crate) roles: &'static [Replay],
    /// Why other roles, or all, are not replayed.
    pub(crate) not: &'static str,
}

const fn row(
    folder: &'static str,
    name: &'static str,
    roles: &'static [Replay],
    not: &'static str,
) -> Row {
    Row { folder, name, roles, not }
}

const VM2: Replay = Replay {
    nids: &["10.77.0.2@tcp"],
    tunables: &[],
    accept: Accept::Secure,
    commands: &[],
    allow: &[],
};
const VM3: Replay = Replay { nids: &["10.77.0.3@tcp"], ..VM2 };
const VM9: Replay = Replay { nids: &["10.77.0.9@tcp"], accept: Accept::All, ..VM2 };
/// Discovery is switched off, as in most captures.
const VM2_QUIET: Replay = Replay { tunables: &[("discovery", 0)], ..VM2 };
const VM3_QUIET: Replay = Replay { tunables: &[("discovery", 0)], ..VM3 };
const VM2_TCP5: Replay = Replay { nids: &["10.77.0.2@tcp", "10.77.0.2@tcp5"], ..VM2 };
const VM3_BOTH: Replay = Replay { nids: &["10.77.0.3@tcp", "10.77.1.3@tcp1"], ..VM2 };
const VM2_V6: Replay = Replay { nids: &["fd77::2@tcp"], ..VM2 };
const VM3_V6: Replay = Replay { nids: &["fd77::3@tcp"], ..VM2 };
const VM2_V6_QUIET: Replay = Replay { nids: &["fd77::2@tcp"], ..VM2_QUIET };
const VM3_V6_QUIET: Replay = Replay { nids: &["fd77::3@tcp"], ..VM2_QUIET };
const VM2_DUAL: Replay = Replay { nids: &["10.77.0.2@tcp", "fd77:1::2@tcp1"], ..VM2 };
const VM3_DUAL: Replay = Replay { nids: &["10.77.0.3@tcp", "fd77:1::3@tcp1"], ..VM2 };
const VM4_QUIET: Replay = Replay { nids: &["10.77.0.4@tcp"], ..VM2_QUIET };

const CONSOLE: &str = "the console of the session: the node has none";
const RAILS: &str = "path selection among several NIs of one peer is not in this release";
const ROUTERS: &str = "Lustrine does not route, and has no routes";
const DAMAGED: &str = "vm2 damages a checksum on purpose: Lustrine cannot";
const ORDER: (Allow, &str) = (Allow::ByteOrder, "independent messages come in another order");
const KEEPALIVES: (Allow, &str) = (Allow::Keepalives, "keepalives come at other times");
const DEAD: (Allow, &str) =
    (Allow::StaysOpen, "the kernel's host resets streams it lost when TCP probes them");

/// Every capture of `lnet/` and `userland/`, ordered by name.
pub(crate) const ROWS: &[Row] = &[
    row(
        "lnet",
        "a1_ping_cold_discovery_off",
        &[
            VM3_QUIET,
            Replay {
                commands: &[Ping(0, "10.77.0.3@tcp"), Ping(490, "10.77.0.3@tcp")],
                ..VM2_QUIET
            },
        ],
        "",
    ),
    row(
        "lnet",
        "a2_ping_cold_discovery_on",
        &[VM3, Replay { commands: &[Ping(0, "10.77.0.3@tcp")], ..VM2 }],
        "",
    ),
    row(
        "lnet",
        "a3_discover_cold",
        &[VM3, Replay { commands: &[Discover(0, "10.77.0.3@tcp")], ..VM2 }],
        "",
    ),
    row(
        "lnet",
        "a4_discover_peer_discovery_off",
        &[VM3_QUIET, Replay { commands: &[Discover(0, "10.77.0.3@tcp")], ..VM2 }],
        "",
    ),
    row("lnet", "a5_multirail_one_net_two_ips", &[], RAILS),
    row("lnet", "a6_multirail_two_nets", &[], RAILS),
    row(
        "lnet",
        "a7_multirail_to_single_nid",
        &[Replay {
            allow: &[
                ORDER,
                (Allow::Extra, "pings a known peer before another NID is merged with it"),
            ],
            ..VM3_BOTH
        }],
        "vm2 adds and removes an NI during the capture, which the test cannot",
    ),
    row(
        "lnet",
        "b1_lnet_reload_then_ping",
        &[
            Replay { commands: &[Restart(511, 900, StopKind::Orderly)], ..VM3 },
            Replay {
                commands: &[
                    Ping(0, "10.77.0.3@tcp"),
                    Ping(5450, "10.77.0.3@tcp"),
                    Ping(5670, "10.77.0.3@tcp"),
                ],
                ..VM2
            },
        ],
        "",
    ),
    row(
        "lnet",
        "b2_power_cycle_then_ping",
        &[
            Replay { commands: &[Restart(1000, 29000, StopKind::Silence)], allow: &[DEAD], ..VM3 },
            Replay {
                commands: &[
                    Ping(0, "10.77.0.3@tcp"),
                    BadPing(29680, "10.77.0.3@tcp"),
                    Ping(214170, "10.77.0.3@tcp"),
                ],
                allow: &[(
                    Allow::Closes,
                    "closes the other streams of a peer when one is reset, and fails at once",
                )],
                ..VM2
            },
        ],
        "",
    ),
    row(
        "lnet",
        "b3_power_cycle_restarted_node_pings_first",
        &[
            Replay {
                commands: &[Restart(1000, 29000, StopKind::Silence), Ping(29190, "10.77.0.2@tcp")],
                ..VM3
            },
            Replay { commands: &[Ping(0, "10.77.0.3@tcp"), Ping(30450, "10.77.0.3@tcp")], ..VM2 },
        ],
        "",
    ),
    row(
        "lnet",
        "b4_ping_wrong_nid_same_net",
        &[Replay { commands: &[BadPing(0, "10.77.0.33@tcp")], ..VM2 }],
        "vm3 saw nothing: its host refused",
    ),
    row(
        "lnet",
        "b5_ping_net_target_lacks",
        &[VM3, Replay { commands: &[BadPing(0, "10.77.0.3@tcp5")], ..VM2_TCP5 }],
        "",
    ),
    row(
        "lnet",
        "b6_ping_no_lnet_on_target",
        &[Replay { commands: &[BadPing(0, "10.77.0.3@tcp")], ..VM2 }],
        "vm3 had no LNet",
    ),
    row(
        "lnet",
        "b7_lnet_configured_no_net",
        &[Replay { commands: &[BadPing(0, "10.77.0.3@tcp")], ..VM2 }],
        "vm3 had no NI",
    ),
    row(
        "lnet",
        "b8_simultaneous_connect",
        &[
            Replay { commands: &[Discover(0, "10.77.0.2@tcp")], ..VM3 },
            Replay { commands: &[Discover(110, "10.77.0.3@tcp")], ..VM2 },
        ],
        "",
    ),
    row("lnet", "c00_session_console_vm4_ping", &[VM3_QUIET, VM2_QUIET], CONSOLE),
    row("lnet", "c01_session_console_vm4_brw_mix", &[VM3_QUIET, VM2_QUIET], CONSOLE),
    row("lnet", "c02_session_errors", &[VM4_QUIET], "vm3 had no selftest: Lustrine always has"),
    row("lnet", "c03_session_conflict", &[VM3_QUIET], CONSOLE),
    row("lnet", "c04_session_timeout", &[VM3_QUIET], CONSOLE),
    row("lnet", "c11_brw_read_4K_none_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c12_brw_read_4K_none_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c13_brw_read_4K_simple_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c14_brw_read_4K_simple_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c15_brw_read_4K_full_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c16_brw_read_4K_full_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c17_brw_read_1M_none_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c18_brw_read_1M_none_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c19_brw_read_1M_simple_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c20_brw_read_1M_simple_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c21_brw_read_1M_full_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c22_brw_read_1M_full_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c23_brw_write_4K_none_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c24_brw_write_4K_none_c8", &[Replay { allow: &[ORDER], ..VM3_QUIET }], CONSOLE),
    row("lnet", "c25_brw_write_4K_simple_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c26_brw_write_4K_simple_c8", &[Replay { allow: &[ORDER], ..VM3_QUIET }], CONSOLE),
    row("lnet", "c27_brw_write_4K_full_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c28_brw_write_4K_full_c8", &[Replay { allow: &[ORDER], ..VM3_QUIET }], CONSOLE),
    row("lnet", "c29_brw_write_1M_none_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c30_brw_write_1M_none_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c31_brw_write_1M_simple_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c32_brw_write_1M_simple_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c33_brw_write_1M_full_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c34_brw_write_1M_full_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c41_ping_c1", &[VM3_QUIET], CONSOLE),
    row("lnet", "c42_ping_c8", &[VM3_QUIET], CONSOLE),
    row("lnet", "c51_brw_odd_sizes", &[VM3_QUIET], CONSOLE),
    row(
        "lnet",
        "c52_brw_injected_errors",
        &[Replay {
            allow: &[(Allow::Data, "the kernel was set up to damage bulk data")],
            ..VM3_QUIET
        }],
        CONSOLE,
    ),
    row("lnet", "c53_distribute_2clients_2servers", &[VM3_QUIET, VM4_QUIET], CONSOLE),
    row(
        "lnet",
        "c54_server_dies_mid_test",
        &[Replay {
            allow: &[
                (Allow::Extra, "the kernel lost power before its last reply"),
                DEAD,
                KEEPALIVES,
            ],
            ..VM3_QUIET
        }],
        CONSOLE,
    ),
    row("lnet", "d0_router_forwarding_delay", &[], ROUTERS),
    row("lnet", "d1_route_add_and_ping", &[], ROUTERS),
    row("lnet", "d2_route_discovery_off", &[], ROUTERS),
    row("lnet", "d3_lst_1M_through_router", &[], ROUTERS),
    row("lnet", "d4_router_pinger", &[], ROUTERS),
    row("lnet", "d5_router_dies_and_returns", &[], ROUTERS),
    row("lnet", "d6_routed_errors", &[], ROUTERS),
    row("lnet", "d7_gateway_without_routing", &[], ROUTERS),
    row(
        "lnet",
        "e1_ipv6_ping_discovery_off",
        &[
            VM3_V6_QUIET,
            Replay {
                commands: &[Ping(0, "fd77::3@tcp"), Ping(480, "fd77::3@tcp")],
                ..VM2_V6_QUIET
            },
        ],
        "",
    ),
    row(
        "lnet",
        "e2_ipv6_discover",
        &[
            Replay { allow: &[ORDER], ..VM3_V6 },
            Replay { commands: &[Discover(0, "fd77::3@tcp")], ..VM2_V6 },
        ],
        "",
    ),
    row(
        "lnet",
        "e3_dual_nid4_and_nid6",
        &[VM3_DUAL, Replay { commands: &[Discover(0, "10.77.0.3@tcp")], ..VM2 }],
        "",
    ),
    row(
        "lnet",
        "e4_dual_both_sides",
        &[Replay {
            commands: &[
                Discover(0, "10.77.0.3@tcp"),
                Ping(325, "10.77.0.3@tcp"),
                Ping(520, "fd77:1::3@tcp1"),
            ],
            ..VM2_DUAL
        }],
        RAILS,
    ),
    row("lnet", "e5_ipv6_lst", &[], "empty: the tool refused the command"),
    row(
        "lnet",
        "f10_keepalive_default",
        &[VM3_QUIET, Replay { commands: &[Ping(0, "10.77.0.3@tcp")], ..VM2_QUIET }],
        "",
    ),
    row(
        "lnet",
        "f11_conns_per_peer_4",
        &[Replay { tunables: &[("discovery", 0), ("conns_per_peer", 4)], allow: &[ORDER], ..VM3 }],
        CONSOLE,
    ),
    row(
        "lnet",
        "f12_conns_per_peer_4_vs_1",
        &[
            VM3_QUIET,
            Replay {
                tunables: &[("discovery", 0), ("conns_per_peer", 4)],
                commands: &[Ping(0, "10.77.0.3@tcp"), Ping(3330, "10.77.0.3@tcp")],
                ..VM2
            },
        ],
        "",
    ),
    row(
        "lnet",
        "f13_typed_conns_0",
        &[VM3_QUIET],
        "Lustrine never dials the connection type that stalls",
    ),
    row(
        "lnet",
        "f14_accept_port_bulk",
        &[Replay { tunables: &[("discovery", 0), ("accept_port_bulk", 989)], ..VM3 }],
        CONSOLE,
    ),
    row("lnet", "f15_nonblk_zcack_0", &[VM3_QUIET], CONSOLE),
    row(
        "lnet",
        "f16_min_bulk",
        &[Replay {
            tunables: &[("discovery", 0), ("min_bulk", 100)],
            allow: &[(
                Allow::OtherStream,
                "answers before the first BULK connection is established",
            )],
            ..VM3
        }],
        CONSOLE,
    ),
    row(
        "lnet",
        "f1_csum_ping",
        &[VM3_QUIET, Replay { commands: &[Ping(0, "10.77.0.3@tcp")], ..VM2_QUIET }],
        "",
    ),
    row("lnet", "f20_proto_v2", &[VM3_QUIET], CONSOLE),
    row(
        "lnet",
        "f21_proto_v2_csum",
        &[Replay { tunables: &[("discovery", 0), ("enable_csum", 1)], ..VM3 }],
        CONSOLE,
    ),
    row(
        "lnet",
        "f22_proto_v2_csum_injected_error",
        &[Replay { tunables: &[("discovery", 0), ("enable_csum", 1)], ..VM3 }],
        DAMAGED,
    ),
    row("lnet", "f23_proto_v1", &[VM3_QUIET], CONSOLE),
    row("lnet", "f2_csum_lst", &[VM3_QUIET], CONSOLE),
    row("lnet", "f3_csum_one_side", &[VM3_QUIET], CONSOLE),
    row(
        "lnet",
        "f4_csum_injected_error",
        &[VM3_QUIET, Replay { commands: &[Ping(0, "10.77.0.3@tcp")], ..VM2_QUIET }],
        "",
    ),
    row("lnet", "f5_zc_boundary", &[VM3_QUIET], CONSOLE),
    row("lnet", "f6_zc_concurrent_8", &[Replay { allow: &[ORDER], ..VM3_QUIET }], CONSOLE),
    row("lnet", "f7_zc_bidirectional", &[VM3_QUIET], CONSOLE),
    row("lnet", "f8_zc_and_csum", &[VM3_QUIET], CONSOLE),
    row(
        "lnet",
        "f9_keepalive",
        &[
            Replay { tunables: &[("discovery", 0), ("keepalive", 3)], ..VM3 },
            Replay {
                tunables: &[("discovery", 0), ("keepalive", 3)],
                commands: &[Ping(0, "10.77.0.3@tcp")],
                allow: &[KEEPALIVES],
                ..VM2
            },
        ],
        "",
    ),
    row("userland", "u1_userland_v2_push_first_rpc", &[VM9], ""),
    row("userland", "u2_userland_v3_control_push_first_rpc", &[VM9], ""),
    row(
        "userland",
        "u3_userland_v2_no_push_rpc_lost",
        &[Replay {
            allow: &[
                (Allow::Extra, "answers a userland peer on its own connection, without discovery"),
                (Allow::StaysOpen, "does not drop a userland peer that cannot be discovered"),
            ],
            ..VM9
        }],
        "",
    ),
    row("userland", "u4_node_identity_rpc", &[VM9], ""),
];
