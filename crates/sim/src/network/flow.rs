//! One direction of a stream under TCP: bytes that wait, are in flight, or have arrived.
//!
//! A flow decides what is sent and what was lost; [`super::carry`] takes bursts over the links. One
//! value holds the state of both ends, and the bytes until they arrive.

use std::collections::VecDeque;

use lustrine_lnet::time::Time;

use crate::fabric::{Burst, Hops, Rate};
use crate::memory::Rope;
use crate::tcp::{Acked, Congestion, IdleRestart, RoundTrip, TRAIN_MAX, TcpSpec, TimeOut};

/// Bytes of one stream that may wait in its host's interface, as TCP small queues limits them.
const IN_INTERFACE: u64 = 2 * TRAIN_MAX;

/// Consecutive time-outs after which a stream that its owner has closed is not repeated any more.
const ORPHAN_TIMEOUTS: u32 = 8;

/// Identifies one transmission of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sending {
    /// The offset in the stream at which it begins.
    pub(super) start: u64,
    /// The number of the transmission within its flow.
    pub(super) number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    /// It was acknowledged before something that was sent earlier.
    Acked,
}

#[derive(Debug)]
struct SegmentBurst {
    start: u64,
    len: u64,
    /// Taken out when it has arrived in order.
    bytes: Rope,
    arrived: bool,
    state: State,
    number: u64,
    sent_at: Time,
    acked_then: u64,
    acked_at_then: Time,
    app_limited: bool,
}

/// A burst in the host's own interface.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    /// When its last bit has been sent: TCP small queues count until then.
    sent_at: Time,
    /// When it is at the far end of the link: later by the delay of the link.
    arrives_at: Time,
    on_link: u64,
}

/// What a flow has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send this number of bytes.
    Send(Sending, u64),
    /// Try again at this time.
    At(Time),
    /// Nothing until an event.
    Nothing,
}

/// The path of a flow.
#[derive(Debug)]
pub(super) struct FlowPath {
    pub(super) there: Hops,
    pub(super) back: Hops,
    /// The rate of the narrowest link in this direction, and the shortest queue after the first
    /// link.
    pub(super) rate: Option<Rate>,
    pub(super) queue: u64,
}

/// One direction.
#[derive(Debug)]
pub(super) struct Flow {
    spec: TcpSpec,
    /// Bytes that the other end buffers unread.
    receive_buffer: u64,
    pub(super) hops: Hops,
    pub(super) back: Hops,
    /// When the latest of the acknowledgements that are in flight arrives: they stay in order.
    pub(super) last_ack_arrival: Time,
    train_max: u64,
    congestion: Congestion,
    round_trip: RoundTrip,
    queue: Rope,
    bursts: VecDeque<SegmentBurst>,
    /// Positions in the stream: of the next new byte, and of the end of what has arrived in order.
    next: u64,
    arrived: u64,
    /// The end of the receiver's room, as the sender knows it, and as it was last announced.
    edge: u64,
    told_edge: u64,
    in_flight: u64,
    lost: u32,
    number: u64,
    /// Transmissions up to this one belong to a window whose loss has been handled.
    recovers_at: u64,
    /// Bytes acknowledged in any order, and the time of the last acknowledgement.
    acked: u64,
    acked_at: Time,
    /// The last transmission before the window stopped the sender.
    full_at: Option<u64>,
    /// Until more than this number of bytes are acknowledged, the owner and not the path limits
    /// the rate; 0 if the path limits it (draft-cheng-iccrg-delivery-rate-estimation, 3.4).
    app_limited: u64,
    /// Bytes of bursts in the host's interface, as of the last look.
    in_interface: u64,
    in_interface_max: u64,
    /// The bursts there, in the order in which they leave.
    interface: VecDeque<Leaving>,
    paced_until: Time,
    last_sent: Time,
    /// The retransmission deadline; `NEVER` while nothing is in flight.
    gives_up_at: Time,
    /// The time of its timer in the event queue; `NEVER` if there is none.
    timer: Time,
    /// Whether a timer of pacing is in the event queue.
    pub(super) pump_is_due: bool,
    /// The owner closes its half after the last byte.
    pub(super) finished: bool,
}

impl Flow {
    pub(super) fn new(spec: TcpSpec, receive_buffer: u64, way: FlowPath) -> Flow {
        let segment = u64::from(spec.segment.max(1));
        // A single burst must not fill a short queue.
        let train_max =
            TRAIN_MAX.min(way.queue / 4).min(receive_buffer / 4).max(segment) / segment * segment;
        Flow {
            congestion: Congestion::new(&spec, way.rate),
            receive_buffer,
            hops: way.there,
            back: way.back,
            last_ack_arrival: Time::ZERO,
            train_max,
            round_trip: RoundTrip::default(),
            queue: Rope::default(),
            bursts: VecDeque::new(),
            next: 0,
            arrived: 0,
            edge: receive_buffer,
            told_edge: receive_buffer,
            in_flight: 0,
            lost: 0,
            number: 0,
            recovers_at: 0,
            acked: 0,
            acked_at: Time::ZERO,
            full_at: None,
            app_limited: 0,
            in_interface: 0,
            interface: VecDeque::new(),
            in_interface_max: match spec.txqueuelen {
                None => IN_INTERFACE,
                Some(packets) => u64::from(packets) * spec.packet(),
            },
            paced_until: Time::ZERO,
            last_sent: Time::ZERO,
            gives_up_at: Time::NEVER,
            timer: Time::NEVER,
            pump_is_due: false,
            finished: false,
            spec,
        }
    }

    /// Free bytes in the send buffer.
    pub(super) fn room(&self) -> u64 {
        self.spec.send_buffer.saturating_sub(self.unacknowledged())
    }

    /// Bytes in the send buffer: what has not left, and what is not acknowledged.
    pub(super) fn unacknowledged(&self) -> u64 {
        self.queue.len() + (self.next - self.trains_start())
    }

    /// What this number of data bytes is on a link.
    pub(super) fn on_link(&self, data: u64) -> Burst {
        Burst::new(self.spec.on_link(data), self.packet())
    }

    /// Bytes of a full packet on a link.
    pub(super) fn packet(&self) -> u64 {
        self.spec.packet()
    }

    /// The size of the send buffer in bytes.
    pub(super) fn send_buffer(&self) -> u64 {
        self.spec.send_buffer
    }

    /// The first byte that is not acknowledged.
    pub(super) fn trains_start(&self) -> u64 {
        self.bursts.front().map_or(self.next, |burst| burst.start)
    }

    /// Bytes that wait or are in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.bursts.is_empty()
    }

    /// Whether every byte has arrived.
    pub(super) fn is_through(&self) -> bool {
        self.queue.is_empty() && self.arrived == self.next
    }

    pub(super) fn push(&mut self, now: Time, bytes: Rope) {
        self.look_at_interface(now);
        let next_to_nothing = self.queue.len() < u64::from(self.spec.segment.max(1));
        let is_idle = self.in_interface == 0 && self.lost == 0;
        if next_to_nothing && is_idle && self.in_flight < self.congestion.window() {
            self.app_limited = (self.acked + self.in_flight).max(1);
        }
        self.queue.append(bytes);
    }

    /// The next burst, if one may be sent now.
    pub(super) fn next(&mut self, now: Time) -> Next {
        if self.lost == 0 && self.queue.is_empty() {
            return Next::Nothing;
        }
        self.look_at_interface(now);
        if self.in_interface >= self.in_interface_max {
            return match self.interface.front() {
                // Its arrival is an event that starts the flow again.
                Some(first) if first.sent_at >= first.arrives_at => Next::Nothing,
                Some(first) => Next::At(first.sent_at),
                None => Next::Nothing,
            };
        }
        if now < self.paced_until {
            return Next::At(self.paced_until);
        }
        self.mind_idleness(now);
        let is_new = self.lost == 0;
        let sending = if is_new { self.next_new() } else { self.next_lost() };
        let Some((index, len)) = sending else { return Next::Nothing };
        self.number += 1;
        if self.in_flight == 0 {
            if is_new && self.last_sent != Time::ZERO {
                let limited_by_owner = self.app_limited != 0;
                self.congestion.begins_again(now.since(self.last_sent), limited_by_owner);
            }
            // Idle time does not count for the rate of what is sent from now on (the same draft,
            // 3.3): only the first burst knew that.
            self.acked_at = now;
        }
        self.check_app_limited(len);
        let (acked_then, acked_at_then) = (self.acked, self.acked_at.max(Time(1)));
        let burst = &mut self.bursts[index];
        burst.state = State::InFlight;
        burst.number = self.number;
        burst.sent_at = now;
        burst.app_limited = self.app_limited != 0;
        (burst.acked_then, burst.acked_at_then) = (acked_then, acked_at_then);
        let sending = Sending { start: burst.start, number: self.number };
        self.in_flight += len;
        self.last_sent = now;
        if let Some(rate) = self.congestion.pace() {
            self.paced_until = now + rate.time_for(len);
        }
        if self.gives_up_at == Time::NEVER {
            self.gives_up_at = now + self.round_trip.timeout();
        }
        Next::Send(sending, len)
    }

    fn mind_idleness(&mut self, now: Time) {
        if self.in_flight != 0 || self.last_sent == Time::ZERO || self.lost != 0 {
            return;
        }
        let timeouts = now.since(self.last_sent).0 / self.round_trip.timeout().0;
        if timeouts != 0 && self.spec.idle_restart == IdleRestart::Shrink {
            self.congestion.idled(timeouts);
        }
    }

    /// If a burst of so many bytes is the last one that there is to send, and finds nothing in
    /// front of it, its rate is that of its owner. Linux counts packets: there a single byte that
    /// waited for a repetition is one packet, and here it would be a rate of next to nothing.
    fn check_app_limited(&mut self, len: u64) {
        let is_last = self.queue.is_empty() && self.lost == 0 && self.in_interface == 0;
        if is_last && self.in_flight + len < self.congestion.window() {
            self.app_limited = (self.acked + self.in_flight + len).max(1);
        }
    }

    /// Whether this number of additional bytes may be in flight.
    fn fits(&mut self, len: u64) -> bool {
        let fits = self.in_flight == 0 || self.in_flight + len <= self.congestion.window();
        if !fits {
            self.full_at = Some(self.number);
        }
        fits
    }

    fn next_lost(&mut self) -> Option<(usize, u64)> {
        let index = self.bursts.iter().position(|burst| burst.state == State::Lost)?;
        // A burst of a large window is repeated in parts when the window has become small.
        let wanted = self.bursts[index].len.min(self.most_at_once());
        let len = self.part_that_fits(wanted);
        if len == 0 || !self.fits(len) {
            return None;
        }
        if len < wanted {
            self.full_at = Some(self.number);
        }
        if len < self.bursts[index].len {
            self.split(index, len);
        }
        self.lost -= 1;
        Some((index, len))
    }

    /// Small windows are sent in small bursts; otherwise acknowledgements come in groups.
    fn most_at_once(&self) -> u64 {
        let segment = u64::from(self.spec.segment.max(1));
        (self.congestion.window() / 8 / segment * segment).clamp(segment, self.train_max)
    }

    /// How many of so many bytes the window has room for. No short bursts: most of a burst will fit
    /// when something has left.
    fn part_that_fits(&self, wanted: u64) -> u64 {
        let segment = u64::from(self.spec.segment.max(1));
        let left = self.congestion.window().saturating_sub(self.in_flight) / segment * segment;
        if left >= wanted.div_ceil(2) { wanted.min(left) } else { wanted }
    }

    /// Divides a burst; both parts are in the state that it had.
    fn split(&mut self, index: usize, len: u64) {
        let burst = &mut self.bursts[index];
        // Bytes that were read in order are not here any more.
        let first =
            if burst.bytes.is_empty() { Rope::default() } else { burst.bytes.split_to(len) };
        let rest = SegmentBurst {
            start: burst.start + len,
            len: burst.len - len,
            bytes: core::mem::replace(&mut burst.bytes, first),
            ..*burst
        };
        burst.len = len;
        self.lost += u32::from(rest.state == State::Lost);
        self.bursts.insert(index + 1, rest);
    }

    fn next_new(&mut self) -> Option<(usize, u64)> {
        let wanted = self.queue.len().min(self.most_at_once());
        let room = self.edge.saturating_sub(self.next);
        let len = self.part_that_fits(wanted);
        // A receiver that never has room for a segment gets what fits, but only when half of its
        // buffer is free: others must not cause a small piece with each read (RFC 1122, 4.2.3.4).
        let waits_for_room = self.in_flight == 0 && room >= self.receive_buffer / 2;
        let len = if waits_for_room { len.min(room) } else { len };
        if len == 0 || len > room || !self.fits(len) {
            return None;
        }
        if len < wanted {
            self.full_at = Some(self.number);
        }
        let burst = SegmentBurst {
            start: self.next,
            len,
            bytes: self.queue.split_to(len),
            arrived: false,
            state: State::InFlight,
            number: 0,
            sent_at: Time::ZERO,
            acked_then: 0,
            acked_at_then: Time::ZERO,
            app_limited: false,
        };
        self.next += len;
        self.bursts.push_back(burst);
        Some((self.bursts.len() - 1, len))
    }

    /// A burst is in the host's interface until `sent_at`, and then on the way to the far end of
    /// the link.
    pub(super) fn enters_interface(&mut self, on_link: u64, sent_at: Time, arrives_at: Time) {
        self.in_interface += on_link;
        self.interface.push_back(Leaving { sent_at, arrives_at, on_link });
    }

    /// Takes account of the bursts that have left the interface.
    fn look_at_interface(&mut self, now: Time) {
        while let Some(first) = self.interface.front()
            && first.sent_at <= now
        {
            self.in_interface -= first.on_link;
            self.interface.pop_front();
        }
    }

    /// A transmission finds this much room at a link, in bytes on the link. Segments that do not
    /// fit are lost: they become a burst that never arrives. Returns the number of bytes that
    /// continue.
    pub(super) fn shorten(&mut self, sending: Sending, room: u64) -> u64 {
        let segment = u64::from(self.spec.segment.max(1));
        let kept = room / self.packet() * segment;
        let Some(index) = self.index_of(sending.start) else { return 0 };
        let burst = &self.bursts[index];
        // A copy of a burst that has arrived, or was sent again, changes nothing.
        if kept == 0 || kept >= burst.len || burst.arrived || burst.number != sending.number {
            return 0;
        }
        self.split(index, kept);
        self.spec.on_link(kept)
    }

    fn index_of(&self, start: u64) -> Option<usize> {
        self.bursts.binary_search_by_key(&start, |burst| burst.start).ok()
    }

    /// A burst has arrived. Returns what can be read now because of it, in order; `None` when all
    /// of it had arrived before.
    pub(super) fn arrive(&mut self, sending: Sending) -> Option<Vec<Rope>> {
        let index = self.index_of(sending.start)?;
        let burst = &mut self.bursts[index];
        if core::mem::replace(&mut burst.arrived, true) {
            return None;
        }
        let mut found = Vec::new();
        if burst.start != self.arrived {
            return Some(found);
        }
        for burst in self.bursts.range_mut(index..) {
            if !burst.arrived {
                break;
            }
            self.arrived += burst.len;
            found.push(core::mem::take(&mut burst.bytes));
        }
        Some(found)
    }

    /// The end of the receiver's room when `unread` bytes wait there, to be announced to the
    /// sender.
    pub(super) fn tell_edge(&mut self, unread: u64) -> u64 {
        self.told_edge = self.told_edge.max(self.edge_with(unread));
        self.told_edge
    }

    fn edge_with(&self, unread: u64) -> u64 {
        self.arrived + self.receive_buffer.saturating_sub(unread)
    }

    /// Whether the room should be announced to the sender although nothing arrives.
    pub(super) fn should_tell(&self, unread: u64) -> bool {
        self.edge_with(unread) >= self.told_edge + self.receive_buffer / 4
    }

    /// The receiver has room up to there.
    pub(super) fn opened(&mut self, edge: u64) {
        self.edge = self.edge.max(edge);
    }

    /// An acknowledgement of a transmission arrives.
    pub(super) fn acknowledge(&mut self, now: Time, sending: Sending) {
        let Some(index) = self.index_of(sending.start) else { return };
        let burst = &mut self.bursts[index];
        if burst.state == State::Acked {
            return;
        }
        let before = self.in_flight;
        match core::mem::replace(&mut burst.state, State::Acked) {
            State::InFlight => self.in_flight -= burst.len,
            _ => self.lost -= 1,
        }
        let len = burst.len;
        self.acked += len;
        // It is ambiguous which transmission of a repeated burst an acknowledgement is for, except
        // by the number, which represents TCP's time stamps.
        let repeated = burst.number != sending.number;
        let (sent_at, acked_then) = (burst.sent_at, burst.acked_then);
        let (acked_at_then, app_limited) = (burst.acked_at_then, burst.app_limited);
        self.acked_at = now;
        if self.acked > self.app_limited {
            self.app_limited = 0;
        }
        if !repeated {
            let round_trip = now.since(sent_at);
            self.round_trip.sample(round_trip);
            self.congestion.acked(&Acked {
                now,
                len,
                round_trip,
                in_flight: before,
                window_was_full: self.full_at.is_some_and(|at| sending.number <= at),
                app_limited,
                acked_then,
                acked_now: self.acked,
                acked_at_then,
            });
        }
        self.find_losses(index, sending.number, len);
        while self.bursts.front().is_some_and(|burst| burst.state == State::Acked) {
            let burst = self.bursts.pop_front().expect("it was just there");
            assert!(burst.arrived && burst.bytes.is_empty(), "acknowledged before it was read");
        }
        self.gives_up_at = match self.in_flight {
            0 => Time::NEVER,
            _ => now + self.round_trip.timeout(),
        };
    }

    /// Packets do not overtake each other: what was sent before something that was acknowledged,
    /// and was not itself acknowledged, is lost.
    fn find_losses(&mut self, index: usize, number: u64, len: u64) {
        let newest = self.bursts.back().map_or(0, |burst| burst.number);
        // Only after a retransmission may something later in the stream have been sent earlier.
        let end = if newest < number { self.bursts.len() } else { index };
        let mut found = 0;
        for burst in self.bursts.range_mut(..end) {
            if burst.state == State::InFlight && burst.number < number {
                burst.state = State::Lost;
                self.in_flight -= burst.len;
                found += 1;
            }
        }
        self.lost += found;
        if found != 0 && number > self.recovers_at {
            self.recovers_at = self.number;
            self.congestion.lost(self.in_flight + len);
        }
    }

    /// When a timer must be put in the event queue: there is none, or only a later one.
    pub(super) fn next_timer(&mut self) -> Option<Time> {
        (self.gives_up_at < self.timer).then(|| {
            self.timer = self.gives_up_at;
            self.timer
        })
    }

    /// A timer fires, possibly one that an earlier one has replaced. Returns whether the time-out
    /// is over.
    pub(super) fn timer_fired(&mut self, now: Time) -> bool {
        if now < self.timer {
            return false;
        }
        self.timer = Time::NEVER;
        self.gives_up_at <= now
    }

    /// Nothing arrived for the whole time-out. Returns whether the sender continues.
    pub(super) fn time_out(&mut self, orphaned: bool) -> bool {
        let which = if self.round_trip.backoff() == 0 { TimeOut::First } else { TimeOut::Repeated };
        self.round_trip.timed_out();
        if orphaned && self.round_trip.backoff() > ORPHAN_TIMEOUTS {
            return false;
        }
        for burst in &mut self.bursts {
            if burst.state == State::InFlight {
                burst.state = State::Lost;
                self.lost += 1;
            }
        }
        self.in_flight = 0;
        self.recovers_at = self.number;
        self.congestion.timed_out(which);
        self.gives_up_at = Time::NEVER;
        self.paced_until = Time::ZERO;
        true
    }

    /// The stream was reset: nothing is sent or awaited any more.
    pub(super) fn clear(&mut self) {
        self.queue = Rope::default();
        self.bursts.clear();
        (self.in_flight, self.lost) = (0, 0);
        self.next = self.arrived;
        self.gives_up_at = Time::NEVER;
    }
}
