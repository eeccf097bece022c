//! What was seen of packets: their size, losses and order, what TCP waited for, and the queues of
//! the network device. Lines for people, and notes of what costs rate.

use lustrine_report::numbers::counted;
use lustrine_tune::{Segments, loss_limited_rate};

use super::report::{Direction, PeerReport};
use super::words::{known, rate_text};
use crate::host_limits::Device;

/// The part of the segments that arrived out of order that is worth a note.
const DISORDER_MIN: f64 = 0.001;
/// The same of reorderings that acknowledgements showed.
const REORDERING_MIN: f64 = 1e-5;
/// Longer packets are worth a note from this rate on, in bits per second, over a path with this MTU
/// or less.
const LONG_PACKETS_RATE: u64 = 5_000_000_000;
const SHORT_MTU: u32 = 1500;
/// Rates from which offloads matter.
const OFFLOADS_RATE: u64 = 1_000_000_000;

/// What was measured, a line for each.
pub(super) fn measured(peer: &PeerReport) -> String {
    let mut text = String::new();
    if let Some(packets) = &peer.packets {
        text += &format!(
            "  path MTU: {}; longest segments: {} bytes out, {} in\n",
            packets.path_mtu, packets.segment_out, packets.segment_in
        );
    }
    let parts = [("up to half of the rate", peer.up_to_half()), ("above", peer.above_half())];
    for (when, segments) in parts {
        if let Some(segments) = segments {
            text += &format!("  segments, {when}: {}\n", segments_text(&segments));
        }
    }
    let Device { tx_queue_len, channels, rx_ring, tx_ring, tso, gro, tx_checksums } =
        &peer.host.device;
    if let Some(name) = &peer.host.interface {
        let of = |pair: &Option<[u32; 2]>| match pair {
            Some([now, most]) => format!("{now} of {most}"),
            None => "unknown".to_owned(),
        };
        let on = |flag: &Option<bool>| match flag {
            Some(true) => "on",
            Some(false) => "off",
            None => "unknown",
        };
        text += &format!(
            "  queues of {name}: txqueuelen {}, channels {}, rings rx {}, tx {}; tso {}, gro {}, \
             checksums {}\n",
            known(*tx_queue_len),
            of(channels),
            of(rx_ring),
            of(tx_ring),
            on(tso),
            on(gro),
            on(tx_checksums)
        );
        if let Some(dropped) = peer.dropped {
            text += &format!(
                "  dropped by {name} during the ramp: {} that arrived, {} that were to leave\n",
                counted(dropped.received, "packet"),
                dropped.sent
            );
        }
    }
    text
}

fn segments_text(segments: &Segments) -> String {
    let Segments { sent, reorderings, received, out_of_order, .. } = segments;
    format!(
        "{sent} out, {} lost{}, {}; {received} in, {out_of_order} out of order{}",
        segments.lost(),
        percent(segments.loss()),
        counted(*reorderings, "reordering"),
        percent(segments.disorder())
    )
}

/// A part of all, if it is not 0.
fn percent(part: Option<f64>) -> String {
    part.filter(|part| *part > 0.0)
        .map_or_else(String::new, |part| format!(" ({})", percent_text(part)))
}

fn percent_text(part: f64) -> String {
    match part * 100.0 {
        small @ ..0.1 => format!("{small:.4} %"),
        large => format!("{large:.1} %"),
    }
}

/// What costs rate, and what to do.
pub(super) fn all(peer: &PeerReport) -> Vec<String> {
    let all = [
        shorter_path(peer),
        losses(peer),
        reordering(peer),
        waits(peer),
        long_packets(peer),
        drops(peer),
        offloads(peer),
    ];
    all.into_iter().flatten().collect()
}

/// The path takes less than the interface sends.
fn shorter_path(peer: &PeerReport) -> Option<String> {
    let (packets, mtu) = (peer.packets?, peer.host.mtu?);
    (packets.path_mtu < mtu).then(|| {
        format!(
            "the path takes packets of {} bytes, and this interface sends up to {mtu}: a hop with \
             a smaller MTU is on the way",
            packets.path_mtu
        )
    })
}

fn losses(peer: &PeerReport) -> Option<String> {
    let segments = peer.up_to_half().filter(Segments::is_lossy)?;
    let loss = segments.loss()?;
    let mut text = format!(
        "the path loses packets ({}, {} of {}) while at most half of its rate is under way, so \
         that is not congestion of this load: look for a bad cable, port or policer",
        percent_text(loss),
        segments.lost(),
        counted(segments.sent, "segment")
    );
    if let (Some(control), Some(packets)) = (&peer.host.congestion_control, &peer.packets)
        && let Some(rate) =
            loss_limited_rate(control, packets.segment_out, peer.rtt.idle_min_ns, loss)
        && peer.path.is_some_and(|path| rate < path.rate.saturating_mul(2))
    {
        text += &format!(
            "; {control} carries about {} over one connection with such losses: more connections \
             share them, and bbr is slowed less",
            rate_text(rate)
        );
    }
    Some(text)
}

fn reordering(peer: &PeerReport) -> Option<String> {
    let segments = peer.up_to_half()?;
    let part = segments.reorderings as f64 / segments.sent.max(1) as f64;
    let out = part >= REORDERING_MIN;
    let lost_in = segments.disorder().is_some_and(|part| part >= DISORDER_MIN);
    if !out && !lost_in {
        return None;
    }
    let what = match (out, lost_in) {
        (true, false) => "segments to the peer overtake each other",
        (false, true) => {
            "segments from the peer arrive out of order, because others are lost or \
                          overtaken"
        }
        _ => "segments overtake each other, or are lost, in both directions",
    };
    Some(format!(
        "{what}, while at most half of the rate is under way: TCP slows down for that; paths of \
         different length that share one stream packet by packet, and losses, look so"
    ))
}

/// What TCP waited for in the fastest writes.
fn waits(peer: &PeerReport) -> Option<String> {
    let segments = peer.fastest(Direction::Write)?;
    match (segments.window_limited(), segments.send_buffer_limited()) {
        (None, None) => None,
        (Some(part), None) => Some(format!(
            "in {part} % of the time of the fastest writes TCP waited for the window of the peer: \
             its receive buffer (tcp_rmem there) is too small, or it reads too slowly"
        )),
        (None, Some(part)) => Some(format!(
            "in {part} % of the time of the fastest writes the send buffer of this host was too \
             small (tcp_wmem)"
        )),
        (Some(window), Some(buffer)) => Some(format!(
            "in {window} % of the time of the fastest writes TCP waited for the window of the peer \
             (tcp_rmem there, or it reads too slowly), and in {buffer} % the send buffer of this \
             host was too small (tcp_wmem)"
        )),
    }
}

fn long_packets(peer: &PeerReport) -> Option<String> {
    let (packets, path) = (peer.packets?, peer.path?);
    (packets.path_mtu <= SHORT_MTU && path.rate >= LONG_PACKETS_RATE).then(|| {
        format!(
            "packets of {} bytes at {}: an MTU of 9000 means a sixth of the packets for each host; \
             every hop has to take it, which `lustrine doctor` checks",
            packets.path_mtu,
            rate_text(path.rate)
        )
    })
}

/// What the network device dropped, and whether its rings can be larger.
fn drops(peer: &PeerReport) -> Option<String> {
    let (dropped, name) = (peer.dropped?, peer.host.interface.as_deref()?);
    let device = &peer.host.device;
    let larger = |ring: Option<[u32; 2]>, which: &str| {
        let [_, most] = ring.filter(|[now, most]| now < most)?;
        Some(format!("ethtool -G {name} {which} {most}"))
    };
    let mut advice = Vec::new();
    if dropped.received > 0 {
        advice.extend(larger(device.rx_ring, "rx"));
    }
    if dropped.sent > 0 {
        advice.extend(larger(device.tx_ring, "tx"));
        advice.push(format!("ip link set {name} txqueuelen N with a larger N"));
    }
    (dropped.received > 0 || dropped.sent > 0).then(|| {
        let mut text = format!(
            "{name} dropped {} that arrived and {} that were to leave during the load, of all \
             programs together",
            counted(dropped.received, "packet"),
            dropped.sent
        );
        if !advice.is_empty() {
            text += &format!("; longer queues may help: {}", advice.join(", "));
        }
        text
    })
}

/// Work that the device could do, and the CPUs do.
fn offloads(peer: &PeerReport) -> Option<String> {
    let (path, name, device) = (peer.path?, peer.host.interface.as_deref()?, &peer.host.device);
    let flags = [("tso", device.tso), ("gro", device.gro), ("tx", device.tx_checksums)];
    let off: Vec<String> = flags
        .into_iter()
        .filter(|(_, flag)| *flag == Some(false))
        .map(|(feature, _)| format!("{feature} on"))
        .collect();
    (!off.is_empty() && path.rate >= OFFLOADS_RATE).then(|| {
        format!(
            "the CPUs do what {name} may be able to do: try ethtool -K {name} {}",
            off.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use lustrine_tune::Streams;

    use super::*;
    use crate::commands::tune::load::StreamsView;
    use crate::commands::tune::measure::Purse;
    use crate::commands::tune::report::{NodeValues, Rtts, StepRow};
    use crate::host_limits::{Dropped, HostLimits};

    const GBPS: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn step(test: Direction, rate: u64, segments: Segments) -> StepRow {
        let (under_way, rpcs, p50_ns, rtt_ns) = (8, 100, MS, None);
        let (cpu_s_per_gb, failed, cut, segments) = (0.1, 0, false, Some(segments));
        StepRow { test, under_way, rate, rpcs, p50_ns, rtt_ns, cpu_s_per_gb, failed, cut, segments }
    }

    /// 10 Gb/s and 50 ms, without a fault.
    fn healthy() -> PeerReport {
        let rtt = Rtts { idle_min_ns: 50 * MS, idle_median_ns: 50 * MS, loaded_ns: None };
        let values = NodeValues {
            identity: "node".to_owned(),
            peer_credits: 8,
            credits: 256,
            conns_per_peer: 1,
        };
        let device = Device {
            tx_queue_len: Some(1000),
            channels: Some([4, 8]),
            rx_ring: Some([512, 4096]),
            tx_ring: Some([512, 4096]),
            tso: Some(true),
            gro: Some(true),
            tx_checksums: Some(true),
        };
        let host = HostLimits {
            interface: Some("eth0".to_owned()),
            mtu: Some(9000),
            congestion_control: Some("cubic".to_owned()),
            device,
            ..HostLimits::default()
        };
        let nid = "10.0.0.2@tcp".parse().expect("a NID");
        let mut peer = PeerReport::new(nid, rtt, values, host, Purse::default());
        peer.path = Some(peer.new_path(10 * GBPS, Streams::OneIsEnough));
        let segments = Segments { sent: 1_000_000, received: 1_000_000, ..Segments::default() };
        let busy = Segments { busy_ns: 1000, ..segments };
        peer.ramp = [Direction::Read, Direction::Write]
            .into_iter()
            .flat_map(|way| [step(way, 2 * GBPS, segments), step(way, 10 * GBPS, busy)])
            .collect();
        peer.packets = Some(StreamsView {
            path_mtu: 9000,
            segment_out: 8948,
            segment_in: 8948,
            segments: Segments::default(),
        });
        peer.dropped = Some(Dropped::default());
        peer
    }

    /// What a change of a healthy path adds: one note.
    fn note(change: impl FnOnce(&mut PeerReport)) -> String {
        let mut peer = healthy();
        change(&mut peer);
        let mut notes = all(&peer);
        assert_eq!(notes.len(), 1, "{notes:?}");
        notes.remove(0)
    }

    fn counted_in(peer: &mut PeerReport, index: usize) -> &mut Segments {
        peer.ramp[index].segments.as_mut().expect("they were counted")
    }

    #[test]
    fn a_healthy_path_needs_no_note() {
        let peer = healthy();
        assert_eq!(all(&peer), Vec::<String>::new());
        let text = measured(&peer);
        let lines = [
            "  path MTU: 9000; longest segments: 8948 bytes out, 8948 in",
            "  segments, up to half of the rate: 2000000 out, 0 lost, 0 reorderings; 2000000 in, 0 \
             out of order",
            "  queues of eth0: txqueuelen 1000, channels 4 of 8, rings rx 512 of 4096, tx 512 of \
             4096; tso on, gro on, checksums on",
            "  dropped by eth0 during the ramp: 0 packets that arrived, 0 that were to leave",
        ];
        for line in lines {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn losses_far_from_the_rate_are_those_of_the_path() {
        let text = note(|peer| {
            let counted = counted_in(peer, 2);
            (counted.retransmits, counted.duplicates) = (220, 20);
        });
        let words = "the path loses packets (0.0100 %, 200 of 2000000 segments) while at most half";
        assert!(text.starts_with(words), "{text}");
        // 1.22 / 0.01 segments of 8948 bytes in 50 ms, as Reno.
        assert!(text.contains("cubic carries about 174.7 Mb/s over one connection"), "{text}");
        // In the fastest step, queues overflow.
        let mut congested = healthy();
        counted_in(&mut congested, 3).retransmits = 5000;
        assert_eq!(all(&congested), Vec::<String>::new());
        assert!(measured(&congested).contains("above: 2000000 out, 5000 lost (0.2 %)"));
        // No formula describes bbr.
        let text = note(|peer| {
            counted_in(peer, 2).retransmits = 200;
            peer.host.congestion_control = Some("bbr".to_owned());
        });
        assert!(text.ends_with("look for a bad cable, port or policer"), "{text}");
    }

    #[test]
    fn segments_out_of_order_are_named() {
        let text = note(|peer| counted_in(peer, 0).out_of_order = 2001);
        assert!(text.starts_with("segments from the peer arrive out of order"), "{text}");
        let text = note(|peer| counted_in(peer, 2).reorderings = 21);
        assert!(text.starts_with("segments to the peer overtake each other"), "{text}");
        let text = note(|peer| {
            counted_in(peer, 0).out_of_order = 2001;
            counted_in(peer, 2).reorderings = 21;
        });
        assert!(text.starts_with("segments overtake each other, or are lost, in both"), "{text}");
    }

    #[test]
    fn what_tcp_waits_for_is_named() {
        let text = note(|peer| counted_in(peer, 3).window_limited_ns = 250);
        assert!(text.starts_with("in 25 % of the time of the fastest writes TCP waited"), "{text}");
        let text = note(|peer| counted_in(peer, 3).send_buffer_limited_ns = 250);
        assert!(text.ends_with("the send buffer of this host was too small (tcp_wmem)"), "{text}");
        let mut reads = healthy();
        counted_in(&mut reads, 1).window_limited_ns = 250;
        assert_eq!(all(&reads), Vec::<String>::new(), "requests are small");
    }

    #[test]
    fn packets_that_could_be_longer_are_named() {
        let text = note(|peer| peer.packets.as_mut().expect("seen").path_mtu = 8000);
        assert!(text.starts_with("the path takes packets of 8000 bytes, and this"), "{text}");
        let text = note(|peer| {
            peer.packets.as_mut().expect("seen").path_mtu = 1500;
            peer.host.mtu = Some(1500);
        });
        assert!(text.starts_with("packets of 1500 bytes at 10.00 Gb/s: an MTU of 9000"), "{text}");
    }

    #[test]
    fn what_the_device_drops_or_leaves_to_the_cpus_is_named() {
        let text = note(|peer| peer.dropped = Some(Dropped { received: 7, sent: 0 }));
        assert!(text.ends_with("longer queues may help: ethtool -G eth0 rx 4096"), "{text}");
        let text = note(|peer| {
            peer.dropped = Some(Dropped { received: 0, sent: 1 });
            peer.host.device.tx_ring = Some([4096, 4096]);
        });
        assert!(text.ends_with("ip link set eth0 txqueuelen N with a larger N"), "{text}");
        let text = note(|peer| {
            (peer.host.device.gro, peer.host.device.tso) = (Some(false), None);
        });
        assert!(text.ends_with("try ethtool -K eth0 gro on"), "{text}");
    }
}
