//! The hand-made conversations, and how a Lustrine node differs from the kernel.

use lustrine_socklnd::Accept;

use crate::golden::Command::Ping;
use crate::golden::{Allow, Replay};

const OTHER_ORDER: &str = "answers a big-endian HELLO in its order, and reads its NIDs right";

const TRIES: &str = "the same; a keepalive tries the first connection";

const NOT_THRICE: &str = "closes the third and fourth without an answer";

/// One capture.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// What the client does.
    pub(crate) client: &'static str,
    /// What the kernel node does.
    pub(crate) kernel: &'static str,
    /// How the Lustrine node is compared with it, and how it differs.
    pub(crate) replay: Replay,
}

const SAME: Replay = Replay {
    nids: &["10.77.0.3@tcp"],
    tunables: &[("discovery", 0)],
    accept: Accept::Secure,
    commands: &[],
    allow: &[],
};

const CSUM: Replay = Replay { tunables: &[("discovery", 0), ("enable_csum", 1)], ..SAME };

const fn same(name: &'static str, client: &'static str, kernel: &'static str) -> Row {
    with(name, client, kernel, SAME)
}

const fn with(
    name: &'static str,
    client: &'static str,
    kernel: &'static str,
    replay: Replay,
) -> Row {
    Row { name, client, kernel, replay }
}

/// Every capture of `rogue/`, ordered by name.
pub(crate) static ROWS: &[Row] = &[
    same("r_anynid", "asks for the wildcard NID", "closes without a byte"),
    same("r_badksm", "a frame of type 0xC5", "closes"),
    same("r_badmagic", "a request with a wrong first word", "closes without a byte"),
    same("r_badport", "dials from port 36570; `accept` is `secure`", "closes without a byte"),
    same("r_badtype", "an LNet message of type 7", "closes"),
    same("r_badver", "a request of version 99", "answers that it supports version 1, closes"),
    with(
        "r_be",
        "request, HELLO and LNet header in big-endian order",
        "answers in its own order with the NID misread; closes at the big-endian header",
        Replay { allow: &[(Allow::Extra, OTHER_ORDER), (Allow::Missing, OTHER_ORDER)], ..SAME },
    ),
    same("r_be_connreq_only", "only the request in big-endian order", "a normal connection"),
    same("r_connreqv2", "request of version 2, HELLO V3", "a normal connection"),
    with("r_csumbad", "V3, a wrong checksum", "closes", CSUM),
    with("r_csumv2", "V2, correct checksums", "answers with checksums", CSUM),
    with("r_csumv2bad", "V2, a wrong checksum", "closes", CSUM),
    with(
        "r_csumv3good",
        "V3, a checksum computed as in V2",
        "closes: above V2 only the payload counts",
        CSUM,
    ),
    with("r_csumv3payload", "V3, a checksum computed as in V2, with a payload", "closes", CSUM),
    with("r_csumv3payloadonly", "V3, a checksum of the payload", "accepts it", CSUM),
    with(
        "r_dup",
        "a second CONTROL connection, and a GET on it",
        "NONE, closes the second",
        Replay { allow: &[(Allow::Keepalives, TRIES)], ..SAME },
    ),
    with(
        "r_dup3",
        "four more CONTROL connections",
        "NONE to each, closes them",
        Replay { allow: &[(Allow::Keepalives, TRIES), (Allow::Missing, NOT_THRICE)], ..SAME },
    ),
    same(
        "r_getnomatch",
        "GETs with wrong match bits, to portals 9 and 99, then a valid one",
        "silence; answers the valid one",
    ),
    same("r_getsmallsink", "GETs with room for 16, 0 and 4 bytes", "REPLY cut to the room"),
    same("r_getwrongnet", "a GET to a NID on another net", "silence"),
    same("r_getwrongnid", "a GET to another NID of this net", "closes"),
    same("r_getwrongpid", "a GET to pid 777", "answers"),
    with(
        "r_getwrongsrc",
        "a GET with another source NID than the HELLO's",
        "does not answer on this connection",
        Replay {
            allow: &[(
                Allow::Extra,
                "answers on the connection of the request; never dials the NID in it",
            )],
            ..SAME
        },
    ),
    same("r_hbadmagic", "a HELLO with a wrong first word", "closes without a byte"),
    same("r_hbadtype", "a HELLO of type 9", "closes without a byte"),
    same("r_hellotype", "a HELLO as a message", "closes"),
    same("r_hsrcother", "a HELLO with a source NID that is not the IP", "accepts it"),
    same("r_htypeany", "V3, type ANY, a GET", "accepts the connection, never answers on it"),
    same("r_hv1", "HELLO V1", "speaks V1"),
    same("r_hv2", "HELLO V2", "speaks V2"),
    same("r_hv4", "HELLO V4 over IPv4", "speaks V4"),
    same("r_hver99", "HELLO of version 99", "HELLO V3 of type NONE, closes"),
    same("r_hwrongdst", "a HELLO for another NID", "ignores the destination"),
    same(
        "r_newinc",
        "a second HELLO with another incarnation, then a third",
        "NONE, closes both; accepts the third",
    ),
    same(
        "r_noop",
        "a keepalive; later the acknowledgement of cookie 55555",
        "accepts the keepalive; closes at the acknowledgement",
    ),
    same("r_noopzero", "a NOOP with both cookies 0", "ignores it"),
    same("r_ok", "a ping without errors", "REPLY"),
    same("r_okbulk", "three typed connections, a ping on two", "REPLY to each"),
    same("r_partial", "a ping without errors, in small pieces", "REPLY"),
    same(
        "r_protomagic",
        "the LNet magic in place of a request",
        "answers that it supports version 1, closes",
    ),
    same("r_push", "a ping and a push", "REPLY, ACK"),
    same("r_put1m1", "a PUT of 1 MiB and a byte", "closes"),
    same("r_puthuge", "a PUT of 2 GiB", "closes"),
    same("r_putnomatch", "a PUT that matches nothing, with an ACK requested", "silence"),
    with(
        "r_putping",
        "a push of 48 bytes 0x7a",
        "ACK, then a ping to the client",
        Replay {
            allow: &[(Allow::ByteOrder, "sends the ACK of the push before the ping")],
            ..SAME
        },
    ),
    with(
        "r_race_high_accept",
        "has the higher NID; dials while it is dialled, and accepts both",
        "accepts the client's connection, gives up its own",
        Replay {
            commands: &[Ping(400, "10.77.0.200@tcp")],
            allow: &[(
                Allow::StaysOpen,
                "keeps its own connection too, because the peer accepted it",
            )],
            ..SAME
        },
    ),
    with(
        "r_race_high_none",
        "has the higher NID; dials while it is dialled, and refuses",
        "accepts the client's connection, dials the others a second later",
        Replay { commands: &[Ping(0, "10.77.0.200@tcp")], ..SAME },
    ),
    with(
        "r_race_low_accept",
        "has the lower NID; dials while it is dialled",
        "NONE; its own connection stays",
        Replay { commands: &[Ping(0, "10.77.0.1@tcp")], ..SAME },
    ),
    with(
        "r_race_low_none",
        "has the lower NID; dials while it is dialled, and refuses",
        "NONE; dials again a second later",
        Replay { commands: &[Ping(0, "10.77.0.1@tcp")], ..SAME },
    ),
    same("r_slow", "nothing after connecting", "closes after 5 s"),
    same("r_slowhello", "a request and no HELLO", "closes after 5 s"),
    same("r_stray", "a REPLY and an ACK that no descriptor awaits", "silence"),
    same("r_wrongnet", "a request for its NID on another net", "closes without a byte"),
    same("r_wrongnid", "a request for another NID", "closes without a byte"),
    same("r_wrongnid_nohello", "the same, and no HELLO", "closes without a byte"),
    with(
        "r_zcreq",
        "a zero-copy request on the only connection, CONTROL",
        "closes: it has no connection for the acknowledgement",
        Replay {
            allow: &[
                (Allow::Extra, "acknowledges zero-copy on CONTROL when there is no BULK_IN"),
                (Allow::StaysOpen, "acknowledges zero-copy on CONTROL when there is no BULK_IN"),
            ],
            ..SAME
        },
    ),
    same(
        "r_zcreq3",
        "a zero-copy request, three typed connections",
        "REPLY; acknowledges on its BULK_IN",
    ),
];
