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

/// A script for a client of a mounted file system. Its status is 1 if a value was refused, in which
/// case the others are in force, or if the client has no target at `servers`, the NIDs of the nodes
/// that were measured; with `all` as its argument it sets targets of all servers. It only raises
/// what an administrator may have raised: RPCs of metadata targets, dirty data, and pages of an RPC
/// unless their number was asked for.
pub fn set_param(settings: &Settings, servers: &[String], is_rpc_size_given: bool) -> String {
    let Settings { max_rpcs_in_flight, max_dirty_mib, pages_per_rpc, .. } = settings;
    // What limits object servers does not limit metadata servers.
    let of_metadata = (*max_rpcs_in_flight).max(RPCS);
    let pages = if is_rpc_size_given { "set_to" } else { "raise" };
    // The import of a target lists the NIDs of its servers.
    format!(
        r#"#!/bin/sh
# Sets the targets at these servers; `sh set_param.sh all` sets those of all servers.
servers='{}'
case $1 in
'') ;;
all) servers= ;;
*)
    echo "unknown argument $1: there is only \`all\`" >&2
    exit 2
    ;;
esac
command -v lctl >/dev/null || {{
    echo "there is no lctl here: run this at a client of Lustre, as root" >&2
    exit 1
}}
failed=0
# Whether the servers of a target are among these: each NID on a line of its own.
is_meant() {{
    [ -z "$servers" ] ||
        lctl get_param -n "$1.import" | tr -cs '[:alnum:].:@-' '\n' | grep -qxF -e "$servers"
}}
# The parameters with this name of these targets.
params() {{
    for name in $(lctl list_param "$1" 2>/dev/null); do
        if is_meant "${{name%.*}}"; then echo "$name"; fi
    done
}}
set_to() {{
    for name in $(params "$1"); do
        lctl set_param "$name=$2" || failed=1
    done
}}
# What is larger stays as it is.
raise() {{
    for name in $(params "$1"); do
        [ "$(lctl get_param -n "$name")" -ge "$2" ] ||
            lctl set_param "$name=$2" || failed=1
    done
}}
{pages} 'osc.*.max_pages_per_rpc' {pages_per_rpc}
set_to 'osc.*.max_rpcs_in_flight' {max_rpcs_in_flight}
raise 'mdc.*.max_rpcs_in_flight' {of_metadata}
# Dirty data of a target are at most a quarter of the memory.
dirty={max_dirty_mib}
most=$(awk '/^MemTotal:/ {{ print int($2 / 4096) }}' /proc/meminfo)
[ "$dirty" -le "$most" ] || dirty=$most
raise 'osc.*.max_dirty_mb' "$dirty"
if [ -z "$(params 'osc.*.max_rpcs_in_flight')$(params 'mdc.*.max_rpcs_in_flight')" ]; then
    if [ -z "$servers" ]; then
        echo "this client has no targets: is a file system mounted?" >&2
    else
        echo "no target of this client is at" $servers "(sh set_param.sh all sets all targets)" >&2
    fi
    failed=1
fi
exit $failed
"#,
        servers.join("\n")
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
