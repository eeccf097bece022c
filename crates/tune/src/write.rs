//! Settings in the forms that kernel nodes and Lustrine's read.

use crate::advice::Settings;

/// A configuration for `lnetctl import`, and for `lustrine node --config`: one interface of one
/// net.
pub fn lnetctl_yaml(settings: &Settings, net: &str, interface: &str) -> String {
    let Settings { peer_credits, credits, conns_per_peer, .. } = settings;
    let (item, value) = (" ".repeat(12), " ".repeat(18));
    format!(
        "net:\n\
         -     net type: {net}\n      local NI(s):\n      -     interfaces:\n\
         {value}0: {interface}\n\
         {item}tunables:\n\
         {value}peer_credits: {peer_credits}\n\
         {value}credits: {credits}\n\
         {item}lnd tunables:\n\
         {value}conns_per_peer: {conns_per_peer}\n"
    )
}

/// A file for `/etc/modprobe.d`, which the kernel's modules read when they are loaded.
pub fn module_options(settings: &Settings) -> String {
    let Settings { peer_credits, credits, conns_per_peer, .. } = settings;
    format!(
        "options ksocklnd peer_credits={peer_credits} credits={credits} \
         conns_per_peer={conns_per_peer}\n"
    )
}

/// Commands for a client of a mounted file system.
pub fn set_param(settings: &Settings) -> String {
    let Settings { max_rpcs_in_flight, max_dirty_mib, pages_per_rpc, .. } = settings;
    format!(
        "lctl set_param osc.*.max_pages_per_rpc={pages_per_rpc}\n\
         lctl set_param osc.*.max_rpcs_in_flight={max_rpcs_in_flight}\n\
         lctl set_param osc.*.max_dirty_mb={max_dirty_mib}\n\
         lctl set_param mdc.*.max_rpcs_in_flight={max_rpcs_in_flight}\n"
    )
}

/// A file for `/etc/sysctl.d`.
pub fn sysctl(settings: &Settings) -> String {
    let buffer = settings.tcp_buffer;
    format!(
        "net.ipv4.tcp_rmem = 4096 131072 {buffer}\n\
         net.ipv4.tcp_wmem = 4096 65536 {buffer}\n\
         net.core.rmem_max = {buffer}\n\
         net.core.wmem_max = {buffer}\n"
    )
}
