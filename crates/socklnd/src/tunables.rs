//! The tunables of the TCP driver.

lustrine_lnet::declare_tunables! {
    sock_timeout "sock_timeout" "s" 50 1..=100_000 Live
        "A connection without progress for this long is closed."
    accept_timeout "accept_timeout" "s" 5 1..=3600 Live
        "How long a new connection may take for its request and HELLO."
    accept_backlog "accept_backlog" "" 127 1..=65_535 Start
        "Backlog of the listening socket."
    accept_port "accept_port" "" 988 1..=65_535 Start
        "TCP port to listen on and to dial for CONTROL connections."
    accept_port_bulk "accept_port_bulk" "" 0 0..=65_535 Start
        "TCP port to dial for the other connection types; 0 is the same as accept_port."
    conns_per_peer "conns_per_peer" "" 0 0..=127 Start
        "BULK_IN and BULK_OUT connections per peer, each; 0 follows the link's speed."
    min_bulk "min_bulk" "bytes" 1024 0..=1_048_576 Live
        "Messages of at least this size prefer BULK connections."
    min_reconnectms "min_reconnectms" "ms" 1000 1..=3_600_000 Live
        "Shortest wait before a peer is dialled again."
    max_reconnectms "max_reconnectms" "ms" 60_000 1..=3_600_000 Live
        "Longest wait before a peer is dialled again."
    keepalive "keepalive" "s" 30 0..=100_000 Live
        "Silence after which a keepalive is sent to a connected peer; 0 never."
    keepalive_idle "keepalive_idle" "s" 30 0..=32_767 Live
        "TCP keepalive: idle time; 0 disables TCP keepalive."
    keepalive_intvl "keepalive_intvl" "s" 5 1..=32_767 Live
        "TCP keepalive: interval."
    keepalive_count "keepalive_count" "" 5 1..=100 Live
        "TCP keepalive: probes. Linux ignores it while TCP_USER_TIMEOUT is set: see sock_timeout."
    enable_csum "enable_csum" "0/1" 0 0..=1 Start
        "Checksums on protocol V2 connections; V3 and V4 have none."
    protocol "protocol" "version" 0 0..=4 Start
        "Highest HELLO version this node dials with; 0 is the best for the address family."
    zc_min_payload "zc_min_payload" "bytes" 16_384 2048..=1_048_576 Live
        "Payload from which MSG_ZEROCOPY is used, where zero_copy is on."
    zero_copy "" "0/1" 0 0..=1 Live
        "Send large payloads with MSG_ZEROCOPY and ask for zero-copy acknowledgements."
    tx_buffer_size "tx_buffer_size" "bytes" 0 0..=1_073_741_824 Start
        "TCP send buffer; 0 leaves it to the system."
    rx_buffer_size "rx_buffer_size" "bytes" 0 0..=1_073_741_824 Start
        "TCP receive buffer; 0 leaves it to the system."
    tcp_pacing "" "ms" -1 -1..=10_000 Start
        "Round trip from which TCP pacing (SO_MAX_PACING_RATE) is used; 0 always, -1 never."
    tos "tos" "" -1 -1..=255 Start
        "IP type of service of LNet's connections; -1 leaves it alone."
    connections_max "" "" 16_384 16..=1_048_576 Live
        "Maximum TCP connections; an eighth, or handshakes_max if less, is for handshakes."
    handshakes_max "" "" 1024 1..=1_048_576 Live
        "Most incoming connections that have not finished their HELLO."
    strict_source "" "0/1" 0 0..=1 Live
        "Refuse a HELLO whose NID is not its address; breaks multi-homed peers and NAT."
}
