//! Whether full segments pass in both directions, and whether the peer reads many bytes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use lustrine_doctor::{Carried, Source, StreamView, header_bytes, pings_at_once};
use lustrine_wire::nid::Nid;

use super::budget::Budget;
use super::conversation::{Caller, Conversation, option_bytes};

/// How long full segments may take, beside some round trips: several are sent again meanwhile.
const FULL: Duration = Duration::from_secs(3);
/// The same while sizes are tried.
const TRIED: Duration = Duration::from_millis(1500);
/// Round trips that come on top.
const ROUND_TRIPS: u32 = 8;
/// MTUs that paths have, beside those of the ends.
const MTUS: [u16; 14] =
    [576, 1000, 1280, 1380, 1400, 1420, 1450, 1480, 1492, 1500, 2048, 4096, 8000, 8900];
/// Bytes with which it is seen whether the peer reads: several of the windows that a connection
/// has at first.
pub(super) const BULK: usize = 512 << 10;
/// Bytes of a look without [`BULK`] where all segments arrive, over a path of this MTU: full
/// segments there, and pings whose answers fill segments back.
pub(super) fn bytes_of_look(mtu: u32) -> u64 {
    4 * u64::from(mtu) + u64::from(pings_at_once(mtu)) * Conversation::PING_BYTES
}

/// Attempts of a handshake while the peer still ends an earlier connection, and the wait between
/// them.
const ATTEMPTS: u32 = 5;
const AGAIN: Duration = Duration::from_millis(300);

/// Whom to connect to, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    pub(super) caller: &'a Caller,
    pub(super) to: SocketAddr,
    pub(super) target: Nid,
    pub(super) source: Source,
    pub(super) rtt: Duration,
}

/// What was seen of segments.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub(super) stream: Option<StreamView>,
    pub(super) out: Option<Carried>,
    pub(super) back: Option<Carried>,
    pub(super) bulk: Option<Carried>,
}

impl Line<'_> {
    /// A connection; the peer may still be ending an earlier one.
    fn open(&self, budget: &mut Budget, segment_max: Option<u16>) -> Option<Conversation> {
        for _ in 0..ATTEMPTS {
            let Line { caller, to, target, source, .. } = *self;
            let (_, open) = caller.handshake(budget, to, target, source, segment_max);
            if open.is_some() || budget.is_over() {
                return open;
            }
            std::thread::sleep(AGAIN);
        }
        None
    }

    fn limit(&self, base: Duration) -> Duration {
        base + self.rtt * ROUND_TRIPS
    }
}

/// Whether many bytes are sent, to see that the peer reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bulk {
    Sent,
    LeftOut,
}

/// Tries full segments over an open connection, and sizes over more of them.
pub(super) fn look(
    line: &Line<'_>,
    budget: &mut Budget,
    mut open: Conversation,
    bulk: Bulk,
) -> Sizes {
    let mut sizes = Sizes::default();
    if open.has_keepalives() {
        let out = send_full(&mut open, budget, line.limit(FULL));
        sizes.out = Some(out);
        if matches!(out, Carried::Yes { .. }) {
            sizes.back = Some(receive_full(&mut open, budget, line.limit(FULL)));
        }
        let reads = matches!(sizes.back, Some(Carried::Yes { .. } | Carried::Unknown));
        if reads && bulk == Bulk::Sent {
            sizes.bulk = Some(send_bulk(&mut open, budget, line.limit(FULL)));
        }
    }
    sizes.stream = view(&open);
    match (sizes.out, sizes.back, sizes.bulk) {
        (Some(Carried::Lost { .. }), ..)
        | (_, Some(Carried::Lost { .. }), _)
        | (.., Some(Carried::Unread { .. })) => open.abort(),
        _ => open.close(),
    }
    for (carried, direction) in
        [(&mut sizes.out, Direction::Out), (&mut sizes.back, Direction::Back)]
    {
        if matches!(carried, Some(Carried::Lost { .. })) {
            *carried = Some(again(line, budget, direction));
        }
        if let Some(Carried::Lost { segment, ms, .. }) = *carried {
            let options = sizes.stream.map_or(0, |stream| stream.options);
            let found = largest(line, budget, direction, segment.saturating_add(options));
            *carried = Some(match found {
                Largest::Segment(arrives) => Carried::Lost {
                    segment,
                    arrives: arrives.map(|size| size.saturating_sub(options)),
                    ms,
                },
                // Then it is not the size.
                Largest::NoneOpened => Carried::Unknown,
            });
        }
    }
    sizes
}

fn view(open: &Conversation) -> Option<StreamView> {
    let info = open.info()?;
    Some(StreamView {
        segment_out: info.segment_out,
        segment_back: info.segment_asked,
        segment_seen: info.segment_seen,
        path_mtu: info.path_mtu,
        options: option_bytes(&info),
        peer_scale: info.peer_scale,
        retransmits: info.retransmits,
    })
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Out,
    Back,
}

fn ns(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Keepalives that fill a few segments to the peer: whether its host acknowledges them.
fn send_full(open: &mut Conversation, budget: &mut Budget, most: Duration) -> Carried {
    let Some(before) = open.info() else { return Carried::Unknown };
    let bytes = 4 * before.segment_out as usize;
    if !budget.allows(bytes as u64) {
        return Carried::Unknown;
    }
    let (begun, until) = (Instant::now(), budget.until(most));
    let sent = open.send_keepalives(budget, bytes, until);
    if sent < bytes {
        return Carried::Unknown;
    }
    if open.delivered(budget, until) {
        return Carried::Yes { bytes: sent as u64, ns: ns(begun) };
    }
    if budget.is_over() {
        return Carried::Unknown;
    }
    let ms = ns(begun) / 1_000_000;
    match open.info() {
        // The oldest segment was sent again and again, in vain.
        Some(after) if after.in_flight > 0 && after.timeouts >= 2 => {
            Carried::Lost { segment: before.segment_out, arrives: None, ms }
        }
        Some(after) if after.in_flight == 0 && open.unacknowledged() > 0 => {
            Carried::Unread { bytes: (sent as u64).saturating_sub(open.unacknowledged()), ms }
        }
        _ => Carried::Unknown,
    }
}

/// Pings at once, whose answers fill segments from the peer.
fn receive_full(open: &mut Conversation, budget: &mut Budget, most: Duration) -> Carried {
    let Some(before) = open.info() else { return Carried::Unknown };
    let count = pings_at_once(before.segment_asked);
    if !budget.allows(u64::from(count) * Conversation::PING_BYTES) {
        return Carried::Unknown;
    }
    let (begun, until) = (Instant::now(), budget.until(most));
    if !open.send_pings(budget, count, until) {
        return Carried::Unknown;
    }
    let mut bytes = 0;
    for _ in 0..count {
        let Some(answer) = open.answer(budget, until) else {
            let waited = budget.is_past(until) && !budget.is_over();
            let all_there = waited && open.unacknowledged() == 0;
            let ms = ns(begun) / 1_000_000;
            let segment = before.segment_asked;
            return match all_there {
                true => Carried::Lost { segment, arrives: None, ms },
                false => Carried::Unknown,
            };
        };
        bytes += answer.len() as u64;
    }
    let ns = ns(begun);
    let seen = open.info().map_or(0, |info| info.segment_seen);
    // Small segments say nothing about full ones.
    match u64::from(seen) * 10 >= u64::from(before.segment_asked) * 9 {
        true => Carried::Yes { bytes, ns },
        false => Carried::Unknown,
    }
}

/// Many keepalives: whether the peer reads them.
fn send_bulk(open: &mut Conversation, budget: &mut Budget, most: Duration) -> Carried {
    if !budget.allows(BULK as u64) {
        return Carried::Unknown;
    }
    let (begun, until) = (Instant::now(), budget.until(most));
    let sent = open.send_keepalives(budget, BULK, until);
    if sent >= BULK && open.delivered(budget, until) {
        return Carried::Yes { bytes: sent as u64, ns: ns(begun) };
    }
    let taken = (sent as u64).saturating_sub(open.unacknowledged());
    match open.is_stuck() && !budget.is_over() {
        true => Carried::Unread { bytes: taken, ms: ns(begun) / 1_000_000 },
        false => Carried::Unknown,
    }
}

/// The same over a new connection: a peer that stopped for other reasons than the size begins anew
/// there.
fn again(line: &Line<'_>, budget: &mut Budget, direction: Direction) -> Carried {
    let Some(mut open) = line.open(budget, None) else { return Carried::Unknown };
    let carried = full(&mut open, budget, direction, line.limit(FULL));
    open.abort();
    carried
}

fn full(
    open: &mut Conversation,
    budget: &mut Budget,
    direction: Direction,
    most: Duration,
) -> Carried {
    match direction {
        Direction::Out => send_full(open, budget, most),
        Direction::Back => receive_full(open, budget, most),
    }
}

/// The outcome of a search.
enum Largest {
    /// The largest size that arrives, payload and options; `None`: no size does.
    Segment(Option<u32>),
    /// There was no further connection.
    NoneOpened,
}

/// Searches for the largest segment below `lost` that arrives, by bisection.
fn largest(line: &Line<'_>, budget: &mut Budget, direction: Direction, lost: u32) -> Largest {
    let headers = header_bytes(line.to.is_ipv6());
    let sizes = MTUS.into_iter().map(|mtu| u32::from(mtu) - headers).filter(|size| *size < lost);
    let sizes: Vec<u16> = sizes.filter_map(|size| u16::try_from(size).ok()).collect();
    let (mut low, mut high) = (0, sizes.len());
    let mut opened = false;
    while low < high {
        let middle = low + (high - low) / 2;
        let Some(mut open) = line.open(budget, Some(sizes[middle])) else { break };
        opened = true;
        let carried = full(&mut open, budget, direction, line.limit(TRIED));
        open.abort();
        match carried {
            Carried::Lost { .. } | Carried::Unread { .. } => high = middle,
            Carried::Yes { .. } | Carried::Unknown => low = middle + 1,
        }
    }
    match opened {
        true => Largest::Segment(low.checked_sub(1).map(|at| sizes[at].into())),
        false => Largest::NoneOpened,
    }
}
