//! What was seen of packets: their size, losses and order, what TCP waited for, and the queues of
//! the network device. Lines for people, and notes of what costs rate.

use lustrine_report::numbers::counted;
use lustrine_tune::{Segments, loss_limited_rate, rate_text};

use super::load::Direction;
use super::report::PeerReport;
use crate::host_limits::Device;

/// So many of them at least are worth a note: a few may be chance.
const EVENTS_MIN: u64 = 10;
/// The part of the segments that arrived out of order that is worth a note.
const DISORDER_MIN: f64 = 0.001;
/// The same of reorderings that acknowledgements showed.
const REORDERING_MIN: f64 = 1e-5;
/// Packets that arrived and were dropped: less are those of protocols that this host does not have,
/// of which switches send one every few seconds.
const DROPPED_MIN: u64 = 1000;
/// Bytes of the longest packet of IP.
const PACKET_MAX: u32 = 65_535;
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
            packets.longest(),
            packets.segment_out,
            packets.segment_in
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
                "  dropped by {name} during this load: {} that arrived, {} that were to leave\n",
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

/// The path, or the peer, takes less than the interface sends.
fn shorter_path(peer: &PeerReport) -> Option<String> {
    // No packet of IP is longer than 65,535 bytes, which is less than the MTU of the loopback.
    let (packets, mtu) = (peer.packets?, peer.host.mtu?.min(PACKET_MAX));
    let longest = packets.longest();
    if packets.path_mtu < mtu {
        return Some(format!(
            "the path takes packets of {} bytes, and this interface sends up to {mtu}: a hop on \
             the way has a smaller MTU, or a route of this host",
            packets.path_mtu
        ));
    }
    (longest < packets.path_mtu).then(|| {
        format!(
            "packets to the peer have at most about {longest} bytes, and this interface sends up \
             to {mtu}: the peer's interface has a smaller MTU, or something on the way lowers the \
             size of segments"
        )
    })
}

/// Losses while the path is not full.
fn losses(peer: &PeerReport) -> Option<String> {
    let segments = peer.up_to_half().filter(Segments::is_lossy)?;
    let loss = segments.loss()?;
    let mut text = format!(
        "the path loses packets ({}, {} of {}) while it is at most half full: look for a bad \
         cable, port or policer. A queue on the way that is too short for bursts of 1 MiB looks so \
         as well",
        percent_text(loss),
        segments.lost(),
        counted(segments.sent, "segment")
    );
    if let (Some(control), Some(packets)) = (&peer.host.congestion_control, &peer.packets)
        && let Some(rate) =
            loss_limited_rate(control, packets.segment_out, peer.rtt.idle_min_ns, loss)
        && peer.fastest(Direction::Write).is_some_and(|row| row.rate < rate.saturating_mul(2))
    {
        text += &format!(
            "; with such losses by chance, {control} carries about {} over one connection: more \
             connections share them, and bbr is slowed less",
            rate_text(rate)
        );
    }
    Some(text)
}

fn reordering(peer: &PeerReport) -> Option<String> {
    let segments = peer.up_to_half()?;
    let part = segments.reorderings as f64 / segments.sent.max(1) as f64;
    let out = segments.reorderings >= EVENTS_MIN && part >= REORDERING_MIN;
    let disorder = segments.disorder().filter(|_| segments.out_of_order >= EVENTS_MIN);
    let lost_in = disorder.is_some_and(|part| part >= DISORDER_MIN);
    if !out && !lost_in {
        return None;
    }
    let what = match (out, lost_in) {
        (true, false) => "segments to the peer overtake each other",
        (false, true) => {
            "segments from the peer arrive out of order, because others are lost or overtaken"
        }
        _ => "segments overtake each other, or are lost, in both directions",
    };
    Some(format!(
        "{what}, while the path is at most half full: TCP slows down for that. Losses, \
         or per-packet load balancing over paths of different length, are possible reasons"
    ))
}

/// What TCP waited for in the fastest writes.
fn waits(peer: &PeerReport) -> Option<String> {
    let segments = peer.fastest(Direction::Write)?.segments?;
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
    let longest = packets.longest();
    (longest <= SHORT_MTU && path.rate >= LONG_PACKETS_RATE).then(|| {
        format!(
            "packets of {longest} bytes at {}: an MTU of 9000 means a sixth of the packets for \
             each host. Both ends and every hop have to take it, which `lustrine doctor` checks",
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
    let received = dropped.received >= DROPPED_MIN;
    let mut advice = Vec::new();
    if received {
        advice.extend(larger(device.rx_ring, "rx"));
    }
    if dropped.sent > 0 {
        match device.tx_ring {
            Some(_) => advice.extend(larger(device.tx_ring, "tx")),
            // A device without hardware drops what does not fit into this queue.
            None => advice.push(format!("ip link set {name} txqueuelen N with a larger N")),
        }
    }
    (received || dropped.sent > 0).then(|| {
        let mut text = format!(
            "{name} dropped {} that arrived, for lack of room or because no program wanted them, \
             and {} that were to leave, of all programs together",
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
    (!off.is_empty() && peer.host.hardware && path.rate >= OFFLOADS_RATE).then(|| {
        format!(
            "the CPUs do what {name} may be able to do: try ethtool -K {name} {}",
            off.join(" ")
        )
    })
}

/// A value, or that it is not known.
pub(super) fn known<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use lustrine_tune::Streams;

    use super::*;
    use crate::commands::tune::load::StreamsView;
    use crate::commands::tune::report::StepRow;
    use crate::host_limits::{Dropped, HostLimits};

    const GBPS: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn step(test: Direction, rate: u64, segments: Segments) -> StepRow {
        StepRow { segments: Some(segments), ..StepRow::whole(test, 8, rate, MS) }
    }

    /// 10 Gb/s and 50 ms, without a fault.
    fn healthy() -> PeerReport {
        let hardware = true;
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
            hardware,
            ..HostLimits::default()
        };
        let mut peer = PeerReport::at_50_ms(host);
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
            "  dropped by eth0 during this load: 0 packets that arrived, 0 that were to leave",
        ];
        for line in lines {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
    }

    #[test]
    fn losses_far_from_the_rate_are_those_of_the_path() {
        let lossy = |peer: &mut PeerReport| {
            let counted = counted_in(peer, 2);
            (counted.retransmits, counted.duplicates) = (220, 20);
        };
        let text = note(lossy);
        let words = "the path loses packets (0.0100 %, 200 of 2000000 segments) while it is at";
        assert!(text.starts_with(words), "{text}");
        assert!(
            text.ends_with("looks so as well"),
            "more was carried than the formula has: {text}"
        );
        // 1.22 / 0.01 segments of 8948 bytes in 50 ms, as Reno.
        let text = note(|peer| {
            lossy(peer);
            peer.ramp[2].rate = GBPS / 20;
            peer.ramp[3].rate = GBPS / 4;
        });
        assert!(text.contains("cubic carries about 174.7 Mb/s over one connection"), "{text}");
        // In the fastest step, queues overflow.
        let mut congested = healthy();
        counted_in(&mut congested, 3).retransmits = 5000;
        assert_eq!(all(&congested), Vec::<String>::new());
        assert!(measured(&congested).contains("above: 2000000 out, 5000 lost (0.2 %)"));
        // A few are chance: a tail that was sent again, and not reported in time.
        let mut few = healthy();
        counted_in(&mut few, 2).retransmits = 9;
        assert_eq!(all(&few), Vec::<String>::new());
        // No formula describes bbr.
        let text = note(|peer| {
            lossy(peer);
            peer.ramp[3].rate = GBPS / 4;
            peer.ramp[2].rate = GBPS / 20;
            peer.host.congestion_control = Some("bbr".to_owned());
        });
        assert!(text.ends_with("looks so as well"), "{text}");
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
        let set = |peer: &mut PeerReport, path_mtu, segment_out| {
            let packets = peer.packets.as_mut().expect("seen");
            (packets.path_mtu, packets.segment_out) = (path_mtu, segment_out);
        };
        let text = note(|peer| set(peer, 8000, 7948));
        assert!(text.starts_with("the path takes packets of 8000 bytes, and this"), "{text}");
        let text = note(|peer| set(peer, 9000, 4000));
        assert!(text.starts_with("packets to the peer have at most about 4052 bytes"), "{text}");
        let text = note(|peer| {
            set(peer, 1500, 1448);
            peer.host.mtu = Some(1500);
        });
        assert!(text.starts_with("packets of 1500 bytes at 10.00 Gb/s: an MTU of 9000"), "{text}");
    }

    #[test]
    fn what_the_device_drops_or_leaves_to_the_cpus_is_named() {
        let text = note(|peer| peer.dropped = Some(Dropped { received: 1000, sent: 0 }));
        assert!(text.ends_with("longer queues may help: ethtool -G eth0 rx 4096"), "{text}");
        let mut unwanted = healthy();
        unwanted.dropped = Some(Dropped { received: 999, sent: 0 });
        assert_eq!(all(&unwanted), Vec::<String>::new());
        let text = note(|peer| {
            peer.dropped = Some(Dropped { received: 0, sent: 1 });
            peer.host.device.tx_ring = None;
        });
        assert!(text.ends_with("ip link set eth0 txqueuelen N with a larger N"), "{text}");
        let text = note(|peer| {
            (peer.host.device.gro, peer.host.device.tso) = (Some(false), None);
        });
        assert!(text.ends_with("try ethtool -K eth0 gro on"), "{text}");
        let mut tun = healthy();
        (tun.host.device.gro, tun.host.hardware) = (Some(false), false);
        assert_eq!(all(&tun), Vec::<String>::new());
    }
}
