//! Whether windows, buffers and credits are enough for the rate and the round trip of a path.

use lustrine_tune::{
    bandwidth_delay_product, held_by_receive_buffer, held_by_send_buffer, rate_of,
};

use crate::code::Code;
use crate::finding::{Finding, Words, millis};
use crate::observed::{HostView, PeerView};

/// The longest message of LNet.
const MESSAGE: u64 = 1 << 20;
/// What a buffer is for.
const SHARES: &str = "at most half of a receive buffer becomes TCP window, and three quarters of a \
                      send buffer can be in flight";
/// A window without scaling.
const WINDOW: u64 = 65_535;

pub(crate) fn findings(host: &HostView, peer: &PeerView) -> Vec<Finding> {
    let mut found = Vec::new();
    let scaling = window_scaling(host, peer);
    let limited = scaling.is_some();
    found.extend(scaling);
    let (Some([rtt, _]), Some(rate)) = (peer.rtt_ns, peer.rate) else { return found };
    if !limited {
        found.extend(own_buffers(host, peer, rtt, rate));
        found.extend(peer_buffers(peer, rtt, rate));
    }
    found.extend(credits(peer, rtt, rate));
    found
}

/// Whether a limit is so much below a rate that it counts.
fn limits(carried: u64, rate: u64) -> bool {
    u128::from(carried) * 10 < u128::from(rate) * 8
}

/// Bulk connections in each direction: one where that is not known.
fn connections(peer: &PeerView) -> u64 {
    u64::from(peer.connections.unwrap_or(1).max(1))
}

/// Bits per second of all connections, of which each carries a window in a round trip.
fn carried_by_windows(peer: &PeerView, window: u64, rtt: u64) -> u64 {
    rate_of(window, rtt).saturating_mul(connections(peer))
}

/// The buffer with which all connections together carry a rate.
fn buffer_for(peer: &PeerView, rate: u64, rtt: u64) -> u64 {
    bandwidth_delay_product(rate, rtt).saturating_mul(2).div_ceil(connections(peer))
}

/// Who carries, for a consequence, and the formula of a buffer.
fn carriers(peer: &PeerView, to: &str) -> (String, &'static str) {
    match connections(peer) {
        1 => (format!("one connection{to} carries"), "2 x rate x round trip"),
        count => {
            let carry = format!("{count} connections{to} (conns_per_peer) carry");
            (carry, "2 x rate x round trip / connections")
        }
    }
}

fn window_scaling(host: &HostView, peer: &PeerView) -> Option<Finding> {
    let stream = peer.stream?;
    if stream.peer_scale.is_some() {
        return None;
    }
    let whose = match host.window_scaling {
        Some(false) => "this host",
        _ => "the peer, or something on the way,",
    };
    let words = Words {
        what: format!("{whose} has switched TCP window scaling off"),
        evidence: "the connection was made without the option".to_owned(),
        consequence: "a connection carries 64 KiB in a round trip".to_owned(),
        remedy: "net.ipv4.tcp_window_scaling=1 at both ends; firewalls must not remove TCP options"
            .to_owned(),
    };
    let finding = Finding::new(Code::WindowScalingOff, Some(&peer.nid), words);
    Some(match peer.rtt_ns {
        Some([rtt, _]) => finding.with_rate(carried_by_windows(peer, WINDOW, rtt), peer.rate),
        None => finding,
    })
}

fn own_buffers(host: &HostView, peer: &PeerView, rtt: u64, rate: u64) -> Option<Finding> {
    let receive = host.tcp_rmem.map(|[.., size]| ("tcp_rmem", size, held_by_receive_buffer(size)));
    let send = host.tcp_wmem.map(|[.., size]| ("tcp_wmem", size, held_by_send_buffer(size)));
    let mut small: Vec<(&str, u64, u64)> = receive.into_iter().chain(send).collect();
    small.retain(|(.., window)| limits(carried_by_windows(peer, *window, rtt), rate));
    let smallest = small.iter().map(|(.., window)| *window).min()?;
    let list: Vec<String> = small.iter().map(|(name, size, _)| format!("{name} {size}")).collect();
    let set: Vec<String> =
        small.iter().map(|(name, ..)| format!("the last value of net.ipv4.{name}")).collect();
    let (consequence, formula) = carriers(peer, "");
    let needed = buffer_for(peer, rate, rtt);
    let words = Words {
        what: "TCP buffers of this host are too small for this path".to_owned(),
        evidence: format!(
            "largest buffers: {}; {SHARES}; round trip {}; {}",
            list.join(", "),
            millis(rtt),
            peer.rate_source
        ),
        consequence,
        remedy: format!("set {} to {needed} or more: {formula}", set.join(" and ")),
    };
    let carried = carried_by_windows(peer, smallest, rtt);
    let finding = Finding::new(Code::BuffersTooSmall, Some(&peer.nid), words);
    Some(finding.with_rate(carried, Some(rate)))
}

/// The peer's window scale follows from its largest receive buffer; its settings are known from its
/// own end alone.
fn peer_buffers(peer: &PeerView, rtt: u64, rate: u64) -> Option<Finding> {
    let remote = peer.remote.as_ref().map(|remote| &remote.host);
    let mut windows: Vec<(&str, u64, String)> = Vec::new();
    if let Some(scale) = peer.stream.and_then(|stream| stream.peer_scale) {
        let scaled = WINDOW << scale.min(14);
        windows.push(match remote.and_then(|host| host.tcp_rmem) {
            Some([.., largest]) => {
                let window = scaled.min(held_by_receive_buffer(largest));
                ("tcp_rmem", window, format!("its tcp_rmem is {largest}"))
            }
            None => {
                let seen = format!("its window scale {scale} allows windows up to {scaled} bytes");
                ("tcp_rmem", scaled, seen)
            }
        });
    }
    if let Some([.., largest]) = remote.and_then(|host| host.tcp_wmem) {
        windows.push((
            "tcp_wmem",
            held_by_send_buffer(largest),
            format!("its tcp_wmem is {largest}"),
        ));
    }
    windows.retain(|(_, window, _)| limits(carried_by_windows(peer, *window, rtt), rate));
    let smallest = windows.iter().map(|(_, window, _)| *window).min()?;
    let seen: Vec<&str> = windows.iter().map(|(.., seen)| seen.as_str()).collect();
    let shares = if remote.is_some() { format!("; {SHARES}") } else { String::new() };
    let set: Vec<String> =
        windows.iter().map(|(name, ..)| format!("the last value of net.ipv4.{name}")).collect();
    let (consequence, formula) = carriers(peer, " with the peer");
    let needed = buffer_for(peer, rate, rtt);
    let words = Words {
        what: "TCP buffers of the peer are too small for this path".to_owned(),
        evidence: format!(
            "{}{shares}; round trip {}; {}",
            seen.join("; "),
            millis(rtt),
            peer.rate_source
        ),
        consequence,
        remedy: format!("on the peer, set {} to {needed} or more: {formula}", set.join(" and ")),
    };
    let carried = carried_by_windows(peer, smallest, rtt);
    let finding = Finding::new(Code::PeerBuffersTooSmall, Some(&peer.nid), words);
    Some(finding.with_rate(carried, Some(rate)))
}

fn credits(peer: &PeerView, rtt: u64, rate: u64) -> Option<Finding> {
    let credits = u64::from(peer.peer_credits?);
    // A bulk RPC takes two round trips, and holds a credit for a message of at most 1 MiB.
    let carried = rate_of(credits.saturating_mul(MESSAGE), rtt.saturating_mul(2));
    limits(carried, rate).then(|| {
        let needed = bandwidth_delay_product(rate, rtt.saturating_mul(2)) / MESSAGE + 1;
        let words = Words {
            what: format!("{credits} peer_credits are too few for this path"),
            evidence: format!(
                "messages of 1 MiB, two round trips of {} each; {}",
                millis(rtt),
                peer.rate_source
            ),
            consequence: "bulk RPCs with this peer carry".to_owned(),
            remedy: format!(
                "peer_credits of {needed} or more at both ends, and as many RPCs in flight; \
                 `lustrine tune --to {}` measures it",
                peer.nid
            ),
        };
        let finding = Finding::new(Code::CreditsTooFew, Some(&peer.nid), words);
        finding.with_rate(carried, Some(rate))
    })
}
