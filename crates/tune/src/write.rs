//! Settings in the forms that kernel nodes and Lustrine's read.

use crate::advice::{RPCS, Settings};
use crate::measured::Host;

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

/// A script for a client of a mounted file system. Its status is 1 if a value was refused; the
/// others are in force then. It only raises what an administrator may have raised: RPCs of metadata
/// targets, dirty data, and pages of an RPC unless their number was asked for.
pub fn set_param(settings: &Settings, is_rpc_size_given: bool) -> String {
    let Settings { max_rpcs_in_flight, max_dirty_mib, pages_per_rpc, .. } = settings;
    // What limits object servers does not limit metadata servers.
    let of_metadata = (*max_rpcs_in_flight).max(RPCS);
    let pages = match is_rpc_size_given {
        true => format!("lctl set_param osc.*.max_pages_per_rpc={pages_per_rpc} || failed=1"),
        false => format!("raise osc.*.max_pages_per_rpc {pages_per_rpc}"),
    };
    format!(
        r#"#!/bin/sh
failed=0
# What is larger stays as it is.
raise() {{
    for name in $(lctl list_param "$1"); do
        [ "$(lctl get_param -n "$name")" -ge "$2" ] ||
            lctl set_param "$name=$2" || failed=1
    done
}}
{pages}
lctl set_param osc.*.max_rpcs_in_flight={max_rpcs_in_flight} || failed=1
raise mdc.*.max_rpcs_in_flight {of_metadata}
# Dirty data of a target are at most a quarter of the memory.
dirty={max_dirty_mib}
most=$(awk '/^MemTotal:/ {{ print int($2 / 4096) }}' /proc/meminfo)
[ "$dirty" -le "$most" ] || dirty=$most
raise osc.*.max_dirty_mb "$dirty"
exit $failed
"#
    )
}

/// A file for `/etc/sysctl.d`. Buffers of this host that are larger keep their size, and all keep
/// the size with which they begin.
pub fn sysctl(settings: &Settings, host: &Host) -> String {
    let now = host.tcp_buffers.unwrap_or_default();
    let [receive, send] = now.map(|now| now.max(settings.tcp_buffer));
    // Only buffers that a program sets by itself are limited by net.core.rmem_max and wmem_max.
    // Linux's own where those of this host are not known.
    let [[least, first], [least_to_send, first_to_send]] =
        host.tcp_first_buffers.unwrap_or([[4096, 131_072], [4096, 65_536]]);
    format!(
        "net.ipv4.tcp_rmem = {least} {first} {receive}\n\
         net.ipv4.tcp_wmem = {least_to_send} {first_to_send} {send}\n"
    )
}
