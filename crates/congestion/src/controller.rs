//! The controller: phases, and the window's step at the end of each round.

use core::time::Duration;

use crate::class::Class;
use crate::round::Round;

/// RPCs that a round has at least, so that one slow RPC does not decide: of rounds up to
/// [`SHORT_ROUND`], which are noisier, and of longer ones.
const ROUND_MIN: (u32, u32) = (8, 2);
/// The part of the bytes in flight at its beginning that ends in a round at least: small RPCs that
/// are sent and end while a large one is in flight are no round of the path.
const ROUND_PART: f64 = 0.5;
/// A round is short up to here.
const SHORT_ROUND: Duration = Duration::from_millis(1);
/// Probes begin at multiples of this, of twice or of four times this.
const PROBE_EVERY: Duration = Duration::from_secs(10);
/// Rounds between two probes at least. A probe costs two or three.
const PROBE_ROUNDS: u32 = 100;
/// A probe that all nodes begin together lasts this long at least, as clocks differ.
const PROBE_MIN: Duration = Duration::from_millis(300);
/// A probe goes on while a round has less than this part of the latency of the one before: then the
/// queues of others are becoming shorter.
const PROBE_FALLS: f64 = 0.9;
/// The part of what the path holds that is in flight in a probe: more than this keeps queues that
/// several nodes make together. While latency goes on falling the part of this part, and so on.
const PROBE_SHARE: f64 = 0.5;
/// Rounds of a probe at least, and at most while latency goes on falling.
const PROBE_ROUNDS_MIN: u32 = 2;
const PROBE_ROUNDS_MAX: u32 = 16;
/// Startup ends when the rate has not grown by this factor for some rounds,
const STARTUP_GROWTH: f64 = 1.25;
const STARTUP_FLAT: u32 = 2;
/// or for one round in which the base is less than this part of the latency. If that is so while
/// the rate grows, a TCP is still slow, and has to have data to become faster: the window stays.
const STARTUP_RATIO: f64 = 2.0 / 3.0;
/// The window of startup does not grow beyond this many times what the path holds by the best rate.
const STARTUP_HOLDS: f64 = 3.0;
/// The base at the end of startup is at most this many times what it was at its beginning.
const STARTUP_BASES: f64 = 1.25;
/// After this many rounds with less than this part of the best rate, the base is in doubt.
const SLOW_ROUNDS: u32 = 8;
const SLOW_RATE: f64 = 1.0 / 8.0;
/// The best rate is that of rounds whose queue was at most this many times what it is to be, and
/// which began this many rounds, and [`PROBE_MIN`], after the probe.
const REST: f64 = 2.0;
const SETTLES: u32 = 4;
/// RPCs are sent at no more than this many times the rate that uses the window in one latency: in
/// startup, in which the rate doubles, and otherwise.
const PACE_STARTUP: f64 = 2.0;
const PACE: f64 = 1.1;
/// What would be sent in this time may be sent at once: no timer is worth less.
const PACE_BURST: Duration = Duration::from_millis(1);
/// Time that was not used, because a host was late, is made up for: this part of a latency at most.
/// Time in which the window was full is not: what is sent together after a gap ends together, with
/// the same gap behind it.
const PACE_LATE: f64 = 1.0 / 8.0;
/// An RPC says nothing about the window if less than this part of it was in flight, or would have
/// been with one more.
const USED: f64 = 0.75;
/// Rounds without a queue after which the window grows in proportion.
const IDLE_QUEUE_ROUNDS: u32 = 3;

/// The seconds of [`Limits::brief`].
const BRIEF: f64 = 0.01;

/// The bounds of a window, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The window is never smaller. Two RPCs are always allowed.
    pub min: u64,
    /// Up to so many bytes, the window is never smaller than what the path carries in 10 ms: RPCs
    /// of hosts that are busy take longer now and then, which is no queue.
    pub brief: u64,
    /// The window of the first round.
    pub initial: u64,
    /// The window is never larger, except for two RPCs.
    pub max: u64,
}

impl Default for Limits {
    /// 128 KiB; 2 MiB, so that small RPCs over a fast path are hardly limited; 8 MiB, eight of
    /// LNet's largest messages, which is what Lustre begins with; 1 GiB, for 10 Gb/s over 200 ms
    /// with writes of two round trips.
    fn default() -> Limits {
        Limits { min: 128 << 10, brief: 2 << 20, initial: 8 << 20, max: 1 << 30 }
    }
}

/// What a controller does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It doubles the window each round.
    Startup,
    /// It keeps less in flight than the path holds, to learn the latency without a queue.
    Probe,
    /// It follows the law.
    Steady,
}

/// An RPC that is in flight; to be given back when it ends.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an RPC that does not end stays in the window"]
pub struct Ticket {
    class: Class,
    sent: Duration,
    round: u64,
    /// Whether so little was in flight with it that a probe can use it.
    is_lone: bool,
    /// Whether the window was used with it, but for [`USED`].
    is_full: bool,
}

/// Why an RPC may not be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The window is full: until an RPC ends.
    Full,
    /// The window has room, and its RPCs are spread over the round: so long, or until an RPC ends.
    For(Duration),
}

/// What a controller knows, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// What it does.
    pub phase: Phase,
    /// Bytes that may be in flight.
    pub window: u64,
    /// Bytes that are in flight.
    pub in_flight: u64,
    /// Bytes per second that the last round carried.
    pub rate: u64,
    /// The part of the last round's latency that was queueing, in thousandths.
    pub queueing: u16,
    /// Rounds so far.
    pub rounds: u64,
    /// Probes so far.
    pub probes: u64,
}

/// What a probe has to know.
#[derive(Clone, Copy, Debug, Default)]
struct Probe {
    /// The window before it, and, except for that of startup, after it.
    window: f64,
    /// Whether startup has ended with it: then the window after it follows from the best rate.
    ends_startup: bool,
    /// It does not end earlier.
    until: Duration,
    rounds: u32,
    /// The latency of its rounds so far, in seconds.
    latency: f64,
}

/// Controls how much is in flight to one peer.
#[derive(Clone, Debug)]
pub struct Controller {
    limits: Limits,
    phase: Phase,
    window: f64,
    in_flight: u64,
    rpcs: u32,
    /// The mean bytes of an RPC.
    mean: f64,
    round: u64,
    sums: Round,
    began: Duration,
    /// Bytes that were in flight when it began, as far as its RPCs can be counted.
    to_end: f64,
    /// Whether the window held an RPC back in this round.
    is_limited: bool,
    /// Of the last round: the base as a part of the latency, and the rate in bytes per second.
    ratio: f64,
    rate: f64,
    /// The latency in seconds; 0 before the first round ended.
    latency: f64,
    /// When the next RPC is due if all are sent at the pace.
    paced: Duration,
    /// Whether an RPC has found the window full since the last one ended, and when one ended after
    /// that.
    is_full: bool,
    /// [`Duration::MAX`]: that is not known, and the time of the next one counts.
    had_room: Duration,
    /// When an RPC was last admitted, and its bytes.
    admitted: (Duration, f64),
    /// The part of its latency that is more than is tolerated.
    excess: f64,
    /// The highest rate, of startup or since the last probe, and startup's rounds that did not
    /// raise it.
    best: f64,
    /// Rounds that began earlier do not count for it.
    settled: Duration,
    flat: u32,
    /// Rounds in a row without a queue.
    idle_queue: u32,
    /// Rounds in a row with little of the best rate since the last probe.
    slow: u32,
    /// Whether a probe was made since the last one that was due.
    has_probed_early: bool,
    probe: Probe,
    probe_due: Duration,
    /// The time between two common probes.
    every: Duration,
    probes: u64,
    /// RPCs of this round and those before it are lost together with one that was lost.
    lost: Option<u64>,
}

impl Controller {
    /// A controller that knows nothing about its path.
    pub fn new(limits: Limits) -> Controller {
        Controller {
            limits,
            phase: Phase::Startup,
            window: limits.initial.clamp(limits.min, limits.max.max(limits.min)) as f64,
            in_flight: 0,
            rpcs: 0,
            mean: 0.0,
            round: 0,
            sums: Round::default(),
            began: Duration::ZERO,
            to_end: 0.0,
            is_limited: false,
            ratio: 1.0,
            rate: 0.0,
            latency: 0.0,
            paced: Duration::ZERO,
            is_full: false,
            had_room: Duration::ZERO,
            admitted: (Duration::ZERO, 0.0),
            excess: 0.0,
            best: 0.0,
            settled: Duration::ZERO,
            flat: 0,
            idle_queue: 0,
            slow: 0,
            has_probed_early: false,
            probe: Probe::default(),
            probe_due: Duration::MAX,
            every: PROBE_EVERY,
            probes: 0,
            lost: None,
        }
    }

    /// Takes an RPC into the window that is sent now.
    ///
    /// `now` is the time since an origin that all nodes share as well as their clocks allow, such
    /// as the Unix epoch.
    ///
    /// # Errors
    /// If it may not be sent now: what it has to wait for.
    pub fn admit(&mut self, now: Duration, class: Class) -> Result<Ticket, Wait> {
        let after = self.in_flight.saturating_add(class.weight());
        if after > self.window() && self.rpcs >= 2 {
            (self.is_limited, self.is_full) = (true, true);
            return Err(Wait::Full);
        }
        let (admitted, before) = self.admitted;
        // What was sent at a pace that holds no more, or was not sent after all, delays nothing. If
        // the clock was set back, nothing does.
        let most = admitted.saturating_add(self.interval(before)).saturating_add(PACE_BURST);
        self.paced = self.paced.min(if now < admitted { now } else { most });
        let wait = self.paced.saturating_sub(now).saturating_sub(PACE_BURST);
        if self.rpcs >= 2 && wait > Duration::ZERO {
            return Err(Wait::For(wait));
        }
        let weight = class.weight() as f64;
        let late = Duration::try_from_secs_f64(self.latency * PACE_LATE).unwrap_or(PACE_BURST);
        if self.had_room == Duration::MAX {
            self.had_room = now;
        }
        let since = now.saturating_sub(late).max(self.had_room.min(now));
        self.paced = self.paced.max(since).saturating_add(self.interval(weight));
        self.admitted = (now, weight);
        if self.rpcs == 0 && self.phase != Phase::Probe {
            // The time in which nothing was in flight belongs to no round.
            self.next_round(now);
            if self.probe_due < now {
                // The others have probed meanwhile; it waits for them.
                self.probe_due = next_multiple(now, self.every);
                self.has_probed_early = false;
            }
        }
        self.mean += (weight - self.mean) / if self.mean > 0.0 { 16.0 } else { 1.0 };
        self.in_flight = after;
        self.rpcs += 1;
        let is_lone =
            self.phase == Phase::Probe || self.rpcs <= 2 || after as f64 <= self.smallest();
        let is_full = after as f64 + weight >= USED * self.window;
        Ok(Ticket { class, sent: now, round: self.round, is_lone, is_full })
    }

    /// An RPC has ended with success.
    pub fn done(&mut self, now: Duration, ticket: Ticket) {
        self.release(&ticket);
        self.makes_room(now);
        if self.phase == Phase::Probe && !ticket.is_lone {
            return;
        }
        // Clocks may stand still, or go back: a base of nothing could never grow.
        let latency = now.saturating_sub(ticket.sent).as_secs_f64().max(1e-9);
        self.sums.add(ticket.class, latency);
        let least = match now.saturating_sub(self.began) < SHORT_ROUND {
            true => ROUND_MIN.0,
            false => ROUND_MIN.1,
        };
        let is_whole = self.sums.count() >= least && self.sums.weight() >= ROUND_PART * self.to_end;
        if ticket.round == self.round && is_whole {
            self.is_limited &= self.phase != Phase::Steady || ticket.is_full;
            self.end_round(now);
        }
    }

    /// An RPC was lost, or its answer: it timed out, or the link to the peer did not hold.
    pub fn failed(&mut self, now: Duration, ticket: Ticket) {
        self.release(&ticket);
        self.makes_room(now);
        if self.lost.is_some_and(|round| ticket.round <= round) {
            return;
        }
        self.lost = Some(self.round);
        match self.phase {
            Phase::Probe => self.probe.window /= 2.0,
            Phase::Startup | Phase::Steady => self.set_window(self.window / 2.0),
        }
        if self.phase == Phase::Startup {
            self.begin_probe(now, true);
        }
        self.next_round(now);
    }

    /// An RPC ended for a reason that says nothing about the path.
    pub fn abandoned(&mut self, ticket: Ticket) {
        self.release(&ticket);
        // Nothing is to be made up for when the next one is sent.
        self.makes_room(Duration::MAX);
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> u64 {
        self.window as u64
    }

    /// The present state of the window and what was measured of the path.
    pub fn view(&self) -> View {
        View {
            phase: self.phase,
            window: self.window(),
            in_flight: self.in_flight,
            rate: self.rate as u64,
            queueing: ((1.0 - self.ratio) * 1000.0) as u16,
            rounds: self.round,
            probes: self.probes,
        }
    }

    fn release(&mut self, ticket: &Ticket) {
        self.in_flight -= ticket.class.weight();
        self.rpcs -= 1;
    }

    /// An RPC ended at a time: a host that sends the next one later is late.
    fn makes_room(&mut self, now: Duration) {
        if core::mem::take(&mut self.is_full) || self.had_room == Duration::MAX {
            self.had_room = now;
        }
    }

    /// The smallest window: that of the limits, or two RPCs. A probe must have less in flight than
    /// what fills a slow path for 10 ms, which it would take for a part of the base.
    fn smallest(&self) -> f64 {
        let brief = match self.phase {
            Phase::Probe => 0.0,
            Phase::Startup | Phase::Steady => (self.rate * BRIEF).min(self.limits.brief as f64),
        };
        (self.limits.min as f64).max(brief).max(2.0 * self.mean)
    }

    /// The time from an RPC of so many bytes to the next one at the pace: a latency at most.
    fn interval(&self, weight: f64) -> Duration {
        let gain = if self.phase == Phase::Startup { PACE_STARTUP } else { PACE };
        let part = (weight / (gain * self.window)).min(1.0);
        Duration::try_from_secs_f64(self.latency * part).unwrap_or(Duration::ZERO)
    }

    /// What is to be in the queue: the root of the window, counted in RPCs.
    fn allowance(&self) -> f64 {
        (self.window * self.mean).sqrt().max(self.mean)
    }

    /// What is in the queue beyond what is tolerated.
    fn queued(&self) -> f64 {
        self.window * self.excess
    }

    fn set_window(&mut self, window: f64) {
        let min = self.smallest();
        self.window = window.clamp(min, (self.limits.max as f64).max(min));
    }

    fn next_round(&mut self, now: Duration) {
        self.round += 1;
        // The first round of a probe may have met queues; its others are one sum.
        if self.phase != Phase::Probe || self.probe.rounds <= 1 {
            self.sums.clear();
        }
        self.began = now;
        // Those that were sent before a probe do not count for it.
        let most = if self.phase == Phase::Probe { self.window } else { f64::MAX };
        self.to_end = (self.in_flight as f64).min(most);
        self.is_limited = false;
    }

    fn end_round(&mut self, now: Duration) {
        match self.phase {
            Phase::Probe => self.end_probe_round(now),
            Phase::Startup | Phase::Steady => {
                let took = now.saturating_sub(self.began).as_secs_f64();
                self.rate = self.sums.weight() / took.max(1e-9);
                let latency = self.sums.latency_and_base(self.ratio);
                self.latency = latency.now;
                self.ratio = latency.ratio();
                self.excess = latency.excess();
                match self.phase {
                    Phase::Startup => self.end_startup_round(now),
                    _ => self.end_steady_round(now),
                }
            }
        }
        self.next_round(now);
    }

    fn end_startup_round(&mut self, now: Duration) {
        let queues = self.ratio < STARTUP_RATIO;
        // An application that sends no more may have filled the path by itself.
        if !self.is_limited && !queues {
            return;
        }
        self.flat = match self.rate > self.best * STARTUP_GROWTH {
            true => 0,
            false => self.flat + 1,
        };
        self.best = self.best.max(self.rate);
        if self.flat >= STARTUP_FLAT || self.flat > 0 && queues {
            self.begin_probe(now, true);
        } else if !queues && self.flat == 0 {
            let most = STARTUP_HOLDS * self.best * self.sums.base();
            self.set_window((self.window * 2.0).min(most.max(self.window)));
        }
    }

    fn end_steady_round(&mut self, now: Duration) {
        // A window that is larger than the law would have it has taken the share of others. That it
        // becomes smaller, once the queues that others make are back, is no sign of another path.
        if self.began >= self.settled && self.queued() <= REST * self.allowance() {
            self.best = self.best.max(self.rate);
        }
        if self.is_limited {
            self.slow = match self.rate < self.best * SLOW_RATE {
                true => self.slow + 1,
                false => 0,
            };
            self.step();
        }
        let is_lost = self.slow >= SLOW_ROUNDS && !self.has_probed_early;
        if is_lost || now >= self.probe_due {
            self.has_probed_early = now < self.probe_due;
            self.begin_probe(now, false);
        }
    }

    /// The law.
    fn step(&mut self) {
        let allowance = self.allowance();
        let queued = self.queued();
        self.idle_queue = match queued < allowance / 4.0 {
            true => self.idle_queue + 1,
            false => 0,
        };
        let next = match self.idle_queue > IDLE_QUEUE_ROUNDS {
            true => self.window * 1.5,
            false => self.window + (allowance - queued) / 2.0,
        };
        self.set_window(next);
    }

    fn begin_probe(&mut self, now: Duration, ends_startup: bool) {
        let is_common = now >= self.probe_due;
        let until = if is_common { now.saturating_add(PROBE_MIN) } else { now };
        self.probe = Probe { window: self.window, ends_startup, until, rounds: 0, latency: 0.0 };
        self.phase = Phase::Probe;
        let in_flight = self.window.min(self.in_flight as f64);
        self.window = (in_flight * self.ratio * PROBE_SHARE).max(self.smallest());
    }

    fn end_probe_round(&mut self, now: Duration) {
        let latency = self.sums.latency();
        let falls = latency < PROBE_FALLS * self.probe.latency;
        self.latency = latency;
        self.probe.latency = latency;
        self.probe.rounds += 1;
        // Short paths have many rounds until the clocks of all agree that it is over.
        let is_early = self.probe.rounds < PROBE_ROUNDS_MIN || now < self.probe.until;
        if !is_early && (!falls || self.probe.rounds >= PROBE_ROUNDS_MAX) {
            self.end_probe(now);
        } else if falls && self.probe.rounds >= PROBE_ROUNDS_MIN {
            // There is still a queue.
            self.window = (self.window * PROBE_SHARE).max(self.smallest());
            self.sums.clear();
        }
    }

    /// The base is known again.
    fn end_probe(&mut self, now: Duration) {
        self.probes += 1;
        self.phase = Phase::Steady;
        let before = self.probe.window;
        self.set_window(before);
        // What startup has lost is perhaps being sent again, and takes longer.
        let most = if self.probe.ends_startup { STARTUP_BASES } else { f64::MAX };
        let is_doubtful = self.sums.learn_bases(most);
        if self.probe.ends_startup {
            self.set_window(self.best * self.sums.base());
            self.set_window((self.window + self.allowance()).min(before));
        }
        (self.ratio, self.excess) = (1.0, 0.0);
        (self.slow, self.idle_queue) = (0, 0);
        self.best = 0.0;
        let took = Duration::try_from_secs_f64(self.probe.latency).unwrap_or(Duration::ZERO);
        let rounds = took.saturating_mul(PROBE_ROUNDS);
        let every = [1, 2, 4].map(|factor| PROBE_EVERY * factor);
        let every = every.into_iter().find(|every| *every >= rounds).unwrap_or(every[2]);
        self.settled = now.saturating_add(PROBE_MIN).saturating_add(took.saturating_mul(SETTLES));
        self.every = if is_doubtful { PROBE_EVERY } else { every };
        let next = next_multiple(now.saturating_add(self.every / 8), self.every);
        // A probe of its own does not keep it from the next common one.
        let is_ahead = self.probe_due > now;
        self.probe_due = if is_ahead { next.min(self.probe_due) } else { next };
    }
}

/// The first multiple of `step` that is not before `time`.
fn next_multiple(time: Duration, step: Duration) -> Duration {
    let (time, step) = (time.as_nanos(), step.as_nanos());
    let next = time.div_ceil(step) * step;
    u64::try_from(next).map_or(Duration::MAX, Duration::from_nanos)
}
