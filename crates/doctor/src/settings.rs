//! Whether windows, buffers and credits are enough for the rate and the round trip of a path.

use lustrine_tune::{bandwidth_delay_product, rate_of};

use crate::code::Code;
use crate::finding::{Finding, Words, millis};
use crate::observed::{HostView, PeerView};

/// The longest message of LNet.
const MESSAGE: u64 = 1 << 20;
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
        Some([rtt, _]) => finding.with_rate(rate_of(WINDOW, rtt), peer.rate),
        None => finding,
    })
}

fn own_buffers(host: &HostView, peer: &PeerView, rtt: u64, rate: u64) -> Option<Finding> {
    let pairs = [("tcp_rmem", host.tcp_rmem), ("tcp_wmem", host.tcp_wmem)];
    let known = pairs.into_iter().filter_map(|(name, values)| Some((name, values?[2])));
    let small: Vec<_> =
        known.filter(|(_, largest)| limits(rate_of(largest / 2, rtt), rate)).collect();
    let smallest = small.iter().map(|(_, largest)| *largest).min()?;
    let needed = bandwidth_delay_product(rate, rtt).saturating_mul(2);
    let list: Vec<String> = small.iter().map(|(name, size)| format!("{name} {size}")).collect();
    let set: Vec<String> =
        small.iter().map(|(name, _)| format!("the last value of net.ipv4.{name}")).collect();
    let words = Words {
        what: "TCP buffers of this host are too small for this path".to_owned(),
        evidence: format!(
            "largest buffers: {}; half of one is window; round trip {}; {}",
            list.join(", "),
            millis(rtt),
            peer.rate_source
        ),
        consequence: "one connection carries".to_owned(),
        remedy: format!("{} to {needed} or more: 2 x rate x round trip", set.join(" and ")),
    };
    let carried = rate_of(smallest / 2, rtt);
    let finding = Finding::new(Code::BuffersTooSmall, Some(&peer.nid), words);
    Some(finding.with_rate(carried, Some(rate)))
}

/// The peer's window scale follows from its largest receive buffer.
fn peer_buffers(peer: &PeerView, rtt: u64, rate: u64) -> Option<Finding> {
    let scale = peer.stream?.peer_scale?;
    let scaled = WINDOW << scale.min(14);
    let remote = peer.remote.as_ref().and_then(|remote| remote.host.tcp_rmem);
    let (window, seen) = match remote {
        Some([.., largest]) => (largest / 2, format!("its tcp_rmem is {largest}; half is window")),
        None => (scaled, format!("its window scale {scale} allows windows up to {scaled} bytes")),
    };
    let carried = rate_of(window.min(scaled), rtt);
    limits(carried, rate).then(|| {
        let words = Words {
            what: "TCP receive buffers of the peer are too small for this path".to_owned(),
            evidence: format!("{seen}; round trip {}; {}", millis(rtt), peer.rate_source),
            consequence: "one connection to the peer carries".to_owned(),
            remedy: format!(
                "there: the last value of net.ipv4.tcp_rmem (or net.core.rmem_max) to {} or more",
                bandwidth_delay_product(rate, rtt).saturating_mul(2)
            ),
        };
        let finding = Finding::new(Code::PeerBuffersTooSmall, Some(&peer.nid), words);
        finding.with_rate(carried, Some(rate))
    })
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
