//! When a path has changed, from the samples of a peer.

mod choices;
mod losses;
mod reach;

use serde::{Deserialize, Serialize};

use crate::alarm::{Alarm, AlarmEnd, AlarmKind, Event};
use crate::law::{Law, Level, Side, Signal, Verdict};
use crate::sample::{PathSample, Sample};
use crate::words::{rate_text, time_text};
use choices::{Choices, Chosen};
use losses::{LossVerdict, Losses};
use reach::{Reach, ReachVerdict};

/// The law of the shortest round trip. A burst of load is no change of the path, so most of two
/// minutes have to be outside.
const RTT: Law = Law {
    side: Side::Both,
    baseline: 120,
    learn: 30,
    window: 12,
    count: 10,
    part: 0.02,
    least: 50_000,
    accept: 0,
};

/// The law of the median round trip above the shortest.
const QUEUE: Law = Law { side: Side::Above, part: 1.0, least: 500_000, ..RTT };

/// The law of bandwidth, which is measured seldom.
const BANDWIDTH: Law = Law {
    side: Side::Below,
    baseline: 24,
    learn: 3,
    window: 2,
    count: 2,
    part: 0.2,
    least: 0,
    accept: 0,
};

/// What the laws say, for documentation: it is compared with `docs/watch.md` by a test.
pub const LAW_OF_CHANGES: &[(AlarmKind, &str)] = &[
    (AlarmKind::Unreachable, "3 samples in a row without any answer; over after 2 with answers"),
    (
        AlarmKind::Rtt,
        "the shortest round trip is outside in 10 of the latest 12 samples, above or below; margin \
         2 % of the median, at least 50 us",
    ),
    (
        AlarmKind::Queue,
        "median minus shortest round trip is above in 10 of the latest 12 samples; margin as much \
         as the median, at least 500 us",
    ),
    (
        AlarmKind::Loss,
        "of the pings of the latest 12 samples, in at least 3 of them, more are lost than the part \
         before, plus 10 % or 5 standard deviations",
    ),
    (
        AlarmKind::Mtu,
        "another size in so many checks in a row that chance does not explain it: 3 where the size \
         has been the same for 12 checks, at most 14",
    ),
    (
        AlarmKind::Route,
        "the same for address, interface and next router together, hops to the peer, and hops from \
         it",
    ),
    (
        AlarmKind::Bandwidth,
        "less than the lowest value before (of 8 and more, the second lowest), minus 20 % of the \
         median, in 2 measurements in a row",
    ),
];

/// How often a peer is looked at: what has been different for a day is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Tempo {
    samples: u32,
    looks: u32,
    loads: u32,
}

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Distinguishes changes of the path to one peer from noise.
///
/// Its state is bounded, and can be stored and continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detector {
    tempo: Tempo,
    reach: Reach,
    rtt: Signal,
    queue: Signal,
    losses: Losses,
    mtu_out: Choices<u32>,
    mtu_back: Choices<u32>,
    /// Address, interface and next router. Files of earlier releases have it under another name,
    /// without the router.
    #[serde(default)]
    outgoing: Choices<String>,
    hops_out: Choices<u8>,
    hops_back: Choices<u8>,
    read: Signal,
    write: Signal,
    active: Vec<Alarm>,
}

impl Detector {
    /// For a peer of which a sample is taken, its path looked at, and its bandwidth measured, each
    /// so many milliseconds.
    pub fn new(every_ms: u64, look_every_ms: u64, load_every_ms: u64) -> Detector {
        let per_day = |every: u64| u32::try_from(DAY_MS / every.max(1)).unwrap_or(u32::MAX).max(20);
        let tempo = Tempo {
            samples: per_day(every_ms),
            looks: per_day(look_every_ms),
            loads: per_day(load_every_ms),
        };
        Detector {
            tempo,
            reach: Reach::default(),
            rtt: Signal::default(),
            queue: Signal::default(),
            losses: Losses::default(),
            mtu_out: Choices::default(),
            mtu_back: Choices::default(),
            outgoing: Choices::default(),
            hops_out: Choices::default(),
            hops_back: Choices::default(),
            read: Signal::default(),
            write: Signal::default(),
            active: Vec::new(),
        }
    }

    /// The same state, at another pace.
    pub fn at_pace(self, every_ms: u64, look_every_ms: u64, load_every_ms: u64) -> Detector {
        let Detector { tempo, .. } = Detector::new(every_ms, look_every_ms, load_every_ms);
        Detector { tempo, ..self }
    }

    /// The alarms that last.
    pub fn active(&self) -> &[Alarm] {
        &self.active
    }

    /// Whether a look at the path differed from those before and is to be repeated soon.
    pub fn wants_look(&self) -> bool {
        self.mtu_out.is_undecided()
            || self.mtu_back.is_undecided()
            || self.outgoing.is_undecided()
            || self.hops_out.is_undecided()
            || self.hops_back.is_undecided()
    }

    /// Takes the next sample: what begins with it, and what is over.
    pub fn observe(&mut self, sample: &Sample) -> Vec<Event> {
        let mut events = Vec::new();
        self.reach(sample, &mut events);
        if let Some(rtt) = sample.rtt {
            let law = Law { accept: self.tempo.samples, ..RTT };
            let verdict = self.rtt.observe(&law, sample.at_ms, rtt.min_ns);
            self.signal(&RTT_WORDS, &law, sample.at_ms, verdict, &mut events);
            let law = Law { accept: self.tempo.samples, ..QUEUE };
            let verdict = self.queue.observe(&law, sample.at_ms, rtt.queue_ns());
            self.signal(&QUEUE_WORDS, &law, sample.at_ms, verdict, &mut events);
            self.losses(sample, &mut events);
        }
        if let Some(path) = &sample.path {
            self.path(sample.at_ms, path, &mut events);
        }
        if let Some(bandwidth) = sample.bandwidth {
            let law = Law { accept: self.tempo.loads, ..BANDWIDTH };
            if let Some(rate) = bandwidth.read {
                let verdict = self.read.observe(&law, sample.at_ms, rate);
                self.signal(&READ_WORDS, &law, sample.at_ms, verdict, &mut events);
            }
            if let Some(rate) = bandwidth.write {
                let verdict = self.write.observe(&law, sample.at_ms, rate);
                self.signal(&WRITE_WORDS, &law, sample.at_ms, verdict, &mut events);
            }
        }
        events
    }

    fn raise(&mut self, alarm: Alarm, events: &mut Vec<Event>) {
        self.active.push(alarm.clone());
        events.push(Event::Raised(alarm));
    }

    /// Ends an alarm.
    fn end(&mut self, about: &About, at_ms: u64, end: AlarmEnd, events: &mut Vec<Event>) {
        let is = |alarm: &Alarm| alarm.kind == about.kind && alarm.part == about.part;
        if let Some(at) = self.active.iter().position(is) {
            let mut alarm = self.active.remove(at);
            alarm.over = Some((at_ms, end));
            events.push(Event::Over(alarm));
        }
    }

    fn reach(&mut self, sample: &Sample, events: &mut Vec<Event>) {
        let about = About { kind: AlarmKind::Unreachable, part: "" };
        match self.reach.observe(sample) {
            ReachVerdict::Same => {}
            ReachVerdict::Lost { since_ms, samples, pings } => {
                let alarm = Alarm {
                    kind: about.kind.clone(),
                    part: about.part.to_owned(),
                    since_ms,
                    raised_ms: sample.at_ms,
                    what: "no ping was answered".to_owned(),
                    before: "answers".to_owned(),
                    after: "none".to_owned(),
                    evidence: format!("{samples} samples in a row, {pings} pings"),
                    over: None,
                };
                self.raise(alarm, events);
            }
            ReachVerdict::Back => self.end(&about, sample.at_ms, AlarmEnd::Back, events),
        }
    }

    fn losses(&mut self, sample: &Sample, events: &mut Vec<Event>) {
        let about = About { kind: AlarmKind::Loss, part: "" };
        match self.losses.observe(sample, self.tempo.samples) {
            LossVerdict::Same => {}
            LossVerdict::Changed { before, now, samples, since_ms } => {
                let percent = |(lost, sent): (u64, u64)| {
                    format!("{:.1} %", lost as f64 * 100.0 / sent.max(1) as f64)
                };
                let (before_text, after) = (percent(before), percent(now));
                let alarm = Alarm {
                    kind: about.kind.clone(),
                    part: about.part.to_owned(),
                    since_ms,
                    raised_ms: sample.at_ms,
                    what: format!("pings without an answer rose from {before_text} to {after}"),
                    before: before_text,
                    after,
                    evidence: format!(
                        "{} of {} pings in {samples} of the latest samples; before: {} of {}",
                        now.0, now.1, before.0, before.1
                    ),
                    over: None,
                };
                self.raise(alarm, events);
            }
            LossVerdict::Back => self.end(&about, sample.at_ms, AlarmEnd::Back, events),
            LossVerdict::Accepted => self.end(&about, sample.at_ms, AlarmEnd::Accepted, events),
        }
    }

    fn signal(
        &mut self,
        words: &SignalWords,
        law: &Law,
        at_ms: u64,
        verdict: Verdict,
        events: &mut Vec<Event>,
    ) {
        match verdict {
            Verdict::Same => {}
            Verdict::Changed { before, after, since_ms, outside } => {
                self.raise(words.alarm(&before, after, since_ms, at_ms, outside), events);
            }
            Verdict::Again { before, after, since_ms, outside } => {
                self.end(&words.about, at_ms, AlarmEnd::Changed, events);
                self.raise(words.alarm(&before, after, since_ms, at_ms, outside), events);
            }
            Verdict::Back => self.end(&words.about, at_ms, AlarmEnd::Back, events),
            Verdict::Accepted => self.end(&words.about, at_ms, AlarmEnd::Accepted, events),
        }
        debug_assert!(law.count <= law.window);
    }

    fn path(&mut self, at_ms: u64, path: &PathSample, events: &mut Vec<Event>) {
        let most = self.tempo.looks;
        let bytes = |size: &u32| format!("{size} bytes");
        if let Some(size) = path.mtu_out {
            let chosen = self.mtu_out.observe(size, at_ms, most);
            let what = |before: &str, after: &str| {
                format!("path MTU to the peer: {after} instead of {before}")
            };
            let about = About { kind: AlarmKind::Mtu, part: "out" };
            self.chosen(&about, at_ms, chosen, bytes, what, events);
        }
        if let Some(size) = path.mtu_back {
            let chosen = self.mtu_back.observe(size, at_ms, most);
            let what = |before: &str, after: &str| {
                format!("path MTU from the peer: {after} instead of {before}")
            };
            let about = About { kind: AlarmKind::Mtu, part: "back" };
            self.chosen(&about, at_ms, chosen, bytes, what, events);
        }
        let route = &path.route;
        if let Some(local) = &route.local {
            let outgoing = match (&route.interface, &route.gateway) {
                (Some(interface), Some(gateway)) => format!("{local} ({interface}, via {gateway})"),
                (Some(interface), None) => format!("{local} ({interface})"),
                (None, _) => local.clone(),
            };
            let chosen = self.outgoing.observe(outgoing, at_ms, most);
            let what =
                |before: &str, after: &str| format!("outgoing route: {after} instead of {before}");
            let about = About { kind: AlarmKind::Route, part: "interface" };
            self.chosen(&about, at_ms, chosen, String::clone, what, events);
        }
        let hops = |hops: &u8| format!("{hops} hop{}", if *hops == 1 { "" } else { "s" });
        if let Some(count) = route.hops_out {
            let chosen = self.hops_out.observe(count, at_ms, most);
            let what =
                |before: &str, after: &str| format!("the peer was {before} away, and is {after}");
            let about = About { kind: AlarmKind::Route, part: "hops_out" };
            self.chosen(&about, at_ms, chosen, hops, what, events);
        }
        if let Some(count) = route.hops_back {
            let chosen = self.hops_back.observe(count, at_ms, most);
            let what = |before: &str, after: &str| {
                format!("the way back from the peer was {before}, and is {after}")
            };
            let about = About { kind: AlarmKind::Route, part: "hops_back" };
            self.chosen(&about, at_ms, chosen, hops, what, events);
        }
    }

    fn chosen<T>(
        &mut self,
        about: &About,
        at_ms: u64,
        chosen: Chosen<T>,
        text: impl Fn(&T) -> String,
        what: impl Fn(&str, &str) -> String,
        events: &mut Vec<Event>,
    ) {
        match chosen {
            Chosen::Same => {}
            Chosen::Changed { before, after, since_ms, run, looks } => {
                let (before, after) = (text(&before), text(&after));
                let alarm = Alarm {
                    kind: about.kind.clone(),
                    part: about.part.to_owned(),
                    since_ms,
                    raised_ms: at_ms,
                    what: what(&before, &after),
                    evidence: format!("{run} checks in a row; before: {looks} checks"),
                    before,
                    after,
                    over: None,
                };
                self.raise(alarm, events);
            }
            Chosen::Back => self.end(about, at_ms, AlarmEnd::Back, events),
            Chosen::Accepted => self.end(about, at_ms, AlarmEnd::Accepted, events),
        }
    }
}

/// Which alarm.
struct About {
    kind: AlarmKind,
    /// Distinguishes alarms of one kind.
    part: &'static str,
}

/// The words about a signal.
struct SignalWords {
    about: About,
    /// The signal as a subject.
    subject: &'static str,
    /// A value with its unit.
    text: fn(u64) -> String,
    /// What the values are of.
    unit: &'static str,
}

const RTT_WORDS: SignalWords = SignalWords {
    about: About { kind: AlarmKind::Rtt, part: "" },
    subject: "the shortest round trip",
    text: time_text,
    unit: "samples",
};
const QUEUE_WORDS: SignalWords = SignalWords {
    about: About { kind: AlarmKind::Queue, part: "" },
    subject: "the queueing delay (median minus shortest round trip)",
    text: time_text,
    unit: "samples",
};
const READ_WORDS: SignalWords = SignalWords {
    about: About { kind: AlarmKind::Bandwidth, part: "read" },
    subject: "the rate of reads",
    text: rate_text,
    unit: "measurements",
};
const WRITE_WORDS: SignalWords = SignalWords {
    about: About { kind: AlarmKind::Bandwidth, part: "write" },
    subject: "the rate of writes",
    text: rate_text,
    unit: "measurements",
};

impl SignalWords {
    fn alarm(
        &self,
        level: &Level,
        after: u64,
        since_ms: u64,
        raised_ms: u64,
        outside: (usize, usize),
    ) -> Alarm {
        let SignalWords { about, subject, text, unit } = self;
        let verb = if after >= level.median { "rose" } else { "fell" };
        let (low, high) = level.limits(level.margin);
        let limit = match after >= level.median {
            true => format!("above {}", text(high)),
            false => format!("below {}", text(low)),
        };
        let (before, after) = (text(level.median), text(after));
        Alarm {
            kind: about.kind.clone(),
            part: about.part.to_owned(),
            since_ms,
            raised_ms,
            what: format!("{subject} {verb} from {before} to {after}"),
            evidence: format!(
                "{limit} in {} of the latest {} {unit}; before: {} {unit}, 90 % of them from {} to \
                 {}",
                outside.0,
                outside.1,
                level.values,
                text(level.low),
                text(level.high),
            ),
            before,
            after,
            over: None,
        }
    }
}

#[cfg(test)]
mod tests;
