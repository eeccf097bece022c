//! Alarms: what has changed, since when, from what to what.

use serde::{Deserialize, Serialize};

/// What an alarm is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum AlarmKind {
    /// No ping is answered.
    Unreachable,
    /// The shortest round trip is another one: packets take another way.
    Rtt,
    /// Pings wait longer than the shortest one: a queue.
    Queue,
    /// Some pings are not answered in time.
    Loss,
    /// The path MTU has changed: the longest packets that arrive have another size.
    Mtu,
    /// Packets leave by another interface or address, or the number of hops is another one.
    Route,
    /// The path carries less.
    Bandwidth,
    /// A kind of another release, in a file: its name there.
    Other(String),
}

impl From<String> for AlarmKind {
    fn from(name: String) -> AlarmKind {
        let known = AlarmKind::ALL.into_iter().find(|kind| kind.name() == name);
        known.unwrap_or(AlarmKind::Other(name))
    }
}

impl From<AlarmKind> for String {
    fn from(kind: AlarmKind) -> String {
        kind.name().to_owned()
    }
}

impl AlarmKind {
    /// All that this release knows, in the order of tables.
    pub const ALL: [AlarmKind; 7] = [
        AlarmKind::Unreachable,
        AlarmKind::Rtt,
        AlarmKind::Queue,
        AlarmKind::Loss,
        AlarmKind::Mtu,
        AlarmKind::Route,
        AlarmKind::Bandwidth,
    ];

    /// Its name in files, labels and options; it never changes.
    pub fn name(&self) -> &str {
        match self {
            AlarmKind::Unreachable => "unreachable",
            AlarmKind::Rtt => "rtt",
            AlarmKind::Queue => "queue",
            AlarmKind::Loss => "loss",
            AlarmKind::Mtu => "mtu",
            AlarmKind::Route => "route",
            AlarmKind::Bandwidth => "bandwidth",
            AlarmKind::Other(name) => name,
        }
    }

    /// What to do next, beside `lustrine doctor`.
    pub fn advice(&self) -> &'static str {
        match self {
            AlarmKind::Unreachable => "see whether the peer's host and its LNet are up",
            AlarmKind::Rtt => {
                "ask whoever runs the network whether routes changed or a link failed; \
                 `lustrine tune` computes the settings that depend on the round trip"
            }
            AlarmKind::Queue => {
                "look for load on this path and on both hosts: `lustrine top`, counters of switches"
            }
            AlarmKind::Loss => "look for errors on interfaces and switches, and for full queues",
            AlarmKind::Mtu => "compare the MTU of both interfaces and of what is between them",
            AlarmKind::Route => "compare `ip route get` and `traceroute` at both ends with before",
            AlarmKind::Bandwidth => "look for load on this path, for losses, and for a slower link",
            AlarmKind::Other(_) => "see the documentation of the release that raised it",
        }
    }
}

/// How an alarm ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmEnd {
    /// The path is as it was before.
    Back,
    /// It has changed again, and another alarm begins.
    Changed,
    /// It has been so for a day, and is what later samples are compared with.
    Accepted,
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alarm {
    /// What it is about.
    pub kind: AlarmKind,
    /// Distinguishes alarms of one kind: `out` and `back` of the MTU, `read` and `write` of
    /// bandwidth; empty where there is one alone.
    pub part: String,
    /// When the first sample of the change began: milliseconds since 1970.
    pub since_ms: u64,
    /// When it was raised.
    pub raised_ms: u64,
    /// What has changed, as a clause: "the shortest round trip rose from 10.1 ms to 20.3 ms".
    pub what: String,
    /// The value before, with its unit.
    pub before: String,
    /// The value when it was raised, with its unit.
    pub after: String,
    /// What it was concluded from.
    pub evidence: String,
    /// When it ended, and how; `None` while it lasts.
    pub over: Option<(u64, AlarmEnd)>,
}

/// An alarm that was raised, or has ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It begins.
    Raised(Alarm),
    /// It is over; its `over` is `Some`.
    Over(Alarm),
}

impl Event {
    /// The alarm.
    pub fn alarm(&self) -> &Alarm {
        match self {
            Event::Raised(alarm) | Event::Over(alarm) => alarm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_fixed_names_and_others_are_kept() {
        for kind in AlarmKind::ALL {
            let json = serde_json::to_string(&kind).expect("JSON");
            assert_eq!(json, format!("\"{}\"", kind.name()));
            assert_eq!(serde_json::from_str::<AlarmKind>(&json).ok(), Some(kind));
        }
        let other: AlarmKind = serde_json::from_str("\"jitter\"").expect("a kind");
        assert_eq!(other, AlarmKind::Other("jitter".to_owned()));
        assert_eq!(serde_json::to_string(&other).ok().as_deref(), Some("\"jitter\""));
    }
}
