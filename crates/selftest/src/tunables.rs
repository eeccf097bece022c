//! The tunables of LNet selftest.

lustrine_lnet::declare_tunables! {
    rpc_timeout "rpc_timeout" "s" 64 1..=100_000 Start
        "Selftest: how long one RPC may take, and may wait for memory at a server."
    session_timeout "session_timeout" "s" 100 0..=100_000 Start
        "Selftest: silence of the console after which a node drops its session; 0 never."
    selftest_memory "" "MiB" 256 2..=65_536 Start
        "Selftest: most memory for bulk buffers. Requests at a server, and RPCs of a batch, wait \
         for it; `lustrine selftest` refuses a test that needs more at its own node."
    selftest_auto "" "0/1" 0 0..=1 Start
        "Selftest: RPCs in flight to a peer are limited to what its path carries, and by the test."
    selftest_client_stats "" "0/1" 1 0..=1 Start
        "Selftest: clients keep latencies of their tests and report them to Lustrine consoles."
}
